"""Sets of synchronization points: union, intersection, and a containment that is certain or says that it is not.

    EveryChange        all times
    Never              no time
    Every(m, c)        the times c (mod m), from a first one on where the period has one
    Rows(n, input)     the times at which the number of rows inserted into a relation passes a multiple of n
    On(relation)       the times that a relation of time points brings
    AnyOf, AllOf       union and intersection

`unite` and `intersect` make the normal form: a union of intersections, of which no part is contained in another one.
An intersection has at most one period, by the Chinese remainder theorem. What would need more than `MOST_PARTS` parts
stays as it was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from tidemill.plan import relations as r
from tidemill.plan.periods import MOST_CLASSES, Every, intersect_periods, is_covered
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import ColumnRef, Scalar

MOST_PARTS = 64


@dataclass(frozen=True)
class EveryChange:
    """All times: a relation without a synchronizer is up to date at every change."""


@dataclass(frozen=True)
class Never:
    """No time."""


@dataclass(frozen=True)
class Rows:
    """The times at which the number of rows inserted into `input` passes a multiple of `n`."""

    n: int
    input: Relation


@dataclass(frozen=True)
class On:
    """The times that a relation of time points in microseconds brings."""

    relation: Relation


@dataclass(frozen=True)
class AnyOf:
    """The times of any of the parts; made by `unite`."""

    parts: tuple[Points, ...]


@dataclass(frozen=True)
class AllOf:
    """The times that all parts have; made by `intersect`."""

    parts: tuple[Points, ...]


Points = EveryChange | Never | Every | Rows | On | AnyOf | AllOf
_ALL_TIMES = Every(1)


def unite(*parts: Points) -> Points:
    """The times of any of the parts.

    >>> unite(Every(4), Every(2), Every(6)), unite(Every(2), EveryChange())
    (Every(every_us=2, offset_us=0, since_us=None), EveryChange())
    >>> unite(Every(2), Every(2, 1)), unite(Never())
    (EveryChange(), Never())
    """
    flat = [p for part in parts for p in (part.parts if isinstance(part, AnyOf) else (part,))]
    kept = sorted(dict.fromkeys(p for p in flat if not isinstance(p, Never)), key=_order)
    if is_contained(EveryChange(), AnyOf(tuple(kept))):
        return EveryChange()
    for part in sorted(kept, key=_order, reverse=True):
        rest = [p for p in kept if p is not part]
        if rest and is_contained(part, AnyOf(tuple(rest))):
            kept = rest
    return AnyOf(tuple(kept)) if len(kept) > 1 else kept[0] if kept else Never()


def intersect(*parts: Points) -> Points:
    """The times that all parts have.

    >>> intersect(Every(2), Every(3)), intersect(Every(2), Every(2, 1)), intersect(EveryChange(), Every(5))
    (Every(every_us=6, offset_us=0, since_us=None), Never(), Every(every_us=5, offset_us=0, since_us=None))
    >>> intersect(unite(Every(2), Every(3)), Every(4))
    Every(every_us=4, offset_us=0, since_us=None)
    """
    flat = [p for part in parts for p in (part.parts if isinstance(part, AllOf) else (part,))]
    choices = [p.parts if isinstance(p, AnyOf) else (p,) for p in flat]
    if prod(map(len, choices)) > MOST_PARTS:
        return _all_of(flat)
    return unite(*(_all_of(list(choice)) for choice in product(*choices)))


def _all_of(parts: list[Points]) -> Points:
    """The intersection of parts, of which no union is multiplied out."""
    period: Every | None = None
    others: list[Points] = []
    for part in dict.fromkeys(parts):
        if isinstance(part, Never):
            return part
        if not isinstance(part, Every):
            others += [] if isinstance(part, EveryChange) else [part]
            continue
        both = part if period is None else intersect_periods(period, part)
        if both is None:
            return Never()
        period = both
    kept = sorted([*others, *([period] if period else [])], key=_order)
    for part in sorted(kept, key=_order, reverse=True):
        rest = [p for p in kept if p is not part]
        if rest and any(is_contained(p, part) for p in rest):
            kept = rest
    return AllOf(tuple(kept)) if len(kept) > 1 else kept[0] if kept else EveryChange()


def is_contained(p: Points, q: Points, most: int = MOST_CLASSES) -> bool | None:
    """Whether every point of p is a point of q: True and False are certain, None is "unknown".

    Points that come from data may be any times, or none: of these only what holds for all data is certain. `most`
    bounds the residue classes that are compared where several periods cover one together.

    >>> is_contained(Every(4), Every(2)), is_contained(Every(2), Every(4))
    (True, False)
    >>> is_contained(Every(5), unite(Every(2), Every(2, 1))), is_contained(Every(6), unite(Every(2), Every(3)))
    (True, True)
    >>> clock = r.Clock(1)
    >>> is_contained(Rows(6, clock), Rows(3, clock)), is_contained(Rows(3, clock), Every(2))
    (True, None)
    """
    if p == q or isinstance(p, Never) or isinstance(q, EveryChange):
        return True
    if isinstance(p, AnyOf):
        return _all_certain([is_contained(part, q, most) for part in p.parts])
    if isinstance(q, AllOf):
        return _all_certain([is_contained(p, part, most) for part in q.parts])
    if isinstance(p, AllOf):
        return True if any(is_contained(part, q, most) for part in p.parts) else None
    rights = q.parts if isinstance(q, AnyOf) else (q,)
    if isinstance(p, (Every, EveryChange)):
        return _covers(p if isinstance(p, Every) else _ALL_TIMES, rights, most)
    return True if any(_is_subset(p, right) for right in rights) else None


def _all_certain(found: list[bool | None]) -> bool | None:
    if any(each is False for each in found):
        return False
    return True if all(found) else None


def _covers(period: Every, rights: tuple[Points, ...], most: int) -> bool | None:
    """Whether some points cover a period, which always has points."""
    if any(isinstance(right, EveryChange) for right in rights):
        return True
    found = is_covered(period, [right for right in rights if isinstance(right, Every)], most)
    certain = all(isinstance(right, (Every, Never)) for right in rights)
    return found if found or certain else None


def _is_subset(p: Rows | On, q: Points) -> bool:
    """True when points from data are certainly among others from the same data."""
    if isinstance(q, EveryChange) or p == q:
        return True
    if isinstance(q, AllOf):
        return all(_is_subset(p, part) for part in q.parts)
    if isinstance(p, Rows):
        return isinstance(q, Rows) and p.input is q.input and p.n % q.n == 0
    return isinstance(q, On) and _selects_from(p.relation, q.relation)


def _selects_from(some: Relation, whole: Relation) -> bool:
    """True when the points of one relation are selected from those of the other, directly or through views.

    A filter takes insertions away. Below a projection that holds for append-only relations: elsewhere an insertion may
    cancel with a deletion of the same point, but not with one that the filter has removed. A view that ran before its
    reader began is not passed: it brings points that have passed.
    """
    value: Scalar = ColumnRef(some.names[0])
    wanted: Scalar = ColumnRef(whole.names[0])
    if isinstance(whole, r.Project) and r.append_only(whole.input):
        wanted, whole = whole.items[0].value, whole.input
    while some is not whole:
        if isinstance(some, r.Filter) or (isinstance(some, r.View) and not some.late):
            some = some.input
        elif isinstance(some, r.Project) and r.append_only(whole):
            value, some = value.over({i.name: i.value for i in some.items}), some.input
        else:
            return False
    return value == wanted


def _order(points: Points) -> tuple[int, tuple[int, int, int], str]:
    """The order of parts: periods first, then points from data by their fingerprints."""
    if isinstance(points, Every):
        return 0, points.order, ""
    if isinstance(points, Rows):
        return 1, (points.n, 0, 0), points.input.fingerprint
    if isinstance(points, On):
        return 2, (0, 0, 0), points.relation.fingerprint
    if isinstance(points, (AnyOf, AllOf)):
        return 3, (len(points.parts), 0, 0), repr([_order(part) for part in points.parts])
    return 4, (0, 0, 0), type(points).__name__
