"""Rows of which no two are equal: nothing adds up, so they need no grouping.

Equal rows have equal hashes, so where all hashes differ all rows differ. Rows that share a hash with another one, equal
or not, are `alike` and are added up by SQL, the others stay as they are. A hash of all columns and a sort of words cost
a sixth of a grouping by wide rows.

The fast path `different_rows`: gives the rows of the grouping in `arrangements.py` and `changes.py`, in any order among
those of equal sort column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from tidemill.plan.sources import Column
from tidemill.runtime import fast_paths
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql
from tidemill.runtime.thresholds import sizes

_MOST_ALIKE = 4  # where more than one row in so many is alike, SQL takes all of them


def find_alike(table: pa.Table, columns: Sequence[Column], *hidden: str) -> np.ndarray | None:
    """The rows that may equal another one in all of these columns, as a mask; None where it does not pay to know."""
    if not fast_paths.is_on("different_rows") or table.num_rows < sizes.different_rows:
        return None
    return _mark_alike(table, columns, *hidden)


def _mark_alike(table: pa.Table, columns: Sequence[Column], *hidden: str) -> np.ndarray | None:
    names = [c.name for c in columns]
    source = duck.source("rows", columns, *hidden)
    hashes = duck.run(f"SELECT {hash_sql([*names, *hidden])} AS h FROM {source}", rows=table.select([*names, *hidden]))
    values = hashes.column("h").to_numpy()
    ordered = np.sort(values)
    again = ordered[1:] == ordered[:-1]
    shared = int(np.count_nonzero(again))
    if shared * _MOST_ALIKE > len(values):
        return None
    if not shared:
        return np.zeros(len(values), np.bool_)
    several = _without_repeats(ordered[1:][again])
    place = np.searchsorted(several, values)
    place[place == len(several)] = 0
    alike: np.ndarray = several[place] == values
    return alike if np.count_nonzero(alike) * _MOST_ALIKE <= len(values) else None


def add_up(table: pa.Table, alike: np.ndarray, combine: Callable[[pa.Table], pa.Table]) -> tuple[pa.Table, pa.Table]:
    """(the rows that have no equal, the others after `combine`)."""
    if not alike.any():
        return table, table.slice(0, 0)
    return table.filter(pa.array(~alike)), combine(table.filter(pa.array(alike)))


def sort_rows(table: pa.Table, order: str) -> pa.Table:
    """The rows by their sort column, in one piece."""
    values = table.column(order).to_numpy()
    if np.all(values[1:] >= values[:-1]):
        return table.combine_chunks()
    return table.combine_chunks().take(pa.array(np.argsort(values, kind="stable"))).combine_chunks()


def _without_repeats(ordered: np.ndarray) -> np.ndarray:
    keep = np.ones(len(ordered), np.bool_)
    keep[1:] = ordered[1:] != ordered[:-1]
    return ordered[keep]
