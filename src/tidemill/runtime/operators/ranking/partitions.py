"""The rows of partitions: what is kept of them, what changes, and where one partition, peer or row ends."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from tidemill.plan.physical import BEGINNING
from tidemill.plan.sort_keys import SortKey, order_sql
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.changes import HASH, key_hashes, net
from tidemill.runtime.dataflow.value_codes import differs, distinct
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import name_list
from tidemill.runtime.row_references import write_out, write_unless_one
from tidemill.runtime.state.arrangements import Arrangement


class Partitions:
    """Rows with these columns, kept by the hash of their partition."""

    def __init__(self, columns: tuple[Column, ...], partition: tuple[str, ...]) -> None:
        self.columns, self.partition = columns, partition
        self.names = [c.name for c in columns]

    def probe(self, closed: pa.Table, kept: Arrangement) -> pa.Table:
        """What is kept of the partitions that changes touch."""
        return kept.probe(self._touched_hashes(closed)) if kept.segments else kept.empty()

    def sort_moves(self, closed: pa.Table, held: pa.Table, order: Iterable[SortKey]) -> pa.Table:
        """Closed changes, and at the time BEGINNING what is kept of the partitions that they touch, by partition, then
        in the given order, then by time.
        """
        names = name_list(self.names)
        sql = f"SELECT {names}, __time, __diff FROM {duck.source('closed', self.columns, '__time', '__diff')}"
        if held.num_rows:
            sql += (
                f" UNION ALL SELECT {names}, {BEGINNING}, CAST(sum(__n) AS BIGINT)"
                f" FROM {duck.source('held', self.columns, '__n')} GROUP BY {names} HAVING sum(__n) <> 0"
            )
        keys = (*(SortKey(name) for name in self.partition), *order, SortKey("__time"))
        return duck.run(f"SELECT * FROM ({sql}) ORDER BY {order_sql(keys)}", closed=closed, held=held)

    def keep(self, rows: pa.Table, n: np.ndarray, kept: Arrangement, different: bool = False) -> None:
        """Add `n` copies of each row to what is kept; fewer than 0 are taken away. `different`: no two are equal."""
        changed = np.flatnonzero(n)
        if len(changed):
            changes = rows.select(self.names).take(pa.array(changed)).append_column("__n", pa.array(n[changed]))
            kept.append(changes.add_column(0, HASH.name, pa.array(self._hashes(changes))), different)
            kept.compact()

    def gather_moves(self, closed: pa.Table, held: pa.Table) -> pa.Table:
        """Closed changes, and at the time BEGINNING what is kept of the partitions that they touch."""
        closed = closed.select([*self.names, "__time", "__diff"])
        if not held.num_rows:
            return write_unless_one(closed).combine_chunks()
        closed, times = write_out(closed), pa.array(np.full(held.num_rows, BEGINNING))
        stored = held.select([*self.names, "__n"]).rename_columns([*self.names, "__diff"])
        stored = net(stored.append_column("__time", times), self.columns)
        return pa.concat_tables([closed, stored.select(closed.column_names).cast(closed.schema)]).combine_chunks()

    def _hashes(self, rows: pa.Table) -> np.ndarray:
        if not self.partition:
            return np.zeros(rows.num_rows, np.uint64)
        return key_hashes(rows, self.columns, self.partition)

    def _touched_hashes(self, closed: pa.Table) -> np.ndarray:
        return distinct(self._hashes(closed)) if self.partition else np.zeros(1, np.uint64)


def find_ends(rows: pa.Table, names: Iterable[str]) -> np.ndarray:
    """Which rows differ from the one before them in some of these columns, NULL equal to NULL; the first one does."""
    found = np.zeros(rows.num_rows, np.bool_)
    for name in names:
        found[1:] |= differs(rows.column(name))
    found[:1] = True
    return found
