"""REGISTER SOURCE and REGISTER TABLE: columns with their types, and where the rows come from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlglot.tokens import Token, TokenType

from tidemill.plan.sources import KINDS, Column, Schema
from tidemill.plan.statements import AlterSource, RegisterSource, RegisterTable
from tidemill.sql.lexical.cursor import Cursor, quote
from tidemill.sql.lexical.tokens import did_you_mean, problem
from tidemill.sql.lexical.types import TYPE_NAMES, column_type
from tidemill.sql.parse.options import parse_options, parse_pairs, unknown_name


def _either(choices: Sequence[str]) -> str:
    """The choices as an English list.

    >>> _either(["PORT", "FILES", "GENERATE"])
    'PORT, FILES or GENERATE'
    """
    return ", ".join(choices[:-1]) + " or " + choices[-1]


_FROM_HINT = "write " + _either([f"FROM {kind.example}" for kind in KINDS.values()])


def parse_register(cursor: Cursor) -> RegisterSource | RegisterTable:
    """Read what follows REGISTER."""
    or_replace = cursor.take("OR", "REPLACE")
    what = cursor.choose(("SOURCE", "TABLE"), "SOURCE or TABLE")
    if_not_exists = parse_if_not_exists(cursor, or_replace)
    name = cursor.take_name("a name")
    declared = _parse_columns(cursor)
    options: dict[str, Any] = {}
    kind = "source" if what == "SOURCE" else "table"
    parse_options(cursor, kind, options)
    cursor.expect("FROM", hint=_FROM_HINT)
    begin = cursor.token
    origin_kind, origin = _parse_origin(cursor, [column.name for _, column in declared])
    parse_options(cursor, kind, options)
    _check_names(declared, options.get("timestamp"))
    columns: Schema = tuple(column for _, column in declared)
    if what == "SOURCE":
        return RegisterSource(name, columns, origin_kind, origin, options, if_not_exists, or_replace)
    if origin_kind != "files" and begin is not None:
        raise problem("TM106", "a table is read from files", begin, hint="write FROM FILES 'dir/*.parquet'")
    return RegisterTable(name, columns, origin, options, if_not_exists, or_replace)


def parse_alter(cursor: Cursor) -> AlterSource:
    """Read what follows ALTER: SOURCE name ADD [COLUMN] column TYPE, …"""
    hint = "write ALTER SOURCE name ADD COLUMN price DOUBLE"
    cursor.expect("SOURCE", hint=hint)
    name = cursor.take_name("the name of a source")
    cursor.expect("ADD", hint=hint)
    items = []
    while True:
        cursor.take("ADD")
        cursor.take("COLUMN")
        items.append(_take_column(cursor))
        if not cursor.take(","):
            break
    declared = [_parse_column(item, prefer_type_first=False) for item in items]
    _check_names(declared, None)
    return AlterSource(name, tuple(column for _, column in declared))


def parse_if_not_exists(cursor: Cursor, or_replace: bool) -> bool:
    """Read IF NOT EXISTS, which contradicts OR REPLACE."""
    token = cursor.token
    if not cursor.take("IF", "NOT", "EXISTS"):
        return False
    if or_replace and token is not None:
        raise problem("TM112", "OR REPLACE and IF NOT EXISTS contradict each other", token, hint="keep one of them")
    return True


def _parse_columns(cursor: Cursor) -> list[tuple[Token, Column]]:
    """Read (name TYPE, …) or the paper's (TYPE name, …)."""
    cursor.expect("(", hint="write the columns: (id INTEGER, price DOUBLE)")
    items: list[list[Token]] = []
    while True:
        items.append(_take_column(cursor))
        if cursor.take(")"):
            break
        cursor.expect(",", hint="separate columns by commas")
    type_first = any(_reads_only_as(item, type_first=True) for item in items)
    declared: list[tuple[Token, Column]] = []
    seen: set[str] = set()
    for item in items:
        token, column = _parse_column(item, type_first)
        if column.name.lower() in seen:
            raise problem("TM108", f"column {quote(token)} is declared twice", token, hint="give it another name")
        seen.add(column.name.lower())
        declared.append((token, column))
    return declared


def _take_column(cursor: Cursor) -> list[Token]:
    begin, depth = cursor.index, 0
    while cursor.token is not None and (depth or cursor.word() not in (",", ")")):
        depth += (cursor.word() == "(") - (cursor.word() == ")")
        cursor.advance()
    if cursor.index - begin < 2:
        cursor.fail_expecting("a column and its type", hint="write id INTEGER")
    return cursor.tokens[begin : cursor.index]


def _reads_only_as(item: list[Token], *, type_first: bool) -> bool:
    as_type_first = column_type(item[:-1]) is not None
    as_name_first = column_type(item[1:]) is not None
    return as_type_first and not as_name_first if type_first else as_name_first and not as_type_first


def _parse_column(item: list[Token], prefer_type_first: bool) -> tuple[Token, Column]:
    """If both name-first and type-first are possible, `prefer_type_first` decides; the other columns determine it."""
    type_first = _reads_only_as(item, type_first=True) or (
        prefer_type_first and not _reads_only_as(item, type_first=False)
    )
    token, words = (item[-1], item[:-1]) if type_first else (item[0], item[1:])
    type_name = column_type(words)
    if type_name is None:
        shown = " ".join(word.text for word in words)
        meant = did_you_mean(words[0].text, TYPE_NAMES)
        hint = f"did you mean {meant}?" if meant else "write INTEGER, DOUBLE, VARCHAR, TIMESTAMP or another DuckDB type"
        raise problem("TM108", f'unknown type "{shown[:40]}"', words[0], hint=hint)
    reader = Cursor([token], "")
    return token, Column(reader.take_name("the name of a column"), type_name)


def _check_names(declared: list[tuple[Token, Column]], timestamp: Any) -> None:
    for token, column in declared:
        name = column.name.upper()
        is_time = isinstance(timestamp, str) and timestamp.upper() == name
        if name.startswith("__") or name == "NOW" or (name == "TS" and not is_time):
            hint = (
                "rename it, or declare it as the event time: WITH (timestamp = 'TS')"
                if name == "TS"
                else "rename it; TS, NOW and names with __ have a meaning of their own"
            )
            raise problem("TM108", f"column {quote(token)} has a reserved name", token, hint=hint)


def _parse_origin(cursor: Cursor, columns: list[str]) -> tuple[str, dict[str, Any]]:
    joined = re.fullmatch(r"PORT(\d+)", cursor.word())
    if joined:
        return "port", _parse_port(cursor, joined[1])
    known = tuple(kind.upper() for kind in KINDS)
    if cursor.word() not in known:
        cursor.fail_expecting(_either(known), known=known, hint=_FROM_HINT)
    word = cursor.advance().text.upper()
    if word == "PORT":
        return "port", _parse_port(cursor)
    if word == "FILES":
        return "files", {"glob": cursor.take_string("a path in quotes", "write FILES 'dir/*.csv'")}
    if word == "KAFKA":
        return "kafka", _parse_kafka(cursor)
    if word == "POSTGRES":
        return "postgres", _parse_postgres(cursor)
    if word == "GENERATE":
        return "generate", _parse_generate(cursor, columns)
    return word.lower(), _settings(cursor, KINDS[word.lower()].settings)


def _parse_port(cursor: Cursor, digits: str | None = None) -> dict[str, Any]:
    if digits is None:
        origin: dict[str, Any] = {"port": cursor.take_integer("a port", 1, 65_535)}
    elif len(digits) > 5 or not 1 <= int(digits) <= 65_535:
        cursor.fail("a port must be a whole number from 1 to 65,535", code="TM111", hint="for example PORT 5501")
    else:
        cursor.advance()
        origin = {"port": int(digits)}
    if cursor.take("HOST"):
        origin["host"] = cursor.take_string("an address in quotes", "write HOST '0.0.0.0'")
    return origin


def _parse_kafka(cursor: Cursor) -> dict[str, Any]:
    hint = "write KAFKA 'localhost:9092' TOPIC 'orders'"
    brokers = cursor.take_string("the addresses of brokers in quotes", hint)
    cursor.expect("TOPIC", hint=hint)
    return {"brokers": brokers, "topic": cursor.take_string("a topic in quotes", hint)}


def _parse_postgres(cursor: Cursor) -> dict[str, Any]:
    hint = "write POSTGRES 'host=db dbname=shop' TABLE 'orders'"
    connection = cursor.take_string("a connection in quotes", hint)
    cursor.expect("TABLE", hint=hint)
    return {"connection": connection, "table": cursor.take_string("a table in quotes", hint)}


def _settings(cursor: Cursor, known: tuple[str, ...]) -> dict[str, Any]:
    """Read (name = value, …); every name must be known and new."""
    origin: dict[str, Any] = {}
    for token, name, value in parse_pairs(cursor):
        if name.lower() not in known:
            raise unknown_name(token, "setting", known)
        if name.lower() in origin:
            raise problem("TM110", f"{quote(token)} is given twice", token, hint="keep one of them")
        origin[name.lower()] = value
    return origin


def _parse_generate(cursor: Cursor, columns: list[str]) -> dict[str, Any]:
    """Reserved words are settings of the stream; all other keys, and all quoted ones, are columns."""
    spelled = {column.lower(): column for column in columns}
    reserved_words = KINDS["generate"].settings
    origin: dict[str, Any] = {"columns": {}}
    for token, key, value in parse_pairs(cursor):
        reserved = key.lower() in reserved_words and token.token_type != TokenType.IDENTIFIER
        if not reserved and key.lower() not in spelled:
            raise unknown_name(token, "column or setting", (*reserved_words, *columns))
        target = origin if reserved else origin["columns"]
        name = key.lower() if reserved else spelled[key.lower()]
        if name in target:
            raise problem("TM110", f"{quote(token)} is given twice", token, hint="keep one of them")
        target[name] = value
    return origin
