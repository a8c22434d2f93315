"""What a stage sends to the outlet of its views: change blocks, in files where they are large.

A change block is one table with the changes of all view outputs whose columns are the same. Its metadata lists how many
rows belong to which output, one after the other. When the blocks of one shard and batch are large together, they go to
one file in `outbox/` and only a reference to it travels (`file_refs`): the rows get from the worker to the outlet
without passing the JVM.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator

import pyarrow as pa

from tidemill.runtime.arrow_ipc import from_ipc, ipc_bytes
from tidemill.runtime.integrity import checksum_of
from tidemill.runtime.messages.file_refs import FileRef, new_name, remove_file
from tidemill.runtime.row_references import write_out
from tidemill.runtime.thresholds import sizes

VIEW, VIEW_FILE = "view", "file"
_OUTPUTS = b"outputs"

Run = tuple[str, int, int]  # (output, first row, number of rows)


def pack_blocks(changes: Iterable[tuple[str, pa.Table]]) -> list[pa.Table]:
    """Changes of outputs in one block where their columns are the same."""
    found: list[pa.Table] = []
    by_schema: dict[pa.Schema, list[tuple[str, pa.Table]]] = {}
    for output, table in changes:
        rows = write_out(table)
        schema = rows.schema.remove_metadata()
        if rows.nbytes > sizes.alone_bytes:
            found.append(_label([(output, rows)]))
        else:
            by_schema.setdefault(schema, []).append((output, rows))
    return found + [_label(members) for members in by_schema.values()]


def runs(block: pa.Table) -> list[Run]:
    """Which rows of a block belong to which output.

    >>> [one] = pack_blocks([("g", pa.table({"n": [1, 2]})), ("h", pa.table({"n": [3]}))])
    >>> runs(one), one.column("n").to_pylist()
    ([('g', 0, 2), ('h', 2, 1)], [1, 2, 3])
    """
    start, found = 0, []
    for output, rows in json.loads(block.schema.metadata[_OUTPUTS]):
        found.append((output, start, rows))
        start += rows
    return found


def send(folder: str, blocks: list[pa.Table]) -> Iterator[tuple[str, bytes]]:
    """(port, payload) of the messages that bring blocks to the outlet: themselves, or one reference to a file."""
    if sum(block.nbytes for block in blocks) > sizes.outbox_bytes:
        yield VIEW_FILE, _write(folder, blocks).encode()
        return
    for block in blocks:
        yield VIEW, ipc_bytes(block)


def receive(folder: str, messages: Iterable[tuple[str, bytes]]) -> Iterator[pa.Table]:
    """The blocks that `send` sent; those in files are mapped, not read."""
    for port, payload in messages:
        if port == VIEW:
            yield from_ipc(payload)
        elif port == VIEW_FILE:
            yield from [from_ipc(found) for found in FileRef.decode(payload).read(folder)]


def discard(folder: str, messages: Iterable[tuple[str, bytes]]) -> None:
    """Delete the files of these messages: their batch is committed."""
    for port, payload in messages:
        if port == VIEW_FILE:
            remove_file(os.path.join(folder, FileRef.decode(payload).file))


def _label(members: list[tuple[str, pa.Table]]) -> pa.Table:
    label = json.dumps([(output, rows.num_rows) for output, rows in members])
    tables = [rows.replace_schema_metadata(None) for _, rows in members]
    whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()
    return whole.replace_schema_metadata({_OUTPUTS: label})


def _write(folder: str, blocks: list[pa.Table]) -> FileRef:
    """One file of Arrow IPC streams, one after the other."""
    os.makedirs(folder, exist_ok=True)
    name, places = new_name(), []
    path = os.path.join(folder, name)
    with pa.OSFile(path, "wb") as sink:
        for block in blocks:
            start = sink.tell()
            with pa.ipc.new_stream(sink, block.schema) as writer:
                writer.write_table(block)
            places.append((start, sink.tell()))
    with pa.memory_map(path) as source:
        whole = source.read_buffer()
    return FileRef(name, tuple((start, end, checksum_of(whole.slice(start, end - start))) for start, end in places))
