"""Checksums of a spool segment, block by block, in a file beside it.

An entry is [first byte, 8 bytes][byte behind the last, 8 bytes][checksum, 4 bytes], little endian, written after its
block. Bytes that no entry covers are from a crash between the two, or from an older version: they are read as they
are. The file begins with an entry for a mark that follows it: [−1][length of the mark][checksum of the mark][mark]. The
mark is JSON: the database, folder and segment to which the checksums, and so the bytes, belong.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np

from tidemill.runtime.integrity import damaged, misfit, openable, read_bytes
from tidemill.runtime.paths import check_owner, owner_of

ENTRY = struct.Struct("<qqI")
_MARK = -1
_LOOK = np.dtype([("begin", "<i8"), ("end", "<i8"), ("sum", "<u4")])


def sums_path(segment: Path) -> Path:
    return segment.with_suffix(".sums")


class SumWriter:
    """Appends the checksums of one segment."""

    def __init__(self, segment: Path) -> None:
        self._file = open(sums_path(segment), "ab", buffering=0)  # noqa: SIM115 - lives as long as the segment is open
        if not os.fstat(self._file.fileno()).st_size:
            self._write(_mark(segment))

    def add(self, begin: int, data: bytes | memoryview) -> None:
        """Note a block that was written. Where the disk is full the rest of the segment goes without."""
        if not self._file.closed:
            self._write(ENTRY.pack(begin, begin + len(data), zlib.crc32(data)))

    def close(self) -> None:
        self._file.close()

    def _write(self, entry: bytes) -> None:
        size = os.fstat(self._file.fileno()).st_size
        try:
            written = self._file.write(entry)
        except OSError:
            written = 0
        if written != len(entry):
            os.ftruncate(self._file.fileno(), size)
            self._file.close()


def recover_sums(segment: Path, start: int, data: bytes) -> None:
    """Make the entries those of the data that are left in a segment, the tail without an entry included."""
    kept = _entries(segment)
    kept = kept[kept["end"] <= start + len(data)]
    covered = int(kept["end"][-1]) if len(kept) else start
    rest = data[covered - start :]
    tail = ENTRY.pack(covered, start + len(data), zlib.crc32(rest)) if rest else b""
    sums_path(segment).write_bytes(_mark(segment) + kept.tobytes() + tail)


def read_verified(segment: Path, first: int, start: int, end: int) -> bytes:
    """The bytes start..end of a segment that begins at byte `first`; refused if they are not what was written."""
    entries = _entries(segment)
    entries = entries[(entries["begin"] < end) & (entries["end"] > start)]
    low = min(start, int(entries["begin"][0])) if len(entries) else start
    high = max(end, int(entries["end"][-1])) if len(entries) else end
    with openable(segment), open(segment, "rb") as file:
        file.seek(max(0, low - first))
        data = memoryview(file.read(max(0, high - low)))
    for begin, behind, wanted in entries.tolist():
        # Missing bytes are found by the caller, which counts records.
        block = data[max(0, begin - low) : max(0, behind - low)]
        if len(block) == behind - begin and zlib.crc32(block) != wanted:
            why = f"the checksum of bytes {begin} to {behind} in {sums_path(segment)} is not that of their content"
            raise damaged(str(segment), why)
    return bytes(data[start - low : end - low]) if len(entries) else bytes(data)


def _mark(segment: Path) -> bytes:
    text = json.dumps(_place(segment)).encode()
    return ENTRY.pack(_MARK, len(text), zlib.crc32(text)) + text


def _place(segment: Path) -> dict[str, str]:
    folder = segment.parent
    return {"database": owner_of(str(folder)).database, "folder": folder.name, "segment": segment.name}


def _entries(segment: Path) -> np.ndarray:
    """The entries of a segment; those of another one are refused."""
    path = sums_path(segment)
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        data = b""
    if len(data) >= ENTRY.size and ENTRY.unpack_from(data)[0] == _MARK:
        data = _check_mark(segment, path, data)
    found = np.frombuffer(data[: len(data) // ENTRY.size * ENTRY.size], _LOOK)
    if ((found["begin"] < int(segment.stem.removeprefix("spool-"))) | (found["end"] <= found["begin"])).any():
        raise damaged(str(path), "it is not a list of checksums")
    return found


def _check_mark(segment: Path, path: Path, data: bytes) -> bytes:
    """The entries behind a mark, which must be that of the segment. One that a crash has cut has no entries yet."""
    _, length, wanted = ENTRY.unpack_from(data)
    text = data[ENTRY.size : ENTRY.size + length]
    if len(text) < length:
        return b""
    if zlib.crc32(text) != wanted:
        raise damaged(str(path), "the checksum of its mark is not that of its content")
    mark, expected = json.loads(text), _place(segment)
    check_owner(owner_of(str(segment.parent)), str(path), mark)
    if expected["database"] and mark != expected:
        raise misfit(str(path), f"it belongs to {mark.get('segment')} of {mark.get('folder')}")
    return data[ENTRY.size + length :]
