"""Predicates, group attributes and aggregate arguments of one source, evaluated once for each chunk of rows.

Plain columns cost nothing and simple predicates are evaluated on arrays; everything else goes into one DuckDB
statement. A row on which an expression fails is put aside for the queries that use that expression, and for no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from tidemill.plan.physical import HashTables, Op
from tidemill.plan.predicate_programs import Program, columns_of
from tidemill.plan.predicate_programs import evaluate as evaluate_program
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime.duckdb import duck


@dataclass
class Evaluated:
    """One chunk: truth of each predicate, values of attributes and arguments, and the rows on which expressions failed.
    `tests` evaluate predicates over a whole chunk; this object stands for its `rows`.
    """

    tests: list[Callable[[slice], np.ndarray]]
    attributes: list[pa.ChunkedArray]
    arguments: dict[str, pa.ChunkedArray]
    failures: dict[int, np.ndarray] = field(default_factory=dict)

    known: dict[int, np.ndarray] = field(default_factory=dict)
    rows: slice = field(default_factory=lambda: slice(None))

    def piece(self, rows: slice) -> Evaluated:
        """A part of a whole chunk; truths evaluated so far are not carried over."""
        arguments = {n: v[rows] for n, v in self.arguments.items()}
        failures = {i: f[rows] for i, f in self.failures.items()}
        return Evaluated(self.tests, [a[rows] for a in self.attributes], arguments, failures, rows=rows)

    def truth(self, predicate: int) -> np.ndarray:
        """The truth of one predicate. Simple ones are evaluated lazily: running totals do not need them."""
        if predicate not in self.known:
            self.known[predicate] = self.tests[predicate](self.rows)
        return self.known[predicate]


class Expressions:
    """All expressions of an "lfta" operator. Expression numbers: predicates, then attributes, then arguments."""

    def __init__(self, op: HashTables, on_row_error: Callable[[Op, pa.Table, str], None] | None) -> None:
        self.op, self.on_row_error = op, on_row_error
        self.predicates = op.predicates
        self.named = (*op.attributes, *op.arguments)
        self.attributes = len(op.attributes)
        self.types = {c.name: c.type for c in op.schema}
        self.columns = {*self.types, "__ts"} if op.reads is None else set(op.reads)
        # Not found again for each chunk: there may be a thousand predicates.
        self.programs = [None if p.program is None else (p.program, columns_of(p.program)) for p in self.predicates]
        # For each attribute and argument the predicates of the queries that use it.
        self.users: dict[int, set[int]] = {}
        for query in op.queries:
            for used in query.uses:
                self.users.setdefault(len(self.predicates) + used, set()).add(query.predicate)

    def evaluate(self, rows: pa.Table, times: np.ndarray) -> Evaluated:
        """All expressions over one chunk of rows with these event times."""
        if "__ts" in self.columns:
            rows = rows.append_column("__ts", pa.array(times))
        simple: dict[int, Any] = {}
        wanted: dict[int, str] = {}
        arrays: dict[str, np.ndarray | None] = {}
        for i, compiled in enumerate(self.programs):
            truth = None if compiled is None else _find_test(*compiled, rows, arrays)
            if truth is None:
                wanted[i] = f"coalesce({self.predicates[i].sql}, FALSE)"
            else:
                simple[i] = truth
        for i, named in enumerate(self.named, len(self.predicates)):
            plain = _find_column(named.sql, rows)
            if plain is None:
                wanted[i] = f"CAST({named.sql} AS {named.type})"
            else:
                simple[i] = plain
        failures: dict[int, np.ndarray] = {}
        count = len(self.predicates)
        found = [simple.get(i) for i in range(count, count + len(self.named))]
        if not wanted:
            arguments = {n.name: v for n, v in zip(self.named, found, strict=True)}
            return Evaluated([simple[i] for i in range(count)], found[: self.attributes], arguments)
        whole = {i: v(slice(None)) if i < count else v for i, v in simple.items()}
        values = self._compute(whole, wanted, rows, failures)
        truths = [_to_booleans(values[i]) for i in range(count)]
        for i in [i for i in failures if i < count]:
            truths[i] &= ~failures.pop(i)
        found = [values[i] for i in range(count, count + len(self.named))]
        arguments = {n.name: v for n, v in zip(self.named, found, strict=True)}
        failures = {i - count: f for i, f in failures.items()}
        return Evaluated([partial(_slice_truth, t) for t in truths], found[: self.attributes], arguments, failures)

    def _compute(
        self, simple: dict[int, Any], wanted: dict[int, str], rows: pa.Table, failures: dict[int, np.ndarray]
    ) -> dict[int, Any]:
        """All values: the simple ones and those that DuckDB computes."""
        needed = [c for c in rows.column_names if c in self.columns]
        part = rows.select(needed) if needed else pa.table({"__ts": pa.nulls(rows.num_rows, pa.int64())})
        source = duck.source("feed", [Column(n, self.types.get(n, "")) for n in part.column_names])
        items = ", ".join(f"{sql} AS {quoted(f'e{i}')}" for i, sql in wanted.items())
        try:
            table = duck.run(f"SELECT {items} FROM {source}", feed=part)
            return simple | {i: table.column(f"e{i}") for i in wanted}
        except duckdb.Error as problem:
            if isinstance(problem, (duckdb.BinderException, duckdb.ParserException)):
                raise
        values = dict(simple)
        for i, sql in wanted.items():  # predicates come first
            asked = self._find_needed_rows(i, values, failures)
            statement = f"SELECT {sql} AS e FROM {source}"
            if asked is None:
                values[i] = self._compute_alone(i, statement, part, np.arange(rows.num_rows), rows, failures)
            else:
                found = self._compute_alone(
                    i, statement, part.filter(pa.array(asked)), np.flatnonzero(asked), rows, failures
                )
                values[i] = found.take(pa.array(np.cumsum(asked) - 1, mask=~asked))
        return values

    def _find_needed_rows(
        self, number: int, values: dict[int, Any], failures: dict[int, np.ndarray]
    ) -> np.ndarray | None:
        """The rows for which a query needs an expression; None for all.

        A predicate may guard an expression: `WHERE s LIKE '1%'` keeps `CAST(s AS INTEGER)` from failing.
        """
        users = self.users.get(number, {-1})
        if number < len(self.predicates) or -1 in users:
            return None
        truths = [_to_booleans(values[p]) & ~failures[p] if p in failures else _to_booleans(values[p]) for p in users]
        return np.logical_or.reduce(truths)

    def _compute_alone(
        self,
        number: int,
        statement: str,
        part: pa.Table,
        places: np.ndarray,
        rows: pa.Table,
        failures: dict[int, np.ndarray],
    ) -> pa.ChunkedArray:
        """One expression over the rows at these places; those on which it fails give NULL and a dead letter."""
        empty = duck.run(statement, feed=part.slice(0, 0)).column("e")
        failed = np.zeros(rows.num_rows, bool)
        pieces: list[tuple[int, pa.ChunkedArray]] = []
        todo = [(0, part.num_rows)]
        while todo:
            low, high = todo.pop()
            try:
                pieces.append((low, duck.run(statement, feed=part.slice(low, high - low)).column("e")))
            except duckdb.Error as problem:
                if high - low == 1:
                    failed[places[low]] = True
                    pieces.append((low, pa.chunked_array([pa.nulls(1, empty.type)])))
                    if self.on_row_error is not None:
                        self.on_row_error(self.op, rows.slice(int(places[low]), 1), str(problem).splitlines()[0])
                else:
                    middle = (low + high) // 2
                    todo += [(low, middle), (middle, high)]
        if failed.any():
            failures[number] = failed
        chunks = [c for _, column in sorted(pieces, key=lambda p: p[0]) for c in column.chunks]
        return pa.chunked_array(chunks, empty.type)


def _slice_truth(truth: np.ndarray, rows: slice) -> np.ndarray:
    return truth[rows]


def _evaluate_program(program: list[Any], columns: dict[str, np.ndarray], rows: slice) -> np.ndarray:
    return evaluate_program(program, {name: column[rows] for name, column in columns.items()})


def _find_test(
    program: Program, names: set[str], rows: pa.Table, arrays: dict[str, np.ndarray | None]
) -> Callable[[slice], np.ndarray] | None:
    """How to evaluate a program over the columns that it reads; None if a value is missing. `arrays` keeps columns for
    the next one.
    """
    columns: dict[str, np.ndarray] = {}
    for name in names:
        if name not in arrays:
            arrays[name] = integers(rows.column(name))
        found = arrays[name]
        if found is None:
            return None
        columns[name] = found
    return partial(_evaluate_program, program, columns)


def integers(column: pa.ChunkedArray) -> np.ndarray | None:
    """A column as an array; None if it is not one of integers, or a value is missing."""
    return None if column.null_count or not pa.types.is_integer(column.type) else column.to_numpy()


def _find_column(sql: str, rows: pa.Table) -> pa.ChunkedArray | None:
    return next((rows.column(n) for n in rows.column_names if quoted(n) == sql), None)


def _to_booleans(values: Any) -> np.ndarray:
    return values if isinstance(values, np.ndarray) else np.array(values.to_numpy(), bool)
