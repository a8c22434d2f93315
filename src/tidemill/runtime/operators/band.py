"""How long the rows of a band join stay: until every partner that they may have has been released to the join.

Bounds follow `plan.released`: a chain of steps takes the join's frontier to a stamp before which no row will come.
Every row that the join has not seen comes at or after its frontier, so this holds for pending rows as well.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import pyarrow.compute as pc

from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING
from tidemill.plan.released import any_point_before, is_open, point_before
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.operators.synchronizer import known_points
from tidemill.runtime.state.arrangements import Arrangement
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes


class ReleaseBounds:
    """For both sides of one join in one batch, the stamp before which all rows have arrived.

    `batches` are the relations of points that hold rows back. Points before those that are still used are dropped.
    """

    def __init__(self, chains: p.Released, batches: list[Batch], frontier: int, kept: dict[str, Any]) -> None:
        self.frontier = frontier
        values = [kept.setdefault(f"points{i}", {}) for i in range(len(batches))]
        self.points = [[int(p) for p in known_points(b, v)] for b, v in zip(batches, values, strict=True)]
        self.used: list[list[int]] = [[] for _ in batches]
        self.bounds = {side: self._limit_of(found) for side, found in chains.items()}
        for value, points, used in zip(values, self.points, self.used, strict=True):
            value["points"] = points[min(used, default=0) :]

    def _limit_of(self, chains: p.Chains | None) -> int | None:
        return None if chains is None else min(self._chain_bound(chain) for chain in chains)

    def _chain_bound(self, chain: Sequence[p.Step]) -> int:
        bound = self.frontier
        for step in chain:
            if isinstance(step, p.PointsInput):
                bound = self._points_bound(step.number, bound)
            elif not is_open(bound):
                return bound
            elif isinstance(step, p.Shift):
                bound -= step.us
            elif isinstance(step, p.Periods):
                point = any_point_before(bound, step.periods)
                bound = BEGINNING if point is None else point + 1
            else:
                bound = point_before(bound, step.every, step.offset) + 1
        return bound

    def _points_bound(self, i: int, frontier: int) -> int:
        place = bisect_left(self.points[i], frontier) - 1
        self.used[i].append(max(place, 0))
        return self.points[i][place] + 1 if place >= 0 else BEGINNING


def expire_rows(held: Arrangement, stamp: str, before: int, seen: dict[str, Any], name: str, state: ShardState) -> None:
    """Remove rows with an older stamp, once enough rows have been added since the last time for it to pay."""
    if held.rows() < max(sizes.expired_rows, sizes.kept_growth * seen.get(name, 0)):
        return
    rows = held.scan()
    kept = rows.filter(pc.greater_equal(rows.column(stamp), before))
    for segment in held.segments:
        state.store.discard(segment)
    held.segments.clear()
    held.append(kept)
    seen[name] = kept.num_rows
