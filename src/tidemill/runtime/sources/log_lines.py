"""Lines of the logs of sources: a JSON object and its checksum. The first line says whose log it is."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from tidemill.runtime.integrity import damaged
from tidemill.runtime.paths import Paths, check_owner


def encode_line(content: dict[str, Any]) -> bytes:
    """A line of a log.

    >>> encode_line({"n": 1})
    b'{"n": 1}\\t0af73c42\\n'
    """
    text = json.dumps(content).encode()
    return text + b"\t%08x\n" % zlib.crc32(text)


def decode_line(line: bytes, is_bare_fine: bool = False) -> dict[str, Any]:
    """The content of a line; ValueError where it is damaged, or has no checksum and that is not fine."""
    text, _, wanted = line.rstrip(b"\n").partition(b"\t")
    if (wanted or not is_bare_fine) and int(wanted, 16) != zlib.crc32(text):
        raise ValueError("its checksum is not that of its content")
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    return found


def first_lines(owner: Paths, path: Path) -> list[bytes]:
    """What a log begins with: the database and the folder that it is of, where there is a database."""
    return [encode_line({"database": owner.database, "folder": path.parent.name})] if owner.database else []


def check_first_line(owner: Paths, path: Path, found: dict[str, Any]) -> None:
    """Refuse the log of another database or folder."""
    check_owner(owner, str(path), found)
    if owner.database and found.get("folder") != path.parent.name:
        raise damaged(str(path), f"it is the log of {found.get('folder')}")
