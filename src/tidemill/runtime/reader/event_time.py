"""The event time of rows: which rows are late, ahead of their time or without one, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.physical import BEGINNING, FOREVER
from tidemill.plan.relations import STATIC_TIME
from tidemill.plan.sources import APPLY, DELETES, UPSERTS, SourceSpec
from tidemill.runtime.kernels.share.edges import ascending
from tidemill.runtime.messages.assignments import Work
from tidemill.runtime.messages.source_counts import Tally
from tidemill.runtime.reader.put_aside import DeadLetters
from tidemill.runtime.sources.columns import is_wall_time
from tidemill.runtime.sources.connector import Chunk, event_time_us
from tidemill.runtime.sources.records import refuse
from tidemill.runtime.thresholds import sizes

_OPERATIONS = pa.array([*UPSERTS, *DELETES], pa.string())
Timed = tuple[pa.Table, np.ndarray]  # rows and the times at which they come
EVENT = "__event"  # the event times, where rows come later
DIFF = "__diff"  # how many copies come or go, where another site delivers changes


@dataclass
class EventTime:
    """Gives the rows of one piece of a source their times; counts them in `tally`, puts aside others in `dead`."""

    spec: SourceSpec
    unit_us: int
    work: Work
    tally: Tally
    dead: DeadLetters

    def in_order(self, chunk: Chunk, table: pa.Table) -> list[Timed] | None:
        """The rows of a chunk piece by piece as they lie in memory, where none is without time or late; else None.

        The fast path `ordered_rows`: gives exactly the rows, times and counts of `assign`, which is used after None.
        """
        spec, tally = self.spec, self.tally
        if chunk.bad.num_rows or spec.static or spec.operation or not spec.timestamp or not table.num_rows:
            return None
        if table.num_rows < sizes.reader_piece_rows * table.column(0).num_chunks:
            table = table.combine_chunks()
        pieces, top, kind = [], tally.top, _type(spec, spec.timestamp)
        for batch in table.to_batches():
            rows = pa.Table.from_batches([batch])
            stamp = event_time_us(rows.column(spec.timestamp), kind, self.unit_us)
            if stamp.null_count:
                return None
            times = stamp.to_numpy()
            latest = None if not len(times) else _latest_if_punctual(times, top, spec.lateness_us, self.work.floor)
            if latest is None or latest > self._latest_believed(top, int(times[0])):
                return None
            top = max(top, latest)
            pieces.append((rows, times))
        tally.rows, tally.top = tally.rows + table.num_rows, top
        tally.first = int(pieces[0][1][0]) if tally.first is None else tally.first
        return pieces

    def assign(self, chunk: Chunk) -> Timed:
        """Rows with their event time; rows without one, and rows behind the frontier, go to the dead letters."""
        spec, tally = self.spec, self.tally
        if chunk.bad.num_rows:
            tally.bad += chunk.bad.num_rows
            self.dead.add_records(spec, chunk.bad)
        rows = chunk.rows
        if spec.static:
            times = np.full(rows.num_rows, STATIC_TIME, np.int64)
            tally.rows += rows.num_rows
            return rows, times
        if spec.timestamp:
            stamp = event_time_us(rows.column(spec.timestamp), _type(spec, spec.timestamp), self.unit_us)
            if stamp.null_count:
                missing = pc.is_null(stamp)
                self.dead.add_rows(spec, rows.filter(missing), f'no event time in column "{spec.timestamp}"')
                tally.bad += stamp.null_count
                rows, stamp = rows.filter(pc.invert(missing)), stamp.drop_null()
            rows, times = self._refuse_future(rows, stamp.to_numpy())
        else:
            times = rows.column("__arrival").to_numpy()
        return self._refuse_unknown_operations(*self._refuse_late(rows, times))

    def _refuse_unknown_operations(self, rows: pa.Table, times: np.ndarray) -> Timed:
        """A row whose operation is none of the known words cannot be applied: it is a bad record.

        It has moved the clock like any other, so that what is late does not depend on how the input is cut.
        """
        spec, tally = self.spec, self.tally
        if spec.operation is None or not len(times):
            return rows, times
        words = rows.column(spec.operation).cast(pa.string())
        known = pc.is_in(pc.utf8_lower(words), value_set=_OPERATIONS)
        if pc.all(known).as_py():
            return rows, times
        unknown = pc.invert(known)
        if spec.on_error == "fail":
            raise refuse(spec, f'column "{spec.operation}" has no known operation', f'"{words.filter(unknown)[0]}"')
        if spec.on_error == "dead_letter":
            self.dead.add_rows(spec, rows.filter(unknown), f'column "{spec.operation}" has no known operation')
        good = known.to_numpy()
        tally.bad, tally.rows = tally.bad + int((~good).sum()), tally.rows - int((~good).sum())
        return rows.filter(known), times[good]

    def _latest_believed(self, top: int, first: int) -> int:
        """The latest event time that is believed when `top` is the newest one so far; the very first row is, where
        there is nothing to compare it with.
        """
        if self.spec.ahead_us is None:
            return FOREVER
        assert self.spec.timestamp is not None
        known = max(top, self.work.seen) if is_wall_time(_type(self.spec, self.spec.timestamp)) else top
        return (known if known > BEGINNING else first) + self.spec.ahead_us

    def _refuse_future(self, rows: pa.Table, times: np.ndarray) -> Timed:
        """Rows too far ahead of their time go to the dead letters and do not move the clock."""
        spec, tally = self.spec, self.tally
        if not len(times) or int(times.max()) <= self._latest_believed(tally.top, int(times[0])):
            return rows, times
        good, top = np.ones(len(times), bool), tally.top
        for i, at in enumerate(times.tolist()):
            good[i] = at <= self._latest_believed(top, at)
            top = max(top, at) if good[i] else top
        if not good.all():
            self.dead.add_rows(spec, rows.filter(pa.array(~good)), "too far ahead of its time: option ahead")
            tally.bad += int((~good).sum())
        return rows.filter(pa.array(good)), times[good]

    def _refuse_late(self, rows: pa.Table, times: np.ndarray) -> Timed:
        """A row is late when it is behind the frontier or more than the lateness behind a row before it."""
        spec, tally, floor = self.spec, self.tally, self.work.floor
        if not len(times):
            return rows, times
        if times[0] >= max(tally.top - spec.lateness_us, floor) and ascending(times):
            tally.rows, tally.top = tally.rows + len(times), max(tally.top, int(times[-1]))
            tally.first = int(times[0]) if tally.first is None else tally.first
            return rows, times
        running = np.maximum.accumulate(times)
        before = np.maximum(np.concatenate([[BEGINNING], running[:-1]]), tally.top)
        late = times < np.maximum(before - spec.lateness_us, floor)
        tally.top = max(tally.top, int(running[-1]))
        if late.any() and spec.options.get("late") == APPLY:
            # They come as soon as their source allows it, which any cut into batches agrees about.
            rows = rows.append_column(EVENT, pa.array(times))
            times = np.where(late, np.maximum(before - spec.lateness_us, floor), times)
        elif late.any():
            self.dead.add_rows(spec, rows.filter(pa.array(late)), "late: behind the frontier of its source")
            tally.late += int(late.sum())
            tally.behind = max(tally.behind, int((np.maximum(before, floor + spec.lateness_us) - times)[late].max()))
            rows, times = rows.filter(pa.array(~late)), times[~late]
        tally.rows += len(times)
        if tally.first is None and len(times):
            tally.first = int(times[0])
        return rows, times


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


def stamp_rows(rows: pa.Table, times: np.ndarray) -> pa.Table:
    """The rows as changes: with the event time `__ts`, the time at which they come, and `__diff`: 1, unless they are
    changes of another site.
    """
    time = pa.array(times, pa.int64())
    stamp = rows.column(EVENT) if EVENT in rows.column_names else time
    diffs = rows.column(DIFF) if DIFF in rows.column_names else pa.array(np.ones(len(times), np.int64))
    rows = rows.drop_columns([n for n in ("__arrival", EVENT, DIFF) if n in rows.column_names])
    return rows.append_column("__ts", stamp).append_column("__time", time).append_column(DIFF, diffs)


def _type(spec: SourceSpec, name: str) -> str:
    return next(c.type for c in spec.columns if c.name == name)
