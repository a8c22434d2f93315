"""Window functions over partitions: LAG, LEAD, FIRST_VALUE, NTILE, SUM … OVER and their like.

Let R(k, v) be the rows of partition k after its v-th time of this batch; R(k, 0) is what is stored. The answer A(k, v)
is what DuckDB computes over R(k, v) in its total order, and the output is A(k, v) − A(k, v − 1). State: all rows.

Partitions whose rows are *appended* need one version in the place of all: every change inserts a row behind all rows
that were there, and no function looks at what is behind. Then the answer of a row at its time is that of the last
version, and older rows keep theirs.

Where every function looks at a bounded number of rows around its own, a version is compared with the one before it in
the *neighbourhood* of the rows that change. Let the functions look at most a rows back and b ahead, and r = a + b.
Results that change are within b rows before a change and a behind it, and depend on rows within r of that change. Rows
that are taken along and lack some of their own neighbours lack the same ones before and after, so their results cancel.

The last digits of sums of doubles and their like depend on the order in which DuckDB meets the values, which is another
one whenever a row comes or goes. Where a function is not exact, A(k, 0) is not computed again: what was `given` is kept
beside the rows, and taken back as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING
from tidemill.plan.relations import quoted
from tidemill.plan.sort_keys import SortKey, complete_order
from tidemill.plan.sources import Column
from tidemill.plan.window_calls import FRAMELESS, VALUES, WindowCall
from tidemill.plan.window_frames import FOLLOWING, PRECEDING, Bound, Frame
from tidemill.runtime.dataflow.changes import PENDING, contents_layout, pending_layout, take_closed
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.dataflow.value_codes import number_rows
from tidemill.runtime.duckdb import duck
from tidemill.runtime.operators.ranking.given_answers import GivenAnswers
from tidemill.runtime.operators.ranking.partitions import Partitions, find_ends
from tidemill.runtime.operators.ranking.versions import Piece, Versions
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes

_WHOLE = Frame("ROWS", Bound(PRECEDING), Bound(FOLLOWING))
_SUMMED_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")  # DuckDB adds them up in 128 bits for AVG
_PEER, _PLACE = SortKey("__peer"), SortKey("__place")


class WindowFunctions(Operator[p.WindowFunctions]):
    """Input: changes of rows. Output: changes of the rows with their results."""

    def __init__(self, op: p.WindowFunctions, first: bool = True) -> None:
        super().__init__(op, first)
        self.partitions = Partitions(op.columns, op.partition)
        self.order = complete_order(op.order, self.partitions.names, op.partition)
        self.results = [c.name for c in op.calls]
        self.is_exact = all(call.is_exact or _averages_whole_numbers(call, op.columns) for call in op.calls)

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        batch = inputs[0]
        pending = self.arrangement(state, PENDING, pending_layout(self.op.columns))
        closed = take_closed(pending, batch.rows, batch.frontier)
        if closed.num_rows == 0:
            return Batch(None, batch.frontier)
        kept = self.arrangement(state, "rows", contents_layout(self.op.columns))
        moves = self.partitions.sort_moves(closed, self.partitions.probe(closed, kept), self.order)
        versions = self._read_versions(moves)
        given = None if self.is_exact else self._given_answers(state)
        found = [piece for piece in self._changes(moves, versions, given) if piece.num_rows]
        self.partitions.keep(moves, np.where(versions.time == BEGINNING, 0, versions.diff), kept)
        return Batch(pa.concat_tables(found) if found else None, batch.frontier)

    def _given_answers(self, state: ShardState) -> GivenAnswers:
        columns = (*self.op.columns, *(Column(call.name, call.type) for call in self.op.calls))
        partitions = Partitions(columns, self.op.partition)
        return GivenAnswers(partitions, self.results, self.arrangement(state, "given", contents_layout(columns)))

    def _read_versions(self, moves: pa.Table) -> Versions:
        part = find_ends(moves, self.op.partition)
        peer = part | find_ends(moves, [key.column for key in self.op.order])
        row = peer | find_ends(moves, [key.column for key in self.order[len(self.op.order) :]])
        diff = moves.column("__diff").to_numpy().astype(np.int64)
        return Versions(part, peer, row, moves.column("__time").to_numpy().astype(np.int64), diff)

    def _changes(self, moves: pa.Table, versions: Versions, given: GivenAnswers | None) -> Iterator[pa.Table]:
        appended = np.zeros(versions.parts, np.bool_)
        if all(call.backward for call in self.op.calls):
            appended = versions.find_appended(any(call.of_peers for call in self.op.calls))
        if appended.any():
            yield _note(self._append(moves, versions, appended), given)
        reach = self._reach() if given is None else None
        if reach is not None and not appended.all():
            yield from self._compare_near(moves, versions, ~appended, reach)
            return
        for piece in versions.cut(np.flatnonzero(~appended), sizes.version_rows):
            yield _note(self._compare(moves, versions, piece, given), given)

    def _reach(self) -> int | None:
        """How many rows back and ahead the functions look, together; None where that is not bounded, or far."""
        each = [call.reach for call in self.op.calls]
        known = [reach for reach in each if reach is not None]
        total = max(back for back, _ in known) + max(ahead for _, ahead in known) if known else 0
        return total if len(known) == len(each) and total <= sizes.far_rows else None

    def _compare_near(self, moves: pa.Table, versions: Versions, parts: np.ndarray, reach: int) -> Iterator[pa.Table]:
        """The difference that changes make in their neighbourhood, in pieces that fit into memory."""
        move, version, side, copies = versions.find_neighbours(parts, reach)
        part = versions.part[move]
        begins = np.ones(len(move), np.bool_)
        begins[1:] = (part[1:] != part[:-1]) | (version[1:] != version[:-1])
        pair = np.cumsum(begins) - 1
        slot = np.cumsum(copies) // sizes.version_rows
        for one in np.split(np.arange(len(move)), np.flatnonzero(begins[1:] & (slot[1:] != slot[:-1])) + 1):
            if len(one):
                yield self._compare_sides(
                    moves, versions, *(np.repeat(a[one], copies[one]) for a in (move, pair, side, version))
                )

    def _compare_sides(
        self,
        moves: pa.Table,
        versions: Versions,
        move: np.ndarray,
        pair: np.ndarray,
        side: np.ndarray,
        version: np.ndarray,
    ) -> pa.Table:
        """What is on side 1 of each pair without what is on side 0."""
        answers = self._answer(moves, versions, move, 2 * pair + side)
        columns = [pa.array(move), pa.array(pair), *(answers.column(name) for name in self.results)]
        ids, first = number_rows(columns, len(move))
        diff = np.bincount(ids, 2 * side - 1, len(first)).astype(np.int64)
        taken, diff = first[diff != 0], diff[diff != 0]
        times = versions.time_of(versions.part[move[taken]], version[taken])
        return self._table(moves, move[taken], answers.take(pa.array(taken)), times, diff)

    def _append(self, moves: pa.Table, versions: Versions, appended: np.ndarray) -> pa.Table:
        """The changes of partitions whose rows are appended: the new rows."""
        chosen = np.flatnonzero(appended[versions.part])
        copies = np.repeat(chosen, versions.diff[chosen])
        answers = self._answer(moves, versions, copies, versions.part[copies])
        fresh = np.flatnonzero(versions.time[copies] != BEGINNING)
        move = copies[fresh]
        return self._table(
            moves, move, answers.take(pa.array(fresh)), versions.time[move], np.ones(len(move), np.int64)
        )

    def _compare(self, moves: pa.Table, versions: Versions, piece: Piece, given: GivenAnswers | None) -> pa.Table:
        """The difference between the versions of a piece and the ones before them."""
        move, number, version = versions.expand(piece)
        span = int(piece.high.max()) + 2
        answers = self._answer(moves, versions, move, number * span + version)
        if given is not None:
            first = np.flatnonzero(version == piece.low[number])
            answers = given.put_in_place(
                answers, first, moves.select(self.partitions.names).take(pa.array(move[first]))
            )
        row = np.cumsum(versions.row_begins)[move]
        columns = [pa.array(row), pa.array(number), *(answers.column(name) for name in self.results)]
        ids, first = number_rows(columns, len(move))
        # An answer comes with its version and goes with the next one.
        keys, at = np.unique(np.concatenate([ids * span + version, ids * span + version + 1]), return_inverse=True)
        diff = np.bincount(at, np.repeat(np.array([1, -1]), len(ids)), len(keys)).astype(np.int64)
        entry, after = number[first[keys // span]], keys % span
        wanted = (diff != 0) & (after > piece.low[entry]) & (after <= piece.high[entry])
        taken, times = first[keys[wanted] // span], versions.time_of(piece.part[entry[wanted]], after[wanted])
        return self._table(moves, move[taken], answers.take(pa.array(taken)), times, diff[wanted])

    def _table(
        self, moves: pa.Table, move: np.ndarray, answers: pa.Table, times: np.ndarray, diff: np.ndarray
    ) -> pa.Table:
        out = moves.select(self.partitions.names).take(pa.array(move))
        for name in self.results:
            out = out.append_column(name, answers.column(name))
        return out.append_column("__time", pa.array(times)).append_column("__diff", pa.array(diff))

    def _answer(self, moves: pa.Table, versions: Versions, move: np.ndarray, group: np.ndarray) -> pa.Table:
        """The results for rows that are in order within each group: `move` has them."""
        read = {a for call in self.op.calls for a in call.arguments} | {quoted(k.column) for k in self.op.order}
        columns = [c for c in self.op.columns if quoted(c.name) in read]
        numbers = {"__group": group, "__peer": versions.peer[move], "__place": np.arange(len(move))}
        rows = pa.table({name: pa.array(values) for name, values in numbers.items()})
        for column in columns:
            rows = rows.append_column(column.name, moves.column(column.name).take(pa.array(move)))
        calls = ", ".join(f"{self._call_sql(c)} AS {quoted(c.name)}" for c in self.op.calls)
        names = ", ".join(map(quoted, self.results))
        inner = f"SELECT __place, {calls} FROM {duck.source('rows', columns, *numbers)}"
        return duck.run(f"SELECT {names} FROM ({inner}) ORDER BY __place", rows=rows)

    def _call_sql(self, call: WindowCall) -> str:
        """A call over the groups, in the order of peers and places; a range of values needs the values.

        Without an order, DuckDB takes the rows of a group as they come to lie; places order them, so that the last
        digits of some aggregates do not change when nothing else does.
        """
        if not self.op.order and call.frame is None and call.function not in (*FRAMELESS, *VALUES):
            call = replace(call, frame=_WHOLE)
        order = self.op.order if call.by_value else (_PEER,) if self.op.order else ()
        return f"CAST({call.sql(['__group'], order, (_PLACE,))} AS {call.type})"


def _averages_whole_numbers(call: WindowCall, columns: tuple[Column, ...]) -> bool:
    """Whether a call divides a sum of whole numbers, which has all its digits, by their number."""
    summed = {quoted(c.name) for c in columns if c.type in _SUMMED_WHOLE}
    return call.function == "avg" and set(call.arguments) <= summed


def _note(changes: pa.Table, given: GivenAnswers | None) -> pa.Table:
    """Changes that leave; what they give and take back is noted."""
    if given is not None:
        given.add(changes)
    return changes
