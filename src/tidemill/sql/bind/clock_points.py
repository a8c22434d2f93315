"""A view of clockStr whose time points are those of a period."""

from __future__ import annotations

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from tidemill.plan import relations as r
from tidemill.plan.relations import Relation

_POINT = "TimePoint"


def clock_period(points: Relation) -> int | None:
    """Microseconds between the points of a relation if they are all multiples of that; None if it is not known.

    Such a relation selects every row of clockStr, or those with `TimePoint mod m = 0`. A remainder other than 0 is no
    period: SQL's remainder of a time before 1970 is negative.
    """
    unit = scale = 1
    while not isinstance(points, r.Clock):
        if isinstance(points, r.View):
            points = points.input
        elif isinstance(points, r.Project) and (factor := _factor(points)) and 1 in (scale, factor):
            scale, points = scale * factor, points.input
        elif isinstance(points, r.Filter) and unit == 1 and (divisor := _divisor(points.predicate)) is not None:
            unit, points = divisor, points.input
        else:
            return None
    # Points are in microseconds here: clock units times their length, once, and nothing else.
    return unit * points.unit_us if scale in (1, points.unit_us) else None


def _factor(node: r.Project) -> int | None:
    """What each time point is multiplied by; None where something else becomes of it."""
    factor: int | None = 1
    item = next((i for i in node.items if i.name == _POINT), None)
    point = _parsed(item.sql) if item is not None else None
    while isinstance(point, (exp.Paren, exp.Cast)):
        point = point.this
    if isinstance(point, exp.Mul) and isinstance(point.expression, exp.Literal):
        factor, point = _whole(point.expression), point.this
    while isinstance(point, (exp.Paren, exp.Cast)):
        point = point.this
    return factor if _is_point(point) else None


def _divisor(predicate: str) -> int | None:
    """m of `"TimePoint" % m = 0`, either way round.

    >>> _divisor('"TimePoint" % 3 = 0'), _divisor('0 = ("TimePoint" % 5)'), _divisor('"TimePoint" % 3 = 1')
    (3, 5, None)
    """
    condition = _parsed(predicate)
    if not isinstance(condition, exp.EQ):
        return None
    for term, rest in ((condition.this, condition.expression), (condition.expression, condition.this)):
        term = term.unnest()
        if isinstance(term, exp.Mod) and _is_point(term.this.unnest()) and _whole(rest) == 0:
            return _whole(term.expression) or None
    return None


def _parsed(sql: str) -> exp.Expr | None:
    try:
        return parse_one(sql, dialect="duckdb")
    except SqlglotError:
        return None


def _is_point(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Column) and node.name == _POINT


def _whole(node: exp.Expr) -> int | None:
    node = node.unnest()
    return int(node.name) if isinstance(node, exp.Literal) and node.name.isdigit() and not node.is_string else None
