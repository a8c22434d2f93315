"""What readers send to the shards: messages, the large ones in files.

A large payload is written to the reader's file in `inbox/`, and only a reference to it travels (`file_refs`): the rows
get from the reader to the shard without passing the JVM, and are mapped there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa

from tidemill.runtime.integrity import checksum_of
from tidemill.runtime.messages.file_refs import FileRef, map_file, new_name, remove_file
from tidemill.runtime.messages.message import Message
from tidemill.runtime.thresholds import sizes

IN_FILE = "file:"  # before the port of a message whose payload is a reference


def send(folder: str, messages: Iterable[Message]) -> Iterator[Message]:
    """The messages of one reader, those with large payloads as references to its file."""
    name, file = new_name(), None
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
            reference = FileRef(name, ((start, start + len(payload), checksum_of(payload)),))
            yield shard, IN_FILE + port, reference.encode()
    finally:
        if file is not None:
            file.close()


class Inbox:
    """Reads the messages of one shard and batch; remembers the files that they name."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.files: dict[str, pa.Buffer] = {}

    def receive(self, port: str, payload: bytes) -> tuple[str, bytes | pa.Buffer]:
        """The port and the payload that were sent."""
        if not port.startswith(IN_FILE):
            return port, payload
        reference = FileRef.decode(payload)
        if reference.file not in self.files:
            self.files[reference.file] = map_file(self.folder, reference.file)
        [found] = reference.read(self.folder, self.files[reference.file])
        return port[len(IN_FILE) :], found


def discard(folder: str, names: Iterable[str]) -> None:
    """Delete files whose batch is committed."""
    for name in names:
        remove_file(os.path.join(folder, name))
