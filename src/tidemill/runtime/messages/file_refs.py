"""References to files: what travels through the JVM instead of rows that are large.

Rules for the files that references name, in the inbox and in the outbox: a name is never used again; a part is written
before a reference to it is sent, and the reference has its checksum; files are deleted when their batch is committed;
what attempts that failed left behind is removed at the next start, because a batch that is run again writes new files.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass

import pyarrow as pa

from tidemill.runtime.integrity import arrow_file, openable, part

Part = tuple[int, int, int]  # (first byte, end, checksum)


@dataclass(frozen=True)
class FileRef:
    """Parts of one file, each with its checksum."""

    file: str
    parts: tuple[Part, ...]

    def encode(self) -> bytes:
        """The payload of a message.

        >>> FileRef.decode(FileRef("a.arrows", ((0, 8, 7),)).encode())
        FileRef(file='a.arrows', parts=((0, 8, 7),))
        """
        return json.dumps([self.file, self.parts]).encode()

    @staticmethod
    def decode(payload: bytes) -> FileRef:
        file, parts = json.loads(payload)
        return FileRef(file, tuple((start, end, wanted) for start, end, wanted in parts))

    def read(self, folder: str, whole: pa.Buffer | None = None) -> list[pa.Buffer]:
        """The parts, mapped and verified; `whole` is the file where it is mapped already."""
        path = os.path.join(folder, self.file)
        with arrow_file(path):
            mapped = map_file(folder, self.file) if whole is None else whole
            return [part(path, mapped, *place) for place in self.parts]


def new_name() -> str:
    """A name that no file has had."""
    return f"{uuid.uuid4().hex}.arrows"


def map_file(folder: str, name: str) -> pa.Buffer:
    """The bytes of a file, mapped."""
    path = os.path.join(folder, name)
    with arrow_file(path), pa.memory_map(path) as source:
        return source.read_buffer()


def remove_file(path: str) -> None:
    """Remove a file that may be gone already."""
    if os.path.exists(path):
        with openable(path):
            os.remove(path)


def remove_all(folder: str) -> None:
    """Remove every file of a folder: no batch is on its way."""
    if os.path.isdir(folder):
        for name in os.listdir(folder):
            remove_file(os.path.join(folder, name))
