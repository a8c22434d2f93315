"""Inner equi-join: ΔL ⋈ R + L ⋈ ΔR + ΔL ⋈ ΔR, times the later of the two, multiplicities multiplied.

Inputs are processed once their time is closed, so everything on the shelf is older than everything new and
needs no time of its own: rows that came and went have cancelled. A batch that spans much time is taken in
slices, oldest first, so that rows which never met in time are not paired.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.relations import quoted
from tidemill.plan.released import is_open
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.operators.band import Released, expire
from tidemill.runtime.operators.base import (
    DIFF,
    HASH,
    TIME,
    Batch,
    Operator,
    change_agenda,
    contents_layout,
    hash_sql,
    hashes_of,
    name_list,
    take_closed,
)
from tidemill.runtime.state import Arrangement, Shelf
from tidemill.runtime.thresholds import sizes


class Side:
    """One input of the join: its columns, its key, and how long its rows can still match."""

    def __init__(self, name: str, params: dict[str, Any]) -> None:
        self.name = name
        self.columns = tuple(Column(n, t) for n, t in params["columns"])
        self.keys = list(params["keys"])
        self.stamp: str | None = params.get("stamp")
        self.keep_us: int | None = params.get("keep_us")
        self.stored: bool = params.get("stored", True)

    def closed(self, batch: Batch, frontier: int, node: str, shelf: Shelf) -> pa.Table:
        """Closed changes of this side with their key hash; rows with a NULL key never match."""
        agenda = shelf.arrangement(node, f"{self.name}_agenda", change_agenda(self.columns))
        rows = take_closed(agenda, batch.rows, frontier)
        if rows.num_rows == 0:
            return _nothing(self.columns)
        alive = " AND ".join(f"{quoted(k)} IS NOT NULL" for k in self.keys) or "TRUE"
        source = duck.source("rows", self.columns, "__time", "__diff")
        sql = f"SELECT {hash_sql(self.keys)} AS __h, * FROM {source} WHERE {alive}"
        return duck.run(sql, rows=rows)

    def contents(self, node: str, shelf: Shelf) -> Arrangement:
        """The rows of this side that are present now."""
        return shelf.arrangement(node, f"{self.name}_rows", contents_layout(self.columns))


class Join(Operator):
    """Inputs: left and right changes, both with the join key's shard; then the points that hold rows of them back."""

    def __init__(self, op: Any, first: bool = True) -> None:
        super().__init__(op, first)
        self.left = Side("left", self.params["left"])
        self.right = Side("right", self.params["right"])

    def step(self, inputs: list[Batch], shelf: Shelf) -> Batch:
        frontier = min(b.frontier for b in inputs[:2])
        left = self.left.closed(inputs[0], frontier, self.id, shelf)
        right = self.right.closed(inputs[1], frontier, self.id, shelf)
        pieces = [self._meet(l, r, shelf) for l, r in _slices(left, right)]
        pieces = [p for p in pieces if p.num_rows]
        self._expire(frontier, inputs[2:], shelf)
        return Batch(pa.concat_tables(pieces) if pieces else None, frontier)

    def _meet(self, left: pa.Table, right: pa.Table, shelf: Shelf) -> pa.Table:
        held_left, held_right = self.left.contents(self.id, shelf), self.right.contents(self.id, shelf)
        old_left = held_left.probe(hashes_of(right))
        old_right = held_right.probe(hashes_of(left))
        found = [
            self._pair(left, old_right, "l.__time", "l.__diff * r.__n", right_new=False),
            self._pair(old_left, right, "r.__time", "l.__n * r.__diff", left_new=False),
            self._pair(left, right, "greatest(l.__time, r.__time)", "l.__diff * r.__diff"),
        ]
        for side, held, rows in ((self.left, held_left, left), (self.right, held_right, right)):
            if rows.num_rows and side.stored:
                held.append(rows.drop_columns(["__time"]).rename_columns(
                    ["__h", *(c.name for c in side.columns), "__n"]))
                held.compact()
        return pa.concat_tables([f for f in found if f.num_rows] or found[:1])

    def _pair(self, left: pa.Table, right: pa.Table, time: str, diff: str, *,
              left_new: bool = True, right_new: bool = True) -> pa.Table:
        l_extra = ("__time", "__diff") if left_new else ("__n",)
        r_extra = ("__time", "__diff") if right_new else ("__n",)
        equal = [f"l.{quoted(a)} = r.{quoted(b)}" for a, b in zip(self.left.keys, self.right.keys, strict=True)]
        residual = self.params.get("residual")
        names = name_list([c.name for c in self.schema])
        return duck.run(
            f"SELECT {names}, {time} AS __time, CAST({diff} AS BIGINT) AS __diff"
            f" FROM {duck.source('lefts', self.left.columns, *l_extra)} l"
            f" JOIN {duck.source('rights', self.right.columns, *r_extra)} r ON {' AND '.join(equal) or 'TRUE'}"
            + (f" WHERE {residual}" if residual else ""),
            lefts=left, rights=right,
        )

    def _expire(self, frontier: int, points: list[Batch], shelf: Shelf) -> None:
        """Band joins: forget rows whose partners have all come."""
        chains = self.params.get("released")
        if chains is None:
            return
        seen = shelf.value(self.id)
        released = Released(chains, points, frontier, seen)
        for side, other in ((self.left, "right"), (self.right, "left")):
            bound = released.bounds[other]
            if side.keep_us is not None and side.stamp is not None and bound is not None and is_open(bound):
                expire(side.contents(self.id, shelf), side.stamp, bound - side.keep_us, seen, side.name, shelf)


@lru_cache(maxsize=1024)
def _nothing(columns: tuple[Column, ...]) -> pa.Table:
    """No changes of these columns."""
    names = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in (HASH, *columns, TIME, DIFF))
    return duck.run(f"SELECT {names} LIMIT 0")


def _slices(left: pa.Table, right: pa.Table) -> list[tuple[pa.Table, pa.Table]]:
    """Both inputs cut at the same times, oldest first, each piece of bounded size where times allow."""
    total = left.num_rows + right.num_rows
    if total <= sizes.slice_rows:
        return [(left, right)] if total else []
    times = np.concatenate([left.column("__time").to_numpy(), right.column("__time").to_numpy()])
    cuts = np.unique(np.quantile(times, np.linspace(0, 1, total // sizes.slice_rows + 2), method="nearest"))
    pieces, low = [], None
    for high in cuts:
        pieces.append(tuple(_between(t, low, int(high)) for t in (left, right)))
        low = int(high)
    return [p for p in pieces if p[0].num_rows or p[1].num_rows]


def _between(table: pa.Table, low: int | None, high: int) -> pa.Table:
    times = table.column("__time")
    mask = pc.less_equal(times, high)
    return table.filter(mask if low is None else pc.and_(mask, pc.greater(times, low)))
