"""CREATE TAGGED STREAM, CREATE VIEW, CREATE SINK and CREATE SITE."""

from __future__ import annotations

from typing import Any, cast

from tidemill.plan.statements import CreateSink, CreateSite, CreateTaggedStream, CreateUser, CreateView, Output
from tidemill.sql.lexical.cursor import Cursor, quote
from tidemill.sql.lexical.tokens import problem
from tidemill.sql.parse.options import parse_options
from tidemill.sql.parse.query import parse_query
from tidemill.sql.parse.register import parse_if_not_exists
from tidemill.sql.parse.sites import parse_site
from tidemill.sql.parse.users import parse_create_user

OUTPUTS = ("STREAMED", "COMPLETE", "RSTREAM", "ISTREAM", "DSTREAM", "VIRTUAL")
TARGETS = ("FILES", "CONSOLE", "KAFKA", "POSTGRES", "DELTA", "ICEBERG")
_HINT = f"write CREATE TAGGED STREAM, CREATE [{' | '.join(OUTPUTS)}] VIEW or CREATE SINK"


def parse_create(cursor: Cursor) -> CreateTaggedStream | CreateView | CreateSink | CreateSite | CreateUser:
    """Read what follows CREATE."""
    if cursor.take("USER"):
        return parse_create_user(cursor)
    or_replace = cursor.take("OR", "REPLACE")
    if cursor.take("TAGGED"):
        cursor.expect("STREAM")
        return _parse_tagged_stream(cursor, or_replace)
    if cursor.take("SINK"):
        return _parse_sink(cursor, or_replace)
    if not or_replace and cursor.take("LOCAL", "SITE"):
        return parse_site(cursor, local=True)
    if not or_replace and cursor.take("SITE"):
        return parse_site(cursor, local=False)
    if cursor.word() in OUTPUTS:
        output = cast(Output, cursor.advance().text.lower())
        cursor.expect("VIEW")
        return _parse_view(cursor, or_replace, output)
    if cursor.take("VIEW"):
        return _parse_view(cursor, or_replace, "complete")
    _refuse(cursor)
    raise AssertionError


def _refuse(cursor: Cursor) -> None:
    token = cursor.token
    others = {
        "TABLE": "a static table is declared with REGISTER TABLE name (…) FROM FILES '…'",
        "SOURCE": "a source is declared with REGISTER SOURCE name (…) FROM …",
        "STREAM": "write CREATE TAGGED STREAM name OVER source [KEY column]",
        "MATERIALIZED": "every view is maintained; write CREATE VIEW",
    }
    if token is not None and cursor.word() in others:
        raise problem("TM106", f"CREATE {cursor.word()} is not part of the language", token, hint=others[cursor.word()])
    cursor.fail_expecting("VIEW, TAGGED STREAM or SINK", known=("VIEW", "TAGGED", "SINK", *OUTPUTS), hint=_HINT)


def _parse_tagged_stream(cursor: Cursor, or_replace: bool) -> CreateTaggedStream:
    if_not_exists = parse_if_not_exists(cursor, or_replace)
    name = cursor.take_name("the name of the stream")
    cursor.expect("OVER")
    source = cursor.take_name("the name of a source")
    key = _parse_key(cursor) if cursor.take("KEY") else ()
    if not key and cursor.token is not None:
        cursor.fail_expecting("KEY or the end of the statement", known=("KEY",), hint="write KEY column or ;")
    return CreateTaggedStream(name, source, key, if_not_exists, or_replace)


def _parse_key(cursor: Cursor) -> tuple[str, ...]:
    """KEY a, KEY a, b or KEY (a, b)."""
    wrapped = cursor.take("(")
    key: list[str] = []
    while not key or cursor.take(","):
        token = cursor.token
        column = cursor.take_name("a key column")
        if column.lower() in (other.lower() for other in key) and token is not None:
            raise problem("TM108", f"column {quote(token)} is twice in the key", token, hint="keep one of them")
        key.append(column)
    if wrapped:
        cursor.expect(")")
    return tuple(key)


def _parse_view(cursor: Cursor, or_replace: bool, output: Output) -> CreateView:
    if_not_exists = parse_if_not_exists(cursor, or_replace)
    name = cursor.take_name("the name of the view")
    options: dict[str, Any] = {}
    kind = "virtual view" if output == "virtual" else "view"
    parse_options(cursor, kind, options)
    cursor.expect("AS", hint=f"write CREATE VIEW {name} AS SELECT …, with aliases for the column names")
    query, flag, _ = parse_query(cursor, options, kind)
    if flag is not None:
        word = flag.text.upper()
        raise problem("TM112", f"{word} belongs before VIEW", flag, hint=f"write CREATE {word} VIEW {name} AS SELECT …")
    return CreateView(name, output, query, options, if_not_exists, or_replace)


def _parse_sink(cursor: Cursor, or_replace: bool) -> CreateSink:
    if_not_exists = parse_if_not_exists(cursor, or_replace)
    name = cursor.take_name("the name of the sink")
    cursor.expect("FROM")
    view = cursor.take_name("the name of a view")
    cursor.expect("TO")
    target = cursor.choose(TARGETS, f"{', '.join(TARGETS[:-1])} or {TARGETS[-1]}").lower()
    path, place = _parse_target(cursor, target)
    options: dict[str, Any] = {}
    parse_options(cursor, "sink", options)
    return CreateSink(name, view, cast(Any, target), path, options, if_not_exists, or_replace, place)


def _parse_target(cursor: Cursor, target: str) -> tuple[str | None, dict[str, str]]:
    """The folder of a sink to files or Delta; where other sinks write."""
    if target in ("files", "delta"):
        return cursor.take_string("a directory in quotes", f"write TO {target.upper()} 'dir'"), {}
    if target == "kafka":
        hint = "write TO KAFKA 'localhost:9092' TOPIC 'answers'"
        brokers = cursor.take_string("the addresses of brokers in quotes", hint)
        cursor.expect("TOPIC", hint=hint)
        return None, {"brokers": brokers, "topic": cursor.take_string("a topic in quotes", hint)}
    if target == "postgres":
        hint = "write TO POSTGRES 'host=db dbname=shop' TABLE 'totals'"
        connection = cursor.take_string("a connection in quotes", hint)
        cursor.expect("TABLE", hint=hint)
        return None, {"connection": connection, "table": cursor.take_string("a table in quotes", hint)}
    if target == "iceberg":
        return None, {"table": cursor.take_string("a table in quotes", "write TO ICEBERG 'shop.totals'")}
    return None, {}
