"""Files that are on the disk when a function returns: written beside, synced, renamed, and the folder synced."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidemill.runtime.integrity import openable, parse_stamped, read_bytes, stamp


def write_file(path: str, data: bytes) -> None:
    """Replace a file in one step, durably: after a crash it has the old or the new content."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    draft = os.path.join(folder, f".{os.path.basename(path)}.part")
    with open(draft, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    with openable(path):
        os.replace(draft, path)
    sync_folder(folder)


def sync_folder(folder: str | Path) -> None:
    """Make names that are new in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def total_size(files: Iterable[str]) -> int:
    """Bytes of the files that are still there."""
    total = 0
    for path in files:
        with suppress(FileNotFoundError):
            total += os.path.getsize(path)
    return total


def write_note(path: str, note: dict[str, Any]) -> None:
    """Replace a small JSON file, with a checksum in it."""
    write_file(path, stamp(json.dumps(note).encode()))


def read_note(path: str) -> dict[str, Any]:
    """The content of a small JSON file; {} where there is none, damage is refused."""
    try:
        return parse_stamped(path, read_bytes(path))
    except FileNotFoundError:
        return {}
