"""Columns of numbers and times straight from the pages of a parquet file, where that is faster than Arrow.

Only the usual case is read here: numbers of 32 or 64 bits without missing values, as they are or by a dictionary,
compressed with Snappy or not at all. All other columns, damaged ones included, are left out, and Arrow reads and
judges them.

The fast path `parquet_pages`: gives exactly the columns that Arrow reads; columns that are left out, Arrow reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# How a type is stored, and the integers of the same size.
_STORED: dict[pa.DataType, tuple[str, type]] = {
    pa.int32(): ("INT32", np.int32),
    pa.int64(): ("INT64", np.int64),
    pa.timestamp("us"): ("INT64", np.int64),
    pa.float64(): ("DOUBLE", np.int64),
}


@dataclass(frozen=True)
class _Column:
    """A column whose pages may be read here: its number in the file, and how it is stored."""

    number: int
    kind: pa.DataType
    integers: type
    nullable: bool


class Pages:
    """The columns of an open file that can be read without Arrow."""

    def __init__(self, source: BufferedReader, file: pq.FileMetaData, kinds: Mapping[str, pa.DataType]) -> None:
        """`kinds` are the columns to read, with their types in Arrow."""
        self.source, self.file = source, file
        declared = {file.schema.column(i).path: i for i in range(file.num_columns)}
        self.columns = {
            name: _Column(
                declared[name], kind, _STORED[kind][1], file.schema.column(declared[name]).max_definition_level == 1
            )
            for name, kind in kinds.items()
            if name in declared and kind in _STORED and _suitable(file.schema.column(declared[name]), kind)
        }

    def read(self, group: int) -> dict[str, pa.Array]:
        """The columns of a row group, but for those that Arrow has to read."""
        described = self.file.row_group(group)
        found = {name: self._column(described.column(c.number), c) for name, c in self.columns.items()}
        return {name: array for name, array in found.items() if array is not None}

    def _column(self, chunk: pq.ColumnChunkMetaData, column: _Column) -> pa.Array | None:
        # Here, because a planner reads no pages, and the compiler's library takes a while to load.
        from tidemill.runtime.kernels.parquet.pages import SLACK, read_pages

        compression, first, rows = chunk.compression, chunk.data_page_offset, chunk.num_values
        if compression not in ("SNAPPY", "UNCOMPRESSED"):
            return None
        if chunk.dictionary_page_offset is not None:
            first = min(first, chunk.dictionary_page_offset)
        self.source.seek(first)
        # Arrow's pool keeps memory that it has had before; new memory costs as much as decoding.
        read = pa.allocate_buffer(chunk.total_compressed_size)
        room = pa.allocate_buffer(chunk.total_uncompressed_size + 4 * SLACK)
        values = pa.allocate_buffer(rows * np.dtype(column.integers).itemsize)
        if self.source.readinto(read) != read.size:
            return None
        done = read_pages(
            np.frombuffer(read, np.uint8),
            compression == "SNAPPY",
            column.nullable,
            np.frombuffer(room, np.uint8),
            np.frombuffer(values, column.integers),
        )
        return pa.Array.from_buffers(column.kind, rows, [None, values], 0) if done == rows else None


def _suitable(declared: Any, kind: pa.DataType) -> bool:
    """True when the column is flat, and its stored numbers mean what Arrow makes of them."""
    meaning = declared.logical_type
    flat = declared.max_repetition_level == 0 and declared.max_definition_level <= 1
    if not flat or declared.physical_type != _STORED[kind][0]:
        return False
    if kind != pa.timestamp("us"):
        return meaning.type == "NONE"
    return meaning.type == "TIMESTAMP" and json.loads(meaning.to_json())["timeUnit"] == "microseconds"
