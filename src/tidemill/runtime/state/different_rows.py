"""Equal rows are found by a hash of all columns and a sort of words, not by grouping wide rows.

Equal rows have equal hashes, so where all hashes differ all rows differ, and nothing adds up. Rows that share a hash
with another one are `alike`: where only a count is added up, each is compared with the first of its hash and their
counts are added up in arrays; otherwise, and where two different rows share a hash, SQL groups them. The others stay as
they are. A few rows are numbered column by column, where Arrow agrees with SQL on what is equal: to plan a statement
would take longer.

The fast path `different_rows`: gives the rows of the groupings in `arrangements.py`, `changes.py` and `views/pools.py`,
in any order among those of equal sort column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.aggregates import INTEGERS
from tidemill.plan.nested_types import is_textual
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import fast_paths
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql
from tidemill.runtime.row_references import write_out, write_unless_one
from tidemill.runtime.state.row_numbers import compares_as_sql, first_places, has_plain_floats, number_rows
from tidemill.runtime.thresholds import sizes

# Types whose values are cheap to hash.
_WORDS = INTEGERS | {"BOOLEAN", "DOUBLE", "FLOAT", "DATE", "TIME", "TIMESTAMP"}
_MOST_ALIKE = 4  # where more than one row in this many is alike, SQL takes all of them
_SAMPLES, _SAMPLE_ROWS = 4, 512  # runs of neighbours and rows of each that tell whether insertions are added up


def find_alike(table: pa.Table, columns: Sequence[Column], *hidden: str) -> np.ndarray | None:
    """The rows that may equal another one in all of these columns, as a mask; None where it does not pay to know."""
    if not fast_paths.is_on("different_rows") or table.num_rows < sizes.different_rows:
        return None
    return _mark_alike(table, columns, *hidden)


def add_up_counts(table: pa.Table, columns: Sequence[Column], count: str, *hidden: str) -> pa.Table | None:
    """One row for each of the different ones, with its counts added up, without those that add up to zero; the columns
    are these and `hidden`, then `count`. None where SQL has to do it.
    """
    if not fast_paths.is_on("different_rows") or table.num_rows == 0 or not columns:
        return None
    counts = table.column(count).cast(pa.int64()).to_numpy()
    if max(int(counts.max()), -int(counts.min())) * len(counts) >= 1 << 63:
        return None
    table = table.select([*(c.name for c in columns), *hidden])
    if table.num_rows < sizes.different_rows:
        return _add_up_few(write_out(table), columns, count, counts)
    table = write_unless_one(table)
    kept = _number_counts(table, columns, hidden, counts)
    if kept is None:
        return None
    rows, totals = kept
    if len(rows) < table.num_rows:
        table = table.take(pa.array(rows))
    return table.append_column(count, pa.array(totals))


def _add_up_few(table: pa.Table, columns: Sequence[Column], count: str, counts: np.ndarray) -> pa.Table | None:
    if any(is_textual(c.type) for c in columns):
        return None
    if not all(compares_as_sql(c.type) or has_plain_floats(c) for c in table.columns):
        return None
    number = number_rows(table.columns, table.num_rows)
    first = first_places(number)
    totals = np.zeros(len(first), np.int64)
    np.add.at(totals, number, counts)
    kept = np.flatnonzero(totals)
    if len(kept) < table.num_rows:
        table = table.take(pa.array(first[kept]))
    return table.append_column(count, pa.array(totals[kept]))


def are_different_insertions(table: pa.Table, columns: Sequence[Column], count: str, *hidden: str) -> bool:
    """Whether all counts are above zero and, among neighbours that are looked at, few rows are equal."""
    rows = table.num_rows
    if not fast_paths.is_on("different_rows") or rows < sizes.different_rows:
        return False
    if pc.min(table.column(count)).as_py() <= 0:
        return False
    starts = range(0, rows, max(rows // _SAMPLES, _SAMPLE_ROWS))
    sample = write_out(pa.concat_tables([table.slice(start, _SAMPLE_ROWS) for start in starts]))
    return np.count_nonzero(_find_alike(_hash_rows(sample, columns, *hidden))) * _MOST_ALIKE <= sample.num_rows


def _number_counts(
    table: pa.Table, columns: Sequence[Column], hidden: Sequence[str], counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """(the rows that stay, in the order in which they came, and their counts); None where rows only share a hash.

    Rows that differ in columns of words need no look at their texts.
    """
    words = [c for c in columns if c.type in _WORDS]
    if words and len(words) < len(columns):
        alike = _find_alike(_hash_rows(table, words, *hidden))
        if np.count_nonzero(alike) * _MOST_ALIKE <= len(alike):
            single, some = np.flatnonzero(~alike & (counts != 0)), np.flatnonzero(alike)
            if not len(some):
                return single, counts[single]
            found = _add_equal(table.take(pa.array(some)), columns, hidden, counts[some])
            if found is None:
                return None
            rows, totals = np.append(single, some[found[0]]), np.append(counts[single], found[1])
            place = np.argsort(rows)
            return rows[place], totals[place]
    return _add_equal(table, columns, hidden, counts)


def _add_equal(
    table: pa.Table, columns: Sequence[Column], hidden: Sequence[str], counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The same by the hash of all columns."""
    hashes = _hash_rows(table, columns, *hidden)
    order = np.argsort(hashes)
    new = np.ones(len(order), np.bool_)
    new[1:] = hashes[order[1:]] != hashes[order[:-1]]
    starts, again = np.flatnonzero(new), np.flatnonzero(~new)
    first = order[starts]
    if len(again) and not _are_equal(table, columns, hidden, first[np.cumsum(new)[again] - 1], order[again]):
        return None
    totals = np.add.reduceat(counts[order], starts)
    kept = np.flatnonzero(totals)
    kept = kept[np.argsort(first[kept])]
    return first[kept], totals[kept]


def _are_equal(
    table: pa.Table, columns: Sequence[Column], hidden: Sequence[str], rows: np.ndarray, others: np.ndarray
) -> bool:
    """Whether each row equals another one, as SQL groups them."""
    names = [*(c.name for c in columns), *hidden]
    feed = table.take(pa.array(rows))
    for name, column in zip(names, table.take(pa.array(others)).columns, strict=True):
        feed = feed.append_column(f"__other {name}", column)
    twins = [Column(f"__other {c.name}", c.type) for c in columns]
    source = duck.source("feed", (*columns, *twins), *(quoted(n) for h in hidden for n in (h, f"__other {h}")))
    same = " AND ".join(f"{quoted(n)} IS NOT DISTINCT FROM {quoted(f'__other {n}')}" for n in names)
    [differ] = duck.run(f"SELECT count(*) FILTER (WHERE NOT ({same})) AS n FROM {source}", feed=feed).column("n")
    return int(differ.as_py()) == 0


def _hash_rows(table: pa.Table, columns: Sequence[Column], *hidden: str) -> np.ndarray:
    names = [c.name for c in columns]
    source = duck.source("rows", columns, *hidden)
    hashes = duck.run(f"SELECT {hash_sql([*names, *hidden])} AS h FROM {source}", rows=table.select([*names, *hidden]))
    return np.asarray(hashes.column("h").to_numpy())


def _mark_alike(table: pa.Table, columns: Sequence[Column], *hidden: str) -> np.ndarray | None:
    alike = _find_alike(_hash_rows(table, columns, *hidden))
    return alike if np.count_nonzero(alike) * _MOST_ALIKE <= len(alike) else None


def _find_alike(hashes: np.ndarray) -> np.ndarray:
    """Which of them occur more than once."""
    ordered = np.sort(hashes)
    again = ordered[1:] == ordered[:-1]
    if not again.any():
        return np.zeros(len(hashes), np.bool_)
    several = _without_repeats(ordered[1:][again])
    place = np.searchsorted(several, hashes)
    place[place == len(several)] = 0
    return np.asarray(several[place] == hashes)


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
    return table.combine_chunks().take(pa.array(np.argsort(values))).combine_chunks()


def _without_repeats(ordered: np.ndarray) -> np.ndarray:
    keep = np.ones(len(ordered), np.bool_)
    keep[1:] = ordered[1:] != ordered[:-1]
    return ordered[keep]
