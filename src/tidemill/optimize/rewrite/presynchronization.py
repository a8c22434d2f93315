"""Presynchronization (paper 004, section 10.5): summarize before the work, not after it."""

from __future__ import annotations

from tidemill.plan import relations as r
from tidemill.plan.relations import Relation

_POINTWISE = (r.Project, r.Filter, r.Union, r.GroupBy, r.SetCombine, r.Join, r.Tag)


def presynchronize(node: Relation) -> Relation | None:
    """Move a periodic synchronizer below an operator whose answer depends on the state of its inputs only.

        Synchronize[s]           GroupBy
          GroupBy           →      Synchronize[s]
            R                        R

    Sound because evaluating at every time and reading the result at the points of s is the same as changing the inputs
    at these points only (theorems 2 and 3); all inputs get the same synchronizer. Must not pass a NOW window, a time
    stamp or RSTREAM, whose rows depend on time itself, nor a grouping without keys, whose row begins with the clock,
    nor a created view.
    """
    if not isinstance(node, r.Synchronize):
        return None
    below = node.input
    if isinstance(below, r.Synchronize):
        if below.offset_us == node.offset_us == 0 and node.every_us % below.every_us == 0:
            return r.Synchronize(below.input, node.every_us)
        return None
    if not isinstance(below, _POINTWISE) or (isinstance(below, r.GroupBy) and not below.keys):
        return None
    if isinstance(below, r.Tag) and isinstance(below.input, r.Synchronize):
        return None
    inputs = [
        i if r.never_changes(i) else r.Synchronize(i, node.every_us, node.offset_us)
        for i in below.children
        if isinstance(i, Relation)
    ]
    return r.with_children(below, *inputs)
