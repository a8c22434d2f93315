"""Types of columns: what a type of Arrow is in Postgres."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidemill.plan.aggregates import decimal_shape
from tidemill.serve.postgres.messages import frame, text_bytes

BOOL, BYTEA, INT8, INT2, INT4, TEXT, OID, JSON = 16, 17, 20, 21, 23, 25, 26, 114
FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR = 700, 701, 705, 1042, 1043
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, UUID = 1082, 1083, 1114, 1184, 1186, 1700, 2950

ARRAYS = {  # element → array
    BOOL: 1000,
    BYTEA: 1001,
    INT2: 1005,
    INT4: 1007,
    TEXT: 1009,
    INT8: 1016,
    OID: 1028,
    FLOAT4: 1021,
    FLOAT8: 1022,
    TIMESTAMP: 1115,
    DATE: 1182,
    TIME: 1183,
    TIMESTAMPTZ: 1185,
    INTERVAL: 1187,
    NUMERIC: 1231,
    UUID: 2951,
}
_IS_OID = {b"type": b"oid"}
ELEMENTS = {array: element for element, array in ARRAYS.items()}
_SIZES = {BOOL: 1, INT2: 2, INT4: 4, INT8: 8, OID: 4, FLOAT4: 4, FLOAT8: 8, DATE: 4, TIME: 8, TIMESTAMP: 8}
_SIZES |= {TIMESTAMPTZ: 8, INTERVAL: 16, UUID: 16}

NAMES = {  # what format_type says
    BOOL: "boolean",
    BYTEA: "bytea",
    INT8: "bigint",
    INT2: "smallint",
    INT4: "integer",
    TEXT: "text",
    OID: "oid",
    JSON: "json",
    FLOAT4: "real",
    FLOAT8: "double precision",
    VARCHAR: "character varying",
    BPCHAR: "character",
    DATE: "date",
    TIME: "time without time zone",
    TIMESTAMP: "timestamp without time zone",
    TIMESTAMPTZ: "timestamp with time zone",
    INTERVAL: "interval",
    NUMERIC: "numeric",
    UUID: "uuid",
}
_DUCKDB = {
    "BOOLEAN": BOOL,
    "TINYINT": INT2,
    "SMALLINT": INT2,
    "INTEGER": INT4,
    "BIGINT": INT8,
    "HUGEINT": NUMERIC,
    "UTINYINT": INT2,
    "USMALLINT": INT4,
    "UINTEGER": INT8,
    "UBIGINT": NUMERIC,
    "FLOAT": FLOAT4,
    "DOUBLE": FLOAT8,
    "VARCHAR": TEXT,
    "BLOB": BYTEA,
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
    "INTERVAL": INTERVAL,
    "UUID": UUID,
}


@dataclass(frozen=True)
class Field:
    """A column of an answer."""

    name: str
    oid: int
    modifier: int = -1


def fields_of(schema: pa.Schema) -> list[Field]:
    """The columns of a table as Postgres has them."""
    return [Field(column.name, _oid_of_column(column), modifier_of(column.type)) for column in schema]


def mark_numbers(table: pa.Table) -> pa.Table:
    """An answer of the catalog: its unsigned numbers are those of things, which clients read as `oid`.

    >>> [column.oid for column in fields_of(mark_numbers(pa.table({"a": pa.array([1], pa.uint32()), "b": [1]})).schema)]
    [26, 20]
    """
    fields = [c.with_metadata(_IS_OID) if _elements(c.type) == pa.uint32() else c for c in table.schema]
    return table.cast(pa.schema(fields))


def _oid_of_column(column: pa.Field) -> int:
    if column.metadata != _IS_OID:
        return oid_of(column.type)
    return OID if column.type == pa.uint32() else ARRAYS[OID]


def _elements(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_list(kind) else kind


def oid_of(kind: pa.DataType) -> int:
    """The type of Postgres that holds the values of a type of Arrow.

    >>> oid_of(pa.int64()), oid_of(pa.list_(pa.string())), oid_of(pa.struct([("a", pa.int32())]))
    (20, 1009, 114)
    """
    if pa.types.is_dictionary(kind):
        return oid_of(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ARRAYS.get(oid_of(kind.value_type), JSON)
    if pa.types.is_decimal(kind):
        return NUMERIC
    if pa.types.is_timestamp(kind):
        return TIMESTAMPTZ if kind.tz else TIMESTAMP
    if pa.types.is_time(kind):
        return TIME
    if pa.types.is_duration(kind) or pa.types.is_interval(kind):
        return INTERVAL
    if isinstance(kind, pa.ExtensionType) or "arrow.uuid" in str(kind):
        return UUID
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return JSON
    return _PLAIN.get(kind, TEXT)


_PLAIN = {
    pa.bool_(): BOOL,
    pa.int8(): INT2,
    pa.int16(): INT2,
    pa.int32(): INT4,
    pa.int64(): INT8,
    pa.uint8(): INT2,
    pa.uint16(): INT4,
    pa.uint32(): INT8,
    pa.uint64(): NUMERIC,
    pa.float32(): FLOAT4,
    pa.float64(): FLOAT8,
    pa.binary(): BYTEA,
    pa.large_binary(): BYTEA,
    pa.date32(): DATE,
}


def modifier_of(kind: pa.DataType) -> int:
    """Precision and scale of a decimal; −1 for everything else and for whole numbers of any size."""
    if not pa.types.is_decimal(kind) or (kind.precision == 38 and kind.scale == 0):
        return -1
    return (kind.precision << 16 | kind.scale) + 4


def oid_of_name(kind: str) -> tuple[int, int]:
    """(type, modifier) of a column whose type has this name in DuckDB.

    >>> oid_of_name("DECIMAL(10,2)"), oid_of_name("INTEGER[]"), oid_of_name("DECIMAL(3,1)[2]")
    ((1700, 655366), (1007, -1), (25, -1))
    """
    if kind.endswith("[]"):
        return ARRAYS.get(oid_of_name(kind[:-2])[0], JSON), -1
    shape = decimal_shape(kind)
    if shape is not None:
        return NUMERIC, (shape[0] << 16 | shape[1]) + 4
    if kind.startswith(("STRUCT", "MAP", "UNION")) or kind == "JSON":
        return JSON, -1
    return _DUCKDB.get(kind, TEXT), -1


def row_description(fields: Sequence[Field], formats: Sequence[int]) -> bytes:
    """RowDescription: names, types and formats of the columns."""
    parts = [struct.pack(">h", len(fields))]
    for column, form in zip(fields, formats, strict=True):
        size = _SIZES.get(column.oid, -1)
        parts += [text_bytes(column.name), struct.pack(">IhIhih", 0, 0, column.oid, size, column.modifier, form)]
    return frame("T", *parts)


def spread_formats(given: Sequence[int], count: int) -> list[int]:
    """The format of each column: none given is text, one holds for all."""
    if not given:
        return [0] * count
    return list(given) * count if len(given) == 1 else list(given)
