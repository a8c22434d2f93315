"""Columns of numbers and times straight from the pages of a parquet file, where that is faster than Arrow.

Only the usual case is read here: numbers of 32 or 64 bits without missing values, as they are or by a dictionary,
compressed with Snappy or not at all. In all others `column` gives None, damaged pages included, and Arrow reads the
column and judges it.
"""

from __future__ import annotations

import json
from io import BufferedReader
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.runtime.kernels.pages import SLACK, read_pages

# How a type is stored, and the integers of the same size.
_STORED: dict[pa.DataType, tuple[str, type]] = {
    pa.int32(): ("INT32", np.int32), pa.int64(): ("INT64", np.int64), pa.timestamp("us"): ("INT64", np.int64),
    pa.float64(): ("DOUBLE", np.int64),
}
_ENCODINGS = {"PLAIN", "RLE", "RLE_DICTIONARY", "PLAIN_DICTIONARY"}


def suitable(file: pq.FileMetaData, group: int, name: str, kind: pa.DataType) -> int | None:
    """The number of the column if its pages may be read here."""
    described = file.row_group(group)
    for i in range(described.num_columns):
        chunk = described.column(i)
        if chunk.path_in_schema == name:
            declared = file.schema.column(i)
            flat = declared.max_repetition_level == 0 and declared.max_definition_level <= 1
            full = chunk.statistics is not None and chunk.statistics.has_null_count and not chunk.statistics.null_count
            read = set(chunk.encodings) <= _ENCODINGS and chunk.compression in ("SNAPPY", "UNCOMPRESSED")
            return i if flat and full and read and chunk.physical_type == _STORED[kind][0] else None
    return None


def column(source: BufferedReader, file: pq.FileMetaData, group: int, name: str, kind: pa.DataType) -> pa.Array | None:
    """The values of one column of a row group, as an array of this type; None where Arrow has to read it."""
    number = suitable(file, group, name, kind) if kind in _STORED else None
    if number is None or not _as_stored(file.schema.column(number), kind):
        return None
    chunk, nullable = file.row_group(group).column(number), file.schema.column(number).max_definition_level == 1
    first = chunk.data_page_offset
    if chunk.dictionary_page_offset is not None:
        first = min(first, chunk.dictionary_page_offset)
    source.seek(first)
    # Arrow's pool keeps memory that it has had before; new memory costs as much as decoding.
    read, room = pa.allocate_buffer(chunk.total_compressed_size), pa.allocate_buffer(
        chunk.total_uncompressed_size + 4 * SLACK)
    integers = _STORED[kind][1]
    values = pa.allocate_buffer(chunk.num_values * np.dtype(integers).itemsize)
    if source.readinto(read) != read.size:
        return None
    done = read_pages(np.frombuffer(read, np.uint8), chunk.compression == "SNAPPY", nullable,
                      np.frombuffer(room, np.uint8), np.frombuffer(values, integers))
    return pa.Array.from_buffers(kind, chunk.num_values, [None, values], 0) if done == chunk.num_values else None


def _as_stored(declared: Any, kind: pa.DataType) -> bool:
    """True when the stored numbers mean what Arrow makes of them."""
    meaning = declared.logical_type
    if kind != pa.timestamp("us"):
        return meaning.type == "NONE"
    return meaning.type == "TIMESTAMP" and json.loads(meaning.to_json())["timeUnit"] == "microseconds"
