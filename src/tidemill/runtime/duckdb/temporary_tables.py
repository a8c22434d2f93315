"""Arrow tables that a DuckDB connection may read for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb
import pyarrow as pa


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
