"""Bytes of one sender into lines, and lines into spool records.

Lines are framed by a compiled loop; one by one only where a line is longer than the source takes.
"""

from __future__ import annotations

import numpy as np

from tidemill.runtime.kernels.text.spool import HEADER_BYTES, frame_lines
from tidemill.runtime.sources.port.segments import CUT_SHORT, FULL_LENGTH, HEADER
from tidemill.runtime.sources.records import RAW_BYTES


def frame(block: bytes, arrival: int, limit: int) -> memoryview | None:
    """The records of a block of whole lines; None when one of them is too long."""
    out = np.empty(len(block) + HEADER_BYTES * (len(block) // 2 + 1), np.uint8)
    size = frame_lines(np.frombuffer(block, np.uint8), arrival, limit, out)
    return None if size < 0 else out[:size].data


def frame_one_by_one(lines: list[tuple[bytes, int]], arrival: int) -> bytes:
    """The records of (bytes, length mark) pairs."""
    return b"".join([b for body, mark in lines for b in (HEADER.pack(arrival, len(body) | mark), body)])


class Splitter:
    """Lines out of one sender's bytes; of a line that is too long only the start is held."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()
        self._dropped = 0

    @property
    def held(self) -> int:
        """Bytes of a line that is not finished."""
        return len(self._held) + bool(self._dropped)

    def feed(self, data: bytes) -> list[tuple[bytes, int]]:
        """The (bytes, length mark) records that `data` completes."""
        cut = data.rfind(b"\n")
        if cut < 0:
            self._held += data
            self._shorten()
            return []
        first, *others = (bytes(self._held) + data[:cut]).split(b"\n")
        done = self._finish(first, self._dropped)
        for line in others:
            done += self._finish(line, 0)
        self._held, self._dropped = bytearray(data[cut + 1 :]), 0
        self._shorten()
        return done

    def block(self, data: bytes) -> bytes | None:
        """The lines that `data` completes, with their ends, to be framed at once; None when they must be fed.

        They must where a line is too long already. Without a line that ends there is nothing to frame: then it is b"".
        """
        cut = data.rfind(b"\n") + 1
        if self._dropped:
            return None
        if not cut:
            self.feed(data)
            return b""
        whole = bytes(self._held) + data[:cut] if self._held else data[:cut]
        self._held = bytearray(data[cut:])
        self._shorten()
        return whole

    def rest(self) -> list[tuple[bytes, int]]:
        """The last line, without a line end."""
        return self._finish(bytes(self._held), self._dropped)

    def _shorten(self) -> None:
        # A record of just the limit may still be followed by a CR; and the last byte is kept, as it may be one.
        if len(self._held) > max(self._limit, RAW_BYTES) + 1:
            self._dropped += len(self._held) - RAW_BYTES - 1
            del self._held[RAW_BYTES:-1]

    def _finish(self, line: bytes, dropped: int) -> list[tuple[bytes, int]]:
        line = line.removesuffix(b"\r")
        length = len(line) + dropped
        if length > self._limit:
            return [(FULL_LENGTH.pack(length) + line[:RAW_BYTES], CUT_SHORT)]
        return [(line, 0)] if line else []
