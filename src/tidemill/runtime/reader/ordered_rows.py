"""Rows that come in order are passed on piece by piece as they lie in memory, without copies.

Applies to chunks of a source with event times in which no record is bad, no row is without time, late or too far ahead,
and nothing says what is done with a row.

The fast path `ordered_rows`: gives exactly the rows, times and counts of `EventTime.assign`, which is used where it
gives None.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.runtime.kernels.share.edges import ascending
from tidemill.runtime.reader.event_time import EventTime, Timed, type_of
from tidemill.runtime.sources.connector import Chunk, event_time_us
from tidemill.runtime.thresholds import sizes


def cut_in_order(times_of: EventTime, chunk: Chunk, table: pa.Table) -> list[Timed] | None:
    """The rows of a chunk in pieces with their times, and counted; None, and nothing counted, where it must not."""
    spec, tally = times_of.spec, times_of.tally
    if chunk.bad.num_rows or spec.static or spec.operation or not spec.timestamp or not table.num_rows:
        return None
    if table.num_rows < sizes.reader_piece_rows * table.column(0).num_chunks:
        table = table.combine_chunks()
    pieces, top, kind = [], tally.top, type_of(spec, spec.timestamp)
    for batch in table.to_batches():
        rows = pa.Table.from_batches([batch])
        stamp = event_time_us(rows.column(spec.timestamp), kind, times_of.unit_us)
        if stamp.null_count:
            return None
        times = stamp.to_numpy()
        latest = None if not len(times) else _latest_if_punctual(times, top, spec.lateness_us, times_of.work.floor)
        if latest is None or latest > times_of.latest_believed(top, int(times[0])):
            return None
        top = max(top, latest)
        pieces.append((rows, times))
    tally.rows, tally.top = tally.rows + table.num_rows, top
    tally.first = int(pieces[0][1][0]) if tally.first is None else tally.first
    return pieces


def _latest_if_punctual(times: np.ndarray, top: int, lateness: int, floor: int) -> int | None:
    """The greatest of these times, where none of them is late behind `top` and one another; else None.

    >>> _latest_if_punctual(np.array([5, 9, 7]), 6, 2, 0), _latest_if_punctual(np.array([5, 9, 6]), 6, 2, 0)
    (9, None)
    """
    if ascending(times):
        return int(times[-1]) if times[0] >= max(top - lateness, floor) else None
    running = np.maximum(np.maximum.accumulate(times), top)
    late = lateness == 0 or int((running - times).max()) > lateness or int(times.min()) < floor
    return None if late else int(running[-1])
