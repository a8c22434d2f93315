"""Predicates, group attributes and aggregate arguments of one source, evaluated once for each chunk of rows.

Plain columns cost nothing and simple predicates are evaluated on arrays; everything else goes into one DuckDB
statement. A row on which an expression fails is put aside for the queries that use that expression, and for no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa

from tidemill.plan.physical import HashTables, Op
from tidemill.plan.predicate_programs import Program, columns_of, evaluate
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime.duckdb import duck


@dataclass(frozen=True)
class Tests:
    """The predicates over one whole chunk: programs over arrays of columns, unless DuckDB `computed` them."""

    programs: Sequence[tuple[Program, set[str]] | None]
    arrays: Mapping[str, np.ndarray | None]
    computed: dict[int, np.ndarray] = field(default_factory=dict)

    def truth(self, predicate: int, rows: slice) -> np.ndarray:
        """The truth of one predicate for some rows."""
        if predicate in self.computed:
            return self.computed[predicate][rows]
        found = self.programs[predicate]
        assert found is not None, "a predicate without a program is computed"
        program, names = found
        columns = {name: column for name in names if (column := self.arrays[name]) is not None}
        return evaluate(program, {name: column[rows] for name, column in columns.items()})


@dataclass
class Evaluated:
    """One chunk: truth of each predicate, values of attributes and arguments, and the rows on which expressions failed.
    `tests` are over a whole chunk; this object stands for its `rows`.
    """

    tests: Tests
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
            self.known[predicate] = self.tests.truth(predicate, self.rows)
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
        self.read = sorted({name for found in self.programs if found is not None for name in found[1]})
        self.without_program = [i for i, found in enumerate(self.programs) if found is None]
        # For each attribute and argument the predicates of the queries that use it.
        self.users: dict[int, set[int]] = {}
        for query in op.queries:
            for used in query.uses:
                self.users.setdefault(len(self.predicates) + used, set()).add(query.predicate)

    def evaluate(self, rows: pa.Table, times: np.ndarray) -> Evaluated:
        """All expressions over one chunk of rows with these event times."""
        if "__ts" in self.columns:
            rows = rows.append_column("__ts", pa.array(times))
        tests = Tests(self.programs, {name: integers(rows.column(name)) for name in self.read})
        wanted = {i: f"coalesce({self.predicates[i].sql}, FALSE)" for i in self._find_undecided(tests)}
        count, values = len(self.predicates), dict[int, pa.ChunkedArray]()
        for i, named in enumerate(self.named, count):
            plain = _find_column(named.sql, rows)
            if plain is None:
                wanted[i] = f"CAST({named.sql} AS {named.type})"
            else:
                values[i] = plain
        failures: dict[int, np.ndarray] = {}
        if wanted:
            self._compute(tests, values, wanted, rows, failures)
            for i in [i for i in failures if i < count]:
                tests.computed[i] &= ~failures.pop(i)
        found = [values[i] for i in range(count, count + len(self.named))]
        arguments = {n.name: v for n, v in zip(self.named, found, strict=True)}
        return Evaluated(tests, found[: self.attributes], arguments, {i - count: f for i, f in failures.items()})

    def _find_undecided(self, tests: Tests) -> list[int]:
        """The predicates that arrays do not decide: without a program, or over a column with missing values."""
        lacking = {name for name, found in tests.arrays.items() if found is None}
        if not lacking:
            return self.without_program
        return [i for i, found in enumerate(self.programs) if found is None or found[1] & lacking]

    def _compute(
        self,
        tests: Tests,
        values: dict[int, pa.ChunkedArray],
        wanted: dict[int, str],
        rows: pa.Table,
        failures: dict[int, np.ndarray],
    ) -> None:
        """Let DuckDB compute the wanted expressions: predicates into `tests`, the others into `values`."""
        needed = [c for c in rows.column_names if c in self.columns]
        part = rows.select(needed) if needed else pa.table({"__ts": pa.nulls(rows.num_rows, pa.int64())})
        source = duck.source("feed", [Column(n, self.types.get(n, "")) for n in part.column_names])
        items = ", ".join(f"{sql} AS {quoted(f'e{i}')}" for i, sql in wanted.items())
        try:
            table = duck.run(f"SELECT {items} FROM {source}", feed=part)
        except duckdb.Error as problem:
            if isinstance(problem, (duckdb.BinderException, duckdb.ParserException)):
                raise
        else:
            for i in wanted:
                self._note(tests, values, i, table.column(f"e{i}"))
            return
        for i, sql in wanted.items():  # predicates come first
            asked = self._find_needed_rows(i, tests, failures)
            statement = f"SELECT {sql} AS e FROM {source}"
            if asked is None:
                found = self._compute_alone(i, statement, part, np.arange(rows.num_rows), rows, failures)
            else:
                found = self._compute_alone(
                    i, statement, part.filter(pa.array(asked)), np.flatnonzero(asked), rows, failures
                )
                found = found.take(pa.array(np.cumsum(asked) - 1, mask=~asked))
            self._note(tests, values, i, found)

    def _note(self, tests: Tests, values: dict[int, pa.ChunkedArray], number: int, found: pa.ChunkedArray) -> None:
        if number < len(self.predicates):
            tests.computed[number] = np.array(found.to_numpy(), bool)
        else:
            values[number] = found

    def _find_needed_rows(self, number: int, tests: Tests, failures: dict[int, np.ndarray]) -> np.ndarray | None:
        """The rows for which a query needs an expression; None for all.

        A predicate may guard an expression: `WHERE s LIKE '1%'` keeps `CAST(s AS INTEGER)` from failing.
        """
        users = self.users.get(number, {-1})
        if number < len(self.predicates) or -1 in users:
            return None
        truths = {p: tests.truth(p, slice(None)) for p in users}
        return np.logical_or.reduce([t & ~failures[p] if p in failures else t for p, t in truths.items()])

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


def integers(column: pa.ChunkedArray) -> np.ndarray | None:
    """A column as an array; None if it is not one of integers, or a value is missing."""
    return None if column.null_count or not pa.types.is_integer(column.type) else column.to_numpy()


def _find_column(sql: str, rows: pa.Table) -> pa.ChunkedArray | None:
    return next((rows.column(n) for n in rows.column_names if quoted(n) == sql), None)
