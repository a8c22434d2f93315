"""Arrow tables that a DuckDB connection may read for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb
import pyarrow as pa


@contextmanager
def lent(duck: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> Iterator[None]:
    """Inside the block the connection knows a table by this name. What a statement raises there is what is raised: a
    transaction that it has broken would refuse to take the name back, with an error that says nothing.
    """
    duck.register(name, table)
    try:
        yield
    except BaseException:
        with suppress(duckdb.Error):
            duck.unregister(name)
        raise
    duck.unregister(name)
