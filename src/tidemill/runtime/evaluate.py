"""Runs a list of operators over one batch: linear chains as one SQL statement, the others one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.plan.physical import FOREVER, Exchange, HotKeys, Op
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.failures import OperatorFailed, is_of_operator, reason_of
from tidemill.runtime.limits import OutOfTime, time_limited
from tidemill.runtime.operators.base import Batch, Operator, key_hashes
from tidemill.runtime.operators.combine import SetCombine
from tidemill.runtime.operators.group import GroupBy
from tidemill.runtime.operators.join import Join
from tidemill.runtime.operators.join_aggregate import JoinAggregate
from tidemill.runtime.operators.linear import RENDER
from tidemill.runtime.operators.numbering import Numbering, WeaveNumbered
from tidemill.runtime.operators.synchronizer import Clock, RowPoints, SynchronizeOn
from tidemill.runtime.operators.tagger import Tagger
from tidemill.runtime.operators.weave import Weave
from tidemill.runtime.operators.windows import Gate, RowsWindow, Rstream, Stamp
from tidemill.runtime.state import Shelf

STATEFUL: dict[str, type[Operator]] = {
    "group": GroupBy, "combine": SetCombine, "join": Join, "tagger": Tagger,
    "synchronize_on": SynchronizeOn, "row_points": RowPoints, "clock": Clock,
    "rows_window": RowsWindow, "stamp": Stamp, "rstream": Rstream, "gate": Gate, "weave": Weave,
    "numbering": Numbering, "weave_numbered": WeaveNumbered, "join_aggregate": JoinAggregate,
}
_HIDDEN = ("__time", "__diff")

Complaint = Callable[[Op, pa.Table, str], None]


@dataclass
class Evaluation:
    """One batch through some operators. `feeds` gives the batches of ports and scans by name."""

    ops: dict[str, Op]
    feeds: dict[str, Batch]
    shelf: Shelf | None = None
    shard: tuple[int, int] = (0, 1)
    complain: Complaint | None = None
    readers: Counter[str] = field(default_factory=Counter)
    done: dict[str, Batch] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)  # what operators counted, by their id
    failed: dict[str, str] | None = None  # operators that failed, and why; None: a failure is raised as it is
    seconds: float = 0  # that one operator may take
    lost: set[str] = field(default_factory=set)  # ports that bring nothing, because what feeds them has failed

    def __post_init__(self) -> None:
        for op in self.ops.values():
            self.readers.update(op.inputs)

    def run(self) -> None:
        """Evaluate every stateful operator in order, so that all state moves on even without readers."""
        for op in self.ops.values():
            if op.kind in STATEFUL:
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
            self.done[name] = self._isolated(self.ops[name])
        return self.done[name]

    def _isolated(self, op: Op) -> Batch:
        """One operator; where it fails, what it kept goes, and whoever reads it learns it by OperatorFailed."""
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
            if self.shelf is not None:
                self.shelf.forget(op.id)
            raise OperatorFailed(op.id) from error

    def _evaluate(self, op: Op) -> Batch:
        if op.kind in RENDER:
            return self._linear(op)
        inputs = [self.batch(i) for i in op.inputs]
        if op.kind == "union":
            return _union(op, inputs)
        if op.kind == "mine":
            return self._mine(op, inputs[0])
        if op.kind in ("weaved", "picked"):
            return Batch((inputs[0].picks or {}).get(op.id), inputs[0].frontier)
        assert self.shelf is not None, f"{op.kind} needs state"
        operator = STATEFUL[op.kind](op, first=self.shard[0] == 0)
        operator.complain = self.complain
        operator.shard = self.shard
        stepped = operator.step(inputs, self.shelf)
        if operator.note is not None:
            self.notes[op.id] = operator.note
        return stepped

    def _linear(self, op: Op) -> Batch:
        """Fuse the chain below `op` down to the nearest shared or stateful input."""
        chain = [op]
        while self._fusible(chain[-1].inputs[0]):
            chain.append(self.ops[chain[-1].inputs[0]])
        base_name = chain[-1].inputs[0]
        base = self.batch(base_name)
        frontier = base.frontier
        for link in reversed(chain):
            frontier = _linear_frontier(link, frontier)
        if base.empty or base.rows is None:
            return Batch(None, frontier)
        return Batch(self._fused(chain, self._schema(base_name), base.rows), frontier)

    def _fusible(self, name: str) -> bool:
        known = self.ops.get(name)
        return (
            known is not None and known.kind in RENDER and self.readers[name] <= 1
            and name not in self.feeds and name not in self.done
        )

    def _schema(self, name: str) -> tuple[Column, ...]:
        if name in self.ops:
            return self.ops[name].schema
        rows = self.feeds[name].rows
        assert rows is not None
        return tuple(Column(n, "") for n in rows.column_names if n not in _HIDDEN)

    def _fused(self, chain: list[Op], schema: tuple[Column, ...], rows: pa.Table) -> pa.Table:
        hidden = [h for h in _HIDDEN if h in rows.column_names]
        # A reader decodes only the columns that are used; a scan's schema lists all.
        sql = duck.source("feed", [c for c in schema if c.name in rows.column_names], *hidden)
        for op in reversed(chain):
            sql = f"({RENDER[op.kind](op, sql)})"
        sql = sql[1:-1]
        return duck.run_put_aside(sql, rows, self.complain and partial(self.complain, chain[0]))

    def _mine(self, op: Op, batch: Batch) -> Batch:
        """A replicated relation made partitioned: each shard keeps its own rows."""
        if batch.empty or batch.rows is None:
            return batch
        index, count = self.shard
        owner = shard_numbers(batch.rows, op.schema, op.params["keys"], count)
        return Batch(batch.rows.filter(pa.array(owner == index)), batch.frontier)


def _linear_frontier(op: Op, frontier: int) -> int:
    if abs(frontier) >= FOREVER:
        return frontier
    points = [[op.params["every"], op.params["offset"]]] if op.kind == "synchronize" else op.params.get("points", [])
    for every, offset in points:
        frontier += (offset - frontier) % every
    return frontier


def _union(op: Op, inputs: list[Batch]) -> Batch:
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


def route(edge: Exchange, schema: Iterable[Column], rows: pa.Table, count: int,
          turn: int) -> list[tuple[int, pa.Table]]:
    """(shard index, rows) pieces of one change batch; empty pieces are left out."""
    if edge.route == "all":
        return [(i, rows) for i in range(count)]
    if edge.route == "one" or count == 1:
        return [(0, rows)]
    if edge.route == "any":
        return [(turn % count, rows)]
    if edge.hot is not None:
        rows, owner = _placed(edge, edge.hot, tuple(schema), rows, count)
    else:
        owner = shard_numbers(rows, schema, edge.keys, count)
    order = np.argsort(owner.astype(np.uint16), kind="stable")  # of 16 bits, numpy sorts by counting
    ends = np.cumsum([0, *np.bincount(owner, minlength=count)])
    taken = rows.take(pa.array(order))
    pieces = [(i, taken.slice(ends[i], ends[i + 1] - ends[i])) for i in range(count)]
    return [(i, p) for i, p in pieces if p.num_rows]


def _placed(edge: Exchange, hot: HotKeys, schema: tuple[Column, ...], rows: pa.Table,
            count: int) -> tuple[pa.Table, np.ndarray]:
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
