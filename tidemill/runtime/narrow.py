"""Whole numbers of 128 bits that would fit into 64, made so: DuckDB takes five times as long over the wide ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_WIDE = pa.decimal128(38, 0)  # what HUGEINT is in Arrow


def narrowed(table: pa.Table) -> pa.Table:
    """The same values; a column of wide numbers that all fit has 64 bits.

    >>> from decimal import Decimal
    >>> numbers = pa.array([Decimal(-5), None, Decimal(1 << 64)], _WIDE)
    >>> found = narrowed(pa.table({"few": numbers[:2], "all": numbers[1:]}))
    >>> found.schema.types, found.column("few").to_pylist()
    ([DataType(int64), Decimal128Type(decimal128(38, 0))], [-5, None])
    """
    for place, field in enumerate(table.schema):
        if field.type == _WIDE:
            chunks = [_narrow(chunk) for chunk in table.column(place).chunks]
            fitting = [chunk for chunk in chunks if chunk is not None]
            if len(fitting) == len(chunks):
                table = table.set_column(place, field.name, pa.chunked_array(fitting, pa.int64()))
    return table


def _narrow(chunk: pa.Array) -> pa.Array | None:
    """The low halves, where every high half only repeats the sign."""
    words = np.frombuffer(chunk.buffers()[1] or b"", np.int64)[2 * chunk.offset : 2 * (chunk.offset + len(chunk))]
    low, high = words[::2], words[1::2]
    missing = chunk.is_null().to_numpy(zero_copy_only=False) if chunk.null_count else None
    fits = (low >> 63) == high
    if not (fits if missing is None else fits | missing).all():
        return None
    return pa.array(np.ascontiguousarray(low), pa.int64(), mask=missing)
