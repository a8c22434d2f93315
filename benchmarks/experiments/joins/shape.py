"""What the operator really pays: not quite what the cost functions charge for.

Rows that match are found once for a batch and not for every change. A joined row of the same group as the one before
costs next to nothing, one of another group the search for it. And each group that a change touches is a row that comes
out, the same in every plan.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.experiments.joins.model import not_negative
from benchmarks.experiments.joins.points import Point
from benchmarks.experiments.joins.setting import Sweep
from tidemill.optimize.joins import derive_parameters, probe_orders

TERMS = (
    "change",
    "row found, once a batch",
    "row joined on the way",
    "joined row, one group",
    "joined row, group sought",
    "row that comes out",
)


def terms(point: Point, plan: str) -> list[float]:
    """How much of each there is in a unit of time, by the parameters of appendix A."""
    known = derive_parameters([i.stream for i in point.inputs])
    changes = found = way = one = sought = out = 0.0
    for k, ordering in enumerate(probe_orders(known, plan)):
        taken, reached, fan_out, groups = 2 * point.inputs[k].rate, [k], 1.0, 1.0
        changes += taken
        for j in ordering:
            table = known.probed_table(j, plan, reached)
            found += table.size / point.units
            way += taken * fan_out if j != ordering[0] else 0.0
            fan_out *= table.fan_out
            groups *= distinct(known.m[j], point.inputs[j].groups)
            reached.append(j)
        if point.inputs[ordering[-1]].groups > 1:
            sought += taken * fan_out
        else:
            one += taken * fan_out
        out += taken * groups
    return [changes, found, way, one, sought, out]


def distinct(rows: float, groups: int) -> float:
    """How many of the groups this many rows have, drawn at random: g (1 - (1 - 1/g)^m).

    >>> round(distinct(500, 150), 1), distinct(500, 1)
    (144.7, 1.0)
    """
    return groups * (1 - (1 - 1 / groups) ** rows)


def fitted(points: Sequence[Point], sweep: Sweep) -> np.ndarray:
    """Seconds for each of the terms, by least squares of relative errors over all plans and points."""
    rows = [(terms(p, plan), p.seconds(plan)) for p in points for plan in sweep.plans]
    return not_negative(np.array([t for t, _ in rows]), np.array([seconds for _, seconds in rows]))
