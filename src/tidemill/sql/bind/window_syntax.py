"""Window functions as they are parsed: where they stand, named windows, frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, get_args

from sqlglot import exp

from tidemill.plan.window_frames import CURRENT, FOLLOWING, PRECEDING, Bound, Frame, Peers, Unit
from tidemill.sql.bind.functions import aggregate_name, name_in_sql, user_aggregate_of
from tidemill.sql.bind.scope import problem
from tidemill.sql.dialect.nodes import children, copy_tree

FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
    exp.Ntile: "ntile",
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.First: "first_value",
    exp.FirstValue: "first_value",
    exp.Last: "last_value",
    exp.LastValue: "last_value",
    exp.NthValue: "nth_value",
}
_WRAPPERS = (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)
_PLACE = {PRECEDING: 0, CURRENT: 1, FOLLOWING: 2}


class Call(NamedTuple):
    """The function of a window, its name, whether NULLs are skipped, and the condition of FILTER."""

    node: exp.Expression
    name: str
    ignore_nulls: bool
    condition: exp.Expression | None


def find_windows(root: exp.Expression) -> Iterator[exp.Window]:
    """The calls of window functions in an expression, outermost ones."""
    if isinstance(root, exp.Window):
        yield root
    elif not isinstance(root, exp.Query):
        for child in children(root):
            yield from find_windows(child)


def has_windows(select: exp.Select) -> bool:
    """True when the SELECT itself calls a window function, or has QUALIFY."""
    return bool(select.args.get("qualify")) or any(True for e in select.expressions for _ in find_windows(e))


def refuse_misplaced_windows(select: exp.Select) -> None:
    """Window functions are computed after WHERE, GROUP BY and HAVING, and before QUALIFY."""
    for clause in ("where", "group", "having"):
        for window in find_windows(select.args[clause]) if select.args.get(clause) else ():
            raise problem(
                f"a window function is not possible in {'GROUP BY' if clause == 'group' else clause.upper()}",
                window,
                code="TM246",
                hint="use QUALIFY, or compute it in a subquery in FROM",
            )


def aggregates_rows(root: exp.Expression) -> bool:
    """True when an expression has an aggregate function that is no window function."""
    if isinstance(root, exp.Window):
        return any(aggregates_rows(part) for part in operands(root))
    if isinstance(root, exp.Query):
        return False
    if aggregate_name(root):
        return True
    return any(aggregates_rows(child) for child in children(root))


def operands(window: exp.Window) -> Iterator[exp.Expression]:
    """The expressions that a window function reads: arguments, partition, order, FILTER."""
    node = window.this
    while isinstance(node, _WRAPPERS):
        if isinstance(node, exp.Filter):
            yield node.expression.this
        node = node.this
    yield from children(node)
    yield from window.args.get("partition_by") or ()
    order = window.args.get("order")
    if order is not None:
        yield from (ordered.this for ordered in order.expressions)


def read_call(window: exp.Window) -> Call:
    """The function that a window calls."""
    node, ignore, condition = window.this, False, None
    while isinstance(node, _WRAPPERS):
        ignore = ignore or isinstance(node, exp.IgnoreNulls)
        condition = node.expression.this if isinstance(node, exp.Filter) else condition
        node = node.this
    name = FUNCTIONS.get(type(node)) or aggregate_name(node)
    if name is None or name == "approx_count_distinct" or user_aggregate_of(node) is not None:
        raise problem(
            f'"{name_in_sql(node)}" is not a window function of the language of views',
            window,
            code="TM207",
            hint="the language reference lists all functions",
        )
    return Call(node, name, ignore, condition)


def resolve_named_windows(select: exp.Select) -> None:
    """OVER w and OVER (w ORDER BY …) with the definitions of the WINDOW clause in their place."""
    known: dict[str, exp.Expression] = {}
    for named in select.args.get("windows") or ():
        _inherit(named, known)
        known[named.name.lower()] = named
    select.set("windows", None)
    for root in (*select.expressions, select.args.get("qualify")):
        for window in find_windows(root) if root is not None else ():
            _inherit(window, known)


def _inherit(window: exp.Expression, known: dict[str, exp.Expression]) -> None:
    alias = window.args.get("alias")
    if alias is None:
        return
    base = known.get(alias.name.lower())
    if base is None:
        raise problem(
            f'there is no window named "{alias.name}"',
            window,
            hint=f"the WINDOW clause has {', '.join(known)}" if known else "define it:  WINDOW w AS (PARTITION BY …)",
        )
    for clause in ("partition_by", "order", "spec"):
        given = base.args.get(clause)
        if given and not window.args.get(clause):
            window.set(clause, [copy_tree(e) for e in given] if isinstance(given, list) else copy_tree(given))
    window.set("alias", None)


def read_frame(window: exp.Window) -> Frame | None:
    """The frame that a window is given; None where it has SQL's own."""
    spec = window.args.get("spec")
    if spec is None:
        return None
    unit = str(spec.args["kind"]).upper()
    start = _read_bound(spec.args.get("start"), spec.args.get("start_side"), window)
    end = Bound(CURRENT)
    if spec.args.get("end"):
        end = _read_bound(spec.args["end"], spec.args.get("end_side"), window)
    exclude = str(spec.args.get("exclude") or "NO OTHERS").upper()
    known = next((name for name in get_args(Unit) if name == unit), None)
    endless = start == Bound(FOLLOWING) or end == Bound(PRECEDING)
    if known is None or endless or _PLACE[start.side] > _PLACE[end.side]:
        raise _wrong_frame(window, f"{unit} BETWEEN {start.sql} AND {end.sql} holds no rows")
    if exclude in ("GROUP", "TIES") and known == "ROWS":
        # Frames of rows are those of the completed order, in which no row has a peer.
        raise _wrong_frame(window, f"EXCLUDE {exclude} is possible in frames of RANGE and GROUPS")
    peers: Peers = next((p for p in get_args(Peers) if p == exclude), "")
    return Frame(known, start, end, exclude == "CURRENT ROW", peers)


def ends_here(frame: Frame, ordered: bool) -> bool:
    """True when a frame ends with the current row and its peers, or before them."""
    return frame.end.side != FOLLOWING and (frame.unit == "ROWS" or ordered)


def _read_bound(value: object, side: str | None, window: exp.Window) -> Bound:
    """One bound of a frame: a constant that is not negative."""
    if isinstance(value, str):
        return Bound(CURRENT) if value == CURRENT else Bound(str(side).upper())
    number = isinstance(value, exp.Literal) and not value.is_string
    if not (number or isinstance(value, exp.Interval)) or not side:
        raise _wrong_frame(window, "the bounds of a frame are constants that are not negative")
    assert isinstance(value, exp.Expression)
    return Bound(side.upper(), value.sql(dialect="duckdb"))


def _wrong_frame(window: exp.Window, message: str) -> Exception:
    return problem(message, window, code="TM246", hint="for example  ROWS BETWEEN 2 PRECEDING AND CURRENT ROW")
