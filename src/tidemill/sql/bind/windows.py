"""Windows and synchronization of one input of FROM, in every spelling, as nodes of the algebra.

NOW moves with the synchronization of its input: a window over `S SYNC EVERY 10` is evaluated every 10 units, so
the synchronizer stands above the window and rounds both the entry and the exit of a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.points import clock_periods, read_anew
from tidemill.plan.relations import Item
from tidemill.plan.scalars import Cast, Ceiling, ColumnRef, Extreme, Literal, Operation, Paren, Scalar, Shift, template
from tidemill.sql.bind.clock_points import clock_period
from tidemill.sql.bind.scalar import Scalars, duration_us, in_us
from tidemill.sql.bind.scope import Input, Rhythm, Scope, problem
from tidemill.sql.dialect.nodes import Now, Sync, WindowSpec, copy_tree

MIRROR: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}


def conjuncts(node: exp.Expression | None) -> Iterator[exp.Expression]:
    """The conditions that AND connects."""
    if node is None:
        return
    node = node.this if isinstance(node, (exp.Where, exp.Having)) else node
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    elif isinstance(node, exp.Paren) and isinstance(node.this, exp.And):
        yield from conjuncts(node.this)
    elif isinstance(node, exp.Between) and not node.args.get("symmetric"):
        yield exp.GTE(this=copy_tree(node.this), expression=copy_tree(node.args["low"]))
        yield exp.LTE(this=copy_tree(node.this), expression=copy_tree(node.args["high"]))
    else:
        yield node.this if isinstance(node, exp.Paren) else node


def mentions_now(node: exp.Expression) -> bool:
    """True when NOW is somewhere inside."""
    return node.find(Now) is not None


def apply_window(item: Input, window: WindowSpec, unit_us: int) -> Input:
    """[WINDOW …], [ROWS …] and [RANGE … SLIDE …] on an input."""
    if window.kind == "landmark":
        # The relation is the same as without a window; the clause only accepts unbounded state.
        return replace(item, node=r.Temporal(item.node, None, None))
    if window.kind == "rows":
        if not r.append_only(item.node):
            raise problem(
                f'[ROWS …] needs an append-only stream, "{item.alias}" takes rows back',
                None,
                code="TM209",
                hint="use a time window, for example [WINDOW 10 MINUTES]",
            )
        if any(isinstance(n, r.Amended) for n in walk(item.node)):
            raise problem(
                f'[ROWS …] needs rows in the order of time, "{item.alias}" takes late ones in',
                None,
                code="TM209",
                hint="use a time window, for example [WINDOW 10 MINUTES]",
            )
        return replace(item, node=r.RowsWindow(item.node, int(window.rows or 1), int(window.slide_rows or 1)))
    item = item.with_stamp()
    time, size = ColumnRef(str(item.ts)), in_us(window.size, unit_us)  # type: ignore[arg-type]
    if window.kind == "window":
        # [t - size, t): a row is inside from the moment after its own time.
        moment = unit_us if item.domain == "units" else 1
        return replace(item, node=r.Temporal(item.node, Shift(time, "+", moment), Shift(time, "+", size + moment)))
    slide = in_us(window.slide, unit_us)  # type: ignore[arg-type]
    offset = size % slide
    lower = Ceiling(Shift(time, "+", 1), slide, offset)
    upper = Ceiling(Shift(time, "+", size + 1), slide, offset)
    node = r.Temporal(item.node, lower, upper, (slide, offset))
    return replace(item, node=node, rhythm=Rhythm(period=(slide, offset)))


def apply_now(item: Input, conditions: list[exp.Expression], scope: Scope) -> Input:
    """Conditions with NOW as one temporal filter; strict and inclusive bounds differ by one moment."""
    if not conditions:
        return item
    moment = scope.unit_us if item.domain == "units" else 1
    lowers: list[Scalar] = []
    uppers: list[Scalar] = []
    for condition in conditions:
        kind, bound = _now_bound(condition, scope)
        if kind in (exp.GTE, exp.EQ):
            lowers.append(bound)
        if kind is exp.GT:
            lowers.append(Shift(bound, "+", moment))
        if kind is exp.LT:
            uppers.append(bound)
        if kind in (exp.LTE, exp.EQ):
            uppers.append(Shift(bound, "+", moment))
    lower = lowers[0] if len(lowers) == 1 else (Extreme("greatest", tuple(lowers)) if lowers else None)
    upper = uppers[0] if len(uppers) == 1 else (Extreme("least", tuple(uppers)) if uppers else None)
    return replace(item, node=r.Temporal(item.node, lower, upper))


def apply_sync(item: Input, sync: Sync, points: Input | None, unit_us: int, clock_views: bool) -> Input:
    """SYNC EVERY … and SYNC ON … on an input."""
    if sync.rows is not None:
        return _sync_on(item, r.RowPoints(item.node, sync.rows))
    if sync.every is not None:
        return _sync_every(item, in_us(sync.every, unit_us))
    assert points is not None
    relation = time_points(points, unit_us, sync)
    every = clock_period(relation)
    if every is not None:
        return _sync_every(item, every)
    periods = clock_periods(relation, older_views=True) if clock_views else None
    # A view of the clock has no points before the clock begins: rows that may be there earlier wait for its first one.
    if periods is None or r.may_precede_clock(item.node):
        return _sync_on(item, relation)
    if len(periods) == 1 and periods[0].since_us is None:
        return _sync_every(item, periods[0].every_us, periods[0].offset_us)
    rhythm = Rhythm(points=read_anew(relation))
    return replace(item, node=r.SynchronizePeriods(item.node, periods), rhythm=rhythm)


def _sync_every(item: Input, every: int, offset: int = 0) -> Input:
    return replace(item, node=r.Synchronize(item.node, every, offset), rhythm=Rhythm(period=(every, offset)))


def _sync_on(item: Input, points: r.Relation) -> Input:
    return replace(item, node=r.SynchronizeOn(item.node, points), rhythm=Rhythm(points=points))


def time_points(view: Input, unit_us: int, sync: Sync) -> r.Relation:
    """A view of time points in microseconds; it must have one column, of times or clock units."""
    place = dict(zip(("line", "column"), sync.place or (None, None), strict=True))
    if len(view.fields) != 1:
        error = problem(
            f'"{view.alias}" is not a view of time points: it has {len(view.fields)} columns',
            None,
            code="TM210",
            hint="select only the time point, for example SELECT TS FROM …",
        )
        error.line, error.column = place["line"], place["column"]
        raise error
    field = view.fields[0]
    point = _as_us(ColumnRef(field.column), field.type, unit_us)
    if point is None:
        raise problem(
            f'"{view.alias}" is not a view of time points: column "{field.name}" is {field.type}',
            None,
            code="TM210",
            hint="a time point is a TIMESTAMP or an integer of clock units",
        )
    return r.Project(view.node, (Item("TimePoint", point, "BIGINT"),))


def _as_us(time: Scalar, type_name: str, unit_us: int) -> Scalar | None:
    if type_name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "UINTEGER"):
        return Paren(Operation("*", Cast(time, "BIGINT"), Literal(str(unit_us))))
    if type_name in ("TIMESTAMP", "DATE", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ"):
        return template("epoch_us(CAST({0} AS TIMESTAMP))", time)
    return None


def _now_bound(condition: exp.Expression, scope: Scope) -> tuple[type[exp.Expr], Scalar]:
    """NOW cmp expression, with everything but NOW on the right, in microseconds."""
    kind: type[exp.Expr] = type(condition)
    if kind not in MIRROR:
        raise problem(
            "NOW must be compared with <, <=, >, >= or =",
            condition,
            code="TM205",
            hint="for example  WHERE NOW - 5 < TS AND TS <= NOW",
        )
    left, right = condition.this, condition.expression
    if mentions_now(right):
        if mentions_now(left):
            raise problem("NOW stands on both sides", condition, code="TM205", hint="keep one of them")
        left, right, kind = right, left, MIRROR[kind]
    shift = _now_shift(left, scope.unit_us)
    if shift is None:
        raise problem(
            "only NOW plus or minus a duration is possible",
            left,
            code="TM205",
            hint="write the rest on the other side, for example  NOW - 5 < TS",
        )
    scalars = Scalars(scope)
    time = scalars.time_us(right)
    if time is None:
        bound = scalars.bind(right)
        time = _as_us(bound.value, bound.type, scope.unit_us)
        if time is None:
            raise problem(
                f"NOW cannot be compared with a {bound.type}",
                right,
                code="TM205",
                hint="compare it with TS or a TIMESTAMP",
            )
    if shift == 0:
        return kind, time
    return kind, Shift(time, "-" if shift > 0 else "+", abs(shift))


def _now_shift(node: exp.Expression, unit_us: int) -> int | None:
    """c in NOW + c, in microseconds."""
    if isinstance(node, Now):
        return 0
    if isinstance(node, exp.Paren):
        return _now_shift(node.this, unit_us)
    if isinstance(node, (exp.Add, exp.Sub)):
        base, length = _now_shift(node.this, unit_us), duration_us(node.expression, unit_us)
        if base is not None and length is not None:
            return base + length if isinstance(node, exp.Add) else base - length
    return None
