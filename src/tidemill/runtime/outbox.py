"""What a stage sends to the outlet of its views: parcels of rows, in files where they are many.

A parcel is one table with the changes of all gates whose rows look alike. Its metadata says how many rows belong to
which gate, one after the other. When the parcels of one shard and batch are large together, they go to one file in
`outbox/` and only a letter travels, which names it: the rows get from the worker to the outlet without passing the JVM.

Rules: a name is never used again; a file is complete before a letter names it, with its checksums; it is deleted when
its batch is committed; what attempts that failed left behind is removed at the next start, because a batch that is run
again writes new files.
"""

from __future__ import annotations

import json
import os
import uuid
import zlib
from collections.abc import Iterable, Iterator

import pyarrow as pa

from tidemill.runtime.damage import arrow_file, part
from tidemill.runtime.state import ipc_bytes
from tidemill.runtime.thresholds import sizes

VIEW, LETTER = "view", "letter"
_GATES = b"gates"

Run = tuple[str, int, int]  # (gate, first row, number of rows)


def parcels(changes: Iterable[tuple[str, pa.Table]]) -> list[pa.Table]:
    """Changes of gates put together where their columns are the same."""
    found, alike = [], {}  # type: ignore[var-annotated]
    for gate, rows in changes:
        schema = rows.schema.remove_metadata()
        if rows.nbytes > sizes.alone_bytes:
            found.append(_labelled([(gate, rows)]))
        else:
            alike.setdefault(schema, []).append((gate, rows))
    return found + [_labelled(members) for members in alike.values()]


def runs(parcel: pa.Table) -> list[Run]:
    """Which rows of a parcel belong to which gate.

    >>> [one] = parcels([("g", pa.table({"n": [1, 2]})), ("h", pa.table({"n": [3]}))])
    >>> runs(one), one.column("n").to_pylist()
    ([('g', 0, 2), ('h', 2, 1)], [1, 2, 3])
    """
    start, found = 0, []
    for gate, rows in json.loads(parcel.schema.metadata[_GATES]):
        found.append((gate, start, rows))
        start += rows
    return found


def send(folder: str, sent: list[pa.Table]) -> Iterator[tuple[str, bytes]]:
    """(port, payload) of the messages that bring parcels to the outlet: themselves, or one letter."""
    if sum(parcel.nbytes for parcel in sent) > sizes.outbox_bytes:
        yield LETTER, json.dumps(_write(folder, sent)).encode()
        return
    for parcel in sent:
        yield VIEW, ipc_bytes(parcel)


def receive(folder: str, messages: Iterable[tuple[str, bytes]]) -> Iterator[pa.Table]:
    """The parcels that `send` sent; those in files are mapped, not read."""
    for port, payload in messages:
        if port == VIEW:
            yield _table(pa.py_buffer(payload))
        elif port == LETTER:
            letter = json.loads(payload)
            path = os.path.join(folder, letter["file"])
            with arrow_file(path):
                with pa.memory_map(path) as source:
                    whole = source.read_buffer()
                parts = [_table(part(path, whole, *place)) for place in letter["parts"]]
            yield from parts


def discard(folder: str, messages: Iterable[tuple[str, bytes]]) -> None:
    """Nobody will read the files of these messages any more."""
    for port, payload in messages:
        if port == LETTER:
            remove(os.path.join(folder, json.loads(payload)["file"]))


def sweep(folder: str) -> None:
    """Remove every file: no batch is on its way."""
    if os.path.isdir(folder):
        for name in os.listdir(folder):
            remove(os.path.join(folder, name))


def _labelled(members: list[tuple[str, pa.Table]]) -> pa.Table:
    label = json.dumps([(gate, rows.num_rows) for gate, rows in members])
    tables = [rows.replace_schema_metadata(None) for _, rows in members]
    whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()
    return whole.replace_schema_metadata({_GATES: label})


def _write(folder: str, sent: list[pa.Table]) -> dict[str, object]:
    """One file of Arrow IPC streams, one after the other: the name, where each begins and ends, and its checksum."""
    os.makedirs(folder, exist_ok=True)
    name, parts = f"{uuid.uuid4().hex}.arrows", []
    path = os.path.join(folder, name)
    with pa.OSFile(path, "wb") as sink:
        for parcel in sent:
            start = sink.tell()
            with pa.ipc.new_stream(sink, parcel.schema) as writer:
                writer.write_table(parcel)
            parts.append((start, sink.tell()))
    with pa.memory_map(path) as source:
        whole = source.read_buffer()
    sums = [zlib.crc32(whole.slice(start, end - start)) for start, end in parts]
    return {"file": name, "parts": [(*place, found) for place, found in zip(parts, sums, strict=True)]}


def _table(buffer: pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(buffer) as reader:
        return reader.read_all()


def remove(path: str) -> None:
    """Remove a file that may be gone already."""
    if os.path.exists(path):
        os.remove(path)
