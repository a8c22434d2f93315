"""The state of a shard together with copies of it in which the input has ended.

A copy is kept only while its answers are on their way through loops. It names segments of the true state, which it
never deletes, and files of its own, which go when the copy goes.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from dataclasses import dataclass, field

from tidemill.runtime.damage import damaged
from tidemill.runtime.state import Shelf, state_store

_MAGIC = b"tideforks"


@dataclass
class Forks:
    """Blobs of shelves by the name of their group; `serial` says which end of the input they stand for."""

    serial: int = 0
    blobs: dict[str, bytes] = field(default_factory=dict)

    def leave(self, shelf: Shelf) -> None:
        """Forget the copies: files that only they name are garbage of the true shelf."""
        for blob in self.blobs.values():
            for name in sorted(Shelf.load(blob, shelf.directory).files() - shelf.files()):
                shelf.garbage.append((shelf.version + 1, name))
        self.blobs = {}

    def files(self, directory: str) -> set[str]:
        """Files that the copies name."""
        return {name for blob in self.blobs.values() for name in Shelf.load(blob, directory).files()}


def packed(blob: bytes, forks: Forks) -> bytes:
    """The true state, with its copies where there are some.

    >>> packed(b"state", Forks(3)), unpacked(packed(b"state", Forks(3, {"a": b"copy"})))
    (b'state', (b'state', Forks(serial=3, blobs={'a': b'copy'})))
    """
    if not forks.blobs:
        return blob
    head = json.dumps({"serial": forks.serial, "state": len(blob),
                       "forks": {name: len(fork) for name, fork in forks.blobs.items()}}).encode()
    return b"".join([_MAGIC, struct.pack("<II", len(head), zlib.crc32(head)), head, blob, *forks.blobs.values()])


def unpacked(blob: bytes | None, directory: str = "") -> tuple[bytes | None, Forks]:
    """What `packed` put together; the directory is that of the shard."""
    if blob is None or not blob.startswith(_MAGIC):
        return blob, Forks()
    begin = len(_MAGIC) + 8
    size, wanted = struct.unpack_from("<II", blob, len(_MAGIC))
    text = blob[begin : begin + size]
    if zlib.crc32(text) != wanted:
        raise damaged(state_store(directory), f"shard {os.path.basename(directory)}: it has another checksum")
    head = json.loads(text)
    at, found = begin + size, {}
    state, at = blob[at : at + head["state"]], at + head["state"]
    for name, length in head["forks"].items():
        found[name], at = blob[at : at + length], at + length
    return state, Forks(head["serial"], found)
