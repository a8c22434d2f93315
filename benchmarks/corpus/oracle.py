"""DuckDB as the oracle: it runs the statements of a file, and says what each query has to answer.

A query is deterministic when its answer is the same, as a multiset, over the rows in their order and in the opposite
order. Only those are compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Table:
    """The contents of a table or view at one moment; types are DuckDB's names."""

    name: str
    columns: tuple[tuple[str, str], ...]
    rows: pa.Table


@dataclass(frozen=True)
class Question:
    """A query that the oracle has answered, with the tables that it reads."""

    sql: str
    line: int
    tables: tuple[str, ...]
    rows: Rows
    types: tuple[str, ...]


@dataclass(frozen=True)
class Unasked:
    """A query that is not compared, and why."""

    line: int
    reason: str


@dataclass
class Oracle:
    """A DuckDB in memory; `most_rows` is the size from which a table is not made a stream."""

    most_rows: int = 5000
    duck: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)

    def __post_init__(self) -> None:
        for setting in ("SET TimeZone = 'UTC'", "SET threads = 1", "SET memory_limit = '1GB'"):
            self.duck.execute(setting)

    def execute(self, sql: str) -> bool:
        """Run a statement; False where it fails. A subquery of several rows stays an error, whatever a file sets."""
        if "scalar_subquery_error_on_multiple_rows" in sql.lower():
            return False
        try:
            self.duck.execute(sql)
        except (duckdb.Error, RuntimeError, ValueError):
            return False
        return True

    def ask(self, sql: str, line: int) -> Question | Unasked:
        """The answer to a query, or why it is not compared."""
        try:
            statements = self.duck.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                return Unasked(line, "not one SELECT")
            tables = self._tables_read(sql)
            asked = self.duck.sql(sql)
            if asked is None or sql.split()[0].upper() in (
                "PRAGMA",
                "SHOW",
                "DESCRIBE",
                "EXPLAIN",
                "CALL",
                "SUMMARIZE",
            ):
                return Unasked(line, "not one SELECT")
            types = tuple(str(t) for t in asked.types)
            rows = plain_rows(asked.to_arrow_table())
            if not self._same_reversed(sql, tables, rows):
                return Unasked(line, "depends on the order of rows")
        except (duckdb.Error, SqlglotError, RuntimeError, ValueError, OverflowError, pa.ArrowException) as error:
            return Unasked(line, f"DuckDB: {str(error).partition(':')[0][:40]}")
        return Question(sql, line, tuple(tables), rows, types)

    def _tables_read(self, sql: str) -> list[str]:
        try:
            return sorted(self.duck.get_table_names(sql))
        except duckdb.BinderException:  # it binds without knowing columns: USING and UNNEST fail
            query = parse_one(sql, dialect="duckdb")
            named = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
            return sorted({t.name for t in query.find_all(exp.Table) if t.name and t.name.lower() not in named})

    def contents(self, name: str) -> Table | None:
        """The rows of a table; None where it is no table of the file, or too large."""
        try:
            asked = self.duck.sql(f"FROM {_quoted(name)}")
            if asked.count("*").fetchall()[0][0] > self.most_rows:  # type: ignore[index]
                return None
            columns = tuple((n, str(t)) for n, t in zip(asked.columns, asked.types, strict=True))
            return Table(name, columns, self.duck.sql(f"SELECT * FROM {_quoted(name)}").to_arrow_table())
        except (duckdb.Error, RuntimeError, ValueError):
            return None

    def _same_reversed(self, sql: str, tables: list[str], rows: Rows) -> bool:
        """Whether the answer stays when temporary tables with the rows in the opposite order hide the tables."""
        hidden = [t for t in tables if "." not in t]
        made: list[str] = []
        try:
            for name in hidden:
                self.duck.execute(
                    f"CREATE TEMP TABLE __kept AS SELECT *, row_number() OVER () AS __r FROM {_quoted(name)}"
                )
                self.duck.execute(
                    f"CREATE TEMP TABLE {_quoted(name)} AS SELECT * EXCLUDE (__r) FROM __kept ORDER BY __r DESC"
                )
                made.append(name)
                self.duck.execute("DROP TABLE __kept")
            again = plain_rows(self.duck.sql(sql).to_arrow_table())
        except duckdb.Error:
            return True  # a table that is temporary itself
        finally:
            self.duck.execute("DROP TABLE IF EXISTS temp.__kept")
            for name in made:
                self.duck.execute(f"DROP TABLE IF EXISTS temp.{_quoted(name)}")
        return same(rows, again)


def plain_rows(table: pa.Table) -> Rows:
    """The rows of an answer in an order that does not depend on how they came."""
    if not table.num_columns:
        return []
    found = zip(*(map(_plain, column.to_pylist()) for column in table.columns), strict=True)
    return sorted(found, key=lambda row: repr([_rough(v) for v in row]))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, float) and value == 0:
        return 0.0
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value


def _rough(value: Any) -> Any:
    """For ordering: numbers that differ in their last digits are alike."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.5e}"
    return str(value)


def same(left: Rows, right: Rows) -> bool:
    """Whether two answers are the same multiset; floating-point numbers may differ in their last digits."""
    return len(left) == len(right) and all(_alike(list(a), list(b)) for a, b in zip(left, right, strict=True))


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_alike(a[k], b[k]) for k in a)
    return bool(a == b)


def _quoted(name: str) -> str:
    return ".".join('"' + part.strip('"').replace('"', '""') + '"' for part in name.split("."))
