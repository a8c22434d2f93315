"""Messages of the protocol: a byte for the kind, the length, the body. Reading them within limits, and making them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemill.serve.postgres.problems import ProtocolProblem

MOST_STARTUP = 10_000  # bytes of the first message, as in Postgres
MOST_LOGIN = 65_536  # bytes of a message before the user is known
MOST_MESSAGE = 16 << 20

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_HEAD = struct.Struct(">ci")


@dataclass(frozen=True)
class Message:
    """One message of a client."""

    kind: str
    body: bytes


class Body:
    """Reads the fields of a message from left to right; what is missing is an error of the protocol."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def int16(self) -> int:
        return int(_INT16.unpack(self.take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self.take(4))[0])

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count < 0 or self._at + count > len(self._data):
            raise ProtocolProblem("08P01", "a message is shorter than its fields say")
        self._at += count
        return self._data[self._at - count : self._at]

    def text(self) -> str:
        """A text that ends with a zero byte."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise ProtocolProblem("08P01", "a text in a message has no end")
        found, self._at = self._data[self._at : end], end + 1
        return decode_text(found)

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    @property
    def is_empty(self) -> bool:
        return self._at >= len(self._data)


def decode_text(data: bytes) -> str:
    """UTF-8, the only encoding of clients."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ProtocolProblem("22021", "the text is not UTF-8", hint="SET client_encoding is UTF8 here") from None


async def read_startup(reader: asyncio.StreamReader) -> bytes:
    """The body of the first message, which has no byte for its kind."""
    length = _INT32.unpack(await reader.readexactly(4))[0]
    if not 8 <= length <= MOST_STARTUP:
        raise ProtocolProblem("08P01", "this is no startup message of the Postgres protocol", fatal=True)
    return await reader.readexactly(length - 4)


async def read_message(reader: asyncio.StreamReader, most: int = MOST_MESSAGE) -> Message:
    """The next message; one that is longer than `most` ends the connection."""
    kind, length = _HEAD.unpack(await reader.readexactly(5))
    if not kind.isalpha():
        raise ProtocolProblem("08P01", f"there is no message of kind {kind!r}", fatal=True)
    if not 4 <= length <= most:
        raise ProtocolProblem("08P01", f"a message of {length:,} bytes; at most {most:,} are taken", fatal=True)
    return Message(kind.decode(), await reader.readexactly(length - 4))


# ---- messages to clients -----------------------------------------------------------------------


def frame(kind: str, *parts: bytes) -> bytes:
    """One message.

    >>> frame("Z", b"I")
    b'Z\\x00\\x00\\x00\\x05I'
    """
    body = b"".join(parts)
    return kind.encode() + _INT32.pack(len(body) + 4) + body


def text_bytes(text: str) -> bytes:
    """A text with the zero byte that ends it."""
    return text.replace("\0", "").encode("utf-8", "replace") + b"\0"


def authentication(code: int, data: bytes = b"") -> bytes:
    return frame("R", _INT32.pack(code), data)


def parameter_status(name: str, value: str) -> bytes:
    return frame("S", text_bytes(name), text_bytes(value))


def backend_key(process: int, secret: int) -> bytes:
    return frame("K", struct.pack(">iI", process, secret))


def ready(status: str) -> bytes:
    """ReadyForQuery: I outside of a transaction, T inside, E inside of one that has failed."""
    return frame("Z", status.encode())


def command_complete(tag: str) -> bytes:
    return frame("C", text_bytes(tag))


def report(kind: str, fields: Mapping[str, str]) -> bytes:
    """ErrorResponse (E) or NoticeResponse (N)."""
    return frame(kind, *(name.encode() + text_bytes(value) for name, value in fields.items()), b"\0")


def parameter_description(types: Iterable[int]) -> bytes:
    listed = list(types)
    return frame("t", _INT16.pack(len(listed)), *(struct.pack(">I", oid) for oid in listed))


def copy_out(columns: int, binary: bool) -> bytes:
    form = int(binary)
    return frame("H", struct.pack(">bh", form, columns), _INT16.pack(form) * columns)


def copy_data(data: bytes) -> bytes:
    return frame("d", data)


PARSE_COMPLETE = frame("1")
BIND_COMPLETE = frame("2")
CLOSE_COMPLETE = frame("3")
NO_DATA = frame("n")
EMPTY_QUERY = frame("I")
PORTAL_SUSPENDED = frame("s")
COPY_DONE = frame("c")
