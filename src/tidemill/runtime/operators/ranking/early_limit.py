"""Rows that cannot be among the first of their partition are left out before anything is sorted.

Where the input is append-only, a row that is behind `last` kept rows of its partition stays behind them. The first
column of the order alone tells whether it is: its value is strictly worse than that of all kept rows. Changes are taken
in slices of time that double, so that the first rows of a batch leave out most of the others.

The fast path `early_limit`: gives exactly the changes that the ranking makes of all rows; without it all are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.relations import quoted
from tidemill.plan.sort_keys import SortKey
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import name_list, same_row


def slice_times(closed: pa.Table, rows: int) -> Iterator[pa.Table]:
    """The changes in slices of time, oldest first: `rows` of them, then twice as many, and so on; a time is not cut."""
    count = closed.num_rows
    if count <= 2 * rows:
        yield closed
        return
    times = closed.column("__time").to_numpy()
    ends = [n for n in (rows * ((1 << i) - 1) for i in range(1, 64)) if n < count]
    bounds = np.unique(np.partition(times, ends)[ends])
    slot = np.searchsorted(bounds, times, side="right")
    for i in range(len(bounds) + 1):
        piece = closed.filter(pa.array(slot == i))
        if piece.num_rows:
            yield piece


class EarlyLimit:
    """Finds the changes of a ranking that need not be looked at."""

    def __init__(self, op: p.Ranked, first: SortKey) -> None:
        self.op, self.first = op, first

    def leave_out(self, closed: pa.Table, held: pa.Table) -> pa.Table:
        """The changes without rows that are worse than `last` kept ones of their partition; `held` are those kept."""
        partition, value = list(self.op.partition), quoted(self.first.column)
        worst = f"{'min' if self.first.descending else 'max'}({value})"
        # A kept NULL that is sorted last is the worst there is: nothing is strictly worse.
        known = "TRUE" if self.first.nulls_first else f"count({value}) = count(*)"
        enough = f"count(DISTINCT {value})" if self.op.function == "dense_rank" else "CAST(sum(__n) AS BIGINT)"
        group = f"GROUP BY {name_list(partition)}" if partition else ""
        bounds = (
            f"SELECT {''.join(quoted(k) + ', ' for k in partition)}{worst} AS __worst FROM"
            f" {duck.source('held', self.op.columns, '__n')} {group} HAVING {enough} >= {self.op.last} AND {known}"
        )
        worse = f"c.{value} {'<' if self.first.descending else '>'} b.__worst"
        left_out = f"coalesce({worse}, {'FALSE' if self.first.nulls_first else 'TRUE'})"
        read = [c for c in self.op.columns if c.name in (*partition, self.first.column)]
        feed = closed.select([c.name for c in read]).append_column("__row", pa.array(np.arange(closed.num_rows)))
        kept = duck.run(
            f"SELECT __row FROM {duck.source('closed', read, '__row')} c"
            f" LEFT JOIN ({bounds}) b ON {same_row(partition, 'c', 'b')} WHERE b.__worst IS NULL OR NOT {left_out}",
            closed=feed,
            held=held,
        )
        return closed if kept.num_rows == closed.num_rows else closed.take(kept.column("__row"))
