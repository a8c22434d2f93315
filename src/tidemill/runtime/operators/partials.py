"""Joined rows become partial aggregates: keys, `__time`, `__n`, parts; and value counts where values are needed.

A joined row has n = Π nᵢ, and a part p of input i is pᵢ · Π_{j≠i} n_j (Definition 5); extremes stay as they are. Where
every output reads one input only, it is computed for the rows of that input and the pairs are added up as they are
found. Otherwise, for predicates and expressions over several inputs, joined rows are gathered for DuckDB to evaluate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.operators.aggregation_sets import AggregationSets
from tidemill.runtime.operators.annotations import Annotations, PartSpec, Piece, added_up
from tidemill.runtime.operators.meeting import Encounter, Meeting
from tidemill.runtime.operators.pair_sums import PairKey, PairPart, PairSums
from tidemill.runtime.operators.routes import JoinGraph, Place

Complaint = Callable[[pa.Table, str], None]


class Partials:
    """The output columns of an aggregation join and the rows found so far."""

    def __init__(self, params: dict[str, Any], inputs: list[AggregationSets], graph: JoinGraph,
                 complain: Complaint | None) -> None:
        outputs = params["outputs"]
        self.keys = [(n, t, sql) for n, t, sql in outputs["keys"]]
        self.parts = [(PartSpec(n, t, how, sql), i) for n, t, how, i, sql in outputs["parts"]]
        self.values = [(pick, sql, t) for pick, sql, t in outputs["values"]]
        self.residual: str | None = params["residual"]
        self.inputs, self.graph, self.complain = inputs, graph, complain
        self.places: dict[str, Place] = {quoted(c.name): (s.number, c.name) for s in inputs for c in s.keys}
        read = [*(k[2] for k in self.keys), *(v[1] for v in self.values), *(p.sql for p, i in self.parts if i < 0)]
        self.owners = {sql: {i for name, (i, _) in self.places.items() if name in sql} for sql in read}
        self.separate = self.residual is None and all(len(found) <= 1 for found in self.owners.values())
        self.rows: list[pa.Table] = []
        self.seen: np.ndarray | None = None  # times at which something was found
        self.again = False  # whether two tables may have rows of one time
        self.picks: dict[str, list[pa.Table]] = {pick: [] for pick, _, _ in self.values}
        self.pairs = 0

    def add(self, meeting: Meeting, encounter: Encounter) -> None:
        """Join and aggregate what meets here."""
        pairs = int(encounter.counts.sum())
        self.pairs += pairs
        if not pairs:
            return
        self._note_times(meeting, encounter)
        if self.separate:
            try:
                self._add_up(meeting, encounter)
                return
            except (duckdb.Error, OverflowError):
                pass  # on some row an expression fails: one by one it will be found
        self._gather(meeting, encounter)

    def _note_times(self, meeting: Meeting, encounter: Encounter) -> None:
        """Changes of different times have no group in common: what was found of them lies side by side."""
        here = np.zeros(len(meeting.times), np.bool_)
        here[encounter.binding.rank] = True
        if self.seen is None:
            self.seen = here
        elif not self.again:
            self.again = bool((self.seen & here).any())
            self.seen |= here

    def result(self) -> pa.Table | None:
        """All partial aggregates."""
        return _together(self.rows, [n for n, _, _ in self.keys], tuple(p for p, _ in self.parts), self.again)

    def picked(self) -> dict[str, pa.Table]:
        """All value counts, by pick. Those of lists are not added up: moving lists costs more than the grouping above,
        which adds up anyway.
        """
        keys = [*(n for n, _, _ in self.keys), "__v"]
        lists = {pick for pick, _, type_name in self.values if type_name.endswith("[]")}
        found = {pick: _together(tables, keys, (), self.again and pick not in lists)
                 for pick, tables in self.picks.items()}
        return {pick: rows for pick, rows in found.items() if rows is not None}

    # Added up as they are found

    def _add_up(self, meeting: Meeting, encounter: Encounter) -> None:
        keys = [self._key(meeting, *key) for key in self.keys]
        parts = [self._part(meeting, spec, i) for spec, i in self.parts]
        found = list(PairSums(meeting, encounter, keys, parts).tables())
        self.again |= len(found) > 1
        valued = []
        for pick, sql, type_name in self.values:
            value = self._key(meeting, "__v", type_name, sql)
            tables = list(PairSums(meeting, encounter, [*keys, value], []).tables())
            self.again |= len(tables) > 1
            valued += [(pick, table.filter(table.column("__v").is_valid())) for table in tables]
        self.rows += found
        for pick, table in valued:
            self.picks[pick].append(table)

    def _key(self, meeting: Meeting, name: str, type_name: str, sql: str) -> PairKey:
        if sql not in self.places:
            owner = next(iter(self.owners[sql]), meeting.k)
            found = self._computed(meeting, owner, f"CAST({sql} AS {type_name}) AS x")
            return PairKey(name, owner, found.column("x"))
        number, column = self.places[sql]
        which = self.graph.class_of(number, column)
        own = None if which is None else self.graph.column(meeting.k, which)
        if own is not None:
            # The changing input has an equal column, and fewer rows to group.
            number, column = meeting.k, own
        return PairKey(name, number, meeting.rows[number].keys.column(column))

    def _part(self, meeting: Meeting, spec: PartSpec, number: int) -> PairPart:
        if number >= 0:
            parts = meeting.rows[number].parts
            return PairPart(spec.name, number, parts, [p.name for p in parts.parts].index(spec.name))
        # It is not among the parts of its input, whose keys show the argument anyway.
        owner = next(iter(self.owners[spec.sql]), meeting.k)
        rows = meeting.rows[owner]
        units = self._computed(meeting, owner, f"{spec.sql} AS {quoted(spec.name)}", "GROUP BY __i ORDER BY __i")
        return PairPart(spec.name, owner, Annotations.of((spec,), [Piece(units, None, rows.n)], len(rows)), 0)

    def _computed(self, meeting: Meeting, number: int, item: str, tail: str = "ORDER BY __i") -> pa.Table:
        rows = meeting.rows[number]
        numbers = pa.array(np.arange(len(rows)))
        feed = rows.keys.append_column("__i", numbers) if rows.keys.num_columns else pa.table({"__i": numbers})
        inner = duck.source("feed", self.inputs[number].keys, "__i", "CAST(1 AS BIGINT) AS __diff")
        return duck.run(f"SELECT {item} FROM {inner} {tail}", feed=feed)

    # Gathered and evaluated

    def _gather(self, meeting: Meeting, encounter: Encounter) -> None:
        last = meeting.route[-1].input
        for piece, (probe, version) in enumerate(encounter.pairs()):
            self.again |= piece > 0
            at = {i: rows[probe] for i, rows in encounter.binding.at.items()} | {last: version}
            self._evaluate(self._feed(meeting, at, meeting.times[encounter.binding.rank[probe]]))

    def _feed(self, meeting: Meeting, at: dict[int, np.ndarray], times: np.ndarray) -> pa.Table:
        """The joined rows: the columns that are read, the counts and the parts of every input."""
        text = " ".join([*self.owners, self.residual or ""])
        columns: dict[str, Any] = {}
        for name, (i, column) in self.places.items():
            if name in text:
                columns[column] = meeting.rows[i].keys.column(column).take(pa.array(at[i]))
        columns["__time"] = pa.array(times)
        columns["__row"] = pa.array(np.arange(len(times)))
        for i, rows in meeting.rows.items():
            columns[f"__n{i}"] = pa.array(rows.n[at[i]])
        for x, (spec, i) in enumerate(self.parts):
            if i >= 0:
                parts = meeting.rows[i].parts
                which = [p.name for p in parts.parts].index(spec.name)
                columns[f"__p{x}"] = parts.column(which).take(pa.array(at[i]))
        return pa.table(columns)

    def _evaluate(self, feed: pa.Table) -> None:
        read = [c for s in self.inputs for c in s.keys if c.name in feed.column_names]
        read += [Column(f"__p{x}", spec.type) for x, (spec, i) in enumerate(self.parts) if i >= 0]
        counts = [f"__n{s.number}" for s in self.inputs]
        inner = duck.source("feed", read, "__time", *counts, f"{' * '.join(counts)} AS __diff")
        inner += f" WHERE {self.residual}" if self.residual else ""
        keys = [f"CAST({sql} AS {t}) AS {quoted(n)}" for n, t, sql in self.keys]
        group = "GROUP BY " + ", ".join(str(i + 1) for i in range(len(keys) + 1))
        parts = [f"{self._part_sql(x)} AS {quoted(spec.name)}" for x, (spec, _) in enumerate(self.parts)]
        # Values are evaluated here as well: a row on which one fails must not count anywhere.
        checks = [f"max({sql}) AS __check{x}" for x, (_, sql, _) in enumerate(self.values)]
        chosen = ", ".join([*keys, "__time", "CAST(sum(__diff) AS BIGINT) AS __n", *parts, *checks])
        bad: list[int] = []
        rows = duck.run_put_aside(f"SELECT {chosen} FROM {inner} {group}", feed, self._aside(bad))
        self.rows.append(_living(rows.drop_columns([f"__check{x}" for x in range(len(checks))]),
                                 ["__n", *(spec.name for spec, _ in self.parts if spec.how == "sum")]))
        if bad:
            feed = feed.filter(pa.array(~np.isin(np.arange(feed.num_rows), bad)))
        for pick, sql, type_name in self.values:
            chosen = ", ".join([*keys, "__time", f"CAST({sql} AS {type_name}) AS __v"])
            found = duck.run(f"SELECT {chosen}, CAST(sum(__diff) AS BIGINT) AS __n FROM {inner}"
                             f" {group}, {len(keys) + 2}", feed=feed)
            self.picks[pick].append(_living(found.filter(found.column("__v").is_valid()), ["__n"]))

    def _part_sql(self, x: int) -> str:
        spec, i = self.parts[x]
        if i < 0:
            return spec.sql
        if spec.how != "sum":
            return f"{spec.how}(__p{x})"
        others = [f"__n{s.number}" for s in self.inputs if s.number != i]
        return f"CAST(sum({' * '.join([f'__p{x}', *others])}) AS {spec.type})"

    def _aside(self, bad: list[int]) -> Complaint | None:
        complain = self.complain
        if complain is None:
            return None

        def aside(rows: pa.Table, why: str) -> None:
            bad.extend(rows.column("__row").to_pylist())
            hidden = [n for n in rows.column_names if n.startswith("__") and n != "__time"]
            complain(rows.drop_columns(hidden), why)

        return aside


def _living(rows: pa.Table, sums: list[str]) -> pa.Table:
    """The rows of which not every sum is zero."""
    kept = None
    for name in sums:
        here = pc.fill_null(pc.not_equal(rows.column(name), pa.scalar(0).cast(rows.schema.field(name).type)), False)
        kept = here if kept is None else pc.or_(kept, here)
    return rows if kept is None else rows.filter(kept)


def _together(tables: list[pa.Table], keys: list[str], parts: tuple[PartSpec, ...], again: bool) -> pa.Table | None:
    """The tables as one; where they may have rows of equal keys and time, these are added up `again`."""
    tables = [t for t in tables if t.num_rows]
    if not tables:
        return None
    names = tables[0].column_names
    rows = pa.concat_tables([tables[0], *(t.select(names).cast(tables[0].schema) for t in tables[1:])])
    if len(tables) == 1 or not again:
        return rows
    try:
        return added_up(rows, [*keys, "__time"], parts).select(names)
    except OverflowError:
        return rows  # the grouping above has wider sums
