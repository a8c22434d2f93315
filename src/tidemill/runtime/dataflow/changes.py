"""Change batches as tables: hidden columns, layouts of what is kept of them, pending changes, hashes of keys."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql
from tidemill.runtime.row_references import write_out
from tidemill.runtime.state.arrangements import Arrangement, Layout
from tidemill.runtime.state.different_rows import add_up_counts

TIME = Column("__time", "BIGINT")
DIFF = Column("__diff", "BIGINT")
HASH = Column("__h", "UBIGINT")
PENDING = "agenda"  # the arrangement of pending changes; a name in stored states


def pending_layout(columns: tuple[Column, ...]) -> Layout:
    """Layout of pending changes, whose time is not closed yet; equal changes add up, opposite ones cancel."""
    return Layout("__time", columns, ((DIFF, "sum"),))


def contents_layout(columns: tuple[Column, ...]) -> Layout:
    """Layout of a relation's current rows with their multiplicity `__n`."""
    return Layout("__h", columns, ((Column("__n", "BIGINT"), "sum"),), "__n")


def take_closed(pending: Arrangement, rows: pa.Table | None, frontier: int) -> pa.Table:
    """Closed changes, old and new; the rest stays pending."""
    ready = pending.pop(frontier)
    if rows is None or rows.num_rows == 0:
        return ready
    if ready.num_rows == 0 and pc.max(rows.column("__time")).as_py() < frontier:
        return rows.select([c.name for c in pending.layout.columns()])
    mask = pc.less(rows.column("__time"), frontier)
    fresh = rows.filter(mask)
    pending.append(rows.filter(pc.invert(mask)))
    pending.compact()
    names = [c.name for c in pending.layout.columns()]
    if fresh.num_rows == 0:
        return ready
    fresh = fresh.select(names)
    if not ready.num_rows:
        return fresh
    fresh = write_out(fresh)
    return pa.concat_tables([ready.cast(fresh.schema), fresh])


def net(rows: pa.Table, columns: tuple[Column, ...]) -> pa.Table:
    """The changes of each row and time added up; sums of zero are dropped."""
    found = add_up_counts(rows, columns, "__diff", "__time")
    return _net_in_sql(rows, columns) if found is None else found


def _net_in_sql(rows: pa.Table, columns: tuple[Column, ...]) -> pa.Table:
    group = ", ".join([*(quoted(c.name) for c in columns), "__time"])
    return duck.run(
        f"SELECT {group}, CAST(sum(__diff) AS BIGINT) AS __diff"
        f" FROM {duck.source('rows', columns, '__time', '__diff')} GROUP BY {group} HAVING sum(__diff) <> 0",
        rows=rows,
    )


def distinct_hashes(table: pa.Table) -> np.ndarray:
    """The distinct `__h` values, sorted, as `Arrangement.probe` takes them."""
    hashes = np.sort(table.column("__h").to_numpy())
    return hashes[np.append(True, hashes[1:] != hashes[:-1])] if len(hashes) else hashes


def key_hashes(rows: pa.Table, schema: Iterable[Column], keys: Iterable[str]) -> np.ndarray:
    """For each row the hash of its key; modulo the number of shards it is the number of its shard."""
    keys = list(keys)
    wanted = [c for c in schema if c.name in keys] or [Column(k, "") for k in keys]
    sql = f"SELECT {hash_sql(keys)} AS h FROM {duck.source('rows', wanted)}"
    return duck.run(sql, rows=rows.select(keys)).column("h").to_numpy()
