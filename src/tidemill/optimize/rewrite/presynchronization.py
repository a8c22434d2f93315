"""Presynchronization (paper 004, section 10.5): summarize before the work, not after it."""

from __future__ import annotations

from tidemill.optimize.rewrite.window_aggregates import window_aggregates
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation

_ROW_BY_ROW = (r.Project, r.Filter, r.Union)
_KEPT = (r.GroupBy, r.SetCombine, r.Join, r.Ranked, r.WindowFunctions)
_POINTWISE = (*_ROW_BY_ROW, *_KEPT, r.Tag)


def presynchronize(node: Relation) -> Relation | None:
    """Move a synchronizer below an operator whose answer depends on the state of its inputs only.

        Synchronize[s]           GroupBy
          GroupBy           →      Synchronize[s]
            R                        R

    Sound because evaluating at every time and reading the result at the points of s is the same as changing the inputs
    at these points only (theorems 2 and 3); all inputs get the same synchronizer, and the relation that brings its
    points stays as it is. Must not pass a NOW window, a time stamp or RSTREAM, whose rows depend on time itself, nor a
    grouping without keys, whose row begins with the clock, nor a created view.
    """
    if isinstance(node, r.Synchronize):
        return _move_period(node)
    if isinstance(node, r.SynchronizePeriods):
        return _move_periods(node)
    return _move_points(node, node.input) if isinstance(node, r.SynchronizeOn) else None


def _move_period(node: r.Synchronize) -> Relation | None:
    below = node.input
    if isinstance(below, r.Synchronize):
        if below.offset_us == node.offset_us == 0 and node.every_us % below.every_us == 0:
            return r.Synchronize(below.input, node.every_us)
        return None
    if not _can_pass(below):
        return None
    # Rows of tables precede every point of a period.
    inputs = [i if r.never_changes(i) else _over(node, i) for i in below.children if isinstance(i, Relation)]
    return r.with_children(below, *inputs)


def _move_periods(node: r.SynchronizePeriods) -> Relation | None:
    if not _can_pass(node.input) or window_aggregates(node.input) is not None:
        return None  # a window with a period of its own shares its work
    return _synchronize_inputs(node, node.input)


def _can_pass(below: Relation) -> bool:
    """True for an operator below which a synchronizer that only rounds times may stand."""
    if isinstance(below, r.Tag) and isinstance(below.input, (r.Synchronize, r.SynchronizePeriods)):
        return False
    return isinstance(below, _POINTWISE) and not (isinstance(below, r.GroupBy) and not below.keys)


def _move_points(node: r.SynchronizeOn, below: Relation) -> Relation | None:
    """`below` over synchronized inputs, where that pays.

    A synchronizer on points keeps the changes that wait, so it stays above filters and projections, unless there is an
    operator with state below them that gets fewer changes; and it stays above a tagger, which has one row for each key
    in place of all records. Points that are made of the operator's own answer leave it as it is.
    """
    if isinstance(below, _ROW_BY_ROW):
        inputs = [c for c in below.children if isinstance(c, Relation)]
        moved = [_move_points(node, i) for i in inputs]
        if not any(moved):
            return None
        return r.with_children(below, *(m or _over(node, i) for m, i in zip(moved, inputs, strict=True)))
    if not isinstance(below, _KEPT) or not _can_pass(below) or any(n is below for n in walk(node.points)):
        return None
    changing = [c for c in below.children if isinstance(c, Relation) and not r.never_changes(c)]
    return _synchronize_inputs(node, below) if changing and all(map(_is_kept, changing)) else None


def _synchronize_inputs(node: r.SynchronizePeriods | r.SynchronizeOn, below: Relation) -> Relation | None:
    """All inputs at the points; a table beside them only where its rows show alone, since it has no time of its own."""
    if r.never_changes(below):
        return None
    inputs = [c for c in below.children if isinstance(c, Relation)]
    joined = isinstance(below, r.Join)
    return r.with_children(below, *(i if joined and r.never_changes(i) else _over(node, i) for i in inputs))


def _is_kept(node: Relation) -> bool:
    """True when the rows of a relation come out of an operator with state. Rows of a source would travel to the
    synchronizer first and from there to the operator above.
    """
    while isinstance(node, (r.Filter, r.Project, r.Temporal, r.Synchronize, r.SynchronizePeriods, r.Amended)):
        node = node.input
    if isinstance(node, r.Union):
        return all(map(_is_kept, node.inputs))
    return not isinstance(node, (r.Scan, r.Seed))


def _over(node: Relation, below: Relation) -> Relation:
    """The synchronizer over another input; the relation of its points is the same."""
    _, *points = (c for c in node.children if isinstance(c, Relation))
    return r.with_children(node, below, *points)
