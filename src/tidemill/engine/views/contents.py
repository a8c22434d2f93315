"""Queries that begin with what views hold: their log is the end of the log that they would have from the beginning.

    the query            SELECT … FROM S SYNC EVERY 4       created when time 7 is closed; a view has S every 2
    as it is answered    Synchronize[4]                     at 7 the query shows what the view had at 4
                           View
    its plan             CatchUp[7]                         what is present at 7 appears at 7
                           Synchronize[4]
                             View, from now on
                             Seed[since 4]                  what the view had at 4, and its changes from 4 to 7

Contents come at the last closed time, which is right where the query shows every change of the view. A synchronizer
that lets every change of its input pass would delay them, and is left out. Any other synchronizer shows, at the moment
of creation, the contents of its last point: the view's log gives these, and what has changed since.

Nothing can be said of operators that depend on when their rows came: all contents come at one time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from tidemill.engine.views.bound_view import BoundView
from tidemill.optimize.views.answer import Answer
from tidemill.optimize.views.peel import SYNCHRONIZERS
from tidemill.plan import relations as r
from tidemill.plan.physical import BEGINNING
from tidemill.plan.points import all_points, is_contained, synchronizer_points
from tidemill.plan.relations import Relation

_RANKED = (r.Ranked, r.WindowFunctions)
_SHOWS_STATE = (r.Project, r.Filter, r.Unnest, r.Temporal, r.Join, r.GroupBy, r.SetCombine, r.Union)


class NotFromContents(Exception):
    """Why a query cannot begin with what views hold; `view` is the id of the one that does not do, if it is one."""

    def __init__(self, reason: str, view: str = "") -> None:
        super().__init__(reason)
        self.view = view


def begin_now(
    node: Relation, views: Callable[[str], BoundView], last_closed: Callable[[BoundView], int]
) -> tuple[int, ...]:
    """How a query begins that is created now: with contents as of (this time, shown at this moment); the empty tuple
    where it begins with the contents as they are. `views` has views by their ids, `last_closed` says as of which time
    their contents stand.
    """
    node = without_idle_synchronizers(node)
    _check_shows_state(node)
    if not _is_synchronized(node):
        return ()
    seeded = [views(seed.view) for seed in _contents(node)]
    closed = {view.entry.id: last_closed(view) for view in seeded}
    moving = [view for view in seeded if closed[view.entry.id] > BEGINNING and closed[view.entry.id] != r.STATIC_TIME]
    for view in seeded:
        if view not in moving and known_from(view.node) != BEGINNING:
            raise NotFromContents("it has not caught up with its streams yet", view.entry.id)
    if not moving:
        return ()  # no batch has had them: there are no contents
    moment = min(closed[view.entry.id] for view in moving)
    since = _oldest_shown(node, moment)
    for view in moving:
        known = known_from(view.node)
        if known is None or known > since:
            raise NotFromContents("it began after the last point of the query", view.entry.id)
        if view.entry.output != "streamed":
            reason = "what it held at the last point of the query is not kept, as a STREAMED view would"
            raise NotFromContents(reason, view.entry.id)
    return since, moment


def begin_with_contents(found: Answer, begins: Sequence[int]) -> Answer:
    """An answer from views that begins as `begin_now` found when it was created."""
    node = without_idle_synchronizers(found.node)
    return replace(found, node=_seeds_since(node, begins[0]) if begins else node, begins=tuple(begins))


def without_idle_synchronizers(node: Relation) -> Relation:
    """Leave out synchronizers over contents that delay no change of the view, but would delay the contents."""

    @cache
    def visit(node: Relation) -> Relation:
        node = r.change_inputs(node, visit)
        if not isinstance(node, SYNCHRONIZERS) or not _has_contents(node.input) or r.may_precede_clock(node.input):
            return node
        return node.input if is_contained(all_points(node.input), synchronizer_points(node)) else node

    return visit(node)


def _seeds_since(node: Relation, since: int) -> Relation:
    @cache
    def visit(node: Relation) -> Relation:
        if isinstance(node, r.Seed):
            return r.SeedSince(node.view, node.schema, node.birth, since)
        return r.change_inputs(node, visit)

    return visit(node)


def _data_inputs(node: Relation) -> list[Relation]:
    if isinstance(node, r.View):
        return []
    inputs = [c for c in node.children if isinstance(c, Relation)]
    return inputs[:1] if isinstance(node, r.SynchronizeOn) else inputs


def _data_nodes(node: Relation) -> Iterator[Relation]:
    """Every node of a tree once, however many read it; nothing below views, and no relations of points."""
    return r.visit_once(node, _data_inputs)


def _contents(node: Relation) -> Iterator[r.Seed]:
    """The contents that a tree reads itself, not through views."""
    return (n for n in _data_nodes(node) if isinstance(n, r.Seed))


def _has_contents(node: Relation) -> bool:
    return any(_contents(node))


def _is_synchronized(node: Relation) -> bool:
    """Whether a synchronizer is above contents of views."""
    return any(isinstance(n, SYNCHRONIZERS) and _has_contents(n) for n in _data_nodes(node))


def _check_shows_state(node: Relation) -> None:
    """Refuse operators above contents that depend on more than the rows that are there."""
    for each in _data_nodes(node):
        if not isinstance(each, r.Seed) and _has_contents(each):
            _check_shows_own_state(each)


def _check_shows_own_state(node: Relation) -> None:
    if isinstance(node, r.GroupBy) and not node.keys:
        raise NotFromContents("an answer without groups may have begun before the view had a row")
    if not isinstance(node, (*_SHOWS_STATE, *_RANKED, *SYNCHRONIZERS)):
        raise NotFromContents("it depends on when rows came")
    if isinstance(node, r.SynchronizeOn):
        raise NotFromContents("the last point of SYNC ON is not known")


def _oldest_shown(node: Relation, time: int) -> int:
    """The oldest time of which a tree shows contents at a time: each synchronizer goes back to its last point."""

    @cache
    def visit(node: Relation, time: int) -> int:
        if isinstance(node, r.SynchronizePeriods):
            found = [period.last_point_before(time + 1) for period in node.periods]
            time = max((point for point in found if point is not None), default=BEGINNING)
        elif isinstance(node, r.Synchronize):
            time -= (time - node.offset_us) % node.every_us
        inputs = [child for child in _data_inputs(node) if _has_contents(child)]
        return min((visit(child, time) for child in inputs), default=time)

    return visit(node, time)


def known_from(node: Relation) -> int | None:
    """From which time on the log of a view has every change at its own time; None where that is not known."""

    @cache
    def visit(node: Relation) -> int | None:
        if isinstance(node, r.CatchUp):
            return node.moment
        if isinstance(node, r.Seed):
            return None
        found = [visit(c) for c in node.children if isinstance(c, Relation)]
        return None if None in found else max((time for time in found if time is not None), default=BEGINNING)

    return visit(node)


__all__ = ["NotFromContents", "begin_now", "begin_with_contents", "known_from", "without_idle_synchronizers"]
