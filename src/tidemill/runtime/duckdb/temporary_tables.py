"""Arrow tables that a DuckDB connection may read for a while.

Over a few rows a statement takes as long as it is planned. `con.sql` plans it twice, first to say what its columns are,
and `con.register` and `con.unregister` are two more statements, for a view. DuckDB's own relations are planned once and
read sources that need no view; `select` and `change` use the two calls that relations use. Both are private, so where
one is missing the public ones do the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import duckdb
import pyarrow as pa

from tidemill.plan.relations import quoted
from tidemill.runtime.duckdb.nested_arrays import whole

_BATCH = 131_072  # rows of an Arrow batch of an answer: 8,192 to 131,072 cost the same, four times as many a third more
_LIST = re.compile(r"\s*WITH\s+(RECURSIVE\s+)?", re.IGNORECASE)


def select(duck: duckdb.DuckDBPyConnection, sql: str, **tables: pa.Table) -> pa.Table:
    """The answer to one statement that only reads, over the tables under their names.

    >>> with duckdb.connect() as duck:
    ...     select(duck, "SELECT n + 1 AS m FROM few", few=pa.table({"n": [1, 2]})).to_pydict()
    {'m': [2, 3]}
    """
    if not has_direct_calls():
        with _lend_all(duck, tables):
            return duck.sql(sql).to_arrow_table()
    sources = {name: duck._register_source(whole(table)) for name, table in tables.items()}
    return duck._submit(_name_sources(sql, sources), None, "arrow", _BATCH).arrow_table()


def change(duck: duckdb.DuckDBPyConnection, sql: str, **tables: pa.Table) -> None:
    """Run one INSERT, UPDATE or DELETE that reads the tables."""
    if not has_direct_calls():
        with _lend_all(duck, tables):
            duck.execute(sql)
        return
    sources = {name: duck._register_source(whole(table)) for name, table in tables.items()}
    duck.execute(_name_sources(sql, sources))


def has_direct_calls() -> bool:
    """Whether this DuckDB has the private calls."""
    return all(hasattr(duckdb.DuckDBPyConnection, name) for name in ("_submit", "_register_source"))


def _name_sources(sql: str, sources: Mapping[str, Any]) -> str:
    """The statement with a WITH list that names the sources, each read where it is used.

    >>> from types import SimpleNamespace
    >>> _name_sources("WITH a AS (FROM t) SELECT * FROM a", {"t": SimpleNamespace(name="source 1")})
    'WITH "t" AS NOT MATERIALIZED (FROM "source 1"), a AS (FROM t) SELECT * FROM a'
    """
    if not sources:
        return sql
    listed = ", ".join(f"{quoted(n)} AS NOT MATERIALIZED (FROM {quoted(s.name)})" for n, s in sources.items())
    own = _LIST.match(sql)
    return f"{own[0].lstrip()}{listed}, {sql[own.end() :]}" if own else f"WITH {listed} {sql}"


@contextmanager
def lend(duck: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> Iterator[None]:
    """Inside the block the connection has a table of this name. An error of a statement is raised as it is: in a
    transaction that it has aborted, removing the name would fail with another, meaningless error.
    """
    duck.register(name, table)
    try:
        yield
    except BaseException:
        with suppress(duckdb.Error):
            duck.unregister(name)
        raise
    duck.unregister(name)


@contextmanager
def _lend_all(duck: duckdb.DuckDBPyConnection, tables: dict[str, pa.Table]) -> Iterator[None]:
    with ExitStack() as lent:
        for name, table in tables.items():
            lent.enter_context(lend(duck, name, whole(table)))
        yield
