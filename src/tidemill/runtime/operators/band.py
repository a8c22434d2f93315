"""How long the rows of a band join stay: until every partner that they may have has been released to the join.

Bounds follow `plan.released`: a chain of steps takes the join's frontier to a stamp before which no row will come.
Every row that the join has not seen comes at or after its frontier, so this holds for rows on the agenda as well.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import pyarrow.compute as pc

from tidemill.plan.physical import BEGINNING
from tidemill.plan.released import is_open, point_before
from tidemill.runtime.operators.base import Batch
from tidemill.runtime.operators.synchronizer import known_points
from tidemill.runtime.state import Arrangement, Shelf
from tidemill.runtime.thresholds import sizes

Chains = list[list[list[Any]]]


class Released:
    """The stamps whose rows have all come, for both sides of one join in one batch.

    `batches` are the relations of points that hold rows back. Points are kept from the last one that counts on.
    """

    def __init__(self, chains: dict[str, Chains | None], batches: list[Batch], frontier: int,
                 kept: dict[str, Any]) -> None:
        self.frontier = frontier
        values = [kept.setdefault(f"points{i}", {}) for i in range(len(batches))]
        self.points = [[int(p) for p in known_points(b, v)] for b, v in zip(batches, values, strict=True)]
        self.asked: list[list[int]] = [[] for _ in batches]
        self.bounds = {side: self._bound(found) for side, found in chains.items()}
        for value, points, asked in zip(values, self.points, self.asked, strict=True):
            value["points"] = points[min(asked, default=0):]

    def _bound(self, chains: Chains | None) -> int | None:
        return None if chains is None else min(self._after(chain) for chain in chains)

    def _after(self, chain: list[list[Any]]) -> int:
        bound = self.frontier
        for step in chain:
            if not is_open(bound) and step[0] != "points":
                return bound
            if step[0] == "shift":
                bound -= step[1]
            elif step[0] == "period":
                bound = point_before(bound, step[1], step[2]) + 1
            else:
                bound = self._after_points(step[1], bound)
        return bound

    def _after_points(self, i: int, frontier: int) -> int:
        place = bisect_left(self.points[i], frontier) - 1
        self.asked[i].append(max(place, 0))
        return self.points[i][place] + 1 if place >= 0 else BEGINNING


def expire(held: Arrangement, stamp: str, before: int, seen: dict[str, Any], name: str, shelf: Shelf) -> None:
    """Forget rows with an older stamp, when enough rows have gathered since the last time for it to pay."""
    if held.rows() < max(sizes.expired_rows, sizes.kept_growth * seen.get(name, 0)):
        return
    rows = held.scan()
    kept = rows.filter(pc.greater_equal(rows.column(stamp), before))
    for segment in held.segments:
        shelf.discard(segment)
    held.segments.clear()
    held.append(kept)
    seen[name] = kept.num_rows
