"""The state of one shard: everything its operators remember between two micro-batches.

The manifest and the small segments are one blob in Spark's state store, which is the truth; large segments are Arrow
files that the manifest names. Rules:

- a file that no manifest names is garbage, removed when the state is first opened in a run;
- the manifest names its database, shard and batch, and has a checksum of itself and of every file it names.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidemill.plan.measured.sources import Sources
from tidemill.plan.physical import FOREVER
from tidemill.runtime.integrity import check_size, damaged
from tidemill.runtime.state.arrangements import Arrangement, Layout
from tidemill.runtime.state.segments import Segment, SegmentStore, load_segment, remove_file

_MAGIC = b"tidemill"
SOURCES = "@sources"


@dataclass
class ShardState:
    """All that one shard remembers between two micro-batches."""

    store: SegmentStore
    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    stored: dict[str, dict[str, list[Segment]]] = field(default_factory=dict)
    origin: dict[str, Any] = field(default_factory=dict)  # database, shard and batch that it is of; {}: not known

    @property
    def directory(self) -> str:
        """Where the files of the shard are."""
        return self.store.directory

    @staticmethod
    def empty(directory: str) -> ShardState:
        """The state of a shard that remembers nothing yet."""
        return ShardState(SegmentStore(directory))

    @staticmethod
    def load(blob: bytes | None, directory: str) -> ShardState:
        """The state that `dump` wrote, or an empty one."""
        if blob is None:
            return ShardState.empty(directory)
        try:
            return ShardState._parse(blob, directory)
        except (ValueError, KeyError, TypeError, struct.error, pa.ArrowException) as error:
            raise damaged(state_store(directory), f"shard {os.path.basename(directory)}: {error}") from error

    @staticmethod
    def _parse(blob: bytes, directory: str) -> ShardState:
        size, begin = _verified_head(blob)
        base = begin + size
        manifest = json.loads(blob[begin:base])
        store = SegmentStore(directory, manifest["version"], [tuple(g) for g in manifest["garbage"]])
        state = ShardState(store, manifest["values"], origin=manifest.get("origin", {}))
        for node, parts in manifest["stored"].items():
            state.stored[node] = {
                name: [load_segment(s, blob, base) for s in entries] for name, entries in parts.items()
            }
        return state

    def dump(self, collect: bool = True) -> bytes:
        """Merge, write large segments to files, forget old garbage; the blob names everything. A copy of a state does
        not `collect`: the files that it no longer names may be of the other one.
        """
        self.store.version += 1
        stored: dict[str, Any] = {}
        blobs: list[bytes] = []
        at = 0
        for node, parts in self.stored.items():
            stored[node] = {}
            for name, segments in parts.items():
                entries = []
                for segment in segments:
                    entry, blob = self.store.write(segment, at)
                    entries.append(entry)
                    blobs.append(blob)
                    at += len(blob)
                if entries:
                    stored[node][name] = entries
        if collect:
            self.store.collect()
        manifest = {
            "version": self.store.version,
            "origin": self.origin,
            "values": self.values,
            "stored": stored,
            "garbage": self.store.garbage,
        }
        head = json.dumps(manifest, separators=(",", ":")).encode()
        content = b"".join([struct.pack("<I", len(head)), head, *blobs])
        return _MAGIC + struct.pack("<I", zlib.crc32(content)) + content

    def arrangement(self, node: str, name: str, layout: Layout) -> Arrangement:
        """The named arrangement of a node; empty when it is new."""
        return Arrangement(self.store, layout, self.stored.setdefault(node, {}).setdefault(name, []))

    def sources(self) -> Sources:
        """How far each source is read and closed."""
        return self.values.setdefault(SOURCES, {})

    def value(self, node: str) -> dict[str, Any]:
        """Small JSON state of a node."""
        return self.values.setdefault(node, {})

    def keep(self, nodes: Iterable[str]) -> None:
        """Forget the state of every node that is not in `nodes`; names with @ belong to the shard itself."""
        wanted = set(nodes) | {n for n in self.values if n.startswith("@")}
        for node in [n for n in self.stored if n not in wanted]:
            self.forget(node)
        for node in [n for n in self.values if n not in wanted]:
            self.forget(node)

    def forget(self, node: str) -> None:
        """Forget the state of one node."""
        for segments in self.stored.pop(node, {}).values():
            for segment in segments:
                self.store.discard(segment)
        self.values.pop(node, None)

    def sweep(self, others: Iterable[str] = ()) -> None:
        """Delete files in the directory that neither this manifest nor `others` name (attempts that failed)."""
        if not os.path.isdir(self.directory):
            return
        named = self.files() | set(others)
        for name in os.listdir(self.directory):
            if name not in named:
                remove_file(os.path.join(self.directory, name))

    def check_files(self) -> None:
        """Refuse a directory in which a file of this manifest is missing or has another size."""
        for segment in self._segments():
            if segment.file is not None and segment.table is None:
                check_size(os.path.join(self.directory, segment.file), segment.size)

    def files(self) -> set[str]:
        """Files that this manifest names, those included that a replay may still need."""
        return {s.file for s in self._segments() if s.file} | {f for _, f in self.store.garbage}

    def live_files(self) -> int:
        """How many files the state itself needs: those that only a replay needs may go while the next batch runs."""
        return sum(1 for s in self._segments() if s.file)

    def next_times(self) -> dict[str, int]:
        """The first time for which something waits, by operator."""
        found: dict[str, int] = {}
        for node, parts in self.stored.items():
            for segment in (s for segments in parts.values() for s in segments if s.live):
                table = self.store.read(segment)
                if table.column_names[0] == "__time":
                    found[node] = min(found.get(node, FOREVER), table.column(0)[segment.start].as_py())
        return found

    def size(self) -> tuple[int, int]:
        """(rows, bytes) of all segments."""
        rows = bytes_ = 0
        for segment in self._segments():
            rows += segment.live
            bytes_ += self.store.read(segment).nbytes
        return rows, bytes_

    def _segments(self) -> Iterator[Segment]:
        for parts in self.stored.values():
            for segments in parts.values():
                yield from segments


def state_store(directory: str) -> str:
    """Where Spark keeps the blobs of the shards."""
    return os.path.join(os.path.dirname(os.path.dirname(directory)), "checkpoint", "state")


def _verified_head(blob: bytes) -> tuple[int, int]:
    """Length of the manifest and where it begins; a blob without a mark is from before there were checksums."""
    at = 0
    if blob.startswith(_MAGIC):
        at = len(_MAGIC) + 4
        (wanted,) = struct.unpack_from("<I", blob, len(_MAGIC))
        if zlib.crc32(memoryview(blob)[at:]) != wanted:
            raise ValueError("its checksum is not that of its content")
    return struct.unpack_from("<I", blob, at)[0], at + 4
