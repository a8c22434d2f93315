"""Declared columns in Arrow: their types, conversion to them, and event times.

Every conversion is DuckDB's TRY_CAST, so that a value in a file means what it means in a query. One exception: a text
with an offset from UTC, read into a TIMESTAMP, is that moment in UTC; a cast in a query drops the offset.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import SourceProblem
from tidemill.plan.nested_types import is_nested, is_textual, loses_inner_types
from tidemill.plan.python_values import python_values
from tidemill.plan.sources import Column
from tidemill.runtime.duckdb.nested_arrays import whole

_TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "HUGEINT": pa.decimal128(38, 0),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}
_ALIASES = {
    "BOOL": "BOOLEAN",
    "INT1": "TINYINT",
    "INT2": "SMALLINT",
    "INT": "INTEGER",
    "INT4": "INTEGER",
    "LONG": "BIGINT",
    "INT8": "BIGINT",
    "REAL": "FLOAT",
    "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE",
    "TEXT": "VARCHAR",
    "STRING": "VARCHAR",
    "CHAR": "VARCHAR",
    "BYTEA": "BLOB",
    "BINARY": "BLOB",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
    "NUMERIC": "DECIMAL(18,3)",
    "DECIMAL": "DECIMAL(18,3)",
}
_DECIMAL = re.compile(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_SHOWN = 100  # characters of a value in an error
FARTHEST_US = 1 << 61  # frontiers reach to 1 << 62
_connections = threading.local()


def type_name(declared: str) -> str:
    """The one spelling of a type, safe to put into SQL.

    >>> type_name("int"), type_name("numeric(10, 2)")
    ('INTEGER', 'DECIMAL(10,2)')
    """
    if is_textual(declared) or (is_nested(declared) and not loses_inner_types(declared)) or declared == "INTERVAL":
        return declared
    name = " ".join(declared.upper().split())
    name = _ALIASES.get(name, name)
    decimal = _DECIMAL.fullmatch(name)
    if decimal:
        precision, scale = int(decimal[1]), int(decimal[2] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return f"DECIMAL({precision},{scale})"
    elif name in _TYPES:
        return name
    raise SourceProblem(
        "TM404", f'a source cannot have a column of type "{declared}"', hint=f"one of {', '.join(_TYPES)}, DECIMAL(p,s)"
    )


def arrow_type(declared: str) -> pa.DataType:
    """The Arrow type of a DuckDB type name."""
    name = type_name(declared)
    if is_textual(name):
        return pa.string()
    if is_nested(name) or name == "INTERVAL":
        return _nested_arrow_type(name)
    decimal = _DECIMAL.fullmatch(name)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _TYPES[name]


@cache
def _nested_arrow_type(name: str) -> pa.DataType:
    return duck().sql(f"SELECT CAST(NULL AS {name}) AS x").to_arrow_table().schema.field(0).type


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """The columns in declared order with their Arrow types."""
    return pa.schema([(column.name, arrow_type(column.type)) for column in columns])


def duck() -> duckdb.DuckDBPyConnection:
    """This thread's own in-memory DuckDB: one core, UTC, no way to files or network."""
    # A connection does not survive a fork, and Spark forks its Python workers.
    if getattr(_connections, "pid", None) != os.getpid():
        _connections.duck = duckdb.connect(config={"threads": 1, "enable_external_access": False})
        _connections.duck.execute("SET TimeZone = 'UTC'")
        _connections.pid = os.getpid()
    return _connections.duck


def query(sql: str, name: str, table: pa.Table) -> pa.Table:
    """The answer of `sql` over one Arrow table, in the table's order."""
    connection = duck()
    connection.register(name, whole(table))
    try:
        return connection.sql(sql).to_arrow_table()
    finally:
        connection.unregister(name)


def convert(raw: Sequence[pa.ChunkedArray], columns: Sequence[Column]) -> tuple[pa.Table, dict[int, str]]:
    """The values in their declared types, and a reason for each row that has one it cannot take.

    Row for row: what happens to one row never depends on its neighbours. Columns that have their
    type already are passed on without a copy.
    """
    schema = arrow_schema(columns)
    arrays = list(raw)
    textual = [is_textual(column.type) for column in columns]  # a text may be no value of its type
    other = [i for i, array in enumerate(raw) if array.type != schema.field(i).type or textual[i]]
    if other:
        cast = _try_cast([raw[i] for i in other], [columns[i] for i in other])
        for place, array in zip(other, cast, strict=True):
            arrays[place] = array.cast(schema.field(place).type)
    reasons: dict[int, str] = {}
    for i in other:
        _explain(raw[i], arrays[i], columns[i], reasons)
    return pa.Table.from_arrays(arrays, schema=schema), reasons


def _try_cast(raw: list[pa.ChunkedArray], columns: list[Column]) -> list[pa.ChunkedArray]:
    table = pa.table({f"c{i}": array for i, array in enumerate(raw)})
    items = ", ".join(
        f"{_cast_sql(f'c{i}', type_name(column.type), array.type)} AS c{i}"
        for i, (array, column) in enumerate(zip(raw, columns, strict=True))
    )
    return query(f"SELECT {items} FROM uncast", "uncast", table).columns


def _cast_sql(column: str, name: str, given: pa.DataType) -> str:
    """A cast that gives NULL for what cannot be read, and for what Arrow cannot carry: it has no 39th digit."""
    if is_nested(name):
        # TRY_CAST would make single fields NULL.
        inner = f"CAST({column} AS JSON)" if pa.types.is_string(given) or pa.types.is_large_string(given) else column
        return f"TRY(CAST({inner} AS {name}))"
    cast = f"TRY_CAST({column} AS {name})"
    if is_textual(name):
        return f"CAST({cast} AS VARCHAR)"
    if name == "TIMESTAMP" and (pa.types.is_string(given) or pa.types.is_large_string(given)):
        # Most texts have no room for an offset, and to look for one takes longer than all the rest.
        return (
            f"CASE WHEN {column} LIKE '____-__-_____:__:__' THEN {cast}"
            f" ELSE timezone('UTC', TRY_CAST({column} AS TIMESTAMPTZ)) END"
        )
    return f"TRY_CAST({cast} AS DECIMAL(38,0))" if name == "HUGEINT" else cast


def _explain(raw: pa.ChunkedArray, cast: pa.ChunkedArray, column: Column, reasons: dict[int, str]) -> None:
    if cast.null_count == raw.null_count:
        return
    lost = np.flatnonzero(pc.and_(raw.is_valid(), cast.is_null()).to_numpy())
    for row, value in zip(lost.tolist(), python_values(raw.take(pa.array(lost))), strict=True):
        shown = str(value)
        shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
        reasons.setdefault(row, f'column "{column.name}": cannot read "{shown}" as {column.type}')


def is_wall_time(declared: str) -> bool:
    """Whether event times of this type are dates of the calendar, which can be compared with the wall clock."""
    kind = arrow_type(declared)
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def event_time_us(column: pa.ChunkedArray, type_name: str, unit_us: int) -> pa.ChunkedArray:
    """Event times in microseconds since 1970; numbers count clock units of `unit_us` microseconds.

    Fractions of a microsecond are rounded. Nulls and times that are infinite or more than 73,000 years from 1970 are
    null: windows and synchronization points must be able to add to a time.
    """
    return _drop_far_times(_to_micros(column, type_name, unit_us))


def _to_micros(column: pa.ChunkedArray, type_name: str, unit_us: int) -> pa.ChunkedArray:
    kind = arrow_type(type_name)
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    if pa.types.is_date(kind):
        return _scale_units(column.cast(pa.int32()).cast(pa.int64()), 86_400_000_000)
    if pa.types.is_signed_integer(kind):
        return _scale_units(column.cast(pa.int64()), unit_us)
    if pa.types.is_floating(kind):
        return _from_float(column.cast(pa.float64()), unit_us)
    if pa.types.is_unsigned_integer(kind) or pa.types.is_decimal(kind):
        return _from_decimal(column, unit_us)
    raise SourceProblem(
        "TM404",
        f"a column of type {type_name} cannot be an event time",
        hint="use a TIMESTAMP, a DATE or a number of clock units",
    )


def _drop_far_times(times: pa.ChunkedArray) -> pa.ChunkedArray:
    bounds = pc.min_max(times).as_py()
    if bounds["max"] is None or (bounds["max"] < FARTHEST_US and bounds["min"] > -FARTHEST_US):
        return times
    inside = pc.and_(pc.less(times, FARTHEST_US), pc.greater(times, -FARTHEST_US))
    return pc.if_else(inside, times, pa.scalar(None, pa.int64()))


def _scale_units(units: pa.ChunkedArray, unit_us: int) -> pa.ChunkedArray:
    limit = (2**63 - 1) // unit_us
    bounds = pc.min_max(units).as_py()
    if bounds["max"] is not None and (bounds["max"] > limit or bounds["min"] < -limit):
        inside = pc.and_(pc.less_equal(units, limit), pc.greater_equal(units, -limit))
        units = pc.if_else(inside, units, pa.scalar(None, pa.int64()))
    return units if unit_us == 1 else pc.multiply(units, pa.scalar(unit_us, pa.int64()))


def _from_float(units: pa.ChunkedArray, unit_us: int) -> pa.ChunkedArray:
    micros = pc.round(pc.multiply(units, float(unit_us)), round_mode="half_to_even")
    inside = pc.less(pc.abs(micros), 2.0**63)
    return pc.if_else(inside, micros, pa.scalar(None, pa.float64())).cast(pa.int64())


def _from_decimal(units: pa.ChunkedArray, unit_us: int) -> pa.ChunkedArray:
    if not pa.types.is_decimal(units.type):
        units = units.cast(pa.decimal128(20, 0))
    # A file may hold more digits than its type declares; Arrow refuses to compute with them.
    readable = pc.less(pc.abs(units.cast(pa.float64())), 1e37)
    units = pc.if_else(readable, units, pa.scalar(None, units.type))
    wide = units.cast(pa.decimal256(38, units.type.scale))
    micros = pc.round(
        pc.multiply(wide, pa.scalar(unit_us, pa.int64()).cast(pa.decimal256(19, 0))), round_mode="half_to_even"
    ).cast(pa.decimal256(70, 0))
    edge = pa.scalar(2**63 - 1, pa.decimal256(70, 0))
    inside = pc.less_equal(pc.abs(micros), edge)
    return pc.if_else(inside, micros, pa.scalar(None, micros.type)).cast(pa.int64())
