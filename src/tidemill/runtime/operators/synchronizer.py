"""Synchronizers that need state: SYNC ON a stream of time points, and points by row count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING
from tidemill.runtime.dataflow.changes import PENDING, net, pending_layout, take_closed
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.state.shard_state import ShardState


class SynchronizeOn(Operator[p.SynchronizeOn]):
    """Each change waits for the least time point at or after its time.

    Inputs: changes, and the points (a replicated relation whose first column is the point in
    microseconds; only insertions count). A change is released when a closed point covers it; until then it is
    pending, and pending changes that cancel are never released.
    """

    def __init__(self, op: p.SynchronizeOn, first: bool = True) -> None:
        super().__init__(op, first)
        self.pending = pending_layout(self.schema)

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        data, points = inputs
        frontier = min(data.frontier, points.frontier)
        known = known_points(points, state.value(self.id))
        closed_points = known[known < points.frontier]
        pending = self.arrangement(state, PENDING, self.pending)
        covered = int(closed_points[-1]) + 1 if len(closed_points) else None
        if covered is None:
            rows = take_closed(pending, data.rows, BEGINNING)
        else:
            rows = _round_up(take_closed(pending, data.rows, covered), closed_points)
        # A closed point before the data's frontier has released all that it covers. One that was announced before its
        # time may not be closed yet, however far the data are.
        state.value(self.id)["points"] = [int(p) for p in known[known >= frontier]]
        return Batch(rows, frontier)


def known_points(batch: Batch, value: dict[str, Any]) -> np.ndarray:
    """Points kept in value["points"] and those of closed insertions, each not before its insertion; sorted.

    Changes of a time that is still open may yet cancel, so they wait in value["open"] as (point, time, diff).
    """
    waiting = np.array(value.get("open", []), np.int64).reshape(-1, 3)
    if not batch.empty and batch.rows is not None:
        rows = batch.rows.filter(pc.is_valid(batch.rows.column(0)))
        columns = [rows.column(0).cast(pa.int64()), rows.column("__time"), rows.column("__diff")]
        waiting = np.concatenate([waiting, np.stack([c.to_numpy() for c in columns], axis=1)])
    pairs, inverse = np.unique(waiting[:, :2], axis=0, return_inverse=True)
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, inverse.reshape(-1), waiting[:, 2])
    closed = pairs[:, 1] < batch.frontier
    still = ~closed & (sums != 0)
    value["open"] = np.column_stack([pairs, sums])[still].tolist()
    fresh = pairs[closed & (sums > 0)].max(axis=1, initial=BEGINNING)
    return np.unique(np.concatenate([np.array(value.get("points", []), np.int64), fresh]))


def _round_up(rows: pa.Table, points: np.ndarray) -> pa.Table | None:
    if rows.num_rows == 0:
        return None
    times = points[np.searchsorted(points, rows.column("__time").to_numpy(), side="left")]
    return rows.set_column(rows.schema.get_field_index("__time"), "__time", pa.array(times))


class RowPoints(Operator[p.RowPoints]):
    """A time point whenever the number of rows inserted up to and including it passes a multiple of n."""

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        batch = inputs[0]
        columns = self.op.columns
        pending = self.arrangement(state, PENDING, pending_layout(columns))
        closed = take_closed(pending, batch.rows, batch.frontier)
        if closed.num_rows:
            # A row inserted and deleted at the same time does not count.
            closed = net(closed, columns)
            closed = closed.filter(pc.greater(closed.column("__diff"), 0))
        if closed.num_rows == 0:
            return Batch(None, batch.frontier)
        times, inverse = np.unique(closed.column("__time").to_numpy(), return_inverse=True)
        counts = np.bincount(inverse, weights=closed.column("__diff").to_numpy()).astype(np.int64)
        value = state.value(self.id)
        totals = np.cumsum(counts) + value.get("count", 0)
        n = self.op.rows
        passed = totals // n > (totals - counts) // n
        value["count"] = int(totals[-1])
        points = times[passed]
        table = pa.table({"TimePoint": points, "__time": points, "__diff": np.ones(len(points), np.int64)})
        return Batch(table if len(points) else None, batch.frontier)


class Clock(Operator[p.Clock]):
    """clockStr: every shard makes the same ticks, one for each clock unit that has been closed.

    Input frontier: the database clock. The first tick is the first unit at or after the time at which the clock began.
    A jump of the clock over more than MOST_TICKS units ends the views over it: the rows would not fit into memory.
    """

    MOST_TICKS = 100_000_000

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        frontier, unit = inputs[0].frontier, self.op.unit_us
        value = state.value(self.id)
        start = value.get("next")
        if start is None:
            begin = state.value("@clock").get("begin")
            if begin is None:
                return Batch(None, frontier)
            start = -(-begin // unit)
        end = max(start, -(-frontier // unit))
        if end - start > self.MOST_TICKS:
            raise OverflowError(f"clockStr would have {end - start:,} rows at once (SYNC EVERY needs none)")
        ticks = np.arange(start, end, dtype=np.int64)
        value["next"] = int(start + len(ticks))
        if not len(ticks):
            return Batch(None, frontier)
        table = pa.table({"TimePoint": ticks, "__time": ticks * unit, "__diff": np.ones(len(ticks), np.int64)})
        return Batch(table, frontier)
