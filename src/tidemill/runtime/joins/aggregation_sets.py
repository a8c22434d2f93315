"""One input of an aggregation join: what arrives, and what is stored, as aggregation sets or as window rows.

The *early* form of an input is an aggregation set AS_i (paper 000, Definition 3): one row for each key K_i (join
attributes, grouping attributes, columns needed one by one) with its count `__n` and the parts of Rule 1. The *late*
form is the window W_i: the key and the arguments themselves, with a count. Both are sets with annotations that add up,
so rows of both forms may be stored side by side. All stored rows of one key have the same form, so that deletions
cancel insertions, whichever plan made them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.physical import JoinInput
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.annotations import Annotations, PartSpec, Piece, add_up_rows
from tidemill.runtime.dataflow.changes import PENDING, take_closed
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.dataflow.value_codes import distinct, hash_rows, number_rows
from tidemill.runtime.duckdb import duck
from tidemill.runtime.joins.unit_parts import plain_parts, read_parts
from tidemill.runtime.state.arrangements import Arrangement, Layout
from tidemill.runtime.state.segments import Segment
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes

COUNT = Column("__n", "BIGINT")
FORMS = ("early", "late")
UNIT = "__unit"  # which of the batch's unit parts a late change has
OnRowError = Callable[[pa.Table, str], None]
Index = tuple[str, ...]


class AggregationSets:
    """Changes and state of input `number`. `attributes` are its join attributes, `equal` those that must agree."""

    def __init__(
        self,
        node: str,
        number: int,
        spec: JoinInput,
        attributes: Iterable[str],
        equal: Iterable[tuple[str, str]],
        indexes: Iterable[Index],
    ) -> None:
        self.node, self.number = node, number
        self.keys = spec.keys
        self.args = spec.args
        self.parts = tuple(PartSpec(*p) for p in spec.parts)
        self.plain = plain_parts(self.args, self.parts)
        self.extremes = set(spec.extremes)
        self.early = spec.early or not (self.args or self.parts)
        self.stored = spec.stored
        self.attributes, self.equal = list(attributes), list(equal)
        self.indexes = list(dict.fromkeys(indexes)) if self.stored else []
        adds = ((COUNT, "sum"), *((Column(p.name, p.type), p.how) for p in self.parts))
        self.layouts = {"early": (self.keys, adds), "late": ((*self.keys, *self.args), ((COUNT, "sum"),))}
        self.moves: dict[str, pa.Table] = {}
        self.arrived: list[pa.Table] = []  # what this batch brought, closed or not
        self.units: pa.Table | None = None
        self._hashes: dict[tuple[str, Index], np.ndarray] = {}

    # What arrives

    def close(
        self,
        batch: Batch,
        frontier: int,
        state: ShardState,
        on_row_error: OnRowError | None,
        copies: dict[str, pa.Table] | None = None,
    ) -> None:
        """Take the closed changes: `moves` has them in both forms; a row with a NULL join attribute never matches.

        `copies` came from another shard, by form.
        """
        arrived = self.split_forms(batch.rows)
        self.arrived = list(arrived.values())
        for form in FORMS:
            pending = self.pending(state, form)
            rows = _concat(pending, arrived.get(form), (copies or {}).get(form))
            closed = take_closed(pending, rows, frontier)
            self.moves[form] = self._sort_by_join_value(self._drop_unmatchable(closed.cast(pending.empty().schema)))
        if self.moves["late"].num_rows and self.early:
            self._add_moves(self._consolidate(self.moves["late"], on_row_error))
        elif self.moves["late"].num_rows:
            self.moves["late"] = self._keep_computable(self.moves["late"], on_row_error)
        if self.early:
            self.moves["late"] = self.moves["late"].slice(0, 0)
        else:
            self._unify_forms(state)

    @property
    def changes(self) -> int:
        """Closed changes of this batch."""
        return sum(t.num_rows for t in self.moves.values())

    def split_forms(self, rows: pa.Table | None) -> dict[str, pa.Table]:
        """Rows by form. Where both came in one table, a row in late form has no part, one in early form no argument."""
        if rows is None:
            return {}
        rows = _with_count(rows)
        if not {p.name for p in self.parts} <= set(rows.column_names):
            return {"late": rows}
        if not self.args or self.args[0].name not in rows.column_names:
            return {"early": rows}
        early = reduce(pc.or_, (rows.column(p.name).is_valid() for p in self.parts))
        return {"early": rows.filter(early), "late": rows.filter(pc.invert(early))}

    def _drop_unmatchable(self, rows: pa.Table) -> pa.Table:
        for name in self.attributes:
            if rows.column(name).null_count:
                rows = rows.filter(rows.column(name).is_valid())
        for left, right in self.equal:
            if rows.num_rows:
                sides = pa.table({"a": rows.column(left), "b": rows.column(right)})
                rows = rows.filter(duck.run("SELECT a = b AS same FROM sides", sides=sides).column("same"))
        return rows

    def _sort_by_join_value(self, rows: pa.Table) -> pa.Table:
        """The rows ordered by join value, so that equal values are close in memory."""
        from tidemill.runtime.kernels.joins.delta_join_rows import order_rows

        if rows.num_rows < sizes.scattered_rows or not self.attributes:
            return rows
        ids, first = number_rows([rows.column(c) for c in self.attributes], rows.num_rows)
        order = order_rows(ids, ids, len(first), 1, np.empty(len(first) + 1, np.int64))
        return rows.combine_chunks().take(pa.array(order))

    def _add_moves(self, rows: pa.Table) -> None:
        early = self.moves["early"]
        self.moves["early"] = pa.concat_tables([early, rows.select(early.column_names).cast(early.schema)])

    def _consolidate(self, late: pa.Table, on_row_error: OnRowError | None = None, timed: bool = True) -> pa.Table:
        """Rows of the late form consolidated on their key, and time if they have one (AS update, Definition 4)."""
        hidden = ["__time"] if timed else []
        names = ", ".join([*(quoted(c.name) for c in self.keys), *hidden])
        parts = "".join(f", {p.sql} AS {quoted(p.name)}" for p in self.parts)
        inner = duck.source("feed", (*self.keys, *self.args), *hidden, "__n AS __diff")
        group, names = (f" GROUP BY {names}", f"{names}, ") if names else ("", "")
        sql = f"SELECT {names}CAST(sum(__diff) AS BIGINT) AS __n{parts} FROM {inner}{group}"
        return duck.run_put_aside(sql, late, on_row_error)

    def pending(self, state: ShardState, form: str) -> Arrangement:
        """Rows of one form that wait for their time."""
        return state.arrangement(self.node, f"{self.number} {form} {PENDING}", Layout("__time", *self.layouts[form]))

    # Parts of late rows

    def unit_parts(self, late: pa.Table, on_row_error: OnRowError | None = None) -> tuple[pa.Table, np.ndarray]:
        """(parts of single rows, which of them each row has): a part of n equal rows is n times that of one."""
        read = [c for c in (*self.keys, *self.args) if any(quoted(c.name) in p.sql for p in self.parts)]
        ids, first = number_rows([late.column(c.name) for c in read], late.num_rows)
        feed = late.select([c.name for c in read]).take(pa.array(first))
        feed = feed.append_column("__i", pa.array(np.arange(len(first))))
        parts = "".join(f", {p.sql} AS {quoted(p.name)}" for p in self.parts)
        inner = duck.source("feed", read, "__i", "CAST(1 AS BIGINT) AS __diff")
        return duck.run_put_aside(f"SELECT __i{parts} FROM {inner} GROUP BY __i ORDER BY __i", feed, on_row_error), ids

    def _keep_computable(self, late: pa.Table, on_row_error: OnRowError | None) -> pa.Table:
        """The rows whose parts can be computed, with the number of their unit parts; others are put aside."""
        if self.plain is not None:
            return late
        self.units, ids = self.unit_parts(late, on_row_error)
        known = self.units.column("__i").to_numpy()
        if len(known) and known[-1] == len(known) - 1:
            return late.append_column(UNIT, pa.array(ids))
        good = np.isin(ids, known)
        return late.filter(pa.array(good)).append_column(UNIT, pa.array(np.searchsorted(known, ids[good])))

    def annotations(self, early: list[pa.Table], late: list[pa.Table]) -> Annotations:
        """The parts of rows in early form, then of rows in late form."""
        pieces = [Piece(t) for t in early]
        for table in late if self.parts else []:
            scale = table.column("__n").to_numpy().astype(np.int64)
            if self.plain is not None:
                pieces.append(Piece(read_parts(table, self.plain), None, scale))
                continue
            if UNIT in table.column_names:
                units, ids = self.units, table.column(UNIT).to_numpy()
            else:
                units, ids = self.unit_parts(table)
            pieces.append(Piece(units, ids, scale))
        return Annotations.of(self.parts, pieces, sum(t.num_rows for t in (*early, *late)))

    # What is stored

    def arrangement(self, state: ShardState, form: str, index: Index) -> Arrangement:
        """The stored rows of one form, sorted by the hash of the index's columns."""
        layout = Layout("__h", *self.layouts[form], "__n")
        return state.arrangement(self.node, f"{self.number} {form} {json.dumps(index)}", layout)

    def prepare(self, state: ShardState) -> None:
        """Bring the state to the form and the indexes of this plan. O(state) when they have changed, else O(1)."""
        for form in FORMS:
            self._index(state, form)
        if self.early and self.indexes and self.arrangement(state, "late", self.indexes[0]).segments:
            rows = self._consolidate(self.arrangement(state, "late", self.indexes[0]).scan(), timed=False)
            for index in self.indexes:
                self.arrangement(state, "late", index).replace(rows.slice(0, 0))
            self._append(state, "early", rows)

    def _index(self, state: ShardState, form: str) -> None:
        prefix = f"{self.number} {form} ["
        held = state.stored.setdefault(self.node, {})
        known = [tuple(json.loads(name[len(prefix) - 1 :])) for name in held if name.startswith(prefix) and held[name]]
        missing = [index for index in self.indexes if index not in known]
        if known and missing:
            rows = self.arrangement(state, form, known[0]).scan()
            for index in missing:
                self.arrangement(state, form, index).append(self._add_hash(rows, index))
        for index in known:
            if index not in self.indexes:
                for segment in held.pop(f"{self.number} {form} {json.dumps(index)}"):
                    state.store.discard(segment)

    def fetch(self, state: ShardState, index: Index, hashes: np.ndarray) -> dict[str, pa.Table]:
        """The stored rows of these hashes (sorted, unique) in both forms."""
        if not self.stored:
            return {}
        found = {form: self.arrangement(state, form, index) for form in FORMS}
        tables = {form: held.probe(hashes) for form, held in found.items() if held.segments}
        return {form: rows for form, rows in tables.items() if rows.num_rows}

    def store(self, state: ShardState) -> None:
        """Add this batch's changes to the state."""
        for form, rows in self.moves.items():
            if rows.num_rows:
                self._append(state, form, rows)

    def hashes(self, form: str, columns: Index) -> np.ndarray:
        """For each change of a form the hash of some of its columns."""
        if (form, columns) not in self._hashes:
            self._hashes[form, columns] = self.hash(self.moves[form], columns)
        return self._hashes[form, columns]

    def hash(self, rows: pa.Table, columns: Index) -> np.ndarray:
        """The hash of some key columns for each row."""
        if not columns or not rows.num_rows:
            return np.zeros(rows.num_rows, np.uint64)
        return hash_rows([rows.column(c) for c in columns], rows.num_rows)

    def _add_hash(self, rows: pa.Table, index: Index) -> pa.Table:
        rows = rows.drop_columns(["__h"]) if "__h" in rows.column_names else rows
        return rows.append_column("__h", pa.array(self.hash(rows, index)))

    def _append(self, state: ShardState, form: str, rows: pa.Table) -> None:
        """Add rows to every index. Changes of one row at several times are stored as one, or not if they cancel."""
        alone = len(self.indexes) == 1
        if self.indexes:
            # For one index it is enough to put rows together when they are merged with those before them.
            rows = rows.select(self._columns(form)) if alone else self._combine(form, rows)
        for index in self.indexes:
            self._append_one(state, form, index, rows, alone)

    def _append_one(self, state: ShardState, form: str, index: Index, rows: pa.Table, scattered: bool) -> None:
        """Add rows: the same as `append` and `compact` of the arrangement, without SQL. `scattered`: equal rows are not
        combined yet.
        """
        held = self.arrangement(state, form, index)
        left = list(held.segments)
        pieces = [rows]
        while left and left[-1].live < 2 * sum(t.num_rows for t in pieces):
            segment = left.pop()
            pieces.append(state.store.read(segment).slice(segment.start).select(rows.column_names).cast(rows.schema))
        if scattered or len(pieces) > 1:
            rows = self._combine(form, pa.concat_tables(pieces[::-1]))
        if not left:
            # No other segment is left: rows without a count are dropped.
            rows = rows.filter(pc.not_equal(rows.column("__n"), 0))
        for segment in held.segments[len(left) :]:
            state.store.discard(segment)
        del held.segments[len(left) :]
        if rows.num_rows:
            hashes = self.hash(rows, index)
            order = np.argsort(hashes, kind="stable")
            rows = rows.take(pa.array(order)).add_column(0, "__h", pa.array(hashes[order]))
            held.segments.append(Segment(rows.num_rows, table=rows.cast(held.empty().schema).combine_chunks()))

    def _combine(self, form: str, rows: pa.Table) -> pa.Table:
        """Equal rows as one, without those whose sums are all zero; columns as in the layout."""
        names = [c.name for c in self.layouts[form][0]]
        return add_up_rows(rows, names, self.parts if form == "early" else ()).select(self._columns(form))

    def _columns(self, form: str) -> list[str]:
        keys, adds = self.layouts[form]
        return [*(c.name for c in keys), *(c.name for c, _ in adds)]

    # One form for each key

    def _unify_forms(self, state: ShardState) -> None:
        """While sets of an earlier plan are stored, their keys stay in early form: late changes are consolidated.

        Conversely, early changes (pending while the plan changed) bring the stored late rows of their keys to early
        form.
        """
        if not self.indexes:
            return
        index, arrived = self.indexes[0], self.moves["early"]
        held = self.arrangement(state, "early", index)
        if not held.segments and not arrived.num_rows:
            return
        if self.moves["late"].num_rows:
            self._consolidate_known(held, arrived, index)
        if arrived.num_rows:
            late = self.arrangement(state, "late", index).probe(distinct(self.hash(arrived, index)))
            late = late.filter(self._has_key_of(late, arrived))
            if late.num_rows:
                # Only the form changes: the rows are moved from the window to the set.
                self._append(state, "early", self._consolidate(late, timed=False))
                away = pc.negate(late.column("__n"))
                self._append(state, "late", late.set_column(late.column_names.index("__n"), "__n", away))

    def _consolidate_known(self, held: Arrangement, arrived: pa.Table, index: Index) -> None:
        late = self.moves["late"]
        known = held.probe(distinct(self.hash(late, index)))
        ids, first = number_rows([known.column(c.name) for c in self.keys], known.num_rows)
        counts = np.zeros(len(first), np.int64)
        np.add.at(counts, ids, known.column("__n").to_numpy())
        alive = known.take(pa.array(first[counts != 0]))
        inside = pc.or_(self._has_key_of(late, alive), self._has_key_of(late, arrived))
        self._add_moves(self._consolidate(late.filter(inside)))
        self.moves["late"] = late.filter(pc.invert(inside))

    def _has_key_of(self, rows: pa.Table, others: pa.Table) -> pa.Array:
        """Which rows have a key that one of the others has."""
        columns = [
            pa.chunked_array([*rows.column(c.name).chunks, *others.column(c.name).chunks], rows.column(c.name).type)
            for c in self.keys
        ]
        ids, _ = number_rows(columns, rows.num_rows + others.num_rows)
        return pa.array(np.isin(ids[: rows.num_rows], ids[rows.num_rows :]))


def _with_count(rows: pa.Table) -> pa.Table:
    """The rows with `__n`: those of a late input come as changes and have `__diff`.

    >>> _with_count(pa.table({"k": ["a", "b"], "__n": [2, None], "__diff": [None, -1]})).to_pydict()
    {'k': ['a', 'b'], '__n': [2, -1]}
    """
    if "__diff" not in rows.column_names:
        return rows
    if "__n" not in rows.column_names:
        return rows.rename_columns(["__n" if c == "__diff" else c for c in rows.column_names])
    counts = pc.coalesce(rows.column("__n"), rows.column("__diff"))
    return rows.drop_columns(["__n", "__diff"]).append_column("__n", counts)


def _concat(pending: Arrangement, arrived: pa.Table | None, copies: pa.Table | None) -> pa.Table | None:
    if arrived is None or copies is None:
        return arrived if copies is None else copies
    kind = pending.empty().schema
    return pa.concat_tables([t.select(kind.names).cast(kind) for t in (arrived, copies)])
