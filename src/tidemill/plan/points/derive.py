"""The points of a relation (paper 004, section 6.1, definitions 1 and 2).

At a *full* point a relation reflects all rows of its streams up to that time. At every other time at which it changes,
a *partial* point, some input is as old as its own last point.

    relation                            full points                         may change at
    a stream, a keyed stream            all times                           all times
    a table                             does not count                      no time
    filter, project, grouping, …        those of the input                  those of the input
    join, union, set operation          those of all inputs                 those of any input
    synchronizer, periodic window       those of the input that are points  its points
    a query that catches up             those of the input                  all times: also when it has caught up
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tidemill.plan import relations as r
from tidemill.plan.periods import Every
from tidemill.plan.points.algebra import EveryChange, Never, On, Points, Rows, intersect, is_contained, unite
from tidemill.plan.points.clock import clock_periods
from tidemill.plan.relations import Relation


def points_of(relation: Relation) -> Points:
    """The points that a relation of time points brings.

    >>> points_of(r.RowPoints(r.Clock(1), 3)).n, points_of(r.Clock(5))
    (3, Every(every_us=5, offset_us=0, since_us=None))
    """
    if isinstance(relation, r.RowPoints):
        return Rows(relation.rows, relation.input)
    periods = clock_periods(relation)
    return On(relation) if periods is None else unite(*periods)


def synchronizer_points(node: Relation) -> Points:
    """The points of a synchronizer. Those of a relation are what it brings: a view of the clock has none before the
    clock begins, so it is no period for rows of tables.
    """
    if isinstance(node, r.Synchronize):
        return Every(node.every_us, node.offset_us)
    if isinstance(node, r.SynchronizePeriods):
        return unite(*node.periods)
    assert isinstance(node, r.SynchronizeOn)
    points = node.points
    return Rows(points.rows, points.input) if isinstance(points, r.RowPoints) else On(points)


@lru_cache(maxsize=4096)
def full_points(node: Relation) -> Points:
    """The times at which a relation reflects all rows of its inputs up to that time.

    Inputs that never change are up to date at every time. A synchronizer over a synchronizer is up to date where both
    have a point.

    >>> halves, thirds = (r.Synchronize(r.Clock(1), every) for every in (2, 3))
    >>> full_points(r.Union((halves, thirds)))
    Every(every_us=6, offset_us=0, since_us=None)
    """
    if r.never_changes(node):
        return EveryChange()
    inputs = [full_points(i) for i in _data_inputs(node) if not r.never_changes(i)]
    return intersect(*inputs, _own_points(node) or EveryChange())


@lru_cache(maxsize=4096)
def all_points(node: Relation) -> Points:
    """Times outside of which a relation never changes.

    >>> halves, thirds = (r.Synchronize(r.Clock(1), every) for every in (2, 3))
    >>> all_points(r.Join(halves, r.Project(thirds, ()), ())).parts
    (Every(every_us=2, offset_us=0, since_us=None), Every(every_us=3, offset_us=0, since_us=None))
    """
    if r.never_changes(node) or isinstance(node, r.Seed):
        return Never()
    if isinstance(node, (r.CatchUp, r.Alternatives)):
        return EveryChange()
    if isinstance(node, (r.Clock, r.Filter, r.Project)) and (periods := clock_periods(node)) is not None:
        return unite(*periods)  # a view of the clock changes when it has a point
    below = unite(*(all_points(i) for i in _data_inputs(node))) if _data_inputs(node) else EveryChange()
    own = _own_points(node)
    if isinstance(node, r.Temporal):
        return _window_points(node, below)
    # What changes at points only is not delayed by a synchronizer that has all of these.
    return below if own is None or is_contained(below, own) else own


def partial_points(node: Relation) -> Points:
    """Times at which a relation may change without being up to date with all inputs; `Never` where all points are full.

    These are all of its points, full ones among them, where any is partial: sets of points have no difference.
    """
    points = all_points(node)
    return Never() if is_contained(points, full_points(node)) else points


def _data_inputs(node: Relation) -> list[Relation]:
    """The relations whose rows a node shows; a relation of points only says when."""
    points = node.points if isinstance(node, (r.SynchronizeOn, r.Rstream)) else None
    inputs = [c for c in node.children if isinstance(c, Relation)]
    return inputs[:1] if points is not None or isinstance(node, r.Alternatives) else inputs


def _own_points(node: Relation) -> Points | None:
    """The points at which a node takes over the changes of its input; None where it does so at all times."""
    found = _OWN.get(type(node))
    return found(node) if found is not None else None


def _of_temporal(node: r.Temporal) -> Points | None:
    return Every(*node.period) if node.period is not None else None


def _of_rstream(node: r.Rstream) -> Points | None:
    if node.period is not None:
        return Every(*node.period)
    return points_of(node.points) if node.points is not None else None


def _of_window(node: r.WindowAggregate) -> Points | None:
    return None if node.counts_rows else Every(node.window.slide, node.window.offset)


def _of_last_rows(node: r.RowsWindow) -> Points | None:
    return Rows(node.slide, node.input) if node.slide > 1 else None


_OWN: dict[type[Relation], Callable[..., Points | None]] = {
    r.Synchronize: lambda node: Every(node.every_us, node.offset_us),
    r.SynchronizePeriods: lambda node: unite(*node.periods),
    r.SynchronizeOn: lambda node: points_of(node.points),
    r.Temporal: _of_temporal,
    r.WindowAggregate: _of_window,
    r.RowsWindow: _of_last_rows,
    r.Rstream: _of_rstream,
}


def _window_points(node: r.Temporal, below: Points) -> Points:
    """When rows enter and leave: at any time, unless the window reports at points and rows come before they enter.

    A row whose stamp is its time enters a periodic window at a point after that. Any other row, and one that is
    deleted, may come and go at the times of its input.
    """
    if node.period is None:
        return below if node.lower is None and node.upper is None else EveryChange()
    period = Every(*node.period)
    return period if r.single_insertions(node.input) and _is_undelayed(node.input) else unite(period, below)


def _is_undelayed(node: Relation) -> bool:
    """True when the time of each change is the stamp of its row: selections and projections of a source."""
    while isinstance(node, (r.Filter, r.Project)):
        node = node.input
    return isinstance(node, r.Scan)
