"""Texts of several statements: where each one ends, which of them wait until the data is in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.sql.parse import parse
from tidemill.sql.statements import Describe, Explain, Select, Show, Statement, Subscribe

# What a semicolon can hide in. A piece without an end swallows the rest of the text.
_PIECES = re.compile(
    r"""'[^']*(?:'|\Z) | "[^"]*(?:"|\Z) | --[^\r\n]* | (?P<comment>/\*)
      | (?P<dollar>\$(?:[A-Za-z_]\w*)?\$) | (?P<end>;)""",
    re.VERBOSE,
)
_COMMENT_ENDS = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Placed:
    """A statement, and its text on the line and column where it stands in the file."""

    statement: Statement
    text: str


def semicolons(text: str) -> Iterator[int]:
    """Where statements end: the semicolons outside of strings and comments.

    >>> list(semicolons("a; ';' -- ;"))
    [1]
    """
    at = 0
    while found := _PIECES.search(text, at):
        at = found.end()
        if found["end"]:
            yield found.start()
        elif found["comment"]:
            at = _comment_end(text, found.start())
        elif found["dollar"]:
            close = text.find(found["dollar"], at)
            at = len(text) if close < 0 else close + len(found["dollar"])


def take_complete(text: str) -> tuple[str, str]:
    """The statements that are complete, and the beginning of the next one.

    >>> take_complete("SHOW ALL; SELECT 'a;")
    ('SHOW ALL;', " SELECT 'a;")
    """
    ends = list(semicolons(text))
    cut = ends[-1] + 1 if ends else 0
    return text[:cut], text[cut:]


def placed(text: str) -> list[Placed]:
    """All statements, each with blanks for what stands before it, so that errors count from the top of the file."""
    found, at = [], 0
    for statement in parse(text):
        begin = text.index(statement.text, at)
        at = begin + len(statement.text)
        found.append(Placed(statement, re.sub(r"[^\r\n]", " ", text[:begin]) + statement.text))
    return found


def setup_and_questions(statements: list[Placed]) -> tuple[list[Placed], list[Placed]]:
    """What must be executed before the data is taken in, and the questions at the end that wait for it.

    A question before a later declaration is answered in its place: the order of a file is kept.
    """
    cut = len(statements)
    while cut and is_question(statements[cut - 1].statement):
        cut -= 1
    return statements[:cut], statements[cut:]


def is_question(statement: Statement) -> bool:
    """Statements that change nothing."""
    if isinstance(statement, Select):
        return statement.output is None
    return isinstance(statement, (Show, Describe, Explain, Subscribe))


def _comment_end(text: str, start: int) -> int:
    depth = 0
    for found in _COMMENT_ENDS.finditer(text, start):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(text)
