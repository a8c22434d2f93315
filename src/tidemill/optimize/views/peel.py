"""Peeled queries (paper 004, section 7.1): what a query computes, apart from when it shows it.

A peeled form is a data tree without synchronizers, and the points at which the query shows the data of that time
(theorems 2 and 3). Created views are replaced by their definitions, so that equal data has equal trees however it is
written. Where a tree has no such form, the part that has none is left as it stands: a leaf.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tidemill.plan import relations as r
from tidemill.plan.points import Every, EveryChange, Points, intersect, is_contained, synchronizer_points
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import shift_of, undo_rounding

Definition = Callable[[r.View], Relation]  # the bound tree of a created view

_ALWAYS = EveryChange()
Synchronizer = r.Synchronize | r.SynchronizePeriods | r.SynchronizeOn
SYNCHRONIZERS = (r.Synchronize, r.SynchronizePeriods, r.SynchronizeOn)
_RANKED = (r.Ranked, r.WindowFunctions)
_POINTWISE = (r.Project, r.Filter, r.Join, r.GroupBy, r.SetCombine, r.Union, *_RANKED)


@dataclass(frozen=True)
class Peeled:
    """At each of the points the relation shows what `data` is at that time; `synchronizer` has these points.

    It is a synchronizer of the tree, over an input of its own; None where every change is shown.
    """

    data: Relation
    points: Points = _ALWAYS
    synchronizer: Synchronizer | None = None

    def synchronize(self, node: Relation) -> Relation:
        """Another tree for the same data, shown at the same points."""
        return node if self.synchronizer is None else replace(self.synchronizer, input=node)


def peel_view(node: Relation, define: Definition) -> Peeled:
    """The peeled form of a view, at its full synchronization points: all its inputs are up to date there."""
    return Peeling(define, every_point=False).peel(node)


@dataclass(frozen=True)
class Peeling:
    """Peels the parts of one tree. Each node is peeled once: a node that is read several times is in the tree as often
    as there are ways to it, which doubles with every subquery over the same rows.
    """

    define: Definition
    every_point: bool = True  # leave a tree alone that also shows something between its full points
    _known: dict[Relation, Peeled] = field(default_factory=dict)

    def peel(self, node: Relation) -> Peeled:
        """The peeled form of a node; a query changes at its points only, so that they are all there is to show."""
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = self._peel(node)
        return found

    def _peel(self, node: Relation) -> Peeled:
        if isinstance(node, r.View) and not node.late:
            return self.peel(self.define(node))
        if isinstance(node, SYNCHRONIZERS):
            return self._peel_synchronizer(node)
        if isinstance(node, r.Temporal) and node.period is not None:
            return _peel_window(node)
        if isinstance(node, _POINTWISE) and not (isinstance(node, r.GroupBy) and not node.keys):
            return self._peel_inputs(node)
        return Peeled(node)

    def _peel_synchronizer(self, node: Synchronizer) -> Peeled:
        below = self.peel(node.input)
        own = synchronizer_points(node)
        if is_contained(own, below.points):
            return Peeled(below.data, own, node)
        return Peeled(node) if self.every_point else Peeled(below.data, intersect(own, below.points))

    def _peel_inputs(self, node: Relation) -> Peeled:
        """An operator that depends on the state of its inputs alone; tables are up to date at all times."""
        inputs = [c for c in node.children if isinstance(c, Relation)]
        peeled = [self.peel(i) for i in inputs]
        changing = [p for i, p in zip(inputs, peeled, strict=True) if not r.never_changes(i)]
        if self.every_point and any(p.points != changing[0].points for p in changing):
            return Peeled(node)
        points = intersect(EveryChange(), *(p.points for p in changing))
        data = r.with_children(node, *(p.data for p in peeled))
        synchronizer = changing[0].synchronizer if changing else None
        if self.every_point and synchronizer is not None and r.may_precede_clock(data):
            return Peeled(node)  # rows of tables are there before all points
        return Peeled(data, points, synchronizer)


def _peel_window(node: r.Temporal) -> Peeled:
    """Rows that enter and leave at the points of a period are those of the window without points, shown at the points.

    Sound over the rows of a stream, where a row comes at its stamp: then no row comes after it should have entered.
    """
    assert node.period is not None
    bounds = (node.lower, node.upper)
    plain = [None if b is None else undo_rounding(b, node.period) for b in bounds]
    if [b is None for b in plain] != [b is None for b in bounds]:
        return Peeled(node)
    shifts = [shift_of(b) for b in plain if b is not None]
    if any(s is None or s[1] < 0 or not _is_stamp(node.input, s[0]) for s in shifts):
        return Peeled(node)
    data = replace(node, lower=plain[0], upper=plain[1], period=None)
    return Peeled(data, Every(*node.period), r.Synchronize(data, *node.period))


def _is_stamp(node: Relation, column: str | None) -> bool:
    """True when a column has the time of each change: the stamp of a source, through selections and projections."""
    while isinstance(node, (r.Filter, r.Project)) and column is not None:
        column = node.passes(column) if isinstance(node, r.Project) else column
        node = node.input
    return isinstance(node, r.Scan) and not node.static and column == r.TS
