"""How the pages are laid out."""

from __future__ import annotations

import subprocess

from benchmarks.markdown import link_papers, reflow
from tests.places import ROOT


def pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split() if (ROOT / name).exists()]


def test_every_page_has_one_sentence_a_line():
    """`python -m benchmarks.markdown FILE …` brings a page into this form."""
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in pages()}
    assert texts and not [name for name, text in texts.items() if reflow(text) != text]


def test_two_sentences_on_one_line_are_found():
    assert reflow("One. Two.\n") == "One.\nTwo.\n"


def test_a_paper_that_is_named_by_number_is_linked():
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in pages() if name != "docs/papers.md"}
    assert not [name for name, text in texts.items() if link_papers(text, "papers.md") != text]


def broken_tables(text: str) -> list[str]:
    """First rows of tables without a line of dashes below them: those are shown as plain text."""
    lines, in_code, found = [*text.splitlines(), ""], False, []
    for i, line in enumerate(lines):
        in_code ^= line.startswith("```")
        begins = line.startswith("| ") and (i == 0 or not lines[i - 1].startswith("|"))
        if begins and not in_code and not lines[i + 1].startswith("|-"):
            found.append(line)
    return found


def test_every_table_has_a_head():
    assert broken_tables("| a |\n|---|\n| b |\n\n| c |\n") == ["| c |"]
    found = {name: broken_tables((ROOT / name).read_text(encoding="utf-8")) for name in pages()}
    assert not {name: rows for name, rows in found.items() if rows}
