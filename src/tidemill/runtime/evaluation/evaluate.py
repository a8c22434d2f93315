"""Runs a list of operators over one batch: linear chains as one SQL statement, the others one by one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.physical import Exchange, HotKeys, Op
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.changes import key_hashes
from tidemill.runtime.dataflow.operator import Batch, Note, Operator
from tidemill.runtime.duckdb import duck
from tidemill.runtime.evaluation.failures import OperatorFailed, is_of_operator, reason_of
from tidemill.runtime.evaluation.limits import OutOfTime, time_limited
from tidemill.runtime.joins.join_aggregate import JoinAggregate
from tidemill.runtime.messages.operator_counts import Counts, OperatorCount, add_count, growth_of, rows_of
from tidemill.runtime.operators.alternatives import Alternatives
from tidemill.runtime.operators.catch_up import CatchUp
from tidemill.runtime.operators.change_stream import ChangeStream
from tidemill.runtime.operators.grouping.group import GroupBy
from tidemill.runtime.operators.grouping.joint_group import JointGroup
from tidemill.runtime.operators.grouping.numbered_rows import NumberedRows
from tidemill.runtime.operators.join import Join
from tidemill.runtime.operators.join_at import JoinAt
from tidemill.runtime.operators.linear import render
from tidemill.runtime.operators.plain_columns import keeps_different, run_chain
from tidemill.runtime.operators.ranking.ranked import Ranked
from tidemill.runtime.operators.ranking.window_functions import WindowFunctions
from tidemill.runtime.operators.recursive import Recursive
from tidemill.runtime.operators.sessions import Sessions
from tidemill.runtime.operators.set_operations import SetCombine
from tidemill.runtime.operators.shedding import Shed
from tidemill.runtime.operators.synchronizer import Clock, RowPoints, SynchronizeOn
from tidemill.runtime.operators.tagger import Tagger
from tidemill.runtime.operators.windows import RowsWindow, Rstream, Stamp, ViewOutput
from tidemill.runtime.row_references import write_out
from tidemill.runtime.share.stage.numbering import Numbering, WeaveNumbered
from tidemill.runtime.share.stage.weave import Weave
from tidemill.runtime.state.shard_state import ShardState

STATEFUL: dict[type[Op], type[Operator[Any]]] = {
    p.Group: GroupBy,
    p.NumberedRows: NumberedRows,
    p.JointGroup: JointGroup,
    p.SetCombine: SetCombine,
    p.Join: Join,
    p.JoinAt: JoinAt,
    p.Shed: Shed,
    p.Tagger: Tagger,
    p.SynchronizeOn: SynchronizeOn,
    p.RowPoints: RowPoints,
    p.Clock: Clock,
    p.RowsWindow: RowsWindow,
    p.Stamp: Stamp,
    p.Rstream: Rstream,
    p.ChangeStream: ChangeStream,
    p.CatchUp: CatchUp,
    p.Alternatives: Alternatives,
    p.ViewOutput: ViewOutput,
    p.Weave: Weave,
    p.Numbering: Numbering,
    p.WeaveNumbered: WeaveNumbered,
    p.JoinAggregate: JoinAggregate,
    p.Ranked: Ranked,
    p.WindowFunctions: WindowFunctions,
    p.Sessions: Sessions,
    p.Recursive: Recursive,
}
_SIZED = (p.Tagger, p.Group)  # operators of which it is counted how large their answers are
_HIDDEN = ("__time", "__diff")

OnRowError = Callable[[Op, pa.Table, str], None]


@dataclass
class Evaluation:
    """One batch through some operators. `feeds` gives the batches of ports and scans by name."""

    ops: dict[str, Op]
    feeds: dict[str, Batch]
    state: ShardState | None = None
    shard: tuple[int, int] = (0, 1)
    on_row_error: OnRowError | None = None
    readers: Counter[str] = field(default_factory=Counter)
    done: dict[str, Batch] = field(default_factory=dict)
    notes: dict[str, Note] = field(default_factory=dict)  # what operators counted, by their id
    counts: Counts = field(default_factory=dict)  # rows in, rows out and time of operators
    failed: dict[str, str] | None = None  # operators that failed, and why; None: a failure is raised as it is
    seconds: float = 0  # that one operator may take
    lost: set[str] = field(default_factory=set)  # ports without input, because an operator that feeds them has failed

    def __post_init__(self) -> None:
        for op in self.ops.values():
            self.readers.update(op.inputs)

    def run(self) -> None:
        """Evaluate every stateful operator in order, so that all state moves on even without readers."""
        for op in self.ops.values():
            if type(op) in STATEFUL:
                self.outcome(op.id)

    def outcome(self, name: str) -> Batch | None:
        """Like `batch`; None where the operator, or one that it reads, has failed."""
        try:
            return self.batch(name)
        except OperatorFailed:
            return None

    def batch(self, name: str) -> Batch:
        """The output of an operator or the feed of a port, evaluated once."""
        if name in self.feeds:
            return self.feeds[name]
        if name not in self.done:
            self.done[name] = self._evaluate_isolated(self.ops[name])
        return self.done[name]

    def _evaluate_isolated(self, op: Op) -> Batch:
        """Evaluate one operator; where it fails, its state is removed, and its readers get OperatorFailed."""
        if self.failed is None:
            return self._evaluate(op)
        if op.id in self.failed or not self.lost.isdisjoint(op.inputs):
            raise OperatorFailed(op.id)
        try:
            with time_limited(self.seconds):
                return self._evaluate(op)
        except (Exception, OutOfTime) as error:
            if isinstance(error, OperatorFailed) or not is_of_operator(error):
                raise
            self.failed[op.id] = reason_of(error)
            if self.state is not None:
                self.state.forget(op.id)
            raise OperatorFailed(op.id) from error

    def _evaluate(self, op: Op) -> Batch:
        if isinstance(op, p.Linear):
            return self._evaluate_linear(op)
        inputs = [self._input(op, i) for i in op.inputs]
        began = time.perf_counter()
        if isinstance(op, p.Union):
            return self._count(op, inputs, _union(inputs), began)
        if isinstance(op, p.LocalRows):
            return self._count(op, inputs, self._local_rows(op, inputs[0]), began)
        if isinstance(op, (p.Weaved, p.Picked)):
            return Batch((inputs[0].picks or {}).get(op.id), inputs[0].frontier)
        assert self.state is not None, f"{op.kind} needs state"
        operator = STATEFUL[type(op)](op, first=self.shard[0] == 0)
        operator.on_row_error = self.on_row_error
        operator.shard = self.shard
        stepped = operator.step(inputs, self.state)
        if operator.note is not None:
            self.notes[op.id] = operator.note
        return self._count(op, inputs, stepped, began)

    def _input(self, op: Op, name: str) -> Batch:
        """What an operator reads: with texts, unless it takes references to rows."""
        batch, kind = self.batch(name), STATEFUL.get(type(op))
        if batch.rows is None or (kind is not None and kind.takes_references):
            return batch
        return replace(batch, rows=write_out(batch.rows))

    def _count(self, op: Op, inputs: list[Batch], out: Batch, began: float) -> Batch:
        """Note what an operator took in and gave since it began; returns what it gave."""
        rows_in = rows_of(b.rows for b in inputs)
        rows_out = rows_of((out.rows, *(out.picks or {}).values()))
        if rows_in or rows_out:
            growth = growth_of(out.rows) if isinstance(op, _SIZED) else 0
            add_count(self.counts, op.id, OperatorCount(rows_in, rows_out, time.perf_counter() - began, growth))
        return out

    def _evaluate_linear(self, op: p.Linear) -> Batch:
        """Fuse the chain below `op` down to the nearest shared or stateful input.

        The frontier stays as it is, also behind a synchronizer: no change is on its way to a point that has passed, and
        what follows from the time alone, such as rows that leave a window and sessions that end, waits for the clock.
        """
        chain = [op]
        while (below := self._fusible(chain[-1].inputs[0])) is not None:
            chain.append(below)
        base_name = chain[-1].inputs[0]
        base = self.batch(base_name)
        if base.empty or base.rows is None:
            return Batch(None, base.frontier)
        began = time.perf_counter()
        rows = self._run_fused(chain, self._schema(base_name), base.rows)
        netted = base.netted and keeps_different(chain, [n for n in base.rows.column_names if n not in _HIDDEN])
        return self._count(op, [base], Batch(rows, base.frontier, netted=netted), began)

    def _fusible(self, name: str) -> p.Linear | None:
        known = self.ops.get(name)
        if not isinstance(known, p.Linear) or self.readers[name] > 1 or name in self.feeds or name in self.done:
            return None
        return known

    def _schema(self, name: str) -> tuple[Column, ...]:
        if name in self.ops:
            return self.ops[name].schema
        rows = self.feeds[name].rows
        assert rows is not None
        return tuple(Column(n, "") for n in rows.column_names if n not in _HIDDEN)

    def _run_fused(self, chain: list[p.Linear], schema: tuple[Column, ...], rows: pa.Table) -> pa.Table:
        passed = run_chain(chain, schema, rows)
        if passed is not None:
            return passed
        hidden = [h for h in _HIDDEN if h in rows.column_names]
        # A reader decodes only the columns that are used; a scan's schema lists all.
        sql = duck.source("feed", [c for c in schema if c.name in rows.column_names], *hidden)
        for op in reversed(chain):
            sql = f"({render(op, sql)})"
        sql = sql[1:-1]
        return duck.run_put_aside(sql, rows, self.on_row_error and partial(self.on_row_error, chain[0]))

    def _local_rows(self, op: p.LocalRows, batch: Batch) -> Batch:
        """A replicated relation made partitioned: each shard keeps its own rows."""
        if batch.empty or batch.rows is None:
            return batch
        index, count = self.shard
        owner = shard_numbers(batch.rows, op.schema, op.keys, count)
        return Batch(batch.rows.filter(pa.array(owner == index)), batch.frontier)


def _union(inputs: list[Batch]) -> Batch:
    frontier = min(b.frontier for b in inputs)
    tables = [b.rows for b in inputs if b.rows is not None and b.rows.num_rows]
    if not tables:
        return Batch(None, frontier)
    names = tables[0].column_names
    same = [tables[0], *(t.select(names).cast(tables[0].schema) for t in tables[1:])]
    return Batch(pa.concat_tables(same), frontier)


def shard_numbers(rows: pa.Table, schema: Iterable[Column], keys: Iterable[str], count: int) -> np.ndarray:
    """For each row the index of the shard that owns its key; keyless rows belong to shard 0."""
    keys = list(keys)
    if not keys or count == 1:
        return np.zeros(rows.num_rows, np.int64)
    return (key_hashes(rows, schema, keys) % np.uint64(count)).astype(np.int64)


def route(
    edge: Exchange, schema: Iterable[Column], rows: pa.Table, count: int, turn: int
) -> list[tuple[int, pa.Table]]:
    """(shard index, rows) pieces of one change batch; empty pieces are left out."""
    if edge.route == "all":
        return [(i, rows) for i in range(count)]
    if edge.route == "one" or count == 1:
        return [(0, rows)]
    if edge.route == "any":
        return [(turn % count, rows)]
    if edge.hot is not None:
        rows, owner = _place_hot_rows(edge, edge.hot, tuple(schema), rows, count)
    else:
        owner = shard_numbers(rows, schema, edge.keys, count)
    order = np.argsort(owner.astype(np.uint16), kind="stable")  # of 16 bits, numpy sorts by counting
    ends = np.cumsum([0, *np.bincount(owner, minlength=count)])
    taken = rows.take(pa.array(order))
    pieces = [(i, taken.slice(ends[i], ends[i + 1] - ends[i])) for i in range(count)]
    return [(i, p) for i, p in pieces if p.num_rows]


def _place_hot_rows(
    edge: Exchange, hot: HotKeys, schema: tuple[Column, ...], rows: pa.Table, count: int
) -> tuple[pa.Table, np.ndarray]:
    """Rows and their shards where some keys are hot: copied rows are there once for each shard."""
    hashes = key_hashes(rows, schema, edge.keys)
    owner = (hashes % np.uint64(count)).astype(np.int64)
    spread = np.flatnonzero(np.isin(hashes, np.array(hot.spread, np.uint64)))
    if len(spread):
        some = rows.select(list(hot.columns)).take(pa.array(spread))
        owner[spread] = shard_numbers(some, schema, hot.columns, count)
    copied = np.flatnonzero(np.isin(hashes, np.array(hot.copied, np.uint64)))
    if not len(copied):
        return rows, owner
    others = (owner[copied] + np.arange(1, count)[:, None]) % count
    every = np.concatenate([np.arange(rows.num_rows), np.tile(copied, count - 1)])
    return rows.take(pa.array(every)), np.concatenate([owner, others.ravel()])
