"""Which rows of a relation have all come: a promise about their time stamps, where a frontier is one about changes.

A frontier f says that no change before f will come any more. The row of a change may be much older than f: a
synchronizer holds it back, a window lets it in late, a join waits for its partner. `release_chains(node, stamp)` bounds
how much older. It returns chains of steps. Each chain maps f to a bound on the stamps of rows to come; the least of
these bounds holds.

    step               the bound after it                      because
    shift c            f − c                                   a row comes at most c after its stamp
    period e, o        1 + the last point of the period < f    rows up to that point came with it, or before
    periods            1 + the last point of any of them < f  the same; no promise before the first point
    points p           1 + the last point of p < f             the same; no promise before the first point

Steps go from the top down: the first one is the nearest to the reader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidemill.plan import relations as r
from tidemill.plan.periods import Every
from tidemill.plan.physical import BEGINNING, FOREVER
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import shift_of, undo_rounding


@dataclass(frozen=True)
class Shift:
    """A row comes at most `us` microseconds after its stamp."""

    us: int


@dataclass(frozen=True)
class Period:
    """A row comes with the first point of a period at or after its stamp."""

    every: int
    offset: int


@dataclass(frozen=True)
class Periods:
    """A row comes with the first point of any of several periods at or after its stamp."""

    periods: tuple[Every, ...]


@dataclass(frozen=True)
class Points:
    """A row comes with the first point of a relation of points at or after its stamp."""

    relation: Relation


Step = Shift | Period | Periods | Points
Chain = tuple[Step, ...]


def release_chains(node: Relation, stamp: str) -> tuple[Chain, ...] | None:
    """The chains for a column with time stamps; None where rows may come any time after their stamp."""
    if isinstance(node, r.Scan):
        return ((),) if stamp == r.TS else None
    if isinstance(node, r.Stamp) and stamp == r.TS:
        return ((),)
    rule = _RULES.get(type(node))
    return rule(node, stamp) if rule is not None else None


def _same(node: Relation, stamp: str) -> tuple[Chain, ...] | None:
    return release_chains(_only_input(node), stamp)


def _project(node: r.Project, stamp: str) -> tuple[Chain, ...] | None:
    column = node.passes(stamp)
    return None if column is None else release_chains(node.input, column)


def _synchronize(node: r.Synchronize, stamp: str) -> tuple[Chain, ...] | None:
    return _prepend(Period(node.every_us, node.offset_us), release_chains(node.input, stamp))


def _synchronize_periods(node: r.SynchronizePeriods, stamp: str) -> tuple[Chain, ...] | None:
    return _prepend(Periods(node.periods), release_chains(node.input, stamp))


def _synchronize_on(node: r.SynchronizeOn, stamp: str) -> tuple[Chain, ...] | None:
    return _prepend(Points(node.points), release_chains(node.input, stamp))


def _temporal(node: r.Temporal, stamp: str) -> tuple[Chain, ...] | None:
    """A row enters at its time or at `lower`, whichever is later."""
    below = release_chains(node.input, stamp)
    if node.lower is None or below is None:
        return below
    rounded = undo_rounding(node.lower, node.period) if node.period else None
    found = shift_of(node.lower if rounded is None else rounded)
    if found is None or found[0] != stamp:
        return None
    entered: Chain = (Shift(found[1]),)
    return (*below, (Period(*node.period), *entered) if node.period and rounded is not None else entered)


def _join(node: r.Join, stamp: str) -> tuple[Chain, ...] | None:
    """A pair comes with the later of its rows; the band says how far their stamps are apart."""
    own, other = (node.left, node.right) if stamp in node.left.names else (node.right, node.left)
    chains = release_chains(own, stamp)
    if r.never_changes(other):
        return chains
    banded, partner, apart = (node.left_ts, node.right_ts, node.keep_left_us)
    if own is node.right:
        banded, partner, apart = (node.right_ts, node.left_ts, node.keep_right_us)
    if chains is None or banded != stamp or partner is None or apart is None:
        return None
    theirs = release_chains(other, partner)
    return None if theirs is None else (*chains, *((*chain, Shift(apart)) for chain in theirs))


def _union(node: r.Union, stamp: str) -> tuple[Chain, ...] | None:
    place = node.names.index(stamp)
    return _union_chains([release_chains(i, i.names[place]) for i in node.inputs])


def _combine(node: r.SetCombine, stamp: str) -> tuple[Chain, ...] | None:
    place = node.names.index(stamp)
    return _union_chains([release_chains(i, i.names[place]) for i in (node.left, node.right) if i is not None])


def _join_at(node: r.JoinAt, stamp: str) -> tuple[Chain, ...] | None:
    """A row of the left side comes when it is joined."""
    return release_chains(node.left, stamp) if stamp in node.left.names else None


_RULES: dict[type[Relation], Callable[..., tuple[Chain, ...] | None]] = {
    r.Filter: _same,
    r.Unnest: _same,
    r.Stamp: _same,
    r.View: _same,
    r.Project: _project,
    r.Synchronize: _synchronize,
    r.SynchronizePeriods: _synchronize_periods,
    r.SynchronizeOn: _synchronize_on,
    r.Temporal: _temporal,
    r.Join: _join,
    r.JoinAt: _join_at,
    r.Union: _union,
    r.SetCombine: _combine,
}


def _only_input(node: Relation) -> Relation:
    return next(c for c in node.children if isinstance(c, Relation))


def _prepend(step: Step, below: tuple[Chain, ...] | None) -> tuple[Chain, ...] | None:
    return None if below is None else tuple((step, *chain) for chain in below)


def _union_chains(found: list[tuple[Chain, ...] | None]) -> tuple[Chain, ...] | None:
    known = [chains for chains in found if chains is not None]
    return tuple(chain for chains in known for chain in chains) if len(known) == len(found) else None


def point_before(frontier: int, every: int, offset: int) -> int:
    """The last point of a period before the frontier.

    >>> point_before(11, 5, 0), point_before(10, 5, 0), point_before(-4, 5, 1)
    (10, 5, -9)
    """
    return frontier - 1 - (frontier - 1 - offset) % every


def any_point_before(frontier: int, periods: tuple[Every, ...]) -> int | None:
    """The last point of any of several periods before the frontier; None where there is none.

    >>> any_point_before(11, (Every(5), Every(4, 3))), any_point_before(0, (Every(5, 1, 0),))
    (10, None)
    """
    found = [point for period in periods if (point := period.last_point_before(frontier)) is not None]
    return max(found, default=None)


def is_open(frontier: int) -> bool:
    """True when a frontier is a time, neither before all times nor after them."""
    return abs(frontier) < min(FOREVER, -BEGINNING)


__all__ = [
    "Chain",
    "Period",
    "Periods",
    "Points",
    "Shift",
    "Step",
    "any_point_before",
    "is_open",
    "point_before",
    "release_chains",
]
