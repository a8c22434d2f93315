"""Tables as Delta and Iceberg take them: they have no unsigned integers and no times of day."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidemill.plan.python_values import python_values


def lake_table(table: pa.Table) -> pa.Table:
    """The same values in types that lakes have."""
    arrays = []
    for column in table.columns:
        kind = lake_type(column.type)
        arrays.append(column if kind == column.type else _convert(column, kind))
    return pa.Table.from_arrays(arrays, names=table.column_names)


def lake_type(kind: pa.DataType) -> pa.DataType:
    """The type that a lake has for values of a type.

    >>> lake_type(pa.uint32()), lake_type(pa.uint64())
    (DataType(int64), Decimal128Type(decimal128(20, 0)))
    """
    if pa.types.is_uint64(kind):
        return pa.decimal128(20, 0)
    if pa.types.is_unsigned_integer(kind):
        return pa.int64() if kind == pa.uint32() else pa.int32()
    if kind in (pa.int8(), pa.int16()):
        return pa.int32()
    if (
        pa.types.is_time(kind)
        or pa.types.is_null(kind)
        or pa.types.is_dictionary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)  # in files of Delta's own library
    ):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, lake_type(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(lake_type(kind.value_type))
    return kind


def _convert(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.chunked_array([pa.array([_spell(v, kind) for v in python_values(column)], kind)])


def _spell(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {f.name: _spell(value[f.name], f.type) for f in kind}
    return str(value) if pa.types.is_string(kind) else value
