"""Text to statements. A text that cannot be parsed raises a SyntaxProblem with line, column and hint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from sqlglot import exp
from sqlglot.tokens import Token

from tidemill.errors import SyntaxProblem
from tidemill.plan.statements import (
    AlterSource,
    AlterUser,
    Describe,
    Drop,
    DropKind,
    DropUser,
    Explain,
    Restart,
    RestartSource,
    Select,
    Set,
    Show,
    ShowKind,
    Skip,
    StandingOutput,
    Statement,
    Subscribe,
    Why,
)
from tidemill.sql.lexical.cursor import Cursor, quote
from tidemill.sql.lexical.tokens import did_you_mean, position, problem, split
from tidemill.sql.parse.as_of import take_as_of
from tidemill.sql.parse.create import parse_create
from tidemill.sql.parse.options import parse_options, parse_value
from tidemill.sql.parse.query import QUERY_WORDS, parse_query
from tidemill.sql.parse.register import parse_alter, parse_register
from tidemill.sql.parse.sites import parse_export, parse_revoke_export
from tidemill.sql.parse.users import parse_alter_user, parse_drop_user, parse_grant, parse_revoke

__all__ = ["parse", "parse_one", "position"]

DROPPABLE = ("SOURCE", "TABLE", "STREAM", "VIEW", "SINK", "QUERY", "AGGREGATE", "FUNCTION", "SITE")
SHOWN = (
    "SOURCES",
    "TABLES",
    "STREAMS",
    "VIEWS",
    "SINKS",
    "QUERIES",
    "AGGREGATES",
    "FUNCTIONS",
    "ALL",
    "DEAD_LETTERS",
    "SETTINGS",
    "PLANS",
    "USERS",
    "SITES",
)
FOREIGN = (
    "INSERT",
    "UPDATE",
    "DELETE",
    "MERGE",
    "COPY",
    "ATTACH",
    "DETACH",
    "PRAGMA",
    "TRUNCATE",
    "USE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "CALL",
    "EXECUTE",
    "PREPARE",
    "INSTALL",
    "LOAD",
    "IMPORT",
    "VACUUM",
    "ANALYZE",
    "SUMMARIZE",
    "PIVOT",
    "UNPIVOT",
    "RESET",
    "CHECKPOINT",
    "DECLARE",
    "KILL",
    "COMMENT",
    "CACHE",
    "REFRESH",
    "TABLE",
    "START",
    "END",
)
_SUPPORTED = (
    "supported: REGISTER, ALTER, CREATE, DROP, SELECT, SHOW, DESCRIBE, EXPLAIN, SUBSCRIBE, SET, RESTART, SKIP, GRANT,"
    " EXPORT and REVOKE"
)


def parse(text: str) -> list[Statement]:
    """All statements of `text`, in order; empty text has none.

    >>> [type(statement).__name__ for statement in parse("SHOW VIEWS; SELECT 1;")]
    ['Show', 'Select']
    """
    return [_parse_statement(tokens, text) for tokens in split(text)]


def parse_one(text: str) -> Statement:
    """The only statement of `text`."""
    statements = split(text)
    if not statements:
        raise SyntaxProblem("TM105", "there is no statement", line=1, column=1, hint=_SUPPORTED)
    if len(statements) > 1:
        raise problem("TM105", "more than one statement", statements[1][0], hint="keep the first one")
    return _parse_statement(statements[0], text)


def _parse_statement(tokens: list[Token], text: str) -> Statement:
    cursor = Cursor(tokens, text)
    statement = _dispatch(cursor)
    cursor.close()
    return _place(statement, tokens, text, cursor.places)


def _place(statement: Statement, tokens: list[Token], text: str, places: dict[str, tuple[int, int]]) -> Statement:
    source = text[tokens[0].start : tokens[-1].end + 1]
    return replace(statement, text=source, line=tokens[0].line, places=places)


def _dispatch(cursor: Cursor) -> Statement:
    word = cursor.word()
    if word in QUERY_WORDS:
        return _parse_select(cursor)
    if word not in _READERS:
        _refuse(cursor)
    cursor.advance()
    return _READERS[word](cursor)


def _refuse(cursor: Cursor) -> None:
    token = cursor.tokens[0]
    if cursor.word() in FOREIGN:
        raise problem("TM106", f"{cursor.word()} is not part of the language", token, hint=_SUPPORTED)
    meant = did_you_mean(cursor.word(), (*_READERS, "SELECT", "WITH"))
    hint = f"did you mean {meant}?" if meant else _SUPPORTED
    raise problem("TM105", f"no statement begins with {quote(token)}", token, hint=hint)


def _parse_select(cursor: Cursor) -> Select:
    options: dict[str, object] = {}
    found = parse_query(cursor, options, "select")
    output = None if found.flag is None else cast(StandingOutput, found.flag.text.lower())
    return Select(found.tree, output, options, found.as_of)


def _parse_drop(cursor: Cursor) -> Drop | DropUser:
    if cursor.take("USER"):
        return parse_drop_user(cursor)
    tagged = cursor.take("TAGGED")
    kind = cursor.choose(("STREAM",) if tagged else (*DROPPABLE, "TAGGED"), "what to drop").lower()
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.take_name("a name")
    cascade = cursor.take("CASCADE")
    if not cascade and cursor.token is not None:
        cursor.fail_expecting("CASCADE or the end of the statement", known=("CASCADE",), hint="write CASCADE or ;")
    return Drop(cast(DropKind, kind), name, if_exists, cascade)


def _parse_alter(cursor: Cursor) -> AlterSource | AlterUser:
    return parse_alter_user(cursor) if cursor.take("USER") else parse_alter(cursor)


def _parse_show(cursor: Cursor) -> Show:
    if cursor.take("TAGGED", "STREAMS"):
        return Show("streams")
    if cursor.take("DEAD", "LETTERS"):
        return Show("dead_letters")
    if cursor.take("TIME", "ZONE") or cursor.take("TIMEZONE"):
        return Show("time_zone")
    return Show(cast(ShowKind, cursor.choose(SHOWN, "what to show").lower()))


def _parse_describe(cursor: Cursor) -> Describe:
    return Describe(cursor.take_name("a name"))


def _parse_subscribe(cursor: Cursor) -> Subscribe:
    """SUBSCRIBE view, … or SUBSCRIBE view [AS OF {time | BATCH number}] [WITH (progress = {true | 'batch'})]."""
    names = [cursor.take_name("the name of a view")]
    while cursor.take(","):
        names.append(cursor.take_name("the name of a view"))
    begin = cursor.index
    while cursor.token is not None and (cursor.word(), cursor.word(1)) != ("WITH", "("):
        cursor.advance()
    as_of, rest = take_as_of(cursor.tokens[: cursor.index])
    if len(rest) > begin:
        cursor.index = begin
        cursor.fail_expecting("AS OF, WITH or the end of the statement", hint="write SUBSCRIBE view AS OF time")
    if as_of is not None and as_of.value is None and as_of.batch is None:
        cursor.index = begin
        cursor.fail("a subscription begins with the contents, or as of a time", code="TM112", hint="leave it out")
    options: dict[str, Any] = {}
    parse_options(cursor, "subscribe", options)
    progress = str(options.get("progress", as_of is not None)).lower()
    by_batch = progress == "batch" or (as_of is not None and as_of.batch is not None)
    if len(names) > 1 and (as_of is not None or options):
        cursor.index = begin
        cursor.fail("AS OF and WITH are for one view", code="TM112", hint="subscribe to each view by itself")
    return Subscribe(names[0], tuple(names[1:]), as_of, by_batch or progress in ("true", "on", "1"), by_batch)


def _parse_set(cursor: Cursor) -> Set:
    if cursor.take("TIME", "ZONE"):
        name = "time_zone"
    else:
        name = cursor.take_name("the name of a setting").lower()
        cursor.expect("=", hint=f"write SET {name} = value")
        name = "time_zone" if name == "timezone" else name
    cursor.note_place(name)
    return Set(name, parse_value(cursor))


def _parse_restart(cursor: Cursor) -> Restart | RestartSource:
    if cursor.word() == "SOURCE" and cursor.index + 1 < len(cursor.tokens):
        cursor.take("SOURCE")
        name = cursor.take_name("the name of a source")
        options: dict[str, Any] = {}
        parse_options(cursor, "restart", options)
        return RestartSource(name, options)
    cursor.take("VIEW")
    return Restart(cursor.take_name("the name of a view"))


def _parse_skip(cursor: Cursor) -> Skip:
    cursor.expect("BATCH", hint="write SKIP BATCH OF source")
    cursor.expect("OF", hint="write SKIP BATCH OF source")
    cursor.take("SOURCE")
    return Skip(cursor.take_name("the name of a source"))


def _parse_explain(cursor: Cursor) -> Explain | Why:
    """EXPLAIN alone, of a query, of CREATE VIEW, or of a view by its name; EXPLAIN WHY a view."""
    if cursor.token is None:
        return Explain()
    if cursor.word() == "WHY" and cursor.index + 1 < len(cursor.tokens):
        cursor.take("WHY")
        if cursor.index + 1 < len(cursor.tokens):
            cursor.take("VIEW")
        return Why(cursor.take_name("the name of a view"))
    if cursor.word() in (*QUERY_WORDS, "CREATE"):
        tokens = cursor.tokens[cursor.index :]
        inner = Cursor(tokens, cursor.text)
        statement = _dispatch(inner)
        cursor.index += inner.index
        return Explain(_place(statement, tokens, cursor.text, inner.places))
    if cursor.index + 1 < len(cursor.tokens):
        cursor.take("VIEW")
    token = cursor.token
    name = exp.to_identifier(cursor.take_name("a query or a view")).update_positions(token)
    return Explain(exp.Table(this=name))


def _parse_revoke(cursor: Cursor) -> Statement:
    """REVOKE STREAM s FROM SITE lyon, or REVOKE SELECT ON v FROM user."""
    return parse_revoke_export(cursor) if cursor.word() in ("STREAM", "VIEW") else parse_revoke(cursor)


_READERS: dict[str, Callable[[Cursor], Statement]] = {
    "REGISTER": parse_register,
    "ALTER": _parse_alter,
    "CREATE": parse_create,
    "DROP": _parse_drop,
    "SHOW": _parse_show,
    "DESCRIBE": _parse_describe,
    "DESC": _parse_describe,
    "EXPLAIN": _parse_explain,
    "SUBSCRIBE": _parse_subscribe,
    "SET": _parse_set,
    "RESTART": _parse_restart,
    "SKIP": _parse_skip,
    "GRANT": parse_grant,
    "EXPORT": parse_export,
    "REVOKE": _parse_revoke,
}
