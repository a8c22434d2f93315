"""At which times the values of an input are present in a group of the joined rows, without making the pairs.

MIN, MAX and COUNT(DISTINCT) depend on whether a value is present, not on how often. In a join of two inputs the
multiplicity of a value v of input i in group k is m(k, v) = n(k, v) · w(k): how many rows of i have it, times how many
rows of the other input have the join value of k. So m becomes positive or falls to zero only where n or w does, and a
change of w in between changes no value's presence. The counts that come out add up to the exact change of m over the
batch, so they may be mixed with value counts of another plan or another shard.

Applies where the group of a joined row can be read off the row of the input that has the values.

The fast path `value_presence`: MIN, MAX and COUNT(DISTINCT) are exactly those of counted values; where it does not
apply, or `pair_sums` is off, values of pairs are counted. It pays where windows slide: at every slide w changes for all
values of a group, and few of them come or go. Over windows that tumble readers send one least and greatest value for
each group, and both ways cost about the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.runtime.dataflow.value_codes import JoinValues, distinct, match_all, number, number_column
from tidemill.runtime.joins.aggregation_sets import FORMS, AggregationSets
from tidemill.runtime.joins.partials import Partials
from tidemill.runtime.joins.routes import JoinGraph, ProbeStep
from tidemill.runtime.kernels.joins.delta_join_rows import order_rows
from tidemill.runtime.kernels.joins.presence import Partners, count_partners, room_for_partners, tell_presence
from tidemill.runtime.state.shard_state import ShardState

_ROOM = 1 << 62  # products of counts below it, and sums of two of them, fit into 64 bits


@dataclass(frozen=True)
class ValueColumn:
    """A column of input `owner` whose values are counted, and the columns of that input that are the group's keys."""

    pick: str
    owner: int
    column: str
    keys: tuple[tuple[str, str], ...]  # (name of the key, column)


@dataclass(frozen=True)
class Changes:
    """Rows of one input that a batch touches: stored ones at rank 0, then its changes."""

    rows: pa.Table
    n: np.ndarray
    rank: np.ndarray

    @property
    def most(self) -> int:
        """More than any count of them."""
        return int(np.abs(self.n).sum())


class ValuePresence:
    """The values that outputs of a join of two inputs read; `routes[k]` is the route from input k to the other one."""

    def __init__(
        self, value_columns: list[ValueColumn], inputs: list[AggregationSets], routes: list[list[ProbeStep]]
    ) -> None:
        self.value_columns, self.inputs = value_columns, inputs
        self.columns = frozenset(a.column for a in value_columns)
        self.steps = [routes[1][0], routes[0][0]]  # how each input is looked up

    @staticmethod
    def of(
        outputs: Partials, inputs: list[AggregationSets], graph: JoinGraph, routes: list[list[ProbeStep]]
    ) -> ValuePresence | None:
        """None where the pairs are needed, or no output reads values."""
        if not outputs.values or not outputs.separate or len(inputs) != 2 or not all(s.stored for s in inputs):
            return None
        value_columns = []
        for pick, sql, _ in outputs.values:
            owner, column = outputs.places.get(sql, (-1, ""))
            keys = [(name, _column_of(owner, outputs.places.get(key), graph)) for name, _, key in outputs.keys]
            if owner < 0 or column not in inputs[owner].extremes or any(c is None for _, c in keys):
                return None
            value_columns.append(ValueColumn(pick, owner, column, tuple((name, str(c)) for name, c in keys)))
        return ValuePresence(value_columns, inputs, routes)

    def count_values(self, state: ShardState, times: np.ndarray) -> dict[str, pa.Table]:
        """Value counts (keys, __v, __time, __n) by pick, before the batch is stored; `times` are those of its changes.

        OverflowError where counts do not fit, or some are negative.
        """
        touched = self._touched_hashes()
        changes = [self._collect_changes(i, touched, state, times) for i in range(2)]
        if changes[0].most * changes[1].most >= _ROOM:
            raise OverflowError("too many pairs for counts of 64 bits")
        found = {}
        for owner in sorted({a.owner for a in self.value_columns}):
            bucket, partners = self._partners(owner, changes, len(times) + 1)
            for wanted in self.value_columns:
                if wanted.owner == owner:
                    found[wanted.pick] = self._count_column(wanted, changes[owner], bucket, partners, times)
        return {pick: rows for pick, rows in found.items() if rows.num_rows}

    def _touched_hashes(self) -> np.ndarray:
        """The different hashes of the join values that change in any input."""
        return distinct(
            np.concatenate([s.hashes(f, self.steps[i].own) for i, s in enumerate(self.inputs) for f in FORMS])
        )

    def _collect_changes(self, i: int, touched: np.ndarray, state: ShardState, times: np.ndarray) -> Changes:
        sets = self.inputs[i]
        names = [c.name for c in sets.keys]
        stored = list(sets.fetch(state, self.steps[i].own, touched).values())
        moves = list(sets.moves.values())
        rows = pa.concat_tables([t.select(names).cast(moves[0].select(names).schema) for t in (*stored, *moves)])
        n = np.concatenate([t.column("__n").to_numpy() for t in (*stored, *moves)]).astype(np.int64)
        ranks = [np.zeros(sum(t.num_rows for t in stored), np.int64)]
        ranks += [np.searchsorted(times, t.column("__time").to_numpy()) + 1 for t in moves]
        return Changes(rows, n, np.concatenate(ranks))

    def _partners(self, owner: int, changes: list[Changes], ranks: int) -> tuple[np.ndarray, Partners]:
        """(the bucket of each row of the owner, how many rows of the other input are in each)."""
        mine, other = changes[owner], changes[1 - owner]
        known = self.steps[owner].known
        if known:
            values = [JoinValues() for _ in known]
            held = [v.codes(mine.rows.column(own)) for v, (_, own, _) in zip(values, known, strict=True)]
            sought = [v.codes(other.rows.column(its)) for v, (_, _, (_, its)) in zip(values, known, strict=True)]
            bucket, its_bucket, buckets = match_all(held, sought)
        else:
            bucket, its_bucket, buckets = np.zeros(len(mine.n), np.int64), np.zeros(len(other.n), np.int64), 1
        start = np.empty(buckets + 1, np.int64)
        order = order_rows(its_bucket, other.rank, buckets, ranks, start)
        partners = room_for_partners(buckets, len(order))
        if not count_partners(order, start, other.rank, other.n, partners):
            raise OverflowError("negative counts")
        return bucket, partners

    def _count_column(
        self, wanted: ValueColumn, changes: Changes, bucket: np.ndarray, partners: Partners, times: np.ndarray
    ) -> pa.Table:
        values = changes.rows.column(wanted.column)
        joined = {own for _, own, _ in self.steps[wanted.owner].known}
        cell = bucket
        for column in (wanted.column, *(c for _, c in wanted.keys if c not in joined)):
            own, width = number_column(changes.rows.column(column))
            cell, first = number(cell * width + own)
        start = np.empty(len(first) + 1, np.int64)
        order = order_rows(cell, changes.rank, len(first), len(times) + 1, start)
        sound, told = tell_presence(
            order, start, changes.rank, changes.n, bucket[first], partners, len(changes.n) + len(first)
        )
        if not sound:
            raise OverflowError("negative counts")
        rows = first[told[:, 0]]
        columns = {name: changes.rows.column(c).take(pa.array(rows)) for name, c in wanted.keys}
        columns["__v"] = values.take(pa.array(rows))
        columns["__time"] = pa.array(times[told[:, 1] - 1])
        columns["__n"] = pa.array(np.ascontiguousarray(told[:, 2]))
        found = pa.table(columns)
        return found.filter(found.column("__v").is_valid()) if values.null_count else found


def _column_of(owner: int, place: tuple[int, str] | None, graph: JoinGraph) -> str | None:
    """The column of input `owner` that has the value of a key; None where only the other input has it."""
    if place is None or place[0] == owner:
        return place and place[1]
    which = graph.class_of(*place)
    return None if which is None else graph.column(owner, which)
