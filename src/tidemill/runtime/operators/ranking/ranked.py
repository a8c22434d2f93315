"""The first rows of each partition, and their ranks: LIMIT, DISTINCT ON, ROW_NUMBER, RANK, DENSE_RANK.

Let R(k, t) be the rows of partition k at time t in their total order. The answer has the rows of R(k, t) with a rank in
(after, last]. For each partition the closed times are walked in order; at each time the ranks are compared from the
first row that changes to the last one whose rank can change with it, and the difference is emitted. State: all rows of
the partitions; where the input is append-only, those with a rank of at most `last`, since a row never comes back.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING
from tidemill.plan.sort_keys import complete_order
from tidemill.runtime import fast_paths
from tidemill.runtime.dataflow.changes import PENDING, contents_layout, pending_layout, take_closed
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.operators.ranking.early_limit import EarlyLimit, slice_times
from tidemill.runtime.operators.ranking.partitions import Partitions
from tidemill.runtime.operators.ranking.sorted_moves import MoveOrder, SortedMoves
from tidemill.runtime.row_references import concat_rows, take_rows
from tidemill.runtime.state.arrangements import Arrangement
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes

_KINDS = ("row_number", "rank", "dense_rank")
_NO_END = 1 << 62  # a rank that no row has


class Ranked(Operator[p.Ranked]):
    """Input: changes of rows. Output: changes of those with a wanted rank."""

    takes_references = True

    def __init__(self, op: p.Ranked, first: bool = True) -> None:
        super().__init__(op, first)
        self.partitions = Partitions(op.columns, op.partition)
        self.order = complete_order(op.order, self.partitions.names, op.partition)
        self.moves = MoveOrder(op.columns, op.partition, op.order, self.order[len(op.order) :])
        self.sorted_by = self.order if op.function == "row_number" else op.order  # what ranks depend on
        self.limits_early = op.bounded and fast_paths.is_on("early_limit")

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        batch = inputs[0]
        pending = self.arrangement(state, PENDING, pending_layout(self.op.columns))
        closed = take_closed(pending, batch.rows, batch.frontier)
        if closed.num_rows == 0:
            return Batch(None, batch.frontier)
        kept = self.arrangement(state, "rows", contents_layout(self.op.columns))
        slices = slice_times(closed, sizes.ranked_rows) if self.limits_early else [closed]
        found = [out for piece in slices if (out := self._take(piece, kept)).num_rows]
        return Batch(concat_rows(found) if found else None, batch.frontier, netted=True)

    def _take(self, closed: pa.Table, kept: Arrangement) -> pa.Table:
        """The changes of the answer that closed changes make."""
        held = self.partitions.probe(closed, kept)
        if self.limits_early and held.num_rows and self.sorted_by:
            closed = EarlyLimit(self.op, self.sorted_by[0]).leave_out(closed, held)
            if closed.num_rows == 0:
                return closed
        moves = self.moves.sort(self.partitions.gather_moves(closed, held))
        out, growth = self._walk(moves)
        changed = np.flatnonzero(growth)
        rows = moves.table.take(pa.array(moves.rows[np.flatnonzero(moves.row)[changed]]))
        self.partitions.keep(rows, growth[changed], kept, different=True)
        return out

    def _walk(self, moves: SortedMoves) -> tuple[pa.Table, np.ndarray]:
        """(changes of the answer, how many more of each of the different rows are to be kept)."""
        from tidemill.runtime.kernels.grouping import ranks

        op, times, diff = self.op, moves.column("__time"), moves.column("__diff")
        part, peer, row = moves.partition, moves.peer, moves.row
        number, firsts = np.cumsum(row) - 1, np.flatnonzero(row)
        partition = np.cumsum(part) - 1
        by_time = np.lexsort((times, partition))
        start = np.append(np.flatnonzero(part), len(part))
        groups = _number_peers(part[firsts], peer[firsts])
        kept = np.zeros(len(firsts), np.int64)
        changes = ranks.walk_ranks(
            ranks.Rows(np.append(number[start[:-1]], len(firsts)), *groups),
            ranks.Moves(start, number[by_time], times[by_time], diff[by_time], BEGINNING),
            ranks.Wanted(
                _KINDS.index(op.function),
                op.after,
                _NO_END if op.last is None else op.last,
                op.name is not None,
                op.bounded,
            ),
            kept,
        )
        stored = np.bincount(number, np.where(times == BEGINNING, diff, 0), len(firsts)).astype(np.int64)
        return self._changes(moves.table, moves.rows[firsts], changes), kept - stored

    def _changes(self, table: pa.Table, firsts: np.ndarray, changes: np.ndarray) -> pa.Table:
        """The changes that the kernel has found, as a table; row number i is the one at `firsts[i]`."""
        row, rank, diff, time = changes.T
        if self.op.name is not None and self.op.function == "row_number":
            copies = np.abs(diff)
            ends = np.cumsum(copies)
            rank = np.repeat(rank - ends + copies, copies) + np.arange(ends[-1] if len(ends) else 0)
            row, time, diff = np.repeat(row, copies), np.repeat(time, copies), np.repeat(np.sign(diff), copies)
        out = pa.table(take_rows(table, firsts[row], self.partitions.names))
        if self.op.name is not None:
            out = out.append_column(self.op.name, pa.array(rank))
        return out.append_column("__time", pa.array(time)).append_column("__diff", pa.array(diff))


def _number_peers(part: np.ndarray, peer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(first row of each row's group of peers, number of the group), both counted within the partition; the arrays say
    where partitions and groups begin.
    """
    rows = np.arange(len(part))
    begin = np.maximum.accumulate(np.where(part, rows, 0))
    head = np.maximum.accumulate(np.where(peer, rows, 0))
    number = np.cumsum(peer) - 1
    return head - begin, number - number[begin]
