"""Whole numbers of 128 bits that would fit into 64, made so.

DuckDB takes five times as long over the wide ones, and in Arrow and pandas they are decimals, where a sum of integers
is expected to be one. A column of type decimal128(38, 0) may be a user's DECIMAL(38, 0) as well, so the caller names
the columns of whole numbers.
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np
import pyarrow as pa

_WIDE = pa.decimal128(38, 0)  # what HUGEINT is in Arrow


def narrow_table(table: pa.Table) -> pa.Table:
    """The same values; a column of wide numbers that all fit has 64 bits.

    >>> from decimal import Decimal
    >>> numbers = pa.array([Decimal(-5), None, Decimal(1 << 64)], _WIDE)
    >>> found = narrow_table(pa.table({"few": numbers[:2], "all": numbers[1:]}))
    >>> found.schema.types, found.column("few").to_pylist()
    ([DataType(int64), Decimal128Type(decimal128(38, 0))], [-5, None])
    """
    for place, field in enumerate(table.schema):
        if field.type == _WIDE:
            table = table.set_column(place, field.name, _narrow_chunks(table.column(place)))
    return table


def narrow_marked(table: pa.Table, mark: dict[bytes, bytes]) -> pa.Table:
    """An answer as users get it: the columns with this mark have 64 bits where all values fit.

    >>> from decimal import Decimal
    >>> schema = pa.schema([pa.field("total", _WIDE, metadata={b"is": b"whole"}), pa.field("price", _WIDE)])
    >>> narrow_marked(pa.table([[Decimal(7)], [Decimal(8)]], schema=schema), {b"is": b"whole"}).schema.types
    [DataType(int64), Decimal128Type(decimal128(38, 0))]
    """
    for place, field in enumerate(table.schema):
        if field.metadata == mark:
            column = _narrow_chunks(table.column(place))
            table = table.set_column(place, pa.field(field.name, column.type), column)
    return table


def narrow_fields(column: pa.ChunkedArray, wide: Container[str]) -> pa.ChunkedArray:
    """A struct whose fields of these names have 64 bits where all values fit."""
    if not any(f.type == _WIDE and f.name in wide for f in column.type):
        return column
    whole = column.combine_chunks()
    parts = {
        f.name: _narrow_chunks(pa.chunked_array([whole.field(i)])).combine_chunks()
        if f.name in wide
        else whole.field(i)
        for i, f in enumerate(whole.type)
    }
    made = pa.StructArray.from_arrays(list(parts.values()), list(parts), mask=whole.is_null())
    return pa.chunked_array([made])


def narrow_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers with 64 bits if all values fit; anything else as it is."""
    return _narrow_chunks(column) if column.type == _WIDE else column


def _narrow_chunks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = [_narrow(chunk) for chunk in column.chunks]
    fit = [chunk for chunk in chunks if chunk is not None]
    return pa.chunked_array(fit, pa.int64()) if len(fit) == len(chunks) else column


def _narrow(chunk: pa.Array) -> pa.Array | None:
    """The low halves, where every high half only repeats the sign."""
    words = np.frombuffer(chunk.buffers()[1] or b"", np.int64)[2 * chunk.offset : 2 * (chunk.offset + len(chunk))]
    low, high = words[::2], words[1::2]
    missing = chunk.is_null().to_numpy(zero_copy_only=False) if chunk.null_count else None
    fits = (low >> 63) == high
    if not (fits if missing is None else fits | missing).all():
        return None
    return pa.array(np.ascontiguousarray(low), pa.int64(), mask=missing)
