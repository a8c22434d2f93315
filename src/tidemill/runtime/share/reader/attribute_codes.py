"""Group attributes as 64-bit codes for hash tables, and back.

Integers, times and doubles are their own code as long as no value is missing; everything else gets the number of its
value in a dictionary that lives as long as the reader's share of the batch. Two codes may stand for equal values,
never one code for two: the stage adds up what belongs together.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class AttributeCodes:
    """Codes of one attribute. `changed` codes mean something else than before: tables must be flushed first."""

    def __init__(self) -> None:
        self.kind: pa.DataType | None = None
        self.values: pa.Array | None = None  # the dictionary; None while values are their own codes

    def changes(self, column: pa.ChunkedArray) -> bool:
        """True when this column needs a dictionary and those before did not."""
        return self.kind is not None and self.values is None and not _is_own_code(column)

    def encode(self, column: pa.ChunkedArray) -> np.ndarray:
        """One code for each row."""
        if self.kind is None:
            self.kind = column.type
        if self.values is None and _is_own_code(column):
            return _to_numbers(column)
        if self.values is None:
            self.values = pa.array([], self.kind)
        if pa.types.is_floating(column.type):
            column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 and 0.0 are one group here as well
        coded = _to_array(column).dictionary_encode(null_encoding="encode")
        own = coded.dictionary
        place = pc.index_in(own, value_set=self.values)
        if place.null_count:
            fresh = own.filter(place.is_null())
            place = np.array(pc.fill_null(place, 0).to_numpy(zero_copy_only=False), np.int64)
            missing = np.array(pc.index_in(own, value_set=self.values).is_null().to_numpy(zero_copy_only=False))
            place[missing] = len(self.values) + np.arange(len(fresh))
            self.values = pa.concat_arrays([self.values, fresh])
        else:
            place = place.to_numpy(zero_copy_only=False).astype(np.int64)
        return place[coded.indices.to_numpy(zero_copy_only=False)]

    def decode(self, codes: np.ndarray) -> pa.Array:
        """The values of codes."""
        assert self.kind is not None
        if self.values is not None:
            return self.values.take(pa.array(codes))
        if pa.types.is_floating(self.kind):
            return pa.array(codes.view(np.float64)).cast(self.kind)
        numbers = pa.array(codes)
        if pa.types.is_date(self.kind):
            return numbers.cast(pa.int32()).cast(self.kind)
        return numbers.cast(self.kind)


def _is_own_code(column: pa.ChunkedArray) -> bool:
    kind = column.type
    plain = (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_boolean(kind)
        or (pa.types.is_timestamp(kind) and kind.unit == "us")
    )
    return plain and column.null_count == 0 and kind != pa.uint64()


def _to_numbers(column: pa.ChunkedArray) -> np.ndarray:
    kind = column.type
    if pa.types.is_floating(kind):
        values = column.to_numpy().astype(np.float64) + 0.0  # -0.0 and 0.0 are one group
        values[np.isnan(values)] = np.nan
        return values.view(np.int64)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_date(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    if column.type == pa.int32():
        return column.to_numpy()
    return column.to_numpy().astype(np.int64, copy=False)


def _to_array(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
