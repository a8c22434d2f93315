"""Arrangements: the state of the stateful operators, as immutable sorted Arrow segments.

A shelf is everything one shard remembers. Its manifest and the small segments are one blob in Spark's
state store, which is the truth; large segments are Arrow files that the manifest names. Rules:

- a segment never changes; a file is complete before a manifest names it; its name is never used again;
- segments of one arrangement merge geometrically, so a batch writes O(its changes), amortised;
- a file that a merge replaced is deleted two versions later, when no batch can be replayed from it;
- a file that no manifest names is garbage, removed when the shelf is first opened in a run;
- the manifest says of which database, shard and batch it is, and has a checksum of itself and of every file it names;
  a process verifies a file when it first opens it.
"""

from __future__ import annotations

import json
import os
import struct
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tidemill.plan.physical import FOREVER
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.damage import arrow_file, check_size, checksum, damaged, verify
from tidemill.runtime.ends import EndSearch, expand
from tidemill.runtime.thresholds import sizes

_CACHED_FILES = 512
_NOTHING = {"sum": 0, "min": (1 << 63) - 1, "max": -(1 << 63)}
_files: OrderedDict[str, pa.Table] = OrderedDict()
_verified: set[str] = set()  # files that this process has written or looked through
_MAGIC = b"tidemill"


@dataclass(frozen=True)
class Layout:
    """How an arrangement is sorted and how its rows combine.

    Rows that agree on `keys` are one row whose `adds` columns are combined; a row whose sums are all zero
    is gone. `alive` names the column that alone decides this when every segment takes part.
    Without `adds`, rows never combine. `then` is a second sort column, for `ends`.
    """

    order: Literal["__h", "__time"]
    keys: tuple[Column, ...]
    adds: tuple[tuple[Column, str], ...] = ()
    alive: str | None = None
    then: str | None = None

    def columns(self) -> tuple[Column, ...]:
        """Every stored column, the sort column first."""
        first = Column(self.order, "UBIGINT" if self.order == "__h" else "BIGINT")
        return (first, *self.keys, *(c for c, _ in self.adds))


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
class Arrangement:
    """Sorted segments of one layout, oldest first."""

    shelf: Shelf
    layout: Layout
    segments: list[Segment]

    def append(self, table: pa.Table) -> None:
        """Add rows (columns as in the layout, any order); they are sorted and combined here."""
        if table.num_rows:
            merged = self._combine([table], everything=not self.segments)
            if merged.num_rows:
                self.segments.append(Segment(merged.num_rows, table=merged))

    def probe(self, hashes: np.ndarray) -> pa.Table:
        """All rows whose `__h` is among `hashes` (sorted, unique). O(hits + hashes · log rows)."""
        found = [self._probe_one(s, hashes) for s in self.segments]
        return self._concat([f for f in found if f is not None])

    def ends(self, hashes: np.ndarray, need: np.ndarray, low: bool, high: bool) -> pa.Table:
        """Enough rows of each hash to see its `need` least (low) and greatest (high) live values of `then`.

        Looks only at the ends of each segment's run, deeper where values have been taken back, so the cost follows the
        answer and not the size of the group.
        """
        picks: list[list[np.ndarray]] = [[] for _ in self.segments]
        tables = [self.shelf.read(s) for s in self.segments]
        for front in [True] * low + [False] * high:
            for i, rows in enumerate(EndSearch(tables, str(self.layout.then), hashes, need, front).run()):
                picks[i].append(rows)
        found = []
        for segment, parts in zip(self.segments, picks, strict=True):
            rows = np.unique(np.concatenate(parts))
            if len(rows):
                found.append(self.shelf.read(segment).take(pa.array(rows)))
        return self._concat(found)

    def pop(self, before: int) -> pa.Table:
        """Take out the rows with `__time` < before; their segments shrink from the front."""
        taken = []
        for segment in self.segments:
            table = self.shelf.read(segment)
            times = table.column("__time").to_numpy()
            end = int(np.searchsorted(times, before, side="left"))
            if end > segment.start:
                taken.append(table.slice(segment.start, end - segment.start))
                segment.start = end
        for segment in [s for s in self.segments if not s.live]:
            self.shelf.discard(segment)
            self.segments.remove(segment)
        return self._concat(taken)

    def between(self, low: int | None, high: int | None) -> pa.Table:
        """The rows with low <= `__time` < high as they are stored, in no particular order; None is no bound."""
        found = []
        for segment in self.segments:
            table = self.shelf.read(segment)
            times = table.column("__time").to_numpy()
            begin = segment.start if low is None else max(segment.start, int(np.searchsorted(times, low)))
            end = segment.rows if high is None else int(np.searchsorted(times, high))
            if end > begin:
                found.append(table.slice(begin, end - begin))
        return self._concat(found)

    def replace(self, rows: pa.Table) -> None:
        """These rows in place of all that is stored."""
        for segment in self.segments:
            self.shelf.discard(segment)
        self.segments.clear()
        self.append(rows)

    def scan(self) -> pa.Table:
        """Every row, combined. O(state): for whole answers and tests only."""
        tables = [self.shelf.read(s).slice(s.start) for s in self.segments]
        return self._combine(tables, everything=True) if tables else self.empty()

    def rows(self) -> int:
        """Rows stored, before combining."""
        return sum(s.live for s in self.segments)

    def empty(self) -> pa.Table:
        """No rows, right columns."""
        return _empty(self.layout)

    def compact(self) -> None:
        """Merge from the newest back while the older neighbour is less than twice as large."""
        while len(self.segments) > 1 and self.segments[-2].live < 2 * self.segments[-1].live:
            pair = self.segments[-2:]
            whole = len(self.segments) == 2
            merged = self._combine([self.shelf.read(s).slice(s.start) for s in pair], everything=whole)
            del self.segments[-2:]
            for segment in pair:
                self.shelf.discard(segment)
            if merged.num_rows:
                self.segments.append(Segment(merged.num_rows, table=merged))

    def _probe_one(self, segment: Segment, hashes: np.ndarray) -> pa.Table | None:
        table = self.shelf.read(segment)
        column = table.column("__h").to_numpy()
        left = np.searchsorted(column, hashes, side="left")
        right = np.searchsorted(column, hashes, side="right")
        counts = right - left
        hit = counts > 0
        if not hit.any():
            return None
        left, counts = left[hit], counts[hit]
        return table.take(pa.array(expand(left, counts)))

    def _combine(self, tables: list[pa.Table], everything: bool) -> pa.Table:
        table = self._concat(tables)
        order, layout = self.layout.order, self.layout
        sorting = f"{order}, {quoted(layout.then)}" if layout.then else order
        inner = duck.source("rows", layout.columns())
        if not layout.adds:
            return _one_chunk(duck.run(f"SELECT * FROM {inner} ORDER BY {sorting}", rows=table))
        keys = ", ".join([order, *(quoted(c.name) for c in layout.keys)])
        adds = ", ".join(
            f"CAST({how}({quoted(c.name)}) AS {c.type}) AS {quoted(c.name)}" for c, how in layout.adds
        )
        nonzero = " OR ".join(f"sum({quoted(c.name)}) <> 0" for c, how in layout.adds if how == "sum")
        if everything and layout.alive:
            nonzero = f"sum({quoted(layout.alive)}) <> 0"
        sql = f"SELECT {keys}, {adds} FROM {inner} GROUP BY {keys} HAVING {nonzero} ORDER BY {sorting}"
        return _one_chunk(duck.run(sql, rows=table))

    def _concat(self, tables: list[pa.Table]) -> pa.Table:
        if not tables:
            return self.empty()
        names = [c.name for c in self.layout.columns()]
        tables = [(t if set(names) <= set(t.column_names) else self.widened(t)).select(names) for t in tables]
        return pa.concat_tables([t.cast(tables[0].schema) for t in tables]) if len(tables) > 1 else tables[0]


    def widened(self, table: pa.Table) -> pa.Table:
        """Rows from before the layout had all its columns: nothing had contributed to those."""
        for column in (*self.layout.keys, *(c for c, _ in self.layout.adds)):
            if column.name not in table.column_names:
                how = next((h for c, h in self.layout.adds if c is column), "sum")
                kind = np.float64 if column.type == "DOUBLE" else np.int64
                blank = np.full(table.num_rows, _NOTHING[how], kind)
                table = table.append_column(column.name, pa.array(blank))
        return table


@lru_cache(maxsize=4096)
def _empty(layout: Layout) -> pa.Table:
    names = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in layout.columns())
    return duck.run(f"SELECT {names} LIMIT 0")


@dataclass
class Shelf:
    """All that one shard remembers between two micro-batches."""

    directory: str
    version: int = 0
    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    stored: dict[str, dict[str, list[Segment]]] = field(default_factory=dict)
    garbage: list[tuple[int, str]] = field(default_factory=list)
    origin: dict[str, Any] = field(default_factory=dict)  # database, shard and batch that it is of; {}: not known

    @staticmethod
    def load(blob: bytes | None, directory: str) -> Shelf:
        """The shelf that `dump` wrote, or an empty one."""
        if blob is None:
            return Shelf(directory)
        try:
            return Shelf._loaded(blob, directory)
        except (ValueError, KeyError, TypeError, struct.error, pa.ArrowException) as error:
            raise damaged(state_store(directory), f"shard {os.path.basename(directory)}: {error}") from error

    @staticmethod
    def _loaded(blob: bytes, directory: str) -> Shelf:
        size, begin = _verified_head(blob)
        base = begin + size
        manifest = json.loads(blob[begin:base])
        shelf = Shelf(directory, manifest["version"], manifest["values"],
                      garbage=[tuple(g) for g in manifest["garbage"]], origin=manifest.get("origin", {}))
        for node, parts in manifest["stored"].items():
            shelf.stored[node] = {name: [_load(s, blob, base) for s in entries] for name, entries in parts.items()}
        return shelf

    def dump(self, collect: bool = True) -> bytes:
        """Merge, write large segments to files, forget old garbage; the blob names everything. A copy of a shelf does
        not `collect`: the files that it no longer names may be of the other one.
        """
        self.version += 1
        stored: dict[str, Any] = {}
        blobs: list[bytes] = []
        at = 0
        for node, parts in self.stored.items():
            stored[node] = {}
            for name, segments in parts.items():
                entries = []
                for segment in segments:
                    entry, blob = self._store(segment, at)
                    entries.append(entry)
                    blobs.append(blob)
                    at += len(blob)
                if entries:
                    stored[node][name] = entries
        if collect:
            self._collect()
        manifest = {"version": self.version, "origin": self.origin, "values": self.values, "stored": stored,
                    "garbage": self.garbage}
        head = json.dumps(manifest, separators=(",", ":")).encode()
        content = b"".join([struct.pack("<I", len(head)), head, *blobs])
        return _MAGIC + struct.pack("<I", zlib.crc32(content)) + content

    def arrangement(self, node: str, name: str, layout: Layout) -> Arrangement:
        """The named arrangement of a node; empty when it is new."""
        return Arrangement(self, layout, self.stored.setdefault(node, {}).setdefault(name, []))

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
                self.discard(segment)
        self.values.pop(node, None)

    def read(self, segment: Segment) -> pa.Table:
        """The rows of a segment; files are memory-mapped once for each process."""
        if segment.table is None:
            segment.table = _mapped(os.path.join(self.directory, str(segment.file)), segment.size, segment.sum)
        return segment.table

    def discard(self, segment: Segment) -> None:
        """The segment is no longer part of the state; its file may still be needed for a replay."""
        if segment.file:
            self.garbage.append((self.version + 1, segment.file))

    def sweep(self, others: Iterable[str] = ()) -> None:
        """Delete files in the directory that neither this manifest nor `others` name (attempts that failed)."""
        if not os.path.isdir(self.directory):
            return
        named = self.files() | set(others)
        for name in os.listdir(self.directory):
            if name not in named:
                _remove(os.path.join(self.directory, name))

    def check_files(self) -> None:
        """Refuse a directory in which a file of this manifest is missing or has another size."""
        for segment in self._segments():
            if segment.file is not None and segment.table is None:
                check_size(os.path.join(self.directory, segment.file), segment.size)

    def files(self) -> set[str]:
        """Files that this manifest names, those included that a replay may still need."""
        return {s.file for s in self._segments() if s.file} | {f for _, f in self.garbage}

    def live_files(self) -> int:
        """How many files the state itself needs: those that only a replay needs may go while the next batch runs."""
        return sum(1 for s in self._segments() if s.file)

    def next_times(self) -> dict[str, int]:
        """The first time for which something waits, by operator."""
        found: dict[str, int] = {}
        for node, parts in self.stored.items():
            for segment in (s for segments in parts.values() for s in segments if s.live):
                table = self.read(segment)
                if table.column_names[0] == "__time":
                    found[node] = min(found.get(node, FOREVER), table.column(0)[segment.start].as_py())
        return found

    def size(self) -> tuple[int, int]:
        """(rows, bytes) of all segments."""
        rows = bytes_ = 0
        for segment in self._segments():
            rows += segment.live
            bytes_ += self.read(segment).nbytes
        return rows, bytes_

    def _segments(self) -> Iterator[Segment]:
        for parts in self.stored.values():
            for segments in parts.values():
                yield from segments

    def _store(self, segment: Segment, at: int) -> tuple[dict[str, Any], bytes]:
        if segment.file is None:
            assert segment.table is not None
            # Rows that came and left within one batch are never written.
            segment.table = segment.table.slice(segment.start)
            segment.rows, segment.start = segment.live, 0
            if segment.table.nbytes <= sizes.inline_bytes:
                blob = ipc_bytes(segment.table)
                return {"rows": segment.rows, "start": segment.start, "at": at, "size": len(blob)}, blob
            segment.file = f"{uuid.uuid4().hex}.arrow"
            segment.size, segment.sum = _write(os.path.join(self.directory, segment.file), segment.table)
        return {"rows": segment.rows, "start": segment.start, "file": segment.file, "size": segment.size,
                "sum": segment.sum}, b""

    def _collect(self) -> None:
        # Version v is written by the batch that Spark may still replay from v-1: keep what v-1 names.
        for _, name in [g for g in self.garbage if g[0] <= self.version - 2]:
            _remove(os.path.join(self.directory, name))
        self.garbage = [g for g in self.garbage if g[0] > self.version - 2]


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


def _load(entry: dict[str, Any], blob: bytes, base: int) -> Segment:
    segment = Segment(entry["rows"], entry["start"], entry.get("file"))
    if segment.file is not None:
        segment.size, segment.sum = entry.get("size"), entry.get("sum", 0)
    else:
        begin = base + entry["at"]
        segment.table = from_ipc(memoryview(blob)[begin : begin + entry["size"]])
    return segment


def _one_chunk(table: pa.Table) -> pa.Table:
    return table.combine_chunks()


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


def _write(path: str, table: pa.Table) -> tuple[int, int]:
    """Size and checksum of the new file."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with pa.OSFile(path + ".part", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    found = os.path.getsize(path + ".part"), checksum(path + ".part")
    os.replace(path + ".part", path)
    _verified.add(path)
    return found


def _mapped(path: str, size: int | None, sum: int) -> pa.Table:
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


def _remove(path: str) -> None:
    _files.pop(path, None)
    _verified.discard(path)
    if os.path.exists(path):
        os.remove(path)
