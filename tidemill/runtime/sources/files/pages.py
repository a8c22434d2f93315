"""Columns of times and counters straight from the pages of a parquet file, where that is faster than Arrow.

Only the usual case is read here: 64-bit integers without missing values, written as they are (PLAIN) and compressed
with Snappy. In all others `column` gives None, damaged pages included, and Arrow reads the column and judges it.
"""

from __future__ import annotations

import json
from io import BufferedReader
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.runtime.kernels.snappy import decompress

_WIDTH = 8
_DATA_PAGE, _PLAIN, _RLE = 0, 0, 3
# Fields of a page header, and of the header of a data page inside it (parquet.thrift).
_TYPE, _FULL_SIZE, _SIZE, _DATA_HEADER = 1, 2, 3, 5
_VALUES, _ENCODING, _LEVELS_ENCODING = 1, 2, 3


def suitable(file: pq.FileMetaData, group: int, name: str) -> int | None:
    """The number of the column if its pages may be read here."""
    described = file.row_group(group)
    for i in range(described.num_columns):
        chunk = described.column(i)
        if chunk.path_in_schema == name:
            declared = file.schema.column(i)
            plain = set(chunk.encodings) <= {"PLAIN", "RLE"} and chunk.dictionary_page_offset is None
            flat = declared.max_repetition_level == 0 and declared.max_definition_level <= 1
            full = chunk.statistics is not None and chunk.statistics.has_null_count and not chunk.statistics.null_count
            fits = chunk.physical_type == "INT64" and chunk.compression == "SNAPPY"
            return i if plain and flat and full and fits else None
    return None


def column(source: BufferedReader, file: pq.FileMetaData, group: int, name: str, kind: pa.DataType) -> pa.Array | None:
    """The values of one column of a row group, as an array of this type; None where Arrow has to read it."""
    number = suitable(file, group, name) if kind in (pa.int64(), pa.timestamp("us")) else None
    if number is None or not _as_stored(file.schema.column(number), kind):
        return None
    chunk, nullable = file.row_group(group).column(number), file.schema.column(number).max_definition_level == 1
    source.seek(chunk.data_page_offset)
    read, values = pa.allocate_buffer(chunk.total_compressed_size), pa.allocate_buffer(chunk.num_values * _WIDTH)
    try:
        whole = source.readinto(read) == read.size and _fill(read, _bytes(values).view(np.int64), nullable)
    except (IndexError, KeyError, ValueError):
        return None
    return pa.Array.from_buffers(kind, chunk.num_values, [None, values], 0) if whole else None


def _as_stored(declared: Any, kind: pa.DataType) -> bool:
    """True when the stored numbers mean what Arrow makes of them."""
    meaning = declared.logical_type
    if kind == pa.int64():
        return meaning.type == "NONE"
    return meaning.type == "TIMESTAMP" and json.loads(meaning.to_json())["timeUnit"] == "microseconds"


def _bytes(buffer: pa.Buffer) -> np.ndarray:
    # Arrow's pool keeps memory that it has had before; new memory costs as much as decoding.
    return np.frombuffer(buffer, np.uint8)


def _fill(read: pa.Buffer, values: np.ndarray, nullable: bool) -> bool:
    """All pages of a column one after the other; False where Arrow has to read them."""
    data, text = _bytes(read), memoryview(read).cast("B")  # single bytes come faster out of the latter
    done, at = 0, 0
    while done < len(values):
        header, at = _struct(text, at)
        page = header[_DATA_HEADER]
        usual = header[_TYPE] == _DATA_PAGE and page[_ENCODING] == _PLAIN
        if not usual or (nullable and page[_LEVELS_ENCODING] != _RLE):
            return False
        whole = _page(data[at:at + header[_SIZE]], header[_FULL_SIZE])
        rows, at = page[_VALUES], at + header[_SIZE]
        first = _behind_levels(whole, rows) if whole is not None and nullable else 0
        if whole is None or first < 0 or len(whole) - first != rows * _WIDTH:
            return False
        values[done:done + rows].view(np.uint8)[:] = whole[first:]
        done += rows
    return done == len(values) and at == len(data)


def _page(data: np.ndarray, size: int) -> np.ndarray | None:
    """A page of this many bytes; None where another decoder has to look at it."""
    stated, at = _varint(memoryview(data), 0)  # type: ignore[arg-type]
    if stated != size:
        return None
    out = _bytes(pa.allocate_buffer(size))
    return out if decompress(data, at, out) >= 0 else None


def _behind_levels(page: np.ndarray, rows: int) -> int:
    """Where the values begin behind the levels, if these are one run that says that no value is missing; else -1.

    >>> _behind_levels(np.array([2, 0, 0, 0, 10, 1, 99], np.uint8), 5)
    6
    """
    length = int(page[:4].view(np.int32)[0])
    run, at = _varint(memoryview(page), 4)  # type: ignore[arg-type]
    return at + 1 if run == rows << 1 and page[at] == 1 and at + 1 == 4 + length else -1


# ---- Thrift's compact protocol, as far as page headers use it --------------------------------------


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """(number, place behind it).

    >>> _varint(memoryview(bytes([0x96, 0x01])), 0)
    (150, 2)
    """
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def _struct(data: memoryview, at: int) -> tuple[dict[int, Any], int]:
    """(fields by number, place behind the struct).

    >>> _struct(memoryview(bytes([0x15, 0x06, 0x25, 0x02, 0x00])), 0)
    ({1: 3, 3: 1}, 5)
    """
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            coded, at = _varint(data, at)
            number = coded >> 1 ^ -(coded & 1)
        fields[number], at = _field(data, at, head & 0xF)
    return fields, at + 1


def _field(data: memoryview, at: int, kind: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return kind == 1, at
    if kind in (4, 5, 6):
        coded, at = _varint(data, at)
        return coded >> 1 ^ -(coded & 1), at
    if kind == 8:
        length, at = _varint(data, at)
        return data[at:at + length].tobytes(), at + length
    if kind == 12:
        return _struct(data, at)
    raise ValueError(f"no page header has a field of kind {kind}")
