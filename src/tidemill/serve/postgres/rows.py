"""Rows of a table as messages: DataRow, and the formats of COPY."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidemill.serve.postgres import fields as f
from tidemill.serve.postgres.messages import copy_data
from tidemill.serve.postgres.problems import ProtocolProblem
from tidemill.serve.postgres.values import binary_of, text_of

ROWS_AT_ONCE = 1024  # so that other connections are served between
_NULL = b"\xff\xff\xff\xff"
_LENGTH = struct.Struct(">i")
_BINARY_HEAD = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_BINARY_END = struct.pack(">h", -1)
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def data_rows(table: pa.Table, fields: Sequence[f.Field], formats: Sequence[int]) -> bytes:
    """All rows as DataRow messages."""
    count = struct.pack(">h", len(fields))
    found = []
    for row in _zip_columns(table, fields, formats):
        body = b"".join(row)
        found.append(b"D" + _LENGTH.pack(len(body) + 6) + count + body)
    return b"".join(found)


def _zip_columns(table: pa.Table, fields: Sequence[f.Field], formats: Sequence[int]) -> Iterable[tuple[bytes, ...]]:
    """The values of each row, each with its length before it."""
    if not fields:
        return [() for _ in range(table.num_rows)]
    columns = (encode_column(c, x.oid, form) for c, x, form in zip(table.columns, fields, formats, strict=True))
    return zip(*([_NULL if v is None else _LENGTH.pack(len(v)) + v for v in column] for column in columns), strict=True)


def encode_column(column: pa.ChunkedArray, oid: int, form: int) -> list[bytes | None]:
    """The values of a column as bytes; None for NULL."""
    if pa.types.is_timestamp(column.type) and column.type.unit != "us":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError):
        raise ProtocolProblem("22008", "a time is outside of the years 1 to 9999") from None
    if form == 1:
        return [None if v is None else binary_of(v, oid) for v in values]
    return [None if v is None else text_of(v, oid).encode("utf-8", "replace") for v in values]


@dataclass(frozen=True)
class CopyFormat:
    """The options of COPY … TO STDOUT."""

    kind: str = "text"  # text, csv or binary
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    quote: str = '"'

    @property
    def is_binary(self) -> bool:
        return self.kind == "binary"

    def begin(self, fields: Sequence[f.Field]) -> bytes:
        """What comes before the rows. In binary it is part of the first message, as clients expect it."""
        if self.is_binary or not self.header:
            return b""
        write = self._writer()
        return copy_data((self.delimiter.join(write(column.name) for column in fields) + "\n").encode())

    def rows(self, table: pa.Table, fields: Sequence[f.Field], is_first: bool) -> bytes:
        """All rows as CopyData messages."""
        if self.is_binary:
            count = struct.pack(">h", len(fields))
            rows = [count + b"".join(row) for row in _zip_columns(table, fields, [1] * len(fields))]
            if is_first and rows:
                rows[0] = _BINARY_HEAD + rows[0]
            return b"".join(map(copy_data, rows))
        write, null = self._writer(), self.null
        columns = [
            [null if v is None else write(v.decode()) for v in encode_column(column, x.oid, 0)]
            for column, x in zip(table.columns, fields, strict=True)
        ]
        return b"".join(copy_data((self.delimiter.join(row) + "\n").encode()) for row in zip(*columns, strict=True))

    def end(self, is_empty: bool) -> bytes:
        """What comes after the rows."""
        return copy_data(_BINARY_HEAD * is_empty + _BINARY_END) if self.is_binary else b""

    def _writer(self) -> Callable[[str], str]:
        return self._quote_csv if self.kind == "csv" else self._escape

    def _escape(self, text: str) -> str:
        text = text.translate(_ESCAPES)
        return text if self.delimiter == "\t" else text.replace(self.delimiter, "\\" + self.delimiter)

    def _quote_csv(self, text: str) -> str:
        needs = text == self.null or any(sign in text for sign in (self.delimiter, self.quote, "\n", "\r"))
        return self.quote + text.replace(self.quote, self.quote * 2) + self.quote if needs else text
