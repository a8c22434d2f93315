"""WITH (name = value, …): which options each kind of statement has, and plain values."""

from __future__ import annotations

import math
from typing import Any

from sqlglot.tokens import Token, TokenType

from tidemill.sql.lexical.cursor import Cursor, quote
from tidemill.sql.lexical.durations import UNITS_US
from tidemill.sql.lexical.tokens import did_you_mean, problem

Value = str | int | float | bool

# Of connections to Kafka: of sources and of sinks.
_KAFKA_CLIENT = (
    "security",
    "mechanism",
    "username",
    "password",
    "ca",
    "certificate",
    "private_key",
    "private_key_password",
    "client_settings",
)
_READING = ("format", "on_error", "header", "delimiter", "max_record_bytes", "follow_links")
KNOWN: dict[str, tuple[str, ...]] = {
    "source": (
        *_READING,
        "timestamp",
        "lateness",
        "late",
        "ahead",
        "idle_timeout",
        "batch_rows",
        "operation",
        "backlog_bytes",
        "settle_seconds",
        "tail",
        "host",
        "key_null",
        "max_connections",
        "connection_timeout",
        "line_timeout",
        "shed_updates",
        "shed",
        "start",
        "key_column",
        "partition_column",
        "offset_column",
        "time_column",
        "headers_column",
        "schema",
        "registry",
        "registry_login",
        *_KAFKA_CLIENT,
    ),
    "restart": ("lateness", "ahead", "idle_timeout", "batch_rows", "on_error", "max_record_bytes"),
    "table": _READING,
    "view": ("retain", "unbounded_state", "spread", "empty_windows", "begin", "site_join", "at", "max_latency"),
    "virtual view": (),  # its readers have options
    "select": ("unbounded_state", "spread", "empty_windows", "begin", "site_join", "at", "max_latency"),
    "sink": ("format", "mode", "snapshot", "catalog", "warehouse", *_KAFKA_CLIENT),
    "subscribe": ("progress",),
    "site": ("ca", "certificate", "key", "token_file", "plaintext"),
}


def parse_options(cursor: Cursor, kind: str, into: dict[str, Any]) -> None:
    """Read WITH (…) if it is next; every name must be known and new."""
    if cursor.word() != "WITH" or cursor.word(1) != "(":
        return
    cursor.take("WITH")
    for token, name, value in parse_pairs(cursor):
        name = name.lower()
        if name not in KNOWN[kind]:
            raise unknown_name(token, "option", KNOWN[kind]) if KNOWN[kind] else _refuse_options(token, kind)
        if name in into:
            raise problem("TM110", f'option "{name}" is given twice', token, hint="keep one of them")
        into[name] = value


def _refuse_options(token: Token, kind: str) -> Exception:
    return problem(
        "TM110", f"a {kind} has no options", token, hint="give the option to the views and queries that read it"
    )


def parse_pairs(cursor: Cursor) -> list[tuple[Token, str, Value]]:
    """Read (name = value, …); each with the token of its name."""
    cursor.expect("(")
    pairs: list[tuple[Token, str, Value]] = []
    while not cursor.take(")"):
        if pairs:
            if cursor.word() != ",":
                cursor.fail_expecting(', or ")"', hint="separate options by commas")
            cursor.advance()
        token = cursor.token
        name = cursor.take_name("the name of an option")
        assert token is not None
        cursor.expect("=", hint=f"write {name} = value")
        cursor.note_place(name)
        pairs.append((token, name, parse_value(cursor)))
    return pairs


def unknown_name(token: Token, what: str, known: tuple[str, ...]) -> Exception:
    """The error for a name that is not among the known ones."""
    meant = did_you_mean(token.text, known)
    hint = f"did you mean {meant}?" if meant else "known: " + ", ".join(sorted(known))
    return problem("TM110", f"unknown {what} {quote(token)}", token, hint=hint)


def parse_value(cursor: Cursor) -> Value:
    """Read a string, number, TRUE, FALSE, a plain word, or a number with a unit of time."""
    token = cursor.token
    if token is not None and token.token_type == TokenType.STRING:
        cursor.advance()
        return token.text
    negative = cursor.take("-")
    if cursor.is_a(TokenType.NUMBER):
        number = _parse_number(cursor)
        if not negative and cursor.word() in UNITS_US:
            return f"{number} {cursor.advance().text.lower()}"
        return -number if negative else number
    if negative or token is None or not (token.token_type == TokenType.IDENTIFIER or cursor.word()[:1].isalpha()):
        cursor.fail_expecting("a value", hint="write a string, a number, TRUE or FALSE")
    if cursor.word() in ("TRUE", "FALSE"):
        return cursor.advance().text.upper() == "TRUE"
    if cursor.word() == "ON":  # a keyword elsewhere; here the opposite of OFF
        return cursor.advance().text.lower()
    return cursor.take_name("a value")


def _parse_number(cursor: Cursor) -> int | float:
    token = cursor.token
    assert token is not None
    try:
        value = int(token.text) if token.text.isdigit() else float(token.text)
    except ValueError:
        value = math.inf
    if not math.isfinite(value) or abs(value) > 2**63:
        cursor.fail("a number that is too large", code="TM111", hint="write a smaller number")
    cursor.advance()
    return value
