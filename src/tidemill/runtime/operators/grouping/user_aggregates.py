"""User aggregates in a GROUP BY over append-only rows: one accumulator for each group.

State: the pickled accumulators of every group. Let A(k, t) be `add` applied in turn to the values of key k up to time
t. Then the answer of k at t is finish(A(k, t)). A value on which `add` fails is put aside; where `finish` fails, the
group has no answer until the next change. `finish` gives the same answer for a stored accumulator as before, so the
answer that was emitted can be retracted.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.plan.physical import BEGINNING, KeptValues
from tidemill.plan.python_values import python_rows
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.plan.user_aggregates import ACCUMULATOR, UserAggregatePart
from tidemill.runtime.dataflow.changes import contents_layout
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.user_aggregates.functions import check_value, error_line, load_functions, pack
from tidemill.runtime.user_aggregates.sliding import Answers

OnRowError = Callable[[pa.Table, str], None]
_BAD = Column("__bad", "BOOLEAN")


class UserAggregates:
    """The user aggregates over one column of a GROUP BY."""

    def __init__(self, node: str, index: int, keys: tuple[Column, ...], kept: KeptValues) -> None:
        self.node, self.index, self.keys = node, index, keys
        self.value = Column("__v", kept.type)
        self.parts = list(kept.user_aggregates)

    @property
    def columns(self) -> tuple[str, ...]:
        """What `walk` gives for each group and time besides its keys: the answers, and whether one has failed."""
        return (*(p.name for p in self.parts), _BAD.name)

    def walk(self, closed: pa.Table, touched: np.ndarray, state: ShardState, on_row_error: OnRowError) -> pa.Table:
        """The answers of each touched key at each time with a new value; those of the stored state at BEGINNING."""
        layout = contents_layout((*self.keys, *ACCUMULATOR))
        arranged = state.arrangement(self.node, f"folds{self.index}", layout)
        moves = self._moves(closed, arranged.probe(touched))
        answers = {p.name: Answers(p) for p in self.parts}
        rows: list[int] = []
        times: list[int] = []
        numbers: dict[str, list[int]] = {p.name: [] for p in self.parts}
        left: list[tuple[int, str, bytes, int]] = []  # (row with the key, part, accumulator, ±1)
        for row, group in self._groups(moves):
            walk = _Walk(self, moves, row, group, on_row_error)
            for time, accumulators in walk.steps():
                rows.append(row)
                times.append(time)
                for name, found in numbers.items():
                    found.append(answers[name].number(accumulators[name]) if name in accumulators else 0)
            left += walk.stored_changes()
        self._store(arranged, moves, left)
        return self._table(moves, rows, times, numbers, answers, on_row_error)

    def _moves(self, closed: pa.Table, stored: pa.Table) -> pa.Table:
        """Stored accumulators and new values, those of one group together, by time."""
        names = "".join(f"{quoted(c.name)}, " for c in self.keys)
        kept = duck.source("stored", (*self.keys, *ACCUMULATOR), "__n")
        fresh = duck.source("closed", (*self.keys, self.value), "__time", "__n")
        order = names.rstrip(", ") or "1"
        return duck.run(
            f"SELECT dense_rank() OVER (ORDER BY {order}) AS __g, * FROM ("
            f" SELECT {names}{BEGINNING} AS __time, CAST(NULL AS {self.value.type}) AS __v, 1 AS __n, __part, __pickle"
            f" FROM {kept} GROUP BY {names}__part, __pickle HAVING sum(__n) > 0"
            f" UNION ALL SELECT {names}__time, __v, CAST(sum(__n) AS BIGINT), NULL, NULL FROM {fresh} GROUP BY ALL)"
            f" ORDER BY __g, __time",
            stored=stored,
            closed=closed,
        )

    def _groups(self, moves: pa.Table) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """(first row, rows) of each group."""
        picked = python_rows(moves.select(["__g", "__time", "__v", "__n", "__part", "__pickle"]))
        at = 0
        for _, found in groupby(picked, lambda m: m["__g"]):
            group = list(found)
            yield at, group
            at += len(group)

    def _store(self, state: Any, moves: pa.Table, left: list[tuple[int, str, bytes, int]]) -> None:
        if left:
            names = [c.name for c in self.keys]
            changed = moves.select(names).take(pa.array([row for row, *_ in left], pa.int64()))
            columns = {
                "__part": [p for _, p, *_ in left],
                "__pickle": [b for *_, b, _ in left],
                "__n": [n for *_, n in left],
            }
            for name, values in columns.items():
                changed = changed.append_column(name, pa.array(values))
            source = duck.source("changed", (*self.keys, *ACCUMULATOR), "__n")
            state.append(duck.run(f"SELECT {hash_sql(names)} AS __h, * FROM {source}", changed=changed))
            state.compact()

    def _table(
        self,
        moves: pa.Table,
        rows: list[int],
        times: list[int],
        numbers: dict[str, list[int]],
        answers: dict[str, Answers],
        on_row_error: OnRowError,
    ) -> pa.Table:
        table = moves.select([c.name for c in self.keys]).take(pa.array(rows, pa.int64()))
        bad = np.zeros(len(rows), bool)
        fresh = np.array(times, np.int64) > BEGINNING
        for name, found in numbers.items():
            codes = np.array(found, np.int64)
            bad |= codes < 0
            for i in np.flatnonzero((codes < 0) & fresh):
                on_row_error(table.slice(int(i), 1).select([c.name for c in self.keys]), answers[name].reason(codes[i]))
            table = table.append_column(name, answers[name].column(np.maximum(codes, 0)))
        return table.append_column("__time", pa.array(times, pa.int64())).append_column(_BAD.name, pa.array(bad))


class _Walk:
    """The accumulators of one group, time by time."""

    def __init__(
        self,
        aggregates: UserAggregates,
        moves: pa.Table,
        row: int,
        group: list[dict[str, Any]],
        on_row_error: OnRowError,
    ) -> None:
        self.aggregates, self.moves, self.row, self.group, self.on_row_error = (
            aggregates,
            moves,
            row,
            group,
            on_row_error,
        )
        self.before: dict[str, bytes] = {m["__part"]: m["__pickle"] for m in group if m["__part"] is not None}
        self.now: dict[str, Any] = {part: pickle.loads(blob) for part, blob in self.before.items()}
        self.taken: dict[str, list[Any]] = {}

    def steps(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(time, accumulators) for every time, once its values are taken in."""
        if self.before:
            yield BEGINNING, self.now
        fresh = [(self.row + i, m) for i, m in enumerate(self.group) if m["__part"] is None]
        for time, found in groupby(fresh, lambda f: f[1]["__time"]):
            for at, move in found:
                for part in self.aggregates.parts:
                    for _ in range(move["__n"]):
                        self._take(part, move["__v"], at)
            yield time, self.now

    def _take(self, part: UserAggregatePart, value: Any, at: int) -> None:
        fold = load_functions(part.body)
        try:
            before = self.now[part.name] if part.name in self.now else fold.fresh()
            self.now[part.name] = fold.add(before, check_value(value))
            self.taken.setdefault(part.name, []).append(value)
        except Exception as error:  # whatever a user's function raises is about this value
            names = [c.name for c in self.aggregates.keys]
            row = self.moves.slice(at, 1).select([*names, "__v"]).rename_columns([*names, "value"])
            self.on_row_error(row, error_line(error))
            self._rebuild(part)

    def _rebuild(self, part: UserAggregatePart) -> None:
        """`add` may have failed half-way: make the accumulator again from the values before."""
        fold, good = load_functions(part.body), self.taken.get(part.name, [])
        self.now.pop(part.name, None)
        if part.name in self.before or good:
            accumulator = pickle.loads(self.before[part.name]) if part.name in self.before else fold.fresh()
            for value in good:
                accumulator = fold.add(accumulator, value)
            self.now[part.name] = accumulator

    def stored_changes(self) -> Iterator[tuple[int, str, bytes, int]]:
        """The changes of the stored accumulators."""
        for part in self.taken:
            if part in self.before:
                yield self.row, part, self.before[part], -1
            yield self.row, part, pack(self.now[part]), 1
