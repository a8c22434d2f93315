"""Select lists that only rename, widen and complete columns, on Arrow arrays: a million rows in milliseconds.

Most answers are made so: columns under other names, counts and sums as whole numbers of 64 or 128 bits, a sum, a least
or a greatest value where there was something to see, a time as a timestamp. All else, and every value on which DuckDB
might see more than is seen here, is DuckDB's: then there is no `RowTemplate`, or it gives None.

The fast path `row_templates`: gives exactly the rows that DuckDB makes of the select list; where it gives None, DuckDB
is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.row_programs import RowProgram, Value

WIDE = pa.decimal128(38, 0)  # what HUGEINT is in Arrow
_KINDS = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "HUGEINT": WIDE,
    "DOUBLE": pa.float64(),
}
_NARROWER = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
# Types that come out of DuckDB as they go in.
_KEPT = {*_NARROWER, pa.bool_(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.string(), WIDE}
_EARLIEST, _LATEST = -(1 << 62), 1 << 62  # times that are timestamps beyond doubt


@dataclass(frozen=True)
class RowTemplate:
    """The columns of a select list by name, as values over a table."""

    items: Mapping[str, Value]

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(layers: tuple[RowProgram | None, ...], hidden: tuple[str, ...] = ()) -> RowTemplate | None:
        """SELECTs, each over the one before; `hidden` columns pass all of them. None where one has no program.

        >>> layers = (("x", ("column", "a")),), (("y", ("cast", ("column", "x"), "BIGINT")),)
        >>> dict(RowTemplate.of(layers).items)
        {'y': ('cast', ('column', 'a'), 'BIGINT')}
        """
        passing: dict[str, Value] = {name: ("column", name) for name in hidden}
        known: dict[str, Value] | None = None
        for program in layers:
            if program is None or (known is not None and not all(n in known for _, v in program for n in _names(v))):
                return None
            made = dict(program) if known is None else {name: _over(known, v) for name, v in program}
            known = made | passing
        return None if known is None else RowTemplate(known)

    def table(self, rows: pa.Table) -> pa.Table | None:
        """The rows with these columns; None where a value needs a closer look."""
        columns = {name: _evaluate(e, rows) for name, e in self.items.items()}
        return None if any(c is None for c in columns.values()) else pa.table(columns)


def _evaluate(value: Value, rows: pa.Table) -> pa.ChunkedArray | None:
    what, *rest = value
    if what == "column":
        found = rows.column(rest[0]) if rest[0] in rows.column_names else None
        return found if found is not None and found.type in _KEPT else None
    if what == "counted":
        counts = _evaluate(rest[0], rows)
        whole = counts is not None and counts.type == pa.int64() and _all_positive(counts)
        return _evaluate(rest[1], rows) if whole else None
    below = _evaluate(rest[0], rows)
    if below is None:
        return None
    if what == "cast":
        return _cast(below, _KINDS[rest[1]])
    times = below.type == pa.int64() and below.null_count == 0 and _within(below, _EARLIEST, _LATEST)
    return below.cast(pa.timestamp("us")) if times else None


def _all_positive(counts: pa.ChunkedArray) -> bool:
    return counts.null_count == 0 and _within(counts, 1, _LATEST)


def _within(column: pa.ChunkedArray, low: int, high: int) -> bool:
    ends = pc.min_max(column).as_py()
    return len(column) == 0 or (low <= ends["min"] and ends["max"] <= high)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    if column.type == kind:
        return column
    if column.type not in _NARROWER or column.null_count or kind == pa.float64():
        return None
    if kind != WIDE:
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:  # a value that does not fit: DuckDB says so
            return None
    return pa.chunked_array([_widen(c) for c in column.cast(pa.int64()).chunks], WIDE)


def _widen(numbers: pa.Array) -> pa.Array:
    """64-bit integers with 128 bits: the high half repeats the sign."""
    low = numbers.to_numpy()
    words = np.empty((len(low), 2), np.int64)
    words[:, 0] = low
    np.right_shift(low, 63, out=words[:, 1])
    return pa.Array.from_buffers(WIDE, len(low), [None, pa.py_buffer(words)])


def _names(value: Value) -> set[str]:
    if value[0] == "column":
        return {value[1]}
    return {n for part in value[1:] if isinstance(part, tuple) for n in _names(part)}


def _over(known: Mapping[str, Value], value: Value) -> Value:
    """The value with its columns replaced by what they are below."""
    if value[0] == "column":
        return known[value[1]]
    return tuple(_over(known, part) if isinstance(part, tuple) else part for part in value)
