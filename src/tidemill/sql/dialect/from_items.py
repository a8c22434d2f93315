"""The clauses that refine one item of FROM: SYNC … and [ … ]."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token

from tidemill.errors import SyntaxProblem
from tidemill.sql.dialect.nodes import Sync, WindowSpec, all_nodes
from tidemill.sql.lexical.cursor import Cursor
from tidemill.sql.lexical.durations import parse_duration

MOST_ROWS = 10**12
CLAUSES = {"sync": "SYNC clause", "window": "window"}
_WINDOW_HINT = (
    "write [WINDOW 1 HOUR], [WINDOW UNTIL NOW], [ROWS 100], [RANGE 60 SECONDS SLIDE 1 SECOND] or [SESSION 30 SECONDS]"
)
_KINDS = ("WINDOW", "ROWS", "RANGE", "SESSION")


def parse_refinements(cursor: Cursor, found: dict[str, Any]) -> None:
    """Read SYNC and window clauses, in any order, each at most once, into `found`."""
    while token := cursor.token:
        if cursor.word() == "SYNC" and cursor.word(1) in ("EVERY", "ON"):
            _check_first(cursor, found, "sync")
            found["sync"] = _parse_sync(cursor, token)
        elif cursor.word() == "[":
            _check_first(cursor, found, "window")
            found["window"] = _parse_window(cursor, token)
        else:
            return


def hoist(tree: exp.Expr) -> None:
    """Move the clauses from the aliases, where the parser puts them, to the FROM items."""
    for alias in all_nodes(tree):
        if not isinstance(alias, exp.TableAlias):
            continue
        item = alias.parent
        for key, what in CLAUSES.items():
            clause = alias.args.pop(key, None)
            if clause is None:
                continue
            _check_place(item, clause, key, what).set(key, clause)
        if item is not None and not alias.this and not alias.columns:
            alias.pop()


def select_values(tree: exp.Expr) -> exp.Expr:
    """The tree with VALUES only in FROM: where it stands as a query by itself, it is SELECT * FROM it."""
    for values in [node for node in all_nodes(tree) if isinstance(node, exp.Values)]:
        around = values.parent
        if isinstance(around, (exp.From, exp.Join)):
            continue
        moved = {key: values.args.pop(key, None) for key in ("order", "limit", "offset")}
        query = exp.Select(expressions=[exp.Star()], **{k: v for k, v in moved.items() if v is not None})
        if values is tree:
            tree = query
        elif isinstance(around, exp.In):
            around.set("expressions", None)
            around.set("query", exp.Subquery(this=query))
        else:
            values.replace(query)
        query.set("from_", exp.From(this=values))
    return tree


def _check_place(item: exp.Expr | None, clause: Any, key: str, what: str) -> exp.Expr:
    line, column = clause.place
    if not isinstance(item, (exp.Table, exp.Subquery)):
        raise SyntaxProblem(
            "TM112",
            f"a {what} is not possible here",
            line=line,
            column=column,
            hint="put it behind a stream, a view or a subquery",
        )
    if item.args.get(key) is not None:
        raise _second_clause(what, line, column)
    return item


def _check_first(cursor: Cursor, found: dict[str, Any], key: str) -> None:
    token = cursor.token
    if key in found and token is not None:
        raise _second_clause(CLAUSES[key], token.line, token.col)


def _second_clause(what: str, line: int, column: int) -> SyntaxProblem:
    return SyntaxProblem(
        "TM112", f"a second {what} for the same input", line=line, column=column, hint="keep one of them"
    )


def _parse_sync(cursor: Cursor, start: Token) -> Sync:
    place = (start.line, start.col)
    cursor.take("SYNC")
    if cursor.take("ON"):
        return Sync(on=cursor.take_name("a view of time points"), place=place)
    cursor.take("EVERY")
    if cursor.word(1) in ("ROWS", "ROW"):
        rows = cursor.take_integer("a number of rows", 1, MOST_ROWS)
        cursor.advance()
        return Sync(rows=rows, place=place)
    return Sync(every=parse_duration(cursor), place=place)


def _parse_window(cursor: Cursor, start: Token) -> WindowSpec:
    place = (start.line, start.col)
    cursor.take("[")
    if cursor.take("WINDOW", "UNTIL"):
        cursor.expect("NOW", hint=_WINDOW_HINT)
        spec = WindowSpec("landmark", place=place)
    elif cursor.take("WINDOW"):
        spec = WindowSpec("window", size=parse_duration(cursor), place=place)
    elif cursor.take("ROWS"):
        rows = cursor.take_integer("a number of rows", 1, MOST_ROWS)
        slide_rows = cursor.take_integer("a number of rows", 1, MOST_ROWS) if cursor.take("SLIDE") else None
        spec = WindowSpec("rows", rows=rows, slide_rows=slide_rows, place=place)
    elif cursor.take("RANGE"):
        size = parse_duration(cursor)
        slide = parse_duration(cursor) if cursor.take("SLIDE") else size
        spec = WindowSpec("range", size=size, slide=slide, place=place)
    elif cursor.take("SESSION"):
        gap = parse_duration(cursor)
        spec = WindowSpec("session", size=gap, partition=_parse_partition(cursor), place=place)
    else:
        cursor.fail_expecting("WINDOW, ROWS, RANGE or SESSION", known=_KINDS, hint=_WINDOW_HINT)
    cursor.expect("]", hint=_WINDOW_HINT)
    return spec


FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
_FUNCTION_HINT = "for example  TUMBLE(TABLE s, DESCRIPTOR(at), INTERVAL '1' MINUTE)"


def parse_window_function(cursor: Cursor, name: str, place: tuple[int, int]) -> WindowSpec:
    """The rest of a table function behind its table, up to the parenthesis: PARTITION BY, time and lengths."""
    partition = _parse_partition(cursor)
    if partition is not None and name != "SESSION":
        cursor.fail(f"{name} has no PARTITION BY", code="TM112", hint="put the columns into GROUP BY")
    cursor.expect(",", hint=_FUNCTION_HINT)
    wrapped = cursor.take("DESCRIPTOR", "(")
    column = cursor.take_name("the column with the time")
    if wrapped:
        cursor.expect(")", hint=_FUNCTION_HINT)
    cursor.expect(",", hint=_FUNCTION_HINT)
    size, slide = parse_duration(cursor), None
    if name in ("HOP", "CUMULATE"):
        cursor.expect(",", hint=f"{name} has two lengths: how far apart windows are, and how long the longest is")
        slide, size = size, parse_duration(cursor)
    cursor.expect(")", hint=_FUNCTION_HINT)
    kinds = {"TUMBLE": "tumble", "HOP": "hop", "CUMULATE": "cumulate", "SESSION": "session"}
    by = partition or () if name == "SESSION" else None
    return WindowSpec(kinds[name], size=size, slide=slide, partition=by, column=column, place=place)  # type: ignore[arg-type]


def _parse_partition(cursor: Cursor) -> tuple[str, ...] | None:
    if not cursor.take("PARTITION BY"):  # one token
        return None
    names = [cursor.take_name("a column")]
    while cursor.word(1) != "DESCRIPTOR" and cursor.take(","):
        names.append(cursor.take_name("a column"))
    return tuple(names)
