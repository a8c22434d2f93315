"""Sessions: the rows of each partition whose stamps follow each other by less than a gap, shown when the session ends.

Let R(t) be the input at time t. A row is in the output at t if its session in R(t) ends at t or before, with the bounds
that the session has there. State: the rows of the input, and when the sessions that are open will end (`ends`); an end
that has moved on is found out when its time comes. Where no row is taken back and each comes at its stamp (`closing`),
a session whose end is closed never changes: its rows are shown once and forgotten. Otherwise all rows are kept
(`session_revisions`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING
from tidemill.plan.relations import END, START
from tidemill.plan.sort_keys import SortKey, complete_order
from tidemill.runtime.dataflow.changes import PENDING, contents_layout, key_hashes, pending_layout, take_closed
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.dataflow.value_codes import distinct
from tidemill.runtime.operators.ranking.partitions import Partitions, find_ends
from tidemill.runtime.operators.session_revisions import Change, Revisions
from tidemill.runtime.state.arrangements import Arrangement
from tidemill.runtime.state.shard_state import ShardState

_ENDS = "ends"


class Sessions(Operator[p.Sessions]):
    """Input: changes of rows. Output: changes of the rows of ended sessions, with the bounds of these."""

    def __init__(self, op: p.Sessions, first: bool = True) -> None:
        super().__init__(op, first)
        self.partitions = Partitions(op.columns, op.partition)
        self.keys = tuple(c for c in op.columns if c.name in op.partition)
        self.order = complete_order((SortKey(op.stamp),), self.partitions.names, op.partition)

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        batch = inputs[0]
        pending = self.arrangement(state, PENDING, pending_layout(self.op.columns))
        closed = take_closed(pending, batch.rows, batch.frontier)
        ends = self.arrangement(state, _ENDS, pending_layout(self.keys))
        due = ends.pop(batch.frontier)
        before = self._note_frontier(batch.frontier, state)
        if closed.num_rows == 0 and due.num_rows == 0:
            return Batch(None, batch.frontier)
        kept = self.arrangement(state, "rows", contents_layout(self.op.columns))
        moves = self.partitions.sort_moves(closed, kept.probe(self._touched_hashes(closed, due)), self.order)
        if moves.num_rows == 0:
            return Batch(None, batch.frontier)
        if self.op.closing:
            return Batch(self._close(moves, batch.frontier, kept, ends), batch.frontier)
        return Batch(self._revise(moves, (before, batch.frontier), kept, ends), batch.frontier)

    def _note_frontier(self, frontier: int, state: ShardState) -> int:
        """The frontier before this batch: sessions that ended before it are shown."""
        if self.op.closing:
            return BEGINNING
        value = state.value(self.id)
        before, value["frontier"] = int(value.get("frontier", BEGINNING)), frontier
        return before

    def _touched_hashes(self, *tables: pa.Table) -> np.ndarray:
        """The hashes of the partitions in which rows change or a session may end."""
        if not self.op.partition:
            return np.zeros(1, np.uint64)
        found = [key_hashes(t, self.keys, self.op.partition) for t in tables if t.num_rows]
        return distinct(np.concatenate(found))

    def _close(self, moves: pa.Table, frontier: int, kept: Arrangement, ends: Arrangement) -> pa.Table | None:
        """The rows of sessions that end before the frontier; those of others are kept."""
        stamp = moves.column(self.op.stamp).to_numpy()
        begins = find_ends(moves, self.op.partition)
        begins[1:] |= stamp[1:] - stamp[:-1] >= self.op.gap_us
        session = np.cumsum(begins) - 1
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(stamp)) - 1
        start, end = stamp[first], stamp[last] + self.op.gap_us
        over = (end < frontier)[session]
        diff = moves.column("__diff").to_numpy()
        new = moves.column("__time").to_numpy() != BEGINNING
        self.partitions.keep(moves, np.where(new, np.where(over, 0, diff), np.where(over, -diff, 0)), kept)
        grown = np.unique(session[new & ~over])
        self._expect(moves, first[grown], end[grown], ends)
        shown = np.flatnonzero(over)
        one = session[shown]
        return self._table(moves, shown, start[one], end[one], end[one], diff[shown]) if len(shown) else None

    def _revise(
        self, moves: pa.Table, frontiers: tuple[int, int], kept: Arrangement, ends: Arrangement
    ) -> pa.Table | None:
        """What changes where rows are taken back, or come after their stamps."""
        time, diff = (moves.column(name).to_numpy().astype(np.int64) for name in ("__time", "__diff"))
        stamp, old = moves.column(self.op.stamp).to_numpy(), time == BEGINNING
        begins = find_ends(moves, self.op.partition)
        row = np.maximum.accumulate(np.where(find_ends(moves, self.partitions.names), np.arange(len(time)), 0))
        self.partitions.keep(moves, np.where(old, 0, diff), kept)
        found: list[tuple[int, int, int, int, int]] = []
        open_rows, open_ends = list[int](), list[int]()
        for piece in np.split(np.arange(len(time)), np.flatnonzero(begins)[1:]):
            changes = [
                Change(*values) for values in zip(*(a[piece].tolist() for a in (time, row, stamp, diff)), strict=True)
            ]
            work = Revisions(self.op.gap_us, [c for c in changes if c.time == BEGINNING], frontiers[0])
            found += work.revise([c for c in changes if c.time != BEGINNING], frontiers[1])
            open_ends += work.open_ends
            open_rows += [int(piece[0])] * len(work.open_ends)
        self._expect(moves, np.array(open_rows, np.int64), np.array(open_ends, np.int64), ends)
        if not found:
            return None
        rows, start, end, times, diffs = np.array(found, np.int64).T
        return self._table(moves, rows, start, end, times, diffs)

    def _expect(self, moves: pa.Table, rows: np.ndarray, times: np.ndarray, ends: Arrangement) -> None:
        """Look at the partitions of these rows again when their sessions may end."""
        if len(rows):
            table = moves.select([c.name for c in self.keys]).take(pa.array(rows))
            ends.append(_with_changes(table, times, np.ones(len(rows), np.int64)))
            ends.compact()

    def _table(self, moves: pa.Table, rows: np.ndarray, *numbers: np.ndarray) -> pa.Table:
        """Rows with the start and the end of their sessions, the times of their changes, and how many copies."""
        start, end, times, diff = numbers
        out = moves.select(self.partitions.names).take(pa.array(rows))
        out = out.append_column(START, pa.array(start)).append_column(END, pa.array(end))
        return _with_changes(out, times, diff)


def _with_changes(table: pa.Table, times: np.ndarray, diff: np.ndarray) -> pa.Table:
    out = table if table.num_columns else pa.table({"__time": pa.array(times)})
    out = out if "__time" in out.column_names else out.append_column("__time", pa.array(times))
    return out.append_column("__diff", pa.array(diff))
