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
