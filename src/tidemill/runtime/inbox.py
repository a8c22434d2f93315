"""What readers send to the shards: messages, the large ones in files.

A large payload is written to the reader's file in `inbox/`, and only a letter travels that says where it is: the rows
get from the reader to the shard without passing the JVM, and are mapped there. The letter has their checksum. The rules
are those of `outbox`: a name is never used again; what a letter names is written before the letter is sent; the files
go when their batch is committed, those of attempts that failed at the next start.
"""

from __future__ import annotations

import json
import os
import uuid
import zlib
from collections.abc import Iterable, Iterator

import pyarrow as pa

from tidemill.runtime.damage import arrow_file, part
from tidemill.runtime.outbox import remove
from tidemill.runtime.thresholds import sizes

LETTER = "letter:"
Message = tuple[int, str, bytes]  # (shard, port, payload)


def posted(folder: str, messages: Iterable[Message]) -> Iterator[Message]:
    """The messages of one reader, those with large payloads as letters."""
    name, file = f"{uuid.uuid4().hex}.arrows", None
    try:
        for shard, port, payload in messages:
            if len(payload) < sizes.inbox_bytes:
                yield shard, port, payload
                continue
            if file is None:
                os.makedirs(folder, exist_ok=True)
                file = open(os.path.join(folder, name), "wb", buffering=0)  # noqa: SIM115 - closed below
            start = file.tell()
            file.write(payload)
            letter = {"file": name, "start": start, "size": len(payload), "sum": zlib.crc32(payload)}
            yield shard, LETTER + port, json.dumps(letter).encode()
    finally:
        if file is not None:
            file.close()


class Inbox:
    """Opens the letters of one shard and batch."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.files: dict[str, pa.Buffer] = {}

    def opened(self, port: str, payload: bytes) -> tuple[str, bytes | pa.Buffer]:
        """The message that was posted."""
        if not port.startswith(LETTER):
            return port, payload
        letter = json.loads(payload)
        path = os.path.join(self.folder, letter["file"])
        if letter["file"] not in self.files:
            with arrow_file(path), pa.memory_map(path) as source:
                self.files[letter["file"]] = source.read_buffer()
        start = letter["start"]
        return port[len(LETTER):], part(path, self.files[letter["file"]], start, start + letter["size"], letter["sum"])


def discard(folder: str, names: Iterable[str]) -> None:
    """Nobody will read these files any more."""
    for name in names:
        remove(os.path.join(folder, name))
