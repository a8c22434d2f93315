"""Selections move towards the source, where fewer rows travel."""

from __future__ import annotations

from tidemill.plan import relations as r
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import conjunction


def push_filters(node: Relation) -> Relation | None:
    """Move a selection below the operator under it.

        Filter[p]              Project[e]
          Project[e]      →      Filter[p with e put in]
            R                      R

    Sound for projections, unions, synchronizers and NOW windows: they treat every row alike. The points of a
    synchronizer are not filtered. Must not pass a grouping (HAVING is evaluated on groups) nor a created view (which
    runs in any case).
    """
    if not isinstance(node, r.Filter):
        return None
    below = node.input
    if isinstance(below, r.Filter):
        both = conjunction(below.predicate, node.predicate)
        assert both is not None
        return r.Filter(below.input, both)
    if isinstance(below, r.Project):
        inside = node.predicate.substitute({i.name: i.value for i in below.items})
        return r.Project(r.Filter(below.input, inside), below.items)
    if isinstance(below, r.Union):
        return r.Union(tuple(r.Filter(i, node.predicate) for i in below.inputs))
    if isinstance(below, (r.Synchronize, r.SynchronizePeriods, r.Temporal)):
        return r.with_children(below, r.Filter(below.input, node.predicate))
    if isinstance(below, r.SynchronizeOn):
        return r.SynchronizeOn(r.Filter(below.input, node.predicate), below.points)
    return None
