"""One message of an edge: the rows of one micro-batch, or of a part of it, and how far time is closed behind them.

A message is the length of its header, the header as JSON, and the rows as an Arrow IPC stream. The same bytes lie in
the outbox, travel, and lie in the inbox. `seq` is the batch id and the part of the batch. `after` names the message
before it, so a receiver sees that one is missing. `chain` is a checksum of this message and of all before it: two
sites whose chains differ have a different history, because one of them was restored from a backup.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass
from typing import cast

import pyarrow as pa

from tidemill.errors import EngineProblem
from tidemill.runtime.integrity import checksum_of
from tidemill.runtime.thresholds import sizes

NONE = -1  # the sequence number before the first message
PART_BITS = 16  # of a sequence number: the parts of a batch
LARGEST_BYTES = 64 << 20  # a message that is larger is refused: one row may be long, but not so long
TIME, SEQ, DIFF = "__time", "__seq", "__diff"
_LENGTH = struct.Struct("<I")
HEADER_BYTES = 1 << 16  # with its length: many times what the names in it may be long
CODEC = "zstd"
_COMPRESSION = pa.ipc.IpcWriteOptions(compression=CODEC)


@dataclass(frozen=True)
class Header:
    """What a message says about itself."""

    edge: str
    seq: int
    after: int
    rows: int
    frontier: int  # no row before this time follows
    size: int  # bytes of the rows
    chain: int = 0

    @property
    def batch(self) -> int:
        """The micro-batch that the rows are from."""
        return self.seq >> PART_BITS


@dataclass(frozen=True)
class Link:
    """The end of a chain of messages: what was sent, or received, last."""

    seq: int = NONE
    chain: int = 0


def first_seq(batch: int) -> int:
    """The least sequence number of a batch.

    >>> first_seq(3) >> PART_BITS
    3
    """
    return batch << PART_BITS


def encode(edge: str, seq: int, before: Link, frontier: int, rows: pa.Table) -> tuple[bytes, Link]:
    """The bytes of a message, and the end of the chain with it."""
    body = _to_bytes(rows)
    header = Header(edge, seq, before.seq, rows.num_rows, frontier, len(body))
    header = Header(**{**asdict(header), "chain": _chain(header, before.chain, body)})
    text = json.dumps(asdict(header)).encode()
    return _LENGTH.pack(len(text)) + text + body, Link(seq, header.chain)


def decode_header(data: bytes | memoryview, what: str) -> Header:
    """The header of a message, or of its beginning."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        if length > HEADER_BYTES:
            raise ValueError(f"a header of {length} bytes")
        found = json.loads(bytes(data[_LENGTH.size : _LENGTH.size + length]))
        header = Header(**found)
        numbers = [value for name, value in found.items() if name != "edge"]
        if not (isinstance(header.edge, str) and all(map(is_number, numbers)) and is_time(header.frontier)):
            raise ValueError("a header without numbers")
    except (ValueError, TypeError, struct.error) as error:
        raise damaged_message(what, f"its header cannot be read: {error}") from None
    return header


def is_number(value: object) -> bool:
    """Whether a value of JSON is a whole number of 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def is_time(value: object) -> bool:
    """Whether a value of JSON can be a frontier."""
    return is_number(value) and abs(cast(int, value)) <= 1 << 62


def body_of(data: bytes | memoryview, header: Header, what: str) -> memoryview:
    """The rows of a message as bytes; all of them are there."""
    (length,) = _LENGTH.unpack_from(data)
    body = memoryview(data)[_LENGTH.size + length :]
    if len(body) != header.size:
        raise damaged_message(what, f"it has {len(body):,} bytes of rows, and {header.size:,} were sent")
    return body


def verify(data: bytes, before: Link, what: str) -> Header:
    """The header of a message that is whole and continues the chain after `before`."""
    header = decode_header(data, what)
    body = body_of(data, header, what)
    if header.chain != _chain(header, before.chain, body):
        raise damaged_message(what, "its checksum is not that of its content and of the messages before it")
    return header


def read_rows(data: bytes | memoryview, header: Header, what: str) -> pa.Table:
    """The rows of a message, ordered by time and number."""
    body = body_of(data, header, what)
    try:
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            rows = reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise damaged_message(what, f"its rows cannot be read: {str(error).splitlines()[0]}") from None
    if rows.num_rows != header.rows or TIME not in rows.column_names:
        raise damaged_message(what, f"it has {rows.num_rows:,} rows, and {header.rows:,} were sent")
    return rows


def damaged_message(what: str, why: str) -> EngineProblem:
    """A message that is not what was sent."""
    return EngineProblem(
        "TM710", f"a message of {what} is damaged", detail=why, hint="it is asked for again; see status if it stays"
    )


def cut_parts(rows: pa.Table, before: int, frontier: int, most: int | None = None) -> list[tuple[pa.Table, int]]:
    """Rows ordered by time in parts of some `most` bytes, `site_part_bytes` if it is not given, each with how far time
    is closed behind it: the first time of the next part, since that part may have rows of the same time.

    >>> rows = pa.table({"__time": [1, 2, 2, 3]})
    >>> [(part.num_rows, closed) for part, closed in cut_parts(rows, 0, 9, most=16)]
    [(2, 2), (2, 9)]
    """
    count = max(1, -(-rows.nbytes // (most or sizes.site_part_bytes)))
    size = max(1, -(-rows.num_rows // count))
    starts = list(range(0, max(rows.num_rows, 1), size))
    closed = [max(before, rows.column(TIME)[start].as_py()) for start in starts[1:]]
    return [(rows.slice(s, size), c) for s, c in zip(starts, [*closed, frontier], strict=True)]


def _chain(header: Header, before: int, body: bytes | memoryview) -> int:
    text = json.dumps([header.edge, header.seq, header.after, header.rows, header.frontier, header.size, before])
    return checksum_of(text.encode() + str(checksum_of(body)).encode())


def _to_bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSION) as writer:
        writer.write_table(rows.combine_chunks())
    return sink.getvalue().to_pybytes()
