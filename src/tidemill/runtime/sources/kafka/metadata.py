"""Columns of a record that are not in its value: key, partition, offset, time and headers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidemill.plan.sources import Column, Schema, SourceSpec
from tidemill.runtime.sources.columns import type_name

# The option that names the column of each.
KEY, PARTITION, OFFSET, TIME, HEADERS = (
    "key_column",
    "partition_column",
    "offset_column",
    "time_column",
    "headers_column",
)
OPTIONS = (KEY, PARTITION, OFFSET, TIME, HEADERS)


def metadata_columns(spec: SourceSpec) -> dict[str, str]:
    """The column of each option that is given."""
    return {option: str(spec.options[option]) for option in OPTIONS if option in spec.options}


def value_columns(spec: SourceSpec) -> Schema:
    """The columns that are read from the values of records."""
    taken = {name.lower() for name in metadata_columns(spec).values()}
    if spec.format == "debezium" and spec.operation is not None:
        taken.add(spec.operation.lower())
    return tuple(column for column in spec.columns if column.name.lower() not in taken)


def metadata_array(option: str, column: Column, messages: list[Any]) -> pa.ChunkedArray:
    """The values of one such column, not yet in its type."""
    return pa.chunked_array([_MAKERS[option](column, messages)])


def _keys(column: Column, messages: list[Any]) -> pa.Array:
    keys = [message.key() for message in messages]
    if type_name(column.type) == "BLOB":
        return pa.array(keys, pa.binary())
    return pa.array([None if key is None else key.decode("utf-8", "replace") for key in keys], pa.string())


def _partitions(column: Column, messages: list[Any]) -> pa.Array:
    return pa.array([message.partition() for message in messages], pa.int32())


def _offsets(column: Column, messages: list[Any]) -> pa.Array:
    return pa.array([message.offset() for message in messages], pa.int64())


def _times(column: Column, messages: list[Any]) -> pa.Array:
    stamps = (message.timestamp() for message in messages)
    millis = pa.array([stamp if kind else None for kind, stamp in stamps], pa.int64())
    if type_name(column.type) in ("TIMESTAMP", "TIMESTAMPTZ"):
        zone = "UTC" if type_name(column.type) == "TIMESTAMPTZ" else None
        return millis.cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(pa.timestamp("us", zone))
    return millis


def _headers(column: Column, messages: list[Any]) -> pa.Array:
    return pa.array([_header_text(message.headers()) for message in messages], pa.string())


def _header_text(headers: Any) -> str | None:
    """Headers as a JSON object; of several with one name, the last."""
    if not headers:
        return None
    return json.dumps({name: None if v is None else v.decode("utf-8", "replace") for name, v in headers})


_MAKERS: dict[str, Callable[[Column, list[Any]], pa.Array]] = {
    KEY: _keys,
    PARTITION: _partitions,
    OFFSET: _offsets,
    TIME: _times,
    HEADERS: _headers,
}
