"""Markdown with one sentence a line, so that a diff shows the sentence that changed.

`python -m benchmarks.markdown FILE …` rewrites files in place. Headings, tables and code stay as they are.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# A sentence ends at . ! or ? (with closing marks), before a blank and something that can begin a sentence.
_END = re.compile(r"(?<=[.!?])([)\]*_\"”’]*) +(?=[A-ZÄÖÜΑ-Ω0-9`*_\[(\"“‘!~∂])")
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|resp|approx|Fig|Sec|No)|^\d+)\.[)\]]*$")
_ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])(\s+)(?=\S)")
_VERBATIM = re.compile(r"^\s*(#|\||>|<|!\[[^\]]*\]\([^)]*\)\s*$|---+\s*$|\[[^\]]+\]:)")
_PAPER = re.compile(r"(?<!\[)\b[Pp]aper (00\d)(?![^\[\]]*\]\()")
_FENCE = re.compile(r"^\s*(```|~~~)")


def split_sentences(text: str) -> list[str]:
    """The sentences of a paragraph. Inline code and a bold lead-in are never cut off.

    >>> split_sentences("One. Two, e.g. this. `a. B` stays. **Lead.** Goes on.")
    ['One.', 'Two, e.g. this.', '`a. B` stays.', '**Lead.** Goes on.']
    """
    pieces: list[str] = []
    start = 0
    for found in _END.finditer(text):
        piece = text[start : found.end(1)]
        inside_code = text[: found.start()].count("`") % 2 == 1
        prose = re.sub(r"`[^`]*`", "", piece)
        inside_brackets = prose.count("(") > prose.count(")") or prose.count("[") > prose.count("]")
        lead_in = piece.count("*") > 0 and re.fullmatch(r"(\*\*|\*)[^*]+\1", piece)
        open_emphasis = piece.count("**") % 2 == 1
        if inside_code or inside_brackets or lead_in or open_emphasis or _ABBREVIATION.search(piece):
            continue
        pieces.append(piece)
        start = found.end()
    return [*pieces, text[start:]]


def link_papers(text: str, page: str) -> str:
    """Every "paper 002" outside headings and code becomes a link to its section of the page that cites the papers.

    >>> link_papers("# On paper 002\\nAs paper 002 says, and [paper 003](x).", "papers.md")
    '# On paper 002\\nAs [paper 002](papers.md#paper-002) says, and [paper 003](x).'
    """

    def linked(line: str) -> str:
        return line if line.startswith("#") else _PAPER.sub(rf"[\g<0>]({page}#paper-\1)", line)

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if i % 2 else "\n".join(map(linked, part.split("\n"))) for i, part in enumerate(parts))


def reflow(text: str) -> str:
    """The page with one sentence a line; a list item's further sentences are indented below its first.

    >>> print(reflow("A long\\nsentence. Another.\\n\\n- item one. More.\\n| a. B |"))
    A long sentence.
    Another.
    <BLANKLINE>
    - item one.
      More.
    | a. B |
    """
    page = _Page()
    for line in text.split("\n"):
        page.add(line)
    page.end_paragraph()
    return "\n".join(page.out)


class _Page:
    """Lines come in, lines with one sentence each go out; a paragraph is held until it ends."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.paragraph: list[str] = []
        self.first = self.rest = ""  # what its first line and its further lines begin with
        self.fenced = self.in_list = False

    def add(self, line: str) -> None:
        if _FENCE.match(line):
            self.fenced = not self.fenced
            self.copy(line)
        elif self.fenced or _VERBATIM.match(line) or not line.strip():
            self.copy(line)
            self.in_list = self.in_list and not _VERBATIM.match(line)
        elif item := _ITEM.match(line):
            self.end_paragraph()
            self.first, self.rest, self.in_list = item[0], " " * len(item[0]), True
            self.paragraph.append(line[item.end() :].strip())
        elif not self.paragraph and line.startswith("    ") and not self.in_list:
            self.out.append(line)
        else:
            self.continue_paragraph(line)

    def copy(self, line: str) -> None:
        self.end_paragraph()
        self.out.append(line)

    def continue_paragraph(self, line: str) -> None:
        if not self.paragraph:
            indent = line[: len(line) - len(line.lstrip())]
            self.first, self.rest, self.in_list = indent, indent, self.in_list and bool(indent)
        self.paragraph.append(line.strip())

    def end_paragraph(self) -> None:
        if self.paragraph:
            sentences = split_sentences(" ".join(self.paragraph))
            self.out += [(self.rest if i else self.first) + sentence for i, sentence in enumerate(sentences)]
        self.paragraph, self.first, self.rest = [], "", ""


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(reflow(Path(name).read_text(encoding="utf-8")), encoding="utf-8")
