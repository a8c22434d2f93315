"""The messages of one edge as files of a folder, one each, named by their sequence numbers."""

from __future__ import annotations

import os

from tidemill.errors import EngineProblem
from tidemill.runtime.durable import total_size
from tidemill.runtime.integrity import damaged, openable, read_bytes
from tidemill.runtime.sites.messages import HEADER_BYTES, Header, decode_header

_ENDING = ".msg"


class MessageFiles:
    """The files of a folder, which need not exist yet."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, seq: int) -> str:
        return os.path.join(self.folder, f"{seq:018d}{_ENDING}")

    def list_seqs(self) -> list[int]:
        """The sequence numbers of the messages that are there, in order; drafts are not counted."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        return sorted(int(n.removesuffix(_ENDING)) for n in names if n.endswith(_ENDING) and not n.startswith("."))

    def read_header(self, seq: int) -> Header:
        """The header of a message; FileNotFoundError where it is not there."""
        path = self.path(seq)
        with openable(path), open(path, "rb") as source:
            data = source.read(HEADER_BYTES)
        try:
            return decode_header(data, path)
        except EngineProblem as problem:
            raise damaged(path, str(problem.detail)) from None

    def read(self, seq: int) -> bytes:
        return read_bytes(self.path(seq))

    @property
    def size(self) -> int:
        """Bytes of all messages, without those that are removed meanwhile."""
        return total_size(map(self.path, self.list_seqs()))
