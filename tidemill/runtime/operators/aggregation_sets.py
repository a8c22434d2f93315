"""One input of an aggregation join: what arrives, and what is stored, as aggregation sets or as window rows.

The *early* form of an input is an aggregation set AS_i (paper 000, Definition 3): one row for each key K_i (join
attributes, grouping attributes, columns needed one by one) with its count `__n` and the parts of Rule 1. The *late*
form is the window W_i: the key and the arguments themselves, with a count. Both are sets with annotations that add up,
so rows of both forms may lie side by side. Of one key all stored rows have the same form, so that what leaves cancels
what came, whatever plan brought it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.operators.annotations import Annotations, PartSpec, Piece, added_up
from tidemill.runtime.operators.base import Batch, take_closed
from tidemill.runtime.operators.join_values import distinct, hash_rows, number_rows
from tidemill.runtime.state import Arrangement, Layout, Shelf

COUNT = Column("__n", "BIGINT")
FORMS = ("early", "late")
UNIT = "__unit"  # which of the batch's unit parts a late change has
Complaint = Callable[[pa.Table, str], None]
Index = tuple[str, ...]


class AggregationSets:
    """Changes and state of input `number`. `attributes` are its join attributes, `equal` those that must agree."""

    def __init__(self, node: str, number: int, params: dict[str, Any], attributes: Iterable[str],
                 equal: Iterable[tuple[str, str]], indexes: Iterable[Index]) -> None:
        self.node, self.number = node, number
        self.keys = tuple(Column(n, t) for n, t in params["keys"])
        self.args = tuple(Column(n, t) for n, t in params["args"])
        self.parts = tuple(PartSpec(*p) for p in params["parts"])
        self.early: bool = params["early"] or not (self.args or self.parts)
        self.stored: bool = params["stored"]
        self.attributes, self.equal = list(attributes), list(equal)
        self.indexes = list(dict.fromkeys(indexes)) if self.stored else []
        adds = ((COUNT, "sum"), *((Column(p.name, p.type), p.how) for p in self.parts))
        self.layouts = {"early": (self.keys, adds), "late": ((*self.keys, *self.args), ((COUNT, "sum"),))}
        self.moves: dict[str, pa.Table] = {}
        self.units: pa.Table | None = None
        self._hashes: dict[tuple[str, Index], np.ndarray] = {}

    # What arrives

    def close(self, batch: Batch, frontier: int, shelf: Shelf, complain: Complaint | None) -> None:
        """Take the closed changes: `moves` has them in both forms; a row with a NULL join attribute never matches."""
        arrived = self._told_apart(batch.rows)
        for form in FORMS:
            agenda = shelf.arrangement(self.node, f"{self.number} {form} agenda", Layout("__time", *self.layouts[form]))
            closed = take_closed(agenda, arrived.get(form), frontier)
            self.moves[form] = self._matchable(closed.cast(agenda.empty().schema))
        if self.moves["late"].num_rows and self.early:
            self._add_moves(self._folded(self.moves["late"], complain))
        elif self.moves["late"].num_rows:
            self.moves["late"] = self._sound(self.moves["late"], complain)
        if self.early:
            self.moves["late"] = self.moves["late"].slice(0, 0)
        else:
            self._settle(shelf)

    @property
    def changes(self) -> int:
        """Closed changes of this batch."""
        return sum(t.num_rows for t in self.moves.values())

    def _told_apart(self, rows: pa.Table | None) -> dict[str, pa.Table]:
        """Rows by form. Where both came in one table, a row in late form has no part, one in early form no argument."""
        if rows is None:
            return {}
        if not {p.name for p in self.parts} <= set(rows.column_names):
            return {"late": rows}
        if not self.args or self.args[0].name not in rows.column_names:
            return {"early": rows}
        early = reduce(pc.or_, (rows.column(p.name).is_valid() for p in self.parts))
        return {"early": rows.filter(early), "late": rows.filter(pc.invert(early))}

    def _matchable(self, rows: pa.Table) -> pa.Table:
        for name in self.attributes:
            if rows.column(name).null_count:
                rows = rows.filter(rows.column(name).is_valid())
        for left, right in self.equal:
            if rows.num_rows:
                sides = pa.table({"a": rows.column(left), "b": rows.column(right)})
                rows = rows.filter(duck.run("SELECT a = b AS same FROM sides", sides=sides).column("same"))
        return rows

    def _add_moves(self, rows: pa.Table) -> None:
        early = self.moves["early"]
        self.moves["early"] = pa.concat_tables([early, rows.select(early.column_names).cast(early.schema)])

    def _folded(self, late: pa.Table, complain: Complaint | None = None, timed: bool = True) -> pa.Table:
        """Rows of the late form consolidated on their key, and time if they have one (AS update, Definition 4)."""
        hidden = ["__time"] if timed else []
        names = ", ".join([*(quoted(c.name) for c in self.keys), *hidden])
        parts = "".join(f", {p.sql} AS {quoted(p.name)}" for p in self.parts)
        inner = duck.source("feed", (*self.keys, *self.args), *hidden, "__n AS __diff")
        group, names = (f" GROUP BY {names}", f"{names}, ") if names else ("", "")
        sql = f"SELECT {names}CAST(sum(__diff) AS BIGINT) AS __n{parts} FROM {inner}{group}"
        return duck.run_put_aside(sql, late, complain)

    # Parts of late rows

    def unit_parts(self, late: pa.Table, complain: Complaint | None = None) -> tuple[pa.Table, np.ndarray]:
        """(parts of single rows, which of them each row has): a part of n equal rows is n times that of one."""
        read = [c for c in (*self.keys, *self.args) if any(quoted(c.name) in p.sql for p in self.parts)]
        ids, first = number_rows([late.column(c.name) for c in read], late.num_rows)
        feed = late.select([c.name for c in read]).take(pa.array(first))
        feed = feed.append_column("__i", pa.array(np.arange(len(first))))
        parts = "".join(f", {p.sql} AS {quoted(p.name)}" for p in self.parts)
        inner = duck.source("feed", read, "__i", "CAST(1 AS BIGINT) AS __diff")
        return duck.run_put_aside(f"SELECT __i{parts} FROM {inner} GROUP BY __i ORDER BY __i", feed, complain), ids

    def _sound(self, late: pa.Table, complain: Complaint | None) -> pa.Table:
        """The rows whose parts can be computed, with the number of their unit parts; others are put aside."""
        self.units, ids = self.unit_parts(late, complain)
        known = self.units.column("__i").to_numpy()
        if len(known) and known[-1] == len(known) - 1:
            return late.append_column(UNIT, pa.array(ids))
        good = np.isin(ids, known)
        return late.filter(pa.array(good)).append_column(UNIT, pa.array(np.searchsorted(known, ids[good])))

    def annotations(self, early: list[pa.Table], late: list[pa.Table]) -> Annotations:
        """The parts of rows in early form, then of rows in late form."""
        pieces = [Piece(t) for t in early]
        for table in late if self.parts else []:
            if UNIT in table.column_names:
                units, ids = self.units, table.column(UNIT).to_numpy()
            else:
                units, ids = self.unit_parts(table)
            pieces.append(Piece(units, ids, table.column("__n").to_numpy().astype(np.int64)))
        return Annotations.of(self.parts, pieces, sum(t.num_rows for t in (*early, *late)))

    # What is stored

    def arrangement(self, shelf: Shelf, form: str, index: Index) -> Arrangement:
        """The stored rows of one form, sorted by the hash of the index's columns."""
        layout = Layout("__h", *self.layouts[form], "__n")
        return shelf.arrangement(self.node, f"{self.number} {form} {json.dumps(index)}", layout)

    def prepare(self, shelf: Shelf) -> None:
        """Bring the state to the form and the indexes of this plan. O(state) when they have changed, else O(1)."""
        for form in FORMS:
            self._index(shelf, form)
        if self.early and self.indexes and self.arrangement(shelf, "late", self.indexes[0]).segments:
            rows = self._folded(self.arrangement(shelf, "late", self.indexes[0]).scan(), timed=False)
            for index in self.indexes:
                self.arrangement(shelf, "late", index).replace(rows.slice(0, 0))
            self._append(shelf, "early", rows)

    def _index(self, shelf: Shelf, form: str) -> None:
        prefix = f"{self.number} {form} ["
        held = shelf.stored.setdefault(self.node, {})
        known = [tuple(json.loads(name[len(prefix) - 1 :])) for name in held if name.startswith(prefix) and held[name]]
        missing = [index for index in self.indexes if index not in known]
        if known and missing:
            rows = self.arrangement(shelf, form, known[0]).scan()
            for index in missing:
                self.arrangement(shelf, form, index).append(self._hashed(rows, index))
        for index in known:
            if index not in self.indexes:
                for segment in held.pop(f"{self.number} {form} {json.dumps(index)}"):
                    shelf.discard(segment)

    def fetch(self, shelf: Shelf, index: Index, hashes: np.ndarray) -> dict[str, pa.Table]:
        """The stored rows of these hashes (sorted, unique) in both forms."""
        if not self.stored:
            return {}
        found = {form: self.arrangement(shelf, form, index) for form in FORMS}
        tables = {form: held.probe(hashes) for form, held in found.items() if held.segments}
        return {form: rows for form, rows in tables.items() if rows.num_rows}

    def store(self, shelf: Shelf) -> None:
        """Add this batch's changes to the state."""
        for form, rows in self.moves.items():
            if not rows.num_rows or not self.indexes:
                continue
            keys, _ = self.layouts[form]
            # A row that changes at many times of the batch is stored once.
            _, first = number_rows([rows.column(c.name) for c in keys], rows.num_rows)
            if 2 * len(first) < rows.num_rows:
                rows = added_up(rows, [c.name for c in keys], self.parts if form == "early" else ())
            self._append(shelf, form, rows)

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

    def _hashed(self, rows: pa.Table, index: Index) -> pa.Table:
        rows = rows.drop_columns(["__h"]) if "__h" in rows.column_names else rows
        return rows.append_column("__h", pa.array(self.hash(rows, index)))

    def _append(self, shelf: Shelf, form: str, rows: pa.Table) -> None:
        for index in self.indexes:
            self._append_one(shelf, form, index, self._hashed(rows, index))

    def _append_one(self, shelf: Shelf, form: str, index: Index, rows: pa.Table) -> None:
        held = self.arrangement(shelf, form, index)
        rows = rows.select([c.name for c in held.layout.columns()])
        # What `compact` would merge with these rows is combined with them at once: one statement instead of two.
        while held.segments and held.segments[-1].live < 2 * rows.num_rows:
            segment = held.segments.pop()
            older = shelf.read(segment).slice(segment.start)
            rows = pa.concat_tables([older, rows.cast(older.schema)])
            shelf.discard(segment)
        held.append(rows)

    # One form for each key

    def _settle(self, shelf: Shelf) -> None:
        """While sets of an earlier plan are stored, their keys stay in early form: late changes of them are folded.

        And the other way round: early changes (they waited while the plan changed) bring the stored late rows of their
        keys to early form.
        """
        if not self.indexes:
            return
        index, arrived = self.indexes[0], self.moves["early"]
        held = self.arrangement(shelf, "early", index)
        if not held.segments and not arrived.num_rows:
            return
        if self.moves["late"].num_rows:
            self._fold_known(held, arrived, index)
        if arrived.num_rows:
            late = self.arrangement(shelf, "late", index).probe(distinct(self.hash(arrived, index)))
            late = late.filter(self._among(late, arrived))
            if late.num_rows:
                # Nothing changes but the form: the rows leave the window and enter the set.
                self._append(shelf, "early", self._folded(late, timed=False))
                away = pc.negate(late.column("__n"))
                self._append(shelf, "late", late.set_column(late.column_names.index("__n"), "__n", away))

    def _fold_known(self, held: Arrangement, arrived: pa.Table, index: Index) -> None:
        late = self.moves["late"]
        known = held.probe(distinct(self.hash(late, index)))
        ids, first = number_rows([known.column(c.name) for c in self.keys], known.num_rows)
        counts = np.zeros(len(first), np.int64)
        np.add.at(counts, ids, known.column("__n").to_numpy())
        alive = known.take(pa.array(first[counts != 0]))
        inside = pc.or_(self._among(late, alive), self._among(late, arrived))
        self._add_moves(self._folded(late.filter(inside)))
        self.moves["late"] = late.filter(pc.invert(inside))

    def _among(self, rows: pa.Table, others: pa.Table) -> pa.Array:
        """Which rows have a key that one of the others has."""
        columns = [pa.chunked_array([*rows.column(c.name).chunks, *others.column(c.name).chunks],
                                    rows.column(c.name).type) for c in self.keys]
        ids, _ = number_rows(columns, rows.num_rows + others.num_rows)
        return pa.array(np.isin(ids[: rows.num_rows], ids[rows.num_rows :]))
