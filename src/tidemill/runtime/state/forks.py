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

from tidemill.runtime.integrity import damaged
from tidemill.runtime.state.shard_state import ShardState, state_store

_MAGIC = b"tideforks"


@dataclass
class Forks:
    """Blobs of states by the name of their group; `serial` is the number of the end of the input that they show."""

    serial: int = 0
    blobs: dict[str, bytes] = field(default_factory=dict)

    def discard(self, state: ShardState) -> None:
        """Drop the copies: files that only they name become garbage of the true state."""
        for blob in self.blobs.values():
            for name in sorted(ShardState.load(blob, state.directory).files() - state.files()):
                state.store.garbage.append((state.store.version + 1, name))
        self.blobs = {}

    def files(self, directory: str) -> set[str]:
        """Files that the copies name."""
        return {name for blob in self.blobs.values() for name in ShardState.load(blob, directory).files()}


def pack_state(blob: bytes, forks: Forks) -> bytes:
    """The true state, with its copies where there are some.

    >>> pack_state(b"state", Forks(3)), unpack_state(pack_state(b"state", Forks(3, {"a": b"copy"})))
    (b'state', (b'state', Forks(serial=3, blobs={'a': b'copy'})))
    """
    if not forks.blobs:
        return blob
    head = json.dumps(
        {"serial": forks.serial, "state": len(blob), "forks": {name: len(fork) for name, fork in forks.blobs.items()}}
    ).encode()
    return b"".join([_MAGIC, struct.pack("<II", len(head), zlib.crc32(head)), head, blob, *forks.blobs.values()])


def unpack_state(blob: bytes | None, directory: str = "") -> tuple[bytes | None, Forks]:
    """The state and the copies that `pack_state` has packed; the directory is that of the shard."""
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
