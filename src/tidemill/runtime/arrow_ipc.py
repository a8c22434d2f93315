"""Tables as Arrow IPC streams: the form in which rows travel and small segments are stored."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidemill.runtime.thresholds import sizes


def ipc_bytes(table: pa.Table) -> bytes:
    """A table as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def ipc_pieces(table: pa.Table) -> Iterator[bytes]:
    """A table as Arrow IPC streams of a size that passes through the JVM without large arrays."""
    count = max(1, -(-table.nbytes // sizes.piece_bytes))
    rows = max(1, -(-table.num_rows // count))
    for start in range(0, table.num_rows, rows):
        yield ipc_bytes(table.slice(start, rows))


def from_ipc(blob: bytes | memoryview | pa.Buffer) -> pa.Table:
    """The table that `ipc_bytes` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(blob)) as reader:
        return reader.read_all()
