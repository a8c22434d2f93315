"""Statistics of a stored input for the optimizer, from a sample of it.

Arrangements are sorted by the hash of the join values, so the rows below some hash are a sample of join values with all
their rows: a prefix of every segment.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.plan.measured.joins import StoredRows
from tidemill.runtime.dataflow.value_codes import number, number_rows
from tidemill.runtime.joins.aggregation_sets import FORMS, AggregationSets
from tidemill.runtime.state.arrangements import Arrangement
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes


def stored_statistics(sets: AggregationSets, state: ShardState) -> StoredRows:
    """Rows and bytes stored, and estimates of the different K_i and join values."""
    every = [sets.arrangement(state, form, index) for form in FORMS for index in sets.indexes]
    size = sum(state.store.read(segment).nbytes for held in every for segment in held.segments)
    index = next((i for i in sets.indexes if i), None) or (sets.indexes[0] if sets.indexes else None)
    if index is None:
        return StoredRows()
    chosen = [sets.arrangement(state, form, index) for form in FORMS]
    rows = sum(held.rows() for held in chosen)
    different, values = _estimate_distinct(sets, chosen, rows)
    return StoredRows(rows, size, different, values if index else 1)


def set_changes(sets: AggregationSets) -> int:
    """About how many rows the batch's late changes would be if they were added up for each key and time, by a sample of
    join values.
    """
    late = sets.moves["late"]
    if not late.num_rows:
        return 0
    share = min(1.0, sizes.set_sample_rows / late.num_rows)
    if share < 1 and sets.attributes:
        late = late.filter(pa.array(sets.hashes("late", tuple(sets.attributes)) <= _below(share)))
    else:
        share = 1.0
    names = [c.name for c in sets.keys if c.name not in sets.extremes]
    _, first = number_rows([late.column(c) for c in (*names, "__time")], late.num_rows)
    return round(len(first) / share)


def _below(share: float) -> np.uint64:
    return np.uint64(min(int(share * 2.0**64), (1 << 64) - 1))


def _estimate_distinct(sets: AggregationSets, chosen: list[Arrangement], rows: int) -> tuple[int, int]:
    """Estimates of (different keys, different join values)."""
    share = min(1.0, sizes.set_sample_rows / max(rows, 1))
    names = [c.name for c in sets.keys if sets.early or c.name not in sets.extremes]
    below = _below(share)
    pieces = []
    for held in chosen:
        for segment in held.segments:
            table = held.store.read(segment)
            end = int(np.searchsorted(table.column("__h").to_numpy(), below, side="right"))
            pieces.append(table.select(["__h", *names]).slice(0, min(end, sizes.largest_sample)))
    sample = pa.concat_tables(pieces) if pieces else None
    if sample is None or not sample.num_rows:
        return rows, rows
    _, keys = number_rows([sample.column(c) for c in names], sample.num_rows)
    _, hashes = number(sample.column("__h").to_numpy().astype(np.int64))
    return min(rows, round(len(keys) / share)), min(rows, round(len(hashes) / share))
