"""Inner equi-join: ΔL ⋈ R + L ⋈ ΔR + ΔL ⋈ ΔR, times the later of the two, multiplicities multiplied.

Inputs are processed once their time is closed, so everything in the state is older than everything new and
needs no time of its own: rows that came and went have cancelled. A batch that spans much time is taken in
slices, oldest first, so that rows which were never present at the same time are not paired.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan import physical as p
from tidemill.plan.relations import quoted
from tidemill.plan.released import is_open
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.changes import (
    DIFF,
    HASH,
    PENDING,
    TIME,
    contents_layout,
    distinct_hashes,
    key_hashes,
    pending_layout,
    take_closed,
)
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import name_list
from tidemill.runtime.operators.band import ReleaseBounds, expire_rows
from tidemill.runtime.operators.joined_pairs import Matching
from tidemill.runtime.row_references import concat_rows, write_out
from tidemill.runtime.state.arrangements import Arrangement
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes


class Side:
    """One input of the join: its columns, its key, and how long its rows can still match."""

    def __init__(self, name: str, side: p.JoinSide, lonely: bool = False) -> None:
        self.name, self.lonely = name, lonely  # `lonely`: rows without a partner are shown
        self.columns, self.keys = side.columns, side.keys
        self.stamp, self.keep_us, self.stored = side.stamp, side.keep_us, side.stored

    def take_changes(self, batch: Batch, frontier: int, node: str, state: ShardState) -> pa.Table:
        """Closed changes of this side with their key hash; rows with a NULL key never match, and are left out unless
        rows without a partner are shown.
        """
        pending = state.arrangement(node, f"{self.name}_{PENDING}", pending_layout(self.columns))
        rows = take_closed(pending, batch.rows, frontier)
        if rows.num_rows == 0:
            return _no_changes(self.columns)
        for key in [] if self.lonely else self.keys:
            if rows.column(key).null_count:
                rows = rows.filter(pc.is_valid(rows.column(key)))
        hashes = key_hashes(rows, self.columns, self.keys) if self.keys else np.zeros(rows.num_rows, np.uint64)
        names = [*(c.name for c in self.columns), "__time", "__diff"]
        return rows.select(names).add_column(0, "__h", pa.array(hashes))

    def contents(self, node: str, state: ShardState) -> Arrangement:
        """The rows of this side that are present now."""
        return state.arrangement(node, f"{self.name}_rows", contents_layout(self.columns))


class Join(Operator[p.Join]):
    """Inputs: left and right changes, both with the join key's shard; then the points that hold rows of them back."""

    takes_references = True

    def __init__(self, op: p.Join, first: bool = True) -> None:
        super().__init__(op, first)
        self.left = Side("left", op.left)
        self.right = Side("right", op.right)
        names = tuple(c.name for c in self.schema)
        self.matching = Matching(
            self.left.columns, self.right.columns, tuple(op.left.keys), tuple(op.right.keys), names, op.residual
        )
        self.in_arrays = self.matching.is_supported()

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        frontier = min(b.frontier for b in inputs[:2])
        left = self.left.take_changes(inputs[0], frontier, self.id, state)
        right = self.right.take_changes(inputs[1], frontier, self.id, state)
        pieces = [self._join_changes(l, r, state) for l, r in cut_slices(left, right)]
        pieces = [p for p in pieces if p.num_rows]
        self._expire(frontier, inputs[2:], state)
        return Batch(concat_rows(pieces) if pieces else None, frontier)

    def _join_changes(self, left: pa.Table, right: pa.Table, state: ShardState) -> pa.Table:
        held_left, held_right = self.left.contents(self.id, state), self.right.contents(self.id, state)
        old_left = held_left.probe(distinct_hashes(right))
        old_right = held_right.probe(distinct_hashes(left))
        pair = self._pair_in_arrays if self.in_arrays else self._pair_in_sql
        found = pair(left, old_left, right, old_right)
        for side, held, rows in ((self.left, held_left, left), (self.right, held_right, right)):
            if rows.num_rows and side.stored:
                held.append(
                    rows.drop_columns(["__time"]).rename_columns(["__h", *(c.name for c in side.columns), "__n"])
                )
                held.compact()
        return found

    def _pair_in_sql(self, left: pa.Table, old_left: pa.Table, right: pa.Table, old_right: pa.Table) -> pa.Table:
        """The pairs of which at least one row is new."""
        found = [
            self._pair(left, old_right, "l.__time", "l.__diff * r.__n", right_new=False),
            self._pair(old_left, right, "r.__time", "l.__n * r.__diff", left_new=False),
            self._pair(left, right, "greatest(l.__time, r.__time)", "l.__diff * r.__diff"),
        ]
        return pa.concat_tables([f for f in found if f.num_rows] or found[:1])

    def _pair(
        self, left: pa.Table, right: pa.Table, time: str, diff: str, *, left_new: bool = True, right_new: bool = True
    ) -> pa.Table:
        """The pairs of two tables; `time` and `diff` are SQL for the time and the multiplicity of a pair."""
        l_extra = ("__time", "__diff") if left_new else ("__n",)
        r_extra = ("__time", "__diff") if right_new else ("__n",)
        equal = [f"l.{quoted(a)} = r.{quoted(b)}" for a, b in zip(self.left.keys, self.right.keys, strict=True)]
        residual = self.op.residual
        names = name_list([c.name for c in self.schema])
        return duck.run(
            f"SELECT {names}, {time} AS __time, CAST({diff} AS BIGINT) AS __diff"
            f" FROM {duck.source('lefts', self.left.columns, *l_extra)} l"
            f" JOIN {duck.source('rights', self.right.columns, *r_extra)} r ON {' AND '.join(equal) or 'TRUE'}"
            + (f" WHERE {residual}" if residual else ""),
            lefts=left,
            rights=right,
        )

    def _pair_in_arrays(self, left: pa.Table, old_left: pa.Table, right: pa.Table, old_right: pa.Table) -> pa.Table:
        """The same by `Matching`: rows are numbered, those that are held before the new ones."""
        found = [
            self._number_pairs(l, r)
            for l, r in (
                (_Rows(left, old_left.num_rows), _Rows(old_right)),
                (_Rows(old_left), _Rows(right, old_right.num_rows)),
                (_Rows(left, old_left.num_rows), _Rows(right, old_right.num_rows)),
            )
        ]
        lefts, rights, times, diffs = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        held = [
            _stack(old, new, [c.name for c in side.columns])
            for old, new, side in ((old_left, left, self.left), (old_right, right, self.right))
        ]
        columns = self.matching.take(held[0], held[1], (lefts, rights))
        return pa.table(columns | {"__time": pa.array(times), "__diff": pa.array(diffs)})

    def _number_pairs(self, left: _Rows, right: _Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(numbers of left rows, of right rows, times, multiplicities) of the pairs of two tables, one of them new."""
        pairs = self.matching.pairs(left.table, right.table)
        sides = list(zip((left, right), pairs, strict=True))
        times = [s.table.column("__time").to_numpy()[rows] for s, rows in sides if s.is_new]
        many, other = (s.table.column("__diff" if s.is_new else "__n").to_numpy()[rows] for s, rows in sides)
        if _largest(many) * _largest(other) >= 1 << 63:
            raise OverflowError("a row of a join would be there more than 2⁶³ times")
        lefts, rights = (rows + (s.begin or 0) for s, rows in sides)
        return lefts, rights, np.maximum(times[0], times[-1]), many * other

    def _expire(self, frontier: int, points: list[Batch], state: ShardState) -> None:
        """Band joins: remove rows whose partners have all arrived."""
        chains = self.op.released
        if chains is None:
            return
        seen = state.value(self.id)
        released = ReleaseBounds(chains, points, frontier, seen)
        for side, other in ((self.left, "right"), (self.right, "left")):
            bound = released.bounds[other]
            if side.keep_us is not None and side.stamp is not None and bound is not None and is_open(bound):
                expire_rows(side.contents(self.id, state), side.stamp, bound - side.keep_us, seen, side.name, state)


@dataclass(frozen=True)
class _Rows:
    """Rows of one side that are held, or new ones: these are numbered from `begin` on."""

    table: pa.Table
    begin: int | None = None

    @property
    def is_new(self) -> bool:
        return self.begin is not None


def _stack(old: pa.Table, new: pa.Table, names: list[str]) -> pa.Table:
    """The rows that are held, then the new ones."""
    tables = [t.select(names) for t in (old, new) if t.num_rows]
    if len(tables) < 2:
        return tables[0] if tables else new.select(names)
    fresh = write_out(tables[1])
    return pa.concat_tables([tables[0].cast(fresh.schema), fresh])


@lru_cache(maxsize=1024)
def _no_changes(columns: tuple[Column, ...]) -> pa.Table:
    """No changes of these columns."""
    names = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in (HASH, *columns, TIME, DIFF))
    return duck.run(f"SELECT {names} LIMIT 0")


def cut_slices(left: pa.Table, right: pa.Table) -> list[tuple[pa.Table, pa.Table]]:
    """Both inputs cut at the same times, oldest first, each piece of bounded size where times allow."""
    total = left.num_rows + right.num_rows
    if total <= sizes.slice_rows or not _take_back(left, right):
        return [(left, right)] if total else []
    times = np.concatenate([left.column("__time").to_numpy(), right.column("__time").to_numpy()])
    cuts = np.unique(np.quantile(times, np.linspace(0, 1, total // sizes.slice_rows + 2), method="nearest"))
    pieces, low = [], None
    for high in cuts:
        pieces.append(tuple(_filter_times(t, low, int(high)) for t in (left, right)))
        low = int(high)
    return [p for p in pieces if p[0].num_rows or p[1].num_rows]


def _largest(numbers: np.ndarray) -> int:
    return max(int(numbers.max()), -int(numbers.min())) if len(numbers) else 0


def _take_back(*tables: pa.Table) -> bool:
    """Whether rows leave; where the inputs are append-only, all that meet are present at the same time."""
    return any(t.num_rows and pc.min(t.column("__diff")).as_py() < 0 for t in tables)


def _filter_times(table: pa.Table, low: int | None, high: int) -> pa.Table:
    times = table.column("__time")
    mask = pc.less_equal(times, high)
    return table.filter(mask if low is None else pc.and_(mask, pc.greater(times, low)))
