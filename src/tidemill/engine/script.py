"""Texts of several statements: where each one ends, and which are questions that wait for the data."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from tidemill.plan.statements import (
    CreateSink,
    CreateTaggedStream,
    CreateView,
    Describe,
    Drop,
    Explain,
    RegisterSource,
    RegisterTable,
    Select,
    Show,
    Statement,
    Subscribe,
    Why,
)
from tidemill.sql.lexical.tokens import find_semicolons
from tidemill.sql.parse.statements import parse

DEFINITIONS = (RegisterSource, RegisterTable, CreateTaggedStream, CreateView, CreateSink, Drop)

_BLOCK = 1 << 20  # bytes of a script that are read at a time: any value works, a statement may span several


@dataclass(frozen=True)
class Placed:
    """A statement, and its text on the line and column where it stands in the file."""

    statement: Statement
    text: str


def take_complete(text: str) -> tuple[str, str]:
    """The statements that are complete, and the beginning of the next one.

    >>> take_complete("SHOW ALL; SELECT 'a;")
    ('SHOW ALL;', " SELECT 'a;")
    """
    ends = find_semicolons(text)
    cut = ends[-1] + 1 if ends else 0
    return text[:cut], text[cut:]


def read_arriving(stream: TextIO) -> Iterator[str]:
    """Read the lines of a pipe; lines that arrive together are one text."""
    try:
        source = stream.fileno()
    except (OSError, ValueError):  # no file of the operating system
        yield stream.read()
        return
    decoder, rest = codecs.getincrementaldecoder("utf-8")("replace"), ""
    while block := os.read(source, _BLOCK):
        lines, cut, rest = (rest + decoder.decode(block)).rpartition("\n")
        if cut:
            yield lines + cut
    if rest:
        yield rest


def place_statements(text: str) -> list[Placed]:
    """All statements; blanks replace the text before each, so that errors have the line and column of the file."""
    found, at = [], 0
    for statement in parse(text):
        begin = text.index(statement.text, at)
        at = begin + len(statement.text)
        found.append(Placed(statement, re.sub(r"[^\r\n]", " ", text[:begin]) + statement.text))
    return found


def group_definitions(statements: list[Placed]) -> Iterator[list[Placed]]:
    """Definitions that follow each other are one group, every other statement is alone.

    >>> [len(group) for group in group_definitions(place_statements("SHOW ALL; DROP VIEW a; DROP VIEW b; SHOW ALL"))]
    [1, 2, 1]
    """
    group: list[Placed] = []
    for part in statements:
        if group and not (isinstance(part.statement, DEFINITIONS) and isinstance(group[-1].statement, DEFINITIONS)):
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def join_group(group: list[Placed]) -> str:
    """One text of several statements, each on the line and column where it stands in the file.

    >>> join_group(place_statements("SHOW ALL; -- first\\n  SHOW VIEWS;"))
    'SHOW ALL;         \\n  SHOW VIEWS'
    """
    text = ""
    for part in group:
        between = part.text[len(text) : len(part.text) - len(part.statement.text)]
        text += (between.replace(" ", ";", 1) if text else between) + part.statement.text
    return text


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
    return isinstance(statement, (Show, Describe, Explain, Why, Subscribe))
