"""One synchronizer in the place of two whose points contain each other (paper 004, theorem 1)."""

from __future__ import annotations

from tidemill.plan import relations as r
from tidemill.plan.points import is_contained, synchronizer_points
from tidemill.plan.relations import Relation

_Synchronizer = r.Synchronize | r.SynchronizePeriods | r.SynchronizeOn
_SYNCHRONIZERS = (r.Synchronize, r.SynchronizePeriods, r.SynchronizeOn)


def merge_synchronizers(node: Relation) -> Relation | None:
    """Keep the coarser one of two synchronizers.

        Synchronize[p]                            Synchronize[q]
          Synchronize[q]  → Synchronize[p]          Synchronize[p]  → Synchronize[p]
            R                 R                       R                 R

    Sound when certainly p ⊆ q. Left: the next point of q after a time is never later than the next one of p, and
    rounding it up to p gives the latter. Right: what changes at points of p only is not delayed by q. Filters and
    projections may stand between the two: they treat every row alike. Must not fire where the answer of a grouping
    without keys above would begin at another time.
    """
    if not isinstance(node, _SYNCHRONIZERS):
        return None
    between: list[r.Filter | r.Project] = []
    below = node.input
    while isinstance(below, (r.Filter, r.Project)):
        between.append(below)
        below = below.input
    better = _merge(node, between, below) if isinstance(below, _SYNCHRONIZERS) else None
    return better if better is not None and _begins_with_rows(better) == _begins_with_rows(node) else None


def _merge(outer: Relation, between: list[r.Filter | r.Project], inner: _Synchronizer) -> Relation | None:
    if is_contained(synchronizer_points(outer), synchronizer_points(inner)):
        rows: Relation = inner.input
        for link in reversed(between):
            rows = r.with_children(link, rows)
        _, *points = (c for c in outer.children if isinstance(c, Relation))
        return r.with_children(outer, rows, *points)
    if is_contained(synchronizer_points(inner), synchronizer_points(outer)):
        return between[0] if between else inner
    return None


def _begins_with_rows(node: Relation) -> bool:
    return r.beginning(node) == "first row"
