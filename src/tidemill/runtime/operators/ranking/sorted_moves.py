"""Changes of partitions in their order, and where a partition, a group of peers and a row begin.

Only the columns of the partition and of the order are sorted; those that complete the order are looked at where rows
are peers. The rows themselves stay where they are: `rows` says which of them stands at each place.

The fast path `narrow_sort`: the order is that of one ORDER BY over all columns, among rows that agree in all of them in
any order of equal times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.plan.sort_keys import SortKey, order_sql
from tidemill.plan.sources import Column
from tidemill.runtime import fast_paths
from tidemill.runtime.duckdb import duck
from tidemill.runtime.operators.ranking.partitions import find_ends

ROW, PEERS = "__row", "__peers"


@dataclass(frozen=True)
class SortedMoves:
    """`table` has the changes, `rows` their order; the masks say at which places something begins."""

    table: pa.Table
    rows: np.ndarray
    partition: np.ndarray
    peer: np.ndarray
    row: np.ndarray

    def column(self, name: str) -> np.ndarray:
        """A column of whole numbers, in order."""
        return self.table.column(name).to_numpy()[self.rows].astype(np.int64)


@dataclass(frozen=True)
class MoveOrder:
    """How changes are sorted: by partition, by the order that was given, by the columns that complete it, by time."""

    columns: tuple[Column, ...]
    partition: tuple[str, ...]
    given: tuple[SortKey, ...]
    completing: tuple[SortKey, ...]

    def sort(self, table: pa.Table) -> SortedMoves:
        """The changes of `table`, which has the columns and `__time`, in order."""
        keys = (*(SortKey(name) for name in self.partition), *self.given)
        narrow = bool(self.given) and fast_paths.is_on("narrow_sort")
        rows = self._order_rows(table, keys if narrow else (*keys, *self.completing, SortKey("__time")))
        shown = self._take(table, keys if narrow else (*keys, *self.completing), rows)
        partition = find_ends(shown, self.partition)
        peer = partition | find_ends(shown, [k.column for k in self.given]) if self.given else partition.copy()
        if not narrow:
            return SortedMoves(table, rows, partition, peer, peer | find_ends(shown, self._rest()))
        rows, row = self._sort_peers(table, rows, peer)
        return SortedMoves(table, rows, partition, peer, row)

    def _sort_peers(self, table: pa.Table, rows: np.ndarray, peer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the order with peers in theirs, where rows begin)."""
        several = np.flatnonzero(~peer | np.append(~peer[1:], False))
        begins = peer.copy()
        if not len(several):
            return rows, begins
        groups = (np.cumsum(peer) - 1)[several]
        some = table.take(pa.array(rows[several])).append_column(PEERS, pa.array(groups))
        inside = self._order_rows(some, (SortKey(PEERS), *self.completing, SortKey("__time")))
        rows = rows.copy()
        rows[several] = rows[several[inside]]
        # The first of these rows begins a group of peers, so that it begins a row as well.
        if self.completing:
            begins[several] |= find_ends(self._take(some, self.completing, inside), self._rest())
        return rows, begins

    def _order_rows(self, table: pa.Table, keys: Sequence[SortKey]) -> np.ndarray:
        names = {key.column for key in keys}
        typed = [c for c in self.columns if c.name in names]
        hidden = [name for name in ("__time", PEERS) if name in names]
        feed = table.select([*(c.name for c in typed), *hidden])
        feed = feed.append_column(ROW, pa.array(np.arange(table.num_rows)))
        sql = f"SELECT {ROW} FROM {duck.source('feed', typed, *hidden, ROW)} ORDER BY {order_sql(keys)}"
        return np.asarray(duck.run(sql, feed=feed).column(ROW).to_numpy())

    def _take(self, table: pa.Table, keys: Sequence[SortKey], rows: np.ndarray) -> pa.Table:
        names = dict.fromkeys(key.column for key in keys)
        return table.select(list(names)).take(pa.array(rows))

    def _rest(self) -> list[str]:
        return [key.column for key in self.completing]
