"""The tagger of an update stream: the last record of a key replaces the one before, or deletes it.

Let r(k, t) be the last record of key k among those of times up to t: greatest time, then event time, then arrival.
The relation at t holds r(k, t) for every key k whose r(k, t) does not delete it; the output is its difference from one
time of a key to the next,

    −r(k, t′) +r(k, t)    where the two rows differ, NULL equal to NULL; a missing or deleting record is no row.

The paper's tags are read off it: + alone is an insertion, − alone a deletion, both at one time an update (paper 004,
section 10.3). Only the last record of each time matters, and r(k, t) needs nothing older than r(k, t′), so any cut into
batches gives the same. State: the current row of each key, bounded by the number of keys; with a selection merged in,
only rows that satisfy it are ever stored. A batch moves the state of a key once, however many records it has.

A kernel walks numbers of keys and rows, Arrow takes the rows; DuckDB compares values for which Arrow and SQL
disagree on what is equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan import physical as p
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.changes import PENDING, contents_layout, take_closed
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql, name_list, same_row
from tidemill.runtime.kernels.grouping.tagging import tag_steps, walk_records
from tidemill.runtime.state.arrangements import Layout
from tidemill.runtime.state.row_numbers import compares_as_sql, first_places, number_rows, number_values
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes

ORDER = (Column("__at", "BIGINT"), Column("__seq", "BIGINT"), Column("__gone", "BOOLEAN"))


@dataclass
class Walk:
    """Steps of all keys by rising time, and the row of each key before and after them; -1 is no row."""

    time: np.ndarray
    old: np.ndarray
    new: np.ndarray
    before: np.ndarray
    after: np.ndarray


class Tagger(Operator[p.Tagger]):
    """Input: raw records with `__at` (event time), `__seq` (arrival order) and `__gone` (deletes its key)."""

    def __init__(self, op: p.Tagger, first: bool = True) -> None:
        super().__init__(op, first)
        self.names = [c.name for c in self.schema]
        self.keys = [next(c for c in self.schema if c.name == key) for key in self.op.keys]
        self.others = [c for c in self.schema if c not in self.keys]
        self.pending = Layout("__time", (*self.schema, *ORDER))
        self.layout = contents_layout(self.schema)

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        frontier = inputs[0].frontier
        pending = self.arrangement(state, PENDING, self.pending)
        closed = take_closed(pending, inputs[0].rows, frontier)
        if closed.num_rows == 0:
            return Batch(None, frontier)
        arranged = self.arrangement(state, "rows", self.layout)
        records = closed.select(self.names).combine_chunks()
        number = numbers(records, self.keys)
        heads = _take(records, first_places(number))
        hashes = self._hashes(heads)
        current = self._current(arranged.probe(np.unique(hashes))).cast(records.schema)
        # The heads are one for each key, so they keep their numbers and a stored row gets the number of its head.
        stored = numbers(pa.concat_tables([heads, current]), self.keys)[heads.num_rows :]
        rows = pa.concat_tables([records, current]).combine_chunks()
        walk = _walk(closed, np.concatenate([number, stored]))
        out = self._changes(rows, walk)
        arranged.append(self._moves(rows, walk, hashes))
        arranged.compact()
        return Batch(out, frontier)

    def _hashes(self, heads: pa.Table) -> np.ndarray:
        """The hash of each key."""
        hashed = f"SELECT {hash_sql([c.name for c in self.keys])} FROM {duck.source('heads', self.keys)}"
        return duck.run(hashed, heads=heads).column(0).to_numpy()

    def _current(self, base: pa.Table) -> pa.Table:
        """The rows that are there now, of the records' keys and of keys that share a hash with one of them."""
        # A key has one row at most: without deletions there is nothing to add up.
        if base.num_rows == 0 or pc.min(base.column("__n")).as_py() > 0:
            return base.select(self.names)
        names, source = name_list(self.names), duck.source("base", self.schema, "__n")
        return duck.run(f"SELECT {names} FROM {source} GROUP BY {names} HAVING sum(__n) > 0", base=base)

    def _changes(self, rows: pa.Table, walk: Walk) -> pa.Table:
        """−old +new of every step at which the row changes."""
        turned = np.ones(len(walk.time), np.bool_)
        both = np.flatnonzero((walk.old >= 0) & (walk.new >= 0))
        # Old and new have one key, so only the other columns can differ.
        others = rows.select([c.name for c in self.others])
        olds, news = (_take(others, side[both]) for side in (walk.old, walk.new))
        turned[both] = ~same(olds, news, self.others) if self.others else False
        row, step, diff = _tag(walk.old, walk.new, turned)
        return _take(rows, row).append_column("__time", pa.array(walk.time[step])).append_column("__diff", diff)

    def _moves(self, rows: pa.Table, walk: Walk, hashes: np.ndarray) -> pa.Table:
        """−before +after of every key; a row that is deleted and inserted again cancels when the state adds it up."""
        row, key, diff = _tag(walk.before, walk.after, walk.before != walk.after)
        return _take(rows, row).append_column("__h", pa.array(hashes[key])).append_column("__n", diff)


def numbers(rows: pa.Table, columns: Sequence[Column]) -> np.ndarray:
    """For each row a number 0, 1, … by first appearance; rows that agree on the columns have the same.

    >>> numbers(pa.table({"k": ["b", "a", None, "b", None]}), [Column("k", "VARCHAR")]).tolist()
    [0, 1, 2, 0, 2]
    """
    if not all(compares_as_sql(rows.schema.field(c.name).type) for c in columns):
        return _numbers_of_any(rows, columns)
    return number_rows([rows.column(c.name) for c in columns], rows.num_rows)


def _numbers_of_any(rows: pa.Table, columns: Sequence[Column]) -> np.ndarray:
    placed = rows.append_column("__i", pa.array(np.arange(rows.num_rows)))
    parts = f"PARTITION BY {name_list([c.name for c in columns])}"
    firsts = f"SELECT __i, min(__i) OVER ({parts}) AS __first FROM {duck.source('placed', columns, '__i')}"
    found = duck.run(f"SELECT __first FROM ({firsts}) ORDER BY __i", placed=placed)
    return number_values(found.column(0).combine_chunks())


def same(left: pa.Table, right: pa.Table, columns: Sequence[Column]) -> np.ndarray:
    """Whether the i-th rows of two tables agree on the columns, NULL equal to NULL.

    >>> same(pa.table({"v": [1, None, 3]}), pa.table({"v": [1, None, None]}), [Column("v", "BIGINT")]).tolist()
    [True, True, False]
    """
    found = np.ones(left.num_rows, np.bool_)
    subtle = [c for c in columns if not compares_as_sql(left.schema.field(c.name).type)]
    for one, other in ((left.column(c.name), right.column(c.name)) for c in columns if c not in subtle):
        equal = pc.equal(one, other)
        if equal.null_count:
            equal = pc.or_(pc.fill_null(equal, False), pc.and_(pc.is_null(one), pc.is_null(other)))
        found &= equal.to_numpy()
    if subtle and left.num_rows:
        sides = " POSITIONAL JOIN ".join(f"{duck.source(side, subtle)} AS {side}" for side in ("l", "r"))
        agree = same_row([c.name for c in subtle], "l", "r")
        found &= duck.run(f"SELECT {agree} FROM {sides}", l=left, r=right).column(0).to_numpy()
    return found


def _walk(closed: pa.Table, key: np.ndarray) -> Walk:
    """`key` numbers the records first, then the rows that were stored before the walk."""
    # A view into Arrow is read-only, another type for the compiler; copies spare a second compilation.
    time, at, seq, gone = (np.array(closed.column(n)) for n in ("__time", "__at", "__seq", "__gone"))
    count, keys = len(time), int(key.max()) + 1
    before = np.full(keys, -1, np.int64)
    before[key[count:]] = np.arange(count, len(key))
    after = before.copy()
    # Each reader sends its records by rising time: a stable sort merges these runs.
    order = np.arange(count) if bool((time[1:] >= time[:-1]).all()) else np.argsort(time, kind="stable")
    last, old, new = (np.empty(count, np.int64) for _ in range(3))
    steps = walk_records(order, key, time, at, seq, gone, after, np.full(keys, -1, np.int64), last, old, new)
    return Walk(time[last[:steps]], old[:steps], new[:steps], before, after)


def _tag(old: np.ndarray, new: np.ndarray, turned: np.ndarray) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    """Row, step and sign of each change.

    >>> [p.tolist() for p in _tag(np.array([-1, 4, 5]), np.array([4, 5, -1]), np.array([True, True, True]))]
    [[4, 4, 5, 5], [0, 1, 1, 2], [1, -1, 1, -1]]
    """
    step, row, diff = (np.empty(2 * len(old), np.int64) for _ in range(3))
    changes = tag_steps(old, new, turned, step, row, diff)
    return row[:changes], step[:changes], pa.array(diff[:changes])


def _take(rows: pa.Table, which: np.ndarray) -> pa.Table:
    pieces = [rows.take(pa.array(which[i : i + sizes.tagged_rows])) for i in range(0, len(which), sizes.tagged_rows)]
    return pa.concat_tables(pieces) if pieces else rows.slice(0, 0)
