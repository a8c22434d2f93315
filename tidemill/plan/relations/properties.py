"""What holds for a tree of relations, and the tree over other inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tidemill.plan.node import walk
from tidemill.plan.relations.aggregations import JoinAggregate, WindowAggregate
from tidemill.plan.relations.base import Relation
from tidemill.plan.relations.inputs import Clock, Scan, Seed, View
from tidemill.plan.relations.rows import Filter, Join, Project, SetCombine, Union
from tidemill.plan.relations.times import RowPoints, Rstream, Stamp, Synchronize, SynchronizeOn, Temporal


def insert_only(node: Relation) -> bool:
    """True when no change of this relation ever takes a row away."""
    if isinstance(node, (Scan, Clock, Rstream, RowPoints, Seed)):
        return True
    if isinstance(node, Temporal):
        return node.upper is None and insert_only(node.input)
    if isinstance(node, WindowAggregate):
        return node.once
    if isinstance(node, Union):
        return all(insert_only(i) for i in node.inputs)
    if isinstance(node, Join):
        return insert_only(node.left) and insert_only(node.right)
    if isinstance(node, SetCombine):
        return node.kind in ("distinct", "intersect", "intersect_all") and all(
            insert_only(c) for c in node.children if isinstance(c, Relation)
        )
    if isinstance(node, (Filter, Project, Synchronize, SynchronizeOn, Stamp, View)):
        return insert_only(node.input)
    return False


def single_insertions(node: Relation) -> bool:
    """True when every change of the relation inserts one row: a source through selections and projections."""
    if isinstance(node, Temporal):
        return node.upper is None and single_insertions(node.input)
    if isinstance(node, (Filter, Project, Synchronize)):
        return single_insertions(node.input)
    return isinstance(node, Scan)


def leaves_whole(node: Relation) -> bool:
    """True when rows that enter and leave at the same times can be told when they come: a window over a source, or a
    relation that rows never leave. Of such rows only the extremes matter for MIN and MAX, however they are grouped.
    """
    if insert_only(node):
        return True
    while isinstance(node, (Filter, Project, Synchronize)):
        node = node.input
    return isinstance(node, Temporal) and single_insertions(node.input)


def never_changes(node: Relation) -> bool:
    """True for tables and what is made of tables alone: complete after their first batch."""
    if isinstance(node, Scan):
        return node.static
    children = [c for c in node.children if isinstance(c, Relation)]
    return bool(children) and all(never_changes(c) for c in children)


def beginning(node: Relation) -> tuple[int, int] | Literal["first row"] | None:
    """When an answer that has a row even for no input begins: with the clock (None), or at the first point of the
    one period by which all below it refreshes. Where points come from data, or the
    clock ran before, it begins with the first input row.
    """
    periods: set[tuple[int, int]] = set()
    for below in walk(node):
        if isinstance(below, (SynchronizeOn, RowPoints, Rstream, Seed)):
            return "first row"
        if isinstance(below, Synchronize):
            periods.add((below.every_us, below.offset_us))
        if isinstance(below, Temporal) and below.period:
            periods.add(below.period)
        if isinstance(below, WindowAggregate) and not below.counts_rows:
            periods.add((below.window.slide, below.window.offset))
    if len(periods) > 1:
        return "first row"
    return periods.pop() if periods else None


def with_children(node: Relation, *children: Relation) -> Relation:
    """The same node over other inputs, given in the order of `children`."""
    if isinstance(node, (Union, JoinAggregate)):
        return replace(node, inputs=tuple(children))
    names = [f for f in node.__dataclass_fields__ if isinstance(getattr(node, f), Relation)]
    return replace(node, **dict(zip(names, children, strict=True)))
