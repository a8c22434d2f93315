"""Compressed text: read from its beginning to its end, as if it lay unpacked.

Positions are bytes of the unpacked text. Reading from the middle unpacks everything before it.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, cast

import pyarrow as pa

from tidemill.runtime.sources.files.names import packing
from tidemill.runtime.thresholds import sizes


class Text(Protocol):
    """The part of the file interface that readers of lines use."""

    def read(self, size: int, /) -> bytes: ...

    def readline(self, limit: int, /) -> bytes: ...

    def seek(self, at: int, /) -> int: ...

    def tell(self) -> int: ...

    def __enter__(self) -> Text: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


def open_text(path: str) -> Text:
    """The text of a file, unpacked where its name says that it is compressed."""
    how = packing(path)
    return cast(Text, open(path, "rb")) if how is None else Unpacked(path, how)


def unpacked_bytes(path: str) -> int:
    """How long the text of a compressed file is; OSError where it ends too early or is damaged."""
    with Unpacked(path, str(packing(path))) as text:
        while text.read(sizes.block_bytes):
            pass
        return text.tell()


class Unpacked:
    """A compressed file; seeking backwards starts again from the beginning."""

    def __init__(self, path: str, how: str) -> None:
        self._path, self._how = path, how
        self._stream: pa.NativeFile | None = None
        self._at = 0
        self._held = b""  # read from the stream, and behind `_at`

    def _open(self) -> pa.NativeFile:
        if self._stream is None:
            self._stream = pa.CompressedInputStream(pa.OSFile(self._path), self._how)
        return self._stream

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; fewer only at the end."""
        parts = [self._held[:size]]
        self._held = self._held[size:]
        left = size - len(parts[0])
        while left > 0:
            block = self._open().read(left)
            if not block:
                break
            parts.append(block)
            left -= len(block)
        found = b"".join(parts)
        self._at += len(found)
        return found

    def readline(self, limit: int, /) -> bytes:
        """Up to a line end, at most `limit` bytes."""
        begun = self.read(limit)
        end = begun.find(b"\n") + 1
        if end:
            self._held = begun[end:] + self._held
            self._at -= len(begun) - end
            return begun[:end]
        return begun

    def seek(self, at: int, /) -> int:
        """Read on, or again, until there."""
        if at < self._at:
            self.close()
            self._at, self._held = 0, b""
        while self._at < at and self.read(min(sizes.block_bytes, at - self._at)):
            pass
        return self._at

    def tell(self) -> int:
        """The place of the next byte."""
        return self._at

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def __enter__(self) -> Unpacked:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()
