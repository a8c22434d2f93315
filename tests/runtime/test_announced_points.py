"""A time point that is announced before its time releases its rows when it comes, however far the data are."""

from __future__ import annotations

import pyarrow as pa

from tidemill.plan import physical
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.operators.synchronizer import SynchronizeOn
from tidemill.runtime.state.shard_state import ShardState


def changes(name, *rows):
    """(value, time) insertions."""
    values, times = zip(*rows, strict=True) if rows else ((), ())
    kind = pa.int64()
    return pa.table(
        {name: pa.array(values, kind), "__time": pa.array(times, kind), "__diff": pa.array([1] * len(rows), kind)}
    )


def test_a_point_announced_early_waits_for_its_time(tmp_path):
    operator = SynchronizeOn(physical.SynchronizeOn("s", ("data", "points"), (Column("v", "BIGINT"),)))
    state = ShardState.empty(str(tmp_path))
    steps = [
        (Batch(changes("v", (1, 12)), 100), Batch(changes("TimePoint", (15, 5)), 6)),  # the data are far ahead
        (Batch(None, 100), Batch(None, 16)),
        (Batch(changes("v", (2, 110)), 120), Batch(changes("TimePoint", (115, 110)), 120)),
    ]
    found = [operator.step(list(inputs), state).rows for inputs in steps]
    released = [(row["v"], row["__time"]) for rows in found if rows is not None for row in rows.to_pylist()]
    assert released == [(1, 15), (2, 115)]
