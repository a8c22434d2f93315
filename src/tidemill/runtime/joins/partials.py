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

from tidemill.plan.physical import JoinAggregate
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import fast_paths
from tidemill.runtime.dataflow.annotations import Annotations, PartSpec, Piece, add_up_rows
from tidemill.runtime.duckdb import duck
from tidemill.runtime.joins.aggregation_sets import AggregationSets
from tidemill.runtime.joins.delta_join import DeltaJoin, Matches
from tidemill.runtime.joins.pair_sums import PairKey, PairPart, PairSums
from tidemill.runtime.joins.routes import JoinGraph, Place

OnRowError = Callable[[pa.Table, str], None]


class Partials:
    """The output columns of an aggregation join and the rows found so far.

    Where the value counts are `known` already, only the rest is computed, and what cannot be added up is an error.
    """

    def __init__(
        self,
        op: JoinAggregate,
        inputs: list[AggregationSets],
        graph: JoinGraph,
        on_row_error: OnRowError | None,
        known: dict[str, pa.Table] | None = None,
    ) -> None:
        outputs = op.outputs
        self.keys = outputs.keys
        self.parts = [(PartSpec(n, t, how, sql), i) for n, t, how, i, sql in outputs.parts]
        self.values = outputs.values if known is None else ()
        self.known = known
        self.residual = op.residual
        self.inputs, self.graph, self.on_row_error = inputs, graph, on_row_error
        self.places: dict[str, Place] = {quoted(c.name): (s.number, c.name) for s in inputs for c in s.keys}
        read = [*(k[2] for k in self.keys), *(v[1] for v in self.values), *(p.sql for p, i in self.parts if i < 0)]
        self.reads = {
            sql: self._places_read(sql, outputs.reads) for sql in (*read, *([op.residual] if op.residual else ()))
        }
        self.owners = {sql: {i for i, _ in self.reads[sql]} for sql in read}
        self.separate = self.residual is None and all(len(found) <= 1 for found in self.owners.values())
        self.rows: list[pa.Table] = []
        self.seen: np.ndarray | None = None  # times at which something was found
        self.again = False  # whether two tables may have rows of one time
        self.picks: dict[str, list[pa.Table]] = {pick: [] for pick, _, _ in self.values}
        self.pairs = 0

    def _places_read(self, sql: str, reads: dict[str, tuple[str, ...]]) -> list[Place]:
        """The columns that an expression reads; all of them where an older plan does not say."""
        if sql in self.places:
            return [self.places[sql]]
        every = self.places.values()
        return [place for place in every if sql not in reads or place[1] in reads[sql]]

    def add(self, join: DeltaJoin, matches: Matches) -> None:
        """Join and aggregate these matches."""
        pairs = int(matches.counts.sum())
        self.pairs += pairs
        if not pairs:
            return
        self._note_times(join, matches)
        if self.separate and fast_paths.is_on("pair_sums"):
            try:
                self._add_up(join, matches)
                return
            except (duckdb.Error, OverflowError):
                if self.known is not None:
                    raise
                # An expression fails on some row; evaluating the joined rows finds which.
        self._gather(join, matches)

    def _note_times(self, join: DeltaJoin, matches: Matches) -> None:
        """Note at which times rows were found: tables of different times have no group in common."""
        here = np.zeros(len(join.times), np.bool_)
        here[matches.binding.rank] = True
        if self.seen is None:
            self.seen = here
        elif not self.again:
            self.again = bool((self.seen & here).any())
            self.seen |= here

    def result(self) -> pa.Table | None:
        """All partial aggregates."""
        return _concat(self.rows, [n for n, _, _ in self.keys], tuple(p for p, _ in self.parts), self.again)

    def value_counts(self) -> dict[str, pa.Table]:
        """All value counts, by pick. Those of lists are not added up: moving lists costs more than the grouping above,
        which adds up anyway.
        """
        if self.known is not None:
            return self.known
        keys = [*(n for n, _, _ in self.keys), "__v"]
        lists = {pick for pick, _, type_name in self.values if type_name.endswith("[]")}
        found = {
            pick: _concat(tables, keys, (), self.again and pick not in lists) for pick, tables in self.picks.items()
        }
        return {pick: rows for pick, rows in found.items() if rows is not None}

    # Added up as they are found

    def _add_up(self, join: DeltaJoin, matches: Matches) -> None:
        keys = [self._key(join, *key) for key in self.keys]
        parts = [self._part(join, spec, i) for spec, i in self.parts]
        found = list(PairSums(join, matches, keys, parts).tables())
        self.again |= len(found) > 1
        valued = []
        for pick, sql, type_name in self.values:
            value = self._key(join, "__v", type_name, sql)
            tables = list(PairSums(join, matches, [*keys, value], []).tables())
            self.again |= len(tables) > 1
            valued += [(pick, table.filter(table.column("__v").is_valid())) for table in tables]
        self.rows += found
        for pick, table in valued:
            self.picks[pick].append(table)

    def _key(self, join: DeltaJoin, name: str, type_name: str, sql: str) -> PairKey:
        if sql not in self.places:
            owner = next(iter(self.owners[sql]), join.k)
            found = self._compute(join, owner, f"CAST({sql} AS {type_name}) AS x")
            return PairKey(name, owner, found.column("x"))
        number, column = self.places[sql]
        which = self.graph.class_of(number, column)
        own = None if which is None else self.graph.column(join.k, which)
        if own is not None:
            # The changing input has an equal column, and fewer rows to group.
            number, column = join.k, own
        return PairKey(name, number, join.rows[number].keys.column(column))

    def _part(self, join: DeltaJoin, spec: PartSpec, number: int) -> PairPart:
        if number >= 0:
            parts = join.rows[number].parts
            return PairPart(spec.name, number, parts, [p.name for p in parts.parts].index(spec.name))
        # The input keeps no such part: the argument is one of its key columns.
        owner = next(iter(self.owners[spec.sql]), join.k)
        rows = join.rows[owner]
        units = self._compute(join, owner, f"{spec.sql} AS {quoted(spec.name)}", "GROUP BY __i ORDER BY __i")
        return PairPart(spec.name, owner, Annotations.of((spec,), [Piece(units, None, rows.n)], len(rows)), 0)

    def _compute(self, join: DeltaJoin, number: int, item: str, tail: str = "ORDER BY __i") -> pa.Table:
        rows = join.rows[number]
        numbers = pa.array(np.arange(len(rows)))
        feed = rows.keys.append_column("__i", numbers) if rows.keys.num_columns else pa.table({"__i": numbers})
        read = [c for c in self.inputs[number].keys if c.name in feed.column_names]
        inner = duck.source("feed", read, "__i", "CAST(1 AS BIGINT) AS __diff")
        return duck.run(f"SELECT {item} FROM {inner} {tail}", feed=feed)

    # Gathered and evaluated

    def _gather(self, join: DeltaJoin, matches: Matches) -> None:
        last = join.route[-1].input
        for piece, (probe, version) in enumerate(matches.pairs()):
            self.again |= piece > 0
            at = {i: rows[probe] for i, rows in matches.binding.at.items()} | {last: version}
            self._evaluate(self._feed(join, at, join.times[matches.binding.rank[probe]]))

    def _feed(self, join: DeltaJoin, at: dict[int, np.ndarray], times: np.ndarray) -> pa.Table:
        """The joined rows: the columns that are read, the counts and the parts of every input."""
        columns: dict[str, Any] = {}
        for i, column in dict.fromkeys(place for places in self.reads.values() for place in places):
            columns[column] = join.rows[i].keys.column(column).take(pa.array(at[i]))
        columns["__time"] = pa.array(times)
        columns["__row"] = pa.array(np.arange(len(times)))
        for i, rows in join.rows.items():
            columns[f"__n{i}"] = pa.array(rows.n[at[i]])
        for x, (spec, i) in enumerate(self.parts):
            if i >= 0:
                parts = join.rows[i].parts
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
        rows = duck.run_put_aside(f"SELECT {chosen} FROM {inner} {group}", feed, self._error_handler(bad))
        self.rows.append(
            _drop_zero_sums(
                rows.drop_columns([f"__check{x}" for x in range(len(checks))]),
                ["__n", *(spec.name for spec, _ in self.parts if spec.how == "sum")],
            )
        )
        if bad:
            feed = feed.filter(pa.array(~np.isin(np.arange(feed.num_rows), bad)))
        for pick, sql, type_name in self.values:
            chosen = ", ".join([*keys, "__time", f"CAST({sql} AS {type_name}) AS __v"])
            found = duck.run(
                f"SELECT {chosen}, CAST(sum(__diff) AS BIGINT) AS __n FROM {inner} {group}, {len(keys) + 2}", feed=feed
            )
            self.picks[pick].append(_drop_zero_sums(found.filter(found.column("__v").is_valid()), ["__n"]))

    def _part_sql(self, x: int) -> str:
        spec, i = self.parts[x]
        if i < 0:
            return spec.sql
        if spec.how != "sum":
            return f"{spec.how}(__p{x})"
        others = [f"__n{s.number}" for s in self.inputs if s.number != i]
        return f"CAST(sum({' * '.join([f'__p{x}', *others])}) AS {spec.type})"

    def _error_handler(self, bad: list[int]) -> OnRowError | None:
        on_row_error = self.on_row_error
        if on_row_error is None:
            return None

        def put_aside(rows: pa.Table, why: str) -> None:
            bad.extend(rows.column("__row").to_pylist())
            hidden = [n for n in rows.column_names if n.startswith("__") and n != "__time"]
            on_row_error(rows.drop_columns(hidden), why)

        return put_aside


def _drop_zero_sums(rows: pa.Table, sums: list[str]) -> pa.Table:
    """The rows of which not every sum is zero."""
    kept = None
    for name in sums:
        here = pc.fill_null(pc.not_equal(rows.column(name), pa.scalar(0).cast(rows.schema.field(name).type)), False)
        kept = here if kept is None else pc.or_(kept, here)
    return rows if kept is None else rows.filter(kept)


def _concat(tables: list[pa.Table], keys: list[str], parts: tuple[PartSpec, ...], again: bool) -> pa.Table | None:
    """The tables as one. `again`: rows of equal keys and time may be in several of them and are added up."""
    tables = [t for t in tables if t.num_rows]
    if not tables:
        return None
    names = tables[0].column_names
    rows = pa.concat_tables([tables[0], *(t.select(names).cast(tables[0].schema) for t in tables[1:])])
    if len(tables) == 1 or not again:
        return rows
    try:
        return add_up_rows(rows, [*keys, "__time"], parts).select(names)
    except OverflowError:
        return rows  # the grouping above has wider sums
