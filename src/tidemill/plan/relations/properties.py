"""What holds for a tree of relations, and the tree over other inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from tidemill.plan.cached import cached_by_object
from tidemill.plan.node import walk
from tidemill.plan.relations.aggregations import GroupBy, JoinAggregate, WindowAggregate
from tidemill.plan.relations.alternatives import Alternatives
from tidemill.plan.relations.base import TS, Relation
from tidemill.plan.relations.inputs import Amended, Clock, Scan, Seed, Shed, View
from tidemill.plan.relations.recursion import Recursive
from tidemill.plan.relations.rows import Filter, Join, Project, SetCombine, Union, Unnest
from tidemill.plan.relations.sessions import END, Sessions
from tidemill.plan.relations.times import (
    CatchUp,
    ChangeStream,
    RowPoints,
    Rstream,
    Stamp,
    Synchronize,
    SynchronizeOn,
    SynchronizePeriods,
    Temporal,
)
from tidemill.plan.relations.versions import JoinAt
from tidemill.plan.scalars import ColumnRef, Operation, Paren, Scalar, Timestamp

_ROW_BY_ROW = (Filter, Project, Unnest, Synchronize, SynchronizePeriods)


@cached_by_object
def append_only(node: Relation) -> bool:
    """True when no change of this relation ever takes a row away."""
    if isinstance(node, (Scan, Clock, Rstream, ChangeStream, RowPoints, Seed, JoinAt)):
        return True
    if isinstance(node, Temporal):
        return node.upper is None and append_only(node.input)
    if isinstance(node, WindowAggregate):
        return node.once
    if isinstance(node, Sessions):
        return closes_for_good(node)
    if isinstance(node, GroupBy):
        return groups_at_once(node)
    if isinstance(node, (Union, Recursive)):
        return all(append_only(i) for i in node.inputs)
    if isinstance(node, Join):
        return append_only(node.left) and append_only(node.right)
    if isinstance(node, SetCombine):
        return node.kind in ("distinct", "intersect", "intersect_all", "semi") and all(
            append_only(c) for c in node.children if isinstance(c, Relation)
        )
    if isinstance(node, (*_ROW_BY_ROW, Amended, CatchUp, Shed, SynchronizeOn, Stamp, View)):
        return append_only(node.input)
    return False


def single_insertions(node: Relation) -> bool:
    """True when every change of the relation inserts one row: a source through selections and projections."""
    if isinstance(node, Temporal):
        return node.upper is None and single_insertions(node.input)
    if isinstance(node, _ROW_BY_ROW):
        return single_insertions(node.input)
    return isinstance(node, Scan)


def leaves_whole(node: Relation) -> bool:
    """True when it is known on arrival which rows enter and leave together: a window over a source, or an append-only
    relation. MIN and MAX then need only the extremes of such rows, however they are grouped.
    """
    if append_only(node):
        return True
    while isinstance(node, _ROW_BY_ROW):
        node = node.input
    return isinstance(node, Temporal) and single_insertions(node.input)


def closes_for_good(node: Sessions) -> bool:
    """True when a session that has ended never changes: rows are not taken back, and each comes at its stamp."""
    return append_only(node.input) and comes_at_stamp(node.input, node.stamp)


def comes_at_stamp(node: Relation, stamp: str) -> bool:
    """True when each row comes at the time in column `stamp`."""
    if isinstance(node, (Filter, Unnest)):
        return comes_at_stamp(node.input, stamp)
    if isinstance(node, Project):
        column = node.passes(stamp)
        return column is not None and comes_at_stamp(node.input, column)
    if isinstance(node, JoinAt):
        return stamp in node.left.names and comes_at_stamp(node.left, stamp)
    return stamp == TS and (isinstance(node, Stamp) or (isinstance(node, Scan) and not node.static))


def groups_at_once(node: GroupBy) -> bool:
    """True when all rows of a group come at one time, and never again: groups of sessions that close for good.

    The keys have the partition and the end of the session. Ends of one partition are at least a gap apart, so those of
    two sessions are shown as different times if the gap is two grains or more.
    """
    keys, below = set(node.keys), node.input
    while isinstance(below, (Filter, Project)):
        if isinstance(below, Project):
            items = [i for i in below.items if i.name in keys]
            keys = {i.value.name for i in items if isinstance(i.value, ColumnRef)}
            keys |= {END for i in items if _shows_end(i.value)}
        below = below.input
    if not isinstance(below, Sessions) or not closes_for_good(below):
        return False
    return {END, *below.partition} <= keys and below.gap_us >= 2 * below.grain_us


def _shows_end(value: Scalar) -> bool:
    """True for the end of a session as users see it: a time, or a number of clock units."""
    if isinstance(value, Paren):
        return _shows_end(value.value)
    if isinstance(value, Timestamp):
        return value.us == ColumnRef(END)
    return isinstance(value, Operation) and value.sign == "//" and value.left == ColumnRef(END)


def never_changes(node: Relation) -> bool:
    """True for tables and what is made of tables alone: complete after their first batch."""
    return all(n.static if isinstance(n, Scan) else _inputs(n) for n in _relations(node))


def nodes_above_views(node: Relation) -> Iterator[Relation]:
    """Every node of a tree once; created views, but nothing below them."""
    return visit_once(node, lambda each: [] if isinstance(each, View) else _inputs(each))


def visit_once(node: Relation, inputs: Callable[[Relation], list[Relation]]) -> Iterator[Relation]:
    """A node and all that is reached by `inputs`, each once, nodes before their inputs."""
    seen: set[Relation] = set()
    stack = [node]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            stack += reversed(inputs(node))


def _relations(node: Relation) -> Iterator[Relation]:
    """Every relation of a tree once, inputs first: a tree may read one node by a thousand ways."""
    return (n for n in walk(node) if isinstance(n, Relation))


def _inputs(node: Relation) -> list[Relation]:
    return [c for c in node.children if isinstance(c, Relation)]


def may_precede_clock(node: Relation) -> bool:
    """True when a row may be there before the clock begins: one of a table, or that of a grouping without keys."""
    found: dict[Relation, bool] = {}
    for each in _relations(node):
        inputs = [found[c] for c in _inputs(each)]
        if isinstance(each, Scan):
            found[each] = each.static
        elif isinstance(each, (GroupBy, JoinAggregate)) and not each.keys:
            found[each] = True
        else:
            found[each] = all(inputs) and bool(inputs) if isinstance(each, (Join, JoinAggregate)) else any(inputs)
    return found[node]


Rounds = tuple[tuple[int, int], ...]


def beginning(node: Relation) -> tuple[Rounds, ...] | Literal["first row"]:
    """When the answer of a keyless grouping, which has a row even for no input, begins.

    Each entry lists the periods between the clock and the answer on one path through the plan; `first_answer_time`
    turns them into a time. Where points come from `SYNC ON`, or the clock ran before, the answer begins with the
    first input row. A synchronizer passes the first time of its input on at the next of its points; a node of several
    inputs passes on the earliest. Tables precede the clock and do not determine when an answer begins.
    """
    found: dict[Relation, tuple[Rounds, ...] | Literal["first row"]] = {}
    for each in _relations(node):
        found[each] = _beginning_above(each, [found[c] for c in _inputs(each) if not never_changes(c)])
    return found[node]


def _beginning_above(
    node: Relation, inputs: list[tuple[Rounds, ...] | Literal["first row"]]
) -> tuple[Rounds, ...] | Literal["first row"]:
    known = [ways for ways in inputs if ways != "first row"]
    if isinstance(node, (SynchronizeOn, SynchronizePeriods, RowPoints, Rstream, Seed)) or len(known) < len(inputs):
        return "first row"
    found: set[Rounds] = {way for ways in known for way in ways}
    period = _refresh(node)
    return tuple(sorted(way if period is None else (*way, period) for way in found or {()}))


def first_answer_time(ways: tuple[Rounds, ...], begin: int) -> int:
    """The first time of an answer where the clock starts at `begin`: each period rounds up what is before it.

    >>> first_answer_time((((3, 0), (2, 0)), ((5, 0),)), 1)
    4
    """
    return min(_round_up(way, begin) for way in ways)


def _round_up(way: Rounds, begin: int) -> int:
    for every, offset in way:
        begin += (offset - begin) % every
    return begin


def _refresh(node: Relation) -> tuple[int, int] | None:
    """The period at which a node shows what is below it."""
    if isinstance(node, Synchronize):
        return node.every_us, node.offset_us
    if isinstance(node, Temporal):
        return node.period
    if isinstance(node, WindowAggregate) and not node.counts_rows:
        return node.window.slide, node.window.offset
    return None


def with_children(node: Relation, *children: Relation) -> Relation:
    """The same node over other inputs, given in the order of `children`."""
    if isinstance(node, (Union, JoinAggregate, Recursive, Alternatives)):
        return replace(node, inputs=tuple(children))
    names = [f for f in node.__dataclass_fields__ if isinstance(getattr(node, f), Relation)]
    return replace(node, **dict(zip(names, children, strict=True)))


def change_inputs(node: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """A node over changed inputs; what is below created views, and relations of points, stays as it is."""
    if isinstance(node, View):
        return node
    inputs = [c for c in node.children if isinstance(c, Relation)]
    points = inputs[1:] if isinstance(node, SynchronizeOn) else []
    fresh = [i if i in points else change(i) for i in inputs]
    return node if all(a is b for a, b in zip(inputs, fresh, strict=True)) else with_children(node, *fresh)
