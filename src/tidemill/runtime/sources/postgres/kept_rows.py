"""The files with the changes and keys of a table: rows as Arrow, a note whose they are, and a checksum of both.

A file is [rows][note as JSON][length of the note, 4 bytes][checksum, 8 bytes], little endian: what reads Arrow streams
stops at the end of the rows. A file without a checksum is from an older version.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from tidemill.runtime.durable import write_file
from tidemill.runtime.integrity import checksum_of, damaged, misfit, missing, read_bytes
from tidemill.runtime.paths import check_owner, owner_of

_TAIL = struct.Struct("<IQ")
_PLAIN_END = b"\xff\xff\xff\xff\0\0\0\0"  # the last bytes of an Arrow stream


def path_of(folder: Path, base: int) -> Path:
    """Where the changes from number `base` on are."""
    return folder / f"rows-{base:016d}.arrow"


def write(path: Path, rows: bytes) -> None:
    """Keep rows; they are on the disk when this returns."""
    note = json.dumps(_place(path)).encode()
    size = struct.pack("<I", len(note))
    write_file(str(path), rows + note + size + checksum_of(rows + note + size).to_bytes(8, "little"))


def read(path: Path) -> memoryview:
    """The rows of a file; refused where they are missing, or not what was written."""
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        raise missing(str(path), "changes in it are to be read") from None
    if data.endswith(_PLAIN_END):
        return memoryview(data)
    if len(data) < _TAIL.size:
        raise damaged(str(path), f"it has {len(data)} bytes")
    size, wanted = _TAIL.unpack(data[-_TAIL.size :])
    if checksum_of(memoryview(data)[:-8]) != wanted:
        raise damaged(str(path), "its checksum is not that of its content")
    end = len(data) - _TAIL.size
    note: dict[str, Any] = json.loads(data[end - size : end])
    check_owner(owner_of(str(path.parent)), str(path), note)
    if note != _place(path):
        raise misfit(str(path), f"it belongs to {note['file']} of {note['folder']}")
    return memoryview(data)[: end - size]


def _place(path: Path) -> dict[str, str]:
    return {"database": owner_of(str(path.parent)).database, "folder": path.parent.name, "file": path.name}
