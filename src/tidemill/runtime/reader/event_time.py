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
            stamp = event_time_us(rows.column(spec.timestamp), type_of(spec, spec.timestamp), self.unit_us)
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

    def latest_believed(self, top: int, first: int) -> int:
        """The latest event time that is believed when `top` is the newest one so far; the very first row is, where
        there is nothing to compare it with.
        """
        if self.spec.ahead_us is None:
            return FOREVER
        assert self.spec.timestamp is not None
        known = max(top, self.work.seen) if is_wall_time(type_of(self.spec, self.spec.timestamp)) else top
        return (known if known > BEGINNING else first) + self.spec.ahead_us

    def _refuse_future(self, rows: pa.Table, times: np.ndarray) -> Timed:
        """Rows too far ahead of their time go to the dead letters and do not move the clock."""
        spec, tally = self.spec, self.tally
        if not len(times) or int(times.max()) <= self.latest_believed(tally.top, int(times[0])):
            return rows, times
        good, top = np.ones(len(times), bool), tally.top
        for i, at in enumerate(times.tolist()):
            good[i] = at <= self.latest_believed(top, at)
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


def stamp_rows(rows: pa.Table, times: np.ndarray) -> pa.Table:
    """The rows as changes: with the event time `__ts`, the time at which they come, and `__diff`: 1, unless they are
    changes of another site.
    """
    time = pa.array(times, pa.int64())
    stamp = rows.column(EVENT) if EVENT in rows.column_names else time
    diffs = rows.column(DIFF) if DIFF in rows.column_names else pa.array(np.ones(len(times), np.int64))
    rows = rows.drop_columns([n for n in ("__arrival", EVENT, DIFF) if n in rows.column_names])
    return rows.append_column("__ts", stamp).append_column("__time", time).append_column(DIFF, diffs)


def type_of(spec: SourceSpec, name: str) -> str:
    """The declared type of a column."""
    return next(c.type for c in spec.columns if c.name == name)
