"""Segments: immutable sorted Arrow tables, small ones inside the blob of a shard, large ones in files.

A segment never changes; a file is complete before a manifest names it; its name is never used again. A process verifies
the checksum of a file when it first opens it.
"""

from __future__ import annotations

import os
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidemill.runtime.arrow_ipc import from_ipc, ipc_bytes
from tidemill.runtime.integrity import arrow_file, checksum, openable, verify
from tidemill.runtime.thresholds import sizes

_CACHED_FILES = 512  # mapped files that a worker keeps open: half of the 1,024 that a process may usually have
_files: OrderedDict[str, pa.Table] = OrderedDict()
_verified: set[str] = set()  # files that this process has written or verified


@dataclass
class Segment:
    """Sorted rows, in a file or in memory; rows before `start` have left."""

    rows: int
    start: int = 0
    file: str | None = None
    table: pa.Table | None = None
    size: int | None = None  # of the file, with its checksum; None: from before they were noted
    sum: int = 0

    @property
    def live(self) -> int:
        return self.rows - self.start


@dataclass
class SegmentStore:
    """The segments of one shard: reads them, writes large ones to files, and deletes files that were replaced.

    A file that a merge replaced is deleted two versions later, when no batch can be replayed from it.
    """

    directory: str
    version: int = 0
    garbage: list[tuple[int, str]] = field(default_factory=list)

    def read(self, segment: Segment) -> pa.Table:
        """The rows of a segment; files are memory-mapped once for each process."""
        if segment.table is None:
            segment.table = _map_file(os.path.join(self.directory, str(segment.file)), segment.size, segment.sum)
        return segment.table

    def discard(self, segment: Segment) -> None:
        """The segment is no longer part of the state; its file may still be needed for a replay."""
        if segment.file:
            self.garbage.append((self.version + 1, segment.file))

    def write(self, segment: Segment, at: int) -> tuple[dict[str, Any], bytes]:
        """The entry of a segment in the manifest, and its bytes where it is small: those begin at `at`."""
        if segment.file is None:
            assert segment.table is not None
            # Rows that came and left within one batch are never written.
            segment.table = segment.table.slice(segment.start)
            segment.rows, segment.start = segment.live, 0
            if segment.table.nbytes <= sizes.inline_bytes:
                blob = ipc_bytes(segment.table)
                return {"rows": segment.rows, "start": segment.start, "at": at, "size": len(blob)}, blob
            segment.file = f"{uuid.uuid4().hex}.arrow"
            segment.size, segment.sum = _write_file(os.path.join(self.directory, segment.file), segment.table)
        return {
            "rows": segment.rows,
            "start": segment.start,
            "file": segment.file,
            "size": segment.size,
            "sum": segment.sum,
        }, b""

    def collect(self) -> None:
        """Delete the files that no replay needs any more."""
        # Version v is written by the batch that Spark may still replay from v-1: keep what v-1 names.
        for _, name in [g for g in self.garbage if g[0] <= self.version - 2]:
            remove_file(os.path.join(self.directory, name))
        self.garbage = [g for g in self.garbage if g[0] > self.version - 2]


def load_segment(entry: dict[str, Any], blob: bytes, base: int) -> Segment:
    """The segment of an entry that `SegmentStore.write` made; small ones lie in the blob, from `base` on."""
    segment = Segment(entry["rows"], entry["start"], entry.get("file"))
    if segment.file is not None:
        segment.size, segment.sum = entry.get("size"), entry.get("sum", 0)
    else:
        begin = base + entry["at"]
        segment.table = from_ipc(memoryview(blob)[begin : begin + entry["size"]])
    return segment


def _write_file(path: str, table: pa.Table) -> tuple[int, int]:
    """Size and checksum of the new file."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with pa.OSFile(path + ".part", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    found = os.path.getsize(path + ".part"), checksum(path + ".part")
    os.replace(path + ".part", path)
    _verified.add(path)
    return found


def _map_file(path: str, size: int | None, sum: int) -> pa.Table:
    table = _files.get(path)
    if table is None:
        if size is not None and path not in _verified:
            verify(path, size, sum)
            _verified.add(path)
        with arrow_file(path), pa.memory_map(path) as source:
            table = pa.ipc.open_file(source).read_all()
        _files[path] = table
        while len(_files) > _CACHED_FILES:
            _files.popitem(last=False)
    _files.move_to_end(path)
    return table


def remove_file(path: str) -> None:
    """Delete a file, and forget that this process has mapped it."""
    _files.pop(path, None)
    _verified.discard(path)
    if os.path.exists(path):
        with openable(path):
            os.remove(path)
