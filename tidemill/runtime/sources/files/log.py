"""The durable list of files a source has taken, in the order it took them.

A file is in the log, on disk, before any position names it; so a position means the same rows after
any crash. Lines are only ever appended, and the last one of a number counts; a torn last line was never named and
is cut off. Each line ends with its checksum; a line without one is from before there were any. The first line says
to which database and folder the log belongs; a log without it is from before that, or of no database.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tidemill.errors import EngineProblem
from tidemill.runtime.damage import damaged, missing
from tidemill.runtime.layout import check_owner, owner_of


@dataclass(frozen=True)
class Entry:
    """File number `n` as it was when listed.

    `length` counts its positions: rows (parquet, arrow), bytes (csv, json), or 1 for a file that
    is bad as a whole, for the reason in `bad`.
    """

    n: int
    path: str
    size: int
    mtime_ns: int
    arrival_us: int
    format: str
    length: int
    bad: str | None = None

    def span(self, start: tuple[int, int], end: tuple[int, int]) -> tuple[int, int]:
        """The part of this file between two places of the source; empty when low >= high."""
        low = start[1] if self.n == start[0] else 0
        high = end[1] if self.n == end[0] else self.length
        return low, min(high, self.length)


class FileLog:
    """The entries, shared by every process that opens the same directory."""

    def __init__(self, directory: str) -> None:
        self._path = Path(directory) / "files.jsonl"
        self._owner = owner_of(directory)
        self._entries: list[Entry] = []
        self._taken: set[str] = set()
        self._bytes = 0

    def entries(self, upto: int | None = None) -> list[Entry]:
        """All entries; the disk is asked again only when `upto` is not among the known ones."""
        if upto is None or upto >= len(self._entries):
            self._load()
        return self._entries

    def extend(self, discover: Callable[[set[str], int, int], list[Entry]]) -> None:
        """Append what `discover(taken paths, next number, last arrival)` finds."""
        with self._locked() as file:
            self._load()
            last = self._entries[-1].arrival_us if self._entries else 0
            found = discover(self._taken, len(self._entries), last)
            if found:
                self._append(file, found)

    def replace(self, entries: list[Entry]) -> None:
        """List files again that are listed already, with the same numbers."""
        with self._locked() as file:
            self._load()
            self._append(file, entries)

    def _append(self, file: BinaryIO, found: list[Entry]) -> None:
        file.truncate(self._bytes)
        file.seek(self._bytes)
        lines = [_line(asdict(entry)) for entry in found]
        if self._owner.database and not self._bytes:
            lines.insert(0, _line({"database": self._owner.database, "folder": self._path.parent.name}))
        file.write(b"".join(lines))
        file.flush()
        os.fsync(file.fileno())
        self._load()

    def _load(self) -> None:
        if not self._path.exists() or self._path.stat().st_size <= self._bytes:
            return
        with open(self._path, "rb") as file:
            file.seek(self._bytes)
            data = file.read()
        for line in data[:data.rfind(b"\n") + 1].splitlines(keepends=True):
            found = self._parsed(line)
            if self._bytes or "database" not in found:
                entry = self._entry(found)
                self._entries[entry.n:entry.n + 1] = [entry]  # a file that was repaired is listed once more
                self._taken.add(entry.path)
            else:
                self._check_whose(found)
            self._bytes += len(line)

    def check(self, file: int, at: int) -> None:
        """A position was only given for files that are in the log."""
        known = len(self._entries)
        if file > known or (file == known and at > 0):
            why = f"{known} files are in it, file {file + (at > 0)} has been read"
            raise damaged(str(self._path), why) if self._path.exists() else missing(str(self._path), why)

    def _parsed(self, line: bytes) -> dict[str, Any]:
        text, _, wanted = line.rstrip(b"\n").partition(b"\t")
        try:
            if wanted and int(wanted, 16) != zlib.crc32(text):
                raise ValueError("its checksum is not that of its content")
            return dict(json.loads(text))
        except (ValueError, TypeError) as error:
            raise self._damaged(error) from None

    def _entry(self, found: dict[str, Any]) -> Entry:
        try:
            entry = Entry(**found)
            if not 0 <= entry.n <= len(self._entries):
                raise ValueError(f"it has the number {entry.n}")
        except (ValueError, TypeError) as error:
            raise self._damaged(error) from None
        return entry

    def _check_whose(self, found: dict[str, Any]) -> None:
        check_owner(self._owner, str(self._path), found)
        if self._owner.database and found.get("folder") != self._path.parent.name:
            raise damaged(str(self._path), f"it is the log of {found.get('folder')}")

    def _damaged(self, error: Exception) -> EngineProblem:
        return damaged(str(self._path), f"behind file {len(self._entries)}: {error}")

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        is_new = not self._path.exists()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if is_new:
                sync_directory(self._path.parent)
            yield file


def _line(content: dict[str, Any]) -> bytes:
    text = json.dumps(content).encode()
    return text + b"\t%08x\n" % zlib.crc32(text)


def sync_directory(path: Path) -> None:
    """Make a created or renamed name durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
