"""Views of clockStr whose time points are those of periods: remainders, and what AND, OR and IN make of them.

SQL's remainder has the sign of the dividend, so for 0 < c < m

    t mod m = 0          every multiple of m, before 1970 too
    t mod m = c          the times c, c + m, c + 2m, …: no time before 0 has a positive remainder
    (t - c) mod m = 0    all times c (mod m), before 1970 too
    t mod m = -c         only times before 0: no period
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidemill.plan import relations as r
from tidemill.plan.periods import Every
from tidemill.plan.points.algebra import MOST_PARTS, AnyOf, EveryChange, Never, Points, intersect, unite
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import Cast, Chain, ColumnRef, In, Literal, Negative, Operation, Paren, Scalar

_MOST_US = 10_000 * 366 * 86_400_000_000  # ten thousand years: sums with times stay far below 64 bits
_WHOLE_TYPES = ("BIGINT", "HUGEINT")


def clock_periods(relation: Relation, older_views: bool = False) -> tuple[Every, ...] | None:
    """The periods, in microseconds, whose points a relation of time points brings; None where these are not known.

    The relation selects rows of clockStr by remainders of their time point and turns it into microseconds once. With
    `older_views` it may read a view that ran before: the points that are stored of it are also points of the period.

    >>> two = Operation("%", ColumnRef("TimePoint"), Literal("2"))
    >>> clock_periods(r.Filter(r.Clock(1), Operation("=", two, Literal("1"))))
    (Every(every_us=2, offset_us=1, since_us=1),)
    >>> clock_periods(r.Filter(r.Clock(1), two)) is None
    True
    """
    column, scale = relation.names[0] if len(relation.names) == 1 else "TimePoint", 1
    found: Points = EveryChange()
    while not isinstance(relation, r.Clock):
        if isinstance(relation, r.View):
            relation = relation.input
        elif older_views and isinstance(relation, r.Union) and (view := _older_view(relation)) is not None:
            relation = view
        elif isinstance(relation, r.Project) and (copied := _find_copied_column(relation, column)) is not None:
            column, factor = copied
            if factor != 1 and (scale != 1 or found != EveryChange()):
                return None  # remainders above are not those of clock units
            scale, relation = scale * factor, relation.input
        elif isinstance(relation, r.Filter) and (selected := _select_points(relation.predicate, column)) is not None:
            found, relation = intersect(found, selected), relation.input
        else:
            return None
    if column != "TimePoint" or scale not in (1, relation.unit_us):
        return None
    return _in_us(found, relation.unit_us)


def read_anew(relation: Relation) -> Relation:
    """A relation of `clock_periods` over the clock itself: views that ran before bring no points that have passed."""
    if isinstance(relation, r.Clock):
        return relation
    if isinstance(relation, r.View):
        return read_anew(relation.input)
    if isinstance(relation, r.Union):
        view = _older_view(relation)
        assert view is not None
        return read_anew(view.input)
    assert isinstance(relation, (r.Project, r.Filter))
    return r.with_children(relation, read_anew(relation.input))


def _in_us(points: Points, unit_us: int) -> tuple[Every, ...] | None:
    """Points in clock units as periods in microseconds."""
    parts = points.parts if isinstance(points, AnyOf) else (Every(1) if isinstance(points, EveryChange) else points,)
    periods = [part for part in parts if isinstance(part, Every)]
    if len(periods) < len(parts) or any(part.every_us * unit_us > _MOST_US for part in periods):
        return None
    return tuple(
        Every(p.every_us * unit_us, p.offset_us * unit_us, None if p.since_us is None else p.since_us * unit_us)
        for p in periods
    )


def _older_view(node: r.Union) -> r.View | None:
    """The view of a union of what a view brings from now on and what it held before."""
    views = [i for i in node.inputs if isinstance(i, r.View)]
    seeds = [i for i in node.inputs if isinstance(i, r.Seed)]
    return views[0] if len(views) == len(seeds) == 1 and len(node.inputs) == 2 and views[0].late else None


def _find_copied_column(node: r.Project, column: str) -> tuple[str, int] | None:
    """The column of the input that an output column copies, and what it is multiplied by."""
    item = next((i for i in node.items if i.name == column), None)
    value, factor = _bare(item.value) if item is not None else None, 1
    if isinstance(value, Operation) and value.sign == "*" and (number := _whole(value.right)) is not None:
        value, factor = _bare(value.left), number
    return (value.name, factor) if isinstance(value, ColumnRef) and factor > 0 else None


def _select_points(predicate: Scalar, column: str) -> Points | None:
    """The clock units that a predicate selects; None where it is not made of remainders."""
    predicate = _strip_parentheses(predicate)
    if isinstance(predicate, Chain):
        parts = [_select_points(condition, column) for condition in predicate.conditions]
        known = [part for part in parts if part is not None]
        combine: Callable[..., Points] = intersect if predicate.word == "AND" else unite
        return combine(*known) if len(known) == len(parts) <= MOST_PARTS else None
    if isinstance(predicate, In):
        term = _remainder(predicate.value, column)
        values = [_whole(option) for option in predicate.options]
    elif isinstance(predicate, Operation) and predicate.sign == "=":
        sides = (predicate.left, predicate.right), (predicate.right, predicate.left)
        term, values = next(((t, [_whole(v)]) for s, v in sides if (t := _remainder(s, column))), (None, []))
    else:
        return None
    units = [term.equal_to(value) for value in values if value is not None] if term is not None else []
    known = [each for each in units if each is not None]
    return unite(*known) if known and len(known) == len(values) <= MOST_PARTS else None


@dataclass(frozen=True)
class _Remainder:
    """(t + shift) mod length"""

    length: int
    shift: int

    def equal_to(self, value: int) -> Points | None:
        """The times t at which the remainder is this; None where these are no period."""
        if value == 0:
            return Every(self.length, -self.shift)
        if abs(value) >= self.length:
            return Never()
        return Every(self.length, value - self.shift, -self.shift) if value > 0 else None


def _remainder(value: Scalar, column: str) -> _Remainder | None:
    value = _strip_parentheses(value)
    if not isinstance(value, Operation) or value.sign != "%":
        return None
    length, shift = _whole(value.right), _shift(_strip_parentheses(value.left), column)
    return _Remainder(length, shift) if length is not None and length > 0 and shift is not None else None


def _shift(value: Scalar, column: str) -> int | None:
    """c of `column + c`; 0 for the column itself."""
    if value == ColumnRef(column):
        return 0
    if not isinstance(value, Operation) or value.sign not in "+-" or value.left != ColumnRef(column):
        return None
    number = value.right.number if isinstance(value.right, Literal) else None
    return -number if number is not None and value.sign == "-" else number


def _whole(value: Scalar) -> int | None:
    """The value of a literal that is a whole number, with or without a sign."""
    value = _strip_parentheses(value)
    if isinstance(value, Negative):
        number = _whole(value.value)
        return None if number is None else -number
    return value.number if isinstance(value, Literal) else None


def _strip_parentheses(value: Scalar) -> Scalar:
    while isinstance(value, Paren):
        value = value.value
    return value


def _bare(value: Scalar) -> Scalar:
    while isinstance(value, Paren) or (isinstance(value, Cast) and value.type in _WHOLE_TYPES):
        value = value.value
    return value


__all__ = ["clock_periods", "read_anew"]
