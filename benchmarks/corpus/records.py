"""sqllogictest files, as SQLite and DuckDB write them: the statements and queries in them, with loops unrolled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ENGINE = "duckdb"
_KNOWN_PARTS = {"skip_reload", "noforcestorage", "noalternativeverify", "json", "icu", "core_functions", "parquet"}
_ENDS = {"restart", "reconnect", "load", "concurrentloop", "require-env", "test-env", "unzip", "include"}


@dataclass(frozen=True)
class Record:
    """One statement or query of a file; `fails` where the file expects an error."""

    sql: str
    line: int
    is_query: bool
    fails: bool = False


@dataclass(frozen=True)
class _Block:
    """The lines of a file between two empty ones, and where they begin."""

    lines: list[str]
    line: int


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file up to what only its own runner can do (another process, a database on disk)."""
    blocks = list(_blocks(path.read_text(encoding="utf-8", errors="replace")))
    yield from _expand(blocks, {})


def _blocks(text: str) -> Iterator[_Block]:
    lines: list[str] = []
    begin = 1
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            continue
        if line.strip():
            begin = begin if lines else number
            lines.append(line)
        elif lines:
            yield _Block(lines, begin)
            lines = []
    if lines:
        yield _Block(lines, begin)


class _EndOfFile(Exception):
    """What follows cannot be used."""


def _expand(blocks: list[_Block], values: dict[str, str]) -> Iterator[Record]:
    try:
        yield from _unroll(blocks, values)
    except _EndOfFile:
        return


def _unroll(blocks: list[_Block], values: dict[str, str]) -> Iterator[Record]:
    skipping, i = False, 0
    while i < len(blocks):
        block = blocks[i]
        words = block.lines[0].split()
        i += 1
        if words[0] in ("loop", "foreach"):
            end = _end_of_loop(blocks, i)
            inner = [*([_Block(block.lines[1:], block.line + 1)] if len(block.lines) > 1 else []), *blocks[i:end]]
            for value in _loop_values(words):
                yield from _unroll(inner, values | {words[1]: value})
            i = end + 1
        elif words[0] == "mode":
            skipping = words[1:2] == ["skip"] or (skipping and words[1:2] != ["unskip"])
        elif not skipping:
            yield from _record(block, values)


def _end_of_loop(blocks: list[_Block], begin: int) -> int:
    depth = 1
    for i in range(begin, len(blocks)):
        word = blocks[i].lines[0].split()[0]
        depth += word in ("loop", "foreach")
        depth -= any(line.strip() == "endloop" for line in blocks[i].lines)
        if depth == 0:
            return i
    raise _EndOfFile


def _loop_values(words: list[str]) -> list[str]:
    if words[0] == "foreach":
        return words[2:]
    try:
        return [str(n) for n in range(int(words[2]), int(words[3]))]
    except ValueError:
        raise _EndOfFile from None


def _record(block: _Block, values: dict[str, str]) -> Iterator[Record]:
    lines = list(block.lines)
    while lines and lines[0].split()[0] in ("skipif", "onlyif"):
        how, *engines = lines.pop(0).split()
        if (how == "skipif") == (_ENGINE in engines or f"{_ENGINE}" in " ".join(engines)):
            return
    if not lines:
        return
    words = lines[0].split()
    if words[0] in _ENDS or words[0] == "halt" or (words[0] == "require" and words[1] not in _KNOWN_PARTS):
        raise _EndOfFile
    if words[0] not in ("statement", "query"):
        return
    body: list[str] = []
    for line in lines[1:]:
        if line.startswith("----") or line.strip() == "endloop":
            break
        body.append(line)
    sql = _put_in("\n".join(body), values)
    yield Record(sql, block.line, words[0] == "query", words[1:2] in (["error"], ["maybe"]))


def _put_in(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)
