"""Messages of PostgreSQL's output plugin pgoutput, version 1 of its protocol, to changes of rows."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

_EPOCH_US = 946_684_800_000_000  # 2000-01-01, from which PostgreSQL counts
UNCHANGED = object()  # a value that is stored apart, was not changed, and is not sent
TRUNCATION = "T"
Values = list[object]  # texts, None, or UNCHANGED


@dataclass(frozen=True)
class Change:
    """One change of a row: 'c', 'u' or 'd', with the values by column; `old` are those that an update has replaced.
    'T' is a truncation of the table.
    """

    operation: str
    new: dict[str, object]
    old: dict[str, object] | None = None


@dataclass
class Transaction:
    """A committed transaction: `end` is the place behind its commit, `time` that of the commit in microseconds."""

    xid: int
    time: int
    end: int = 0
    changes: list[Change] = field(default_factory=list)


class Decoder:
    """Puts messages together to transactions. Descriptions of tables come before their first change."""

    def __init__(self) -> None:
        self._columns: dict[int, list[str]] = {}

    def transactions(self, messages: Iterator[bytes]) -> Iterator[Transaction]:
        """The committed transactions, in the order of their commits."""
        now: Transaction | None = None
        for data in messages:
            kind, body = data[:1], _Body(data[1:])
            if kind == b"B":
                body.take("q")
                micros, xid = body.take("q"), body.take("I")
                now = Transaction(xid, micros + _EPOCH_US)
            elif kind == b"R":
                self._describe(body)
            elif now is not None and kind in b"IUD":
                now.changes.append(self._change(kind, body))
            elif now is not None and kind == b"T":
                now.changes.append(Change(TRUNCATION, {}))
            elif now is not None and kind == b"C":
                body.take("b")
                body.take("q")
                now.end = body.take("q")
                yield now
                now = None

    def _describe(self, body: _Body) -> None:
        number = body.take("I")
        body.text(), body.text(), body.take("b")
        names = []
        for _ in range(body.take("h")):
            body.take("b")
            names.append(body.text())
            body.take("I"), body.take("i")
        self._columns[number] = names

    def _change(self, kind: bytes, body: _Body) -> Change:
        names = self._columns[body.take("I")]
        mark = body.mark()
        old = None
        if mark in (b"K", b"O"):
            old = dict(zip(names, body.values(), strict=True))
            if kind == b"D":
                return Change("d", old)
            body.mark()
        new = dict(zip(names, body.values(), strict=True))
        if old is not None:
            new = {name: old[name] if value is UNCHANGED else value for name, value in new.items()}
        return Change("c" if kind == b"I" else "u", new, old)


class _Body:
    """Reads the fields of a message one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, code: str) -> int:
        (value,) = struct.unpack_from(">" + code, self._data, self._at)
        self._at += struct.calcsize(">" + code)
        return int(value)

    def text(self) -> str:
        end = self._data.index(0, self._at)
        found = self._data[self._at : end].decode()
        self._at = end + 1
        return found

    def mark(self) -> bytes:
        self._at += 1
        return self._data[self._at - 1 : self._at]

    def values(self) -> Values:
        return [self._value() for _ in range(self.take("h"))]

    def _value(self) -> object:
        mark = self.mark()
        if mark == b"n":
            return None
        if mark == b"u":
            return UNCHANGED
        size = self.take("I")
        self._at += size
        return self._data[self._at - size : self._at].decode()


def parse_lsn(text: str) -> int:
    """A place in the log of PostgreSQL as a number.

    >>> parse_lsn("1/2"), format_lsn(parse_lsn("A/B0"))
    (4294967298, 'A/B0')
    """
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def format_lsn(lsn: int) -> str:
    """The place as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


@dataclass(frozen=True)
class Visible:
    """Which transactions a snapshot has seen, from the text of pg_current_snapshot(): xmin:xmax:xip."""

    low: int
    high: int
    running: frozenset[int]

    @staticmethod
    def parse(text: str) -> Visible:
        low, high, running = text.split(":")
        return Visible(int(low), int(high), frozenset(int(x) for x in running.split(",") if x))

    def has(self, xid: int) -> bool:
        """Whether the snapshot has seen a transaction; messages have the low half of its number.

        >>> [Visible.parse("10:20:12,15").has(xid) for xid in (9, 10, 12, 19, 20)]
        [True, True, False, True, False]
        """
        whole = (self.high & ~0xFFFFFFFF) | xid
        if whole - self.high > 1 << 31:
            whole -= 1 << 32
        return whole < self.low or (whole < self.high and whole not in self.running)
