"""Records whose every field is in the plainest spelling of its type: read in blocks by Arrow, without a look at each.

The law: a record that is taken here becomes the row that `text.decode` makes of it without this file; all others are
left to it. A compiled loop judges each record by itself and copies those that are plain, JSON objects as CSV lines
(`kernels/lines.py`); Arrow's CSV reader turns the copy into typed columns.

This is the fast path `plain_text`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from tidemill.plan.aggregates import decimal_shape
from tidemill.plan.sources import Column
from tidemill.runtime.kernels.text import lines as kernel
from tidemill.runtime.sources.columns import arrow_schema, type_name
from tidemill.runtime.sources.records import MOST_UNDECLARED

if TYPE_CHECKING:
    from tidemill.runtime.sources.text.lines import Layout, Lines

_BITS = {
    "TINYINT": 7,
    "SMALLINT": 15,
    "INTEGER": 31,
    "BIGINT": 63,
    "UTINYINT": 8,
    "USMALLINT": 16,
    "UINTEGER": 32,
    "UBIGINT": 64,
}
_KINDS = {
    "VARCHAR": kernel.TEXT,
    "DOUBLE": kernel.DOUBLE,
    "FLOAT": kernel.FLOAT,
    "BOOLEAN": kernel.BOOLEAN,
    "DATE": kernel.DATE,
    "TIMESTAMP": kernel.TIMESTAMP,
    "TIMESTAMPTZ": kernel.TIMESTAMP,
    "TIME": kernel.TIME,
}
_MOST = 10**kernel.MOST_DIGITS  # beyond it the kernel leaves a number to the general way
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Fields:
    """What the fields of a record must look like, one after the other."""

    kinds: np.ndarray
    low: np.ndarray
    high: np.ndarray


# Rows, the number of the record of each, and in how many of them each field was that no column is declared for.
Taken = tuple[pa.Table, np.ndarray, dict[str, int]]


def take_plain(
    lines: Lines, index: np.ndarray, columns: Sequence[Column], layout: Layout | None, limit: int
) -> Taken | None:
    """The rows of the plain records among those numbered `index`, CSV with a layout and JSON without.

    None when there are none, or when the columns have a type that is always looked at.
    """
    if not len(index) or not _is_suitable(columns, layout):
        return None
    starts, ends = (lines.starts, lines.ends) if len(index) == len(lines) else (lines.starts[index], lines.ends[index])
    data, taken = np.frombuffer(lines.data, np.uint8), np.zeros(len(index), np.uint8)
    if layout is None:
        text = _copy_json(data, starts, ends, columns, limit, taken)
        places, marks = tuple(range(len(columns))), (",", '"', len(columns))
    else:
        text = _copy_csv(data, starts, ends, columns, layout, limit, taken)
        places, marks = layout.places, (layout.delimiter, layout.quote, layout.width)
    rows = _read(text, places, columns, *marks) if len(text) else None
    chosen = index if taken.all() else index[taken != 0]
    if rows is None or rows.num_rows != len(chosen):
        return None
    more = index[taken == 2] if layout is None else _NONE
    return rows, chosen, undeclared_fields(lines, more, columns) if len(more) else {}


def _copy_json(
    data: np.ndarray, starts: np.ndarray, ends: np.ndarray, columns: Sequence[Column], limit: int, taken: np.ndarray
) -> np.ndarray:
    """The plain JSON objects as CSV lines; marks them in `taken`, with 2 where they have undeclared fields."""
    fields, names = _fields(columns), [column.name.encode() for column in columns]
    joined, offsets, out = (
        np.frombuffer(b"".join(names), np.uint8),
        _offsets(names),
        _room(starts, ends, 3 * len(names)),
    )
    spellings = (fields.kinds, fields.low, fields.high)
    size = kernel.take_json(data, starts, ends, *spellings, joined, offsets, limit, out, taken)
    return out[:size]


def _copy_csv(
    data: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    columns: Sequence[Column],
    layout: Layout,
    limit: int,
    taken: np.ndarray,
) -> np.ndarray:
    """The plain CSV records, a line each; marks them in `taken`."""
    fields, out = _laid_out(columns, layout), _room(starts, ends, 1)
    marks = (ord(layout.delimiter), ord(layout.quote) if layout.quote else -1)
    size = kernel.take_csv(data, starts, ends, fields.kinds, fields.low, fields.high, *marks, limit, out, taken)
    return out[:size]


def undeclared_fields(lines: Lines, index: np.ndarray, columns: Sequence[Column]) -> dict[str, int]:
    """In how many of the objects numbered `index` each field is that no column is declared for; of the first names."""
    names = [column.name.encode() for column in columns]
    data, found = np.frombuffer(lines.data, np.uint8), np.zeros((3, MOST_UNDECLARED + 2 * len(columns)), np.int64)
    known = kernel.count_fields(
        data, lines.starts[index], lines.ends[index], np.frombuffer(b"".join(names), np.uint8), _offsets(names), found
    )
    declared, counts = {column.name.lower() for column in columns}, dict[str, int]()
    for at, size, count in found[:, :known].T.tolist():
        name = _unescape(data[at : at + size].tobytes())
        if name.lower() not in declared and (name in counts or len(counts) < MOST_UNDECLARED):
            counts[name] = counts.get(name, 0) + count
    return counts


def _unescape(name: bytes) -> str:
    """The name of a field with its escapes resolved."""
    text = name.decode("utf-8", "replace")
    try:
        return str(json.loads(f'"{text}"')) if "\\" in text else text
    except ValueError:
        return text


def _is_suitable(columns: Sequence[Column], layout: Layout | None) -> bool:
    known = all(
        type_name(column.type) in _KINDS
        or type_name(column.type) in _BITS
        or decimal_shape(type_name(column.type)) is not None
        for column in columns
    )
    if layout is None:
        # Names in other letters may have other spellings that differ from them in case.
        return known and all(column.name.isascii() for column in columns)
    marks = layout.delimiter + layout.quote
    return (
        known
        and layout.null == ""
        and len(layout.delimiter) == 1
        and len(layout.quote) < 2
        and marks.isascii()
        and len(set(marks)) == len(marks)
        and not set(marks) & set("\r\n")
        and len(set(layout.places)) == len(layout.places)
    )


def _fields(columns: Sequence[Column]) -> Fields:
    kinds, low, high = (np.zeros(len(columns), np.int64) for _ in range(3))
    for i, column in enumerate(columns):
        name = type_name(column.type)
        if name in _BITS:
            kinds[i], top = kernel.INTEGER, min(2 ** _BITS[name] - 1, _MOST)
            low[i], high[i] = (0 if name.startswith("U") else -top - 1), top
        elif name in _KINDS:
            kinds[i] = _KINDS[name]
        else:
            precision, scale = decimal_shape(name) or (0, 0)
            kinds[i], low[i], high[i] = kernel.DECIMAL, precision - scale, scale
    return Fields(kinds, low, high)


def _laid_out(columns: Sequence[Column], layout: Layout) -> Fields:
    """The columns where the layout has them; what is between them is text."""
    own, places = _fields(columns), list(layout.places)
    fields = Fields(*(np.zeros(layout.width, np.int64) for _ in range(3)))
    for into, values in zip(vars(fields).values(), vars(own).values(), strict=True):
        into[places] = values
    return fields


def _offsets(names: list[bytes]) -> np.ndarray:
    return np.cumsum([0, *map(len, names)], dtype=np.int64)


def _room(starts: np.ndarray, ends: np.ndarray, more: int) -> np.ndarray:
    return np.empty(int(ends.sum() - starts.sum()) + more * len(starts), np.uint8)


def _read(
    text: np.ndarray, places: Sequence[int], columns: Sequence[Column], delimiter: str, quote: str, width: int
) -> pa.Table | None:
    """Typed columns of lines that all have `width` plain fields; None where the text is not valid UTF-8."""
    schema = arrow_schema(columns)
    names = [f"f{i}" for i in range(width)]
    types = {name: pa.string() for name in names}
    for place, field in zip(places, schema, strict=True):
        types[f"f{place}"] = pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type
    try:
        table = pacsv.read_csv(
            pa.BufferReader(pa.py_buffer(text)),
            read_options=pacsv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
            parse_options=pacsv.ParseOptions(delimiter=delimiter, quote_char=quote or False, ignore_empty_lines=False),
            convert_options=pacsv.ConvertOptions(
                include_columns=[f"f{place}" for place in places],
                column_types=types,
                null_values=[""],
                true_values=["true", "1"],
                false_values=["false", "0"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    return pa.Table.from_arrays(
        [column.cast(field.type) for column, field in zip(table.columns, schema, strict=True)], schema=schema
    )
