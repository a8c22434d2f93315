"""A view of clockStr whose time points are those of a period."""

from __future__ import annotations

from tidemill.plan import relations as r
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import Cast, ColumnRef, Literal, Operation, Paren, Scalar

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
    point = _bare(item.value) if item is not None else None
    if isinstance(point, Operation) and point.sign == "*" and isinstance(point.right, Literal):
        factor, point = point.right.number, _bare(point.left)
    return factor if _is_point(point) else None


def _divisor(predicate: Scalar) -> int | None:
    """m of `"TimePoint" % m = 0`, either way round.

    >>> rest = Operation("%", ColumnRef("TimePoint"), Literal("3"))
    >>> _divisor(Operation("=", rest, Literal("0"))), _divisor(Operation("=", rest, Literal("1")))
    (3, None)
    """
    if not isinstance(predicate, Operation) or predicate.sign != "=":
        return None
    for term, rest in ((predicate.left, predicate.right), (predicate.right, predicate.left)):
        term = _strip_parentheses(term)
        if (
            isinstance(term, Operation)
            and term.sign == "%"
            and _is_point(_strip_parentheses(term.left))
            and _whole(rest) == 0
        ):
            return _whole(term.right) or None
    return None


def _strip_parentheses(value: Scalar) -> Scalar:
    while isinstance(value, Paren):
        value = value.value
    return value


def _bare(value: Scalar) -> Scalar:
    while isinstance(value, (Paren, Cast)):
        value = value.value
    return value


def _is_point(value: Scalar | None) -> bool:
    return isinstance(value, ColumnRef) and value.name == _POINT


def _whole(value: Scalar) -> int | None:
    value = _strip_parentheses(value)
    return value.number if isinstance(value, Literal) else None
