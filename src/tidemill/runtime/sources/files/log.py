"""The durable list of files a source has taken, in the order it took them.

A file is in the log, on disk, before any position names it; so a position means the same rows after any crash. A file
that has grown is listed once more, with the place where its new part begins. Lines are appended, and the last line of a
number counts; no position names a torn last line, so it is cut off. Each line ends with its checksum; a line without
one was written by an older version. The first line names the database and folder of the log; a log without it is from
an older version, or of no database.

A file that keeps growing would make the log grow for ever. When many entries have been read for good and replaced by
later ones of the same file, the log is rewritten (`forget`): a line gives the number it begins with, and of earlier
entries only the last one of each file is kept.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tidemill.errors import EngineProblem
from tidemill.runtime.durable import sync_folder
from tidemill.runtime.integrity import damaged, missing, openable
from tidemill.runtime.paths import owner_of
from tidemill.runtime.sources.log_lines import check_first_line, decode_line, encode_line, first_lines
from tidemill.runtime.thresholds import sizes

# A number of a row holds the number of its entry above and the place in the file below: 8 million entries of up to a
# tera row (or tera byte). Parts of files that grow are more in number and small: they are numbered on (`Entry.base`).
PLACE_BITS = 40


@dataclass(frozen=True)
class Entry:
    """File number `n` as it was when listed.

    `length` counts its positions: rows (parquet, arrow), bytes of text (csv, json), or one for a file that
    is bad as a whole, for the reason in `bad`. The entry of a file that has grown, or changed, begins at position
    `begin`. `size` is how many bytes of the file were taken, `mark` what they look like; a file without a mark is not
    looked at again. The rows of an entry with a `base` are numbered from there on.
    """

    n: int
    path: str
    size: int
    mtime_ns: int
    arrival_us: int
    format: str
    length: int
    bad: str | None = None
    begin: int = 0
    mark: int | None = None
    base: int | None = None

    def span(self, start: tuple[int, int], end: tuple[int, int]) -> tuple[int, int]:
        """The part of this file between two places of the source; empty when low >= high."""
        low = start[1] if self.n == start[0] else 0
        high = end[1] if self.n == end[0] else self.length
        return max(low, self.begin), min(high, self.length)

    @property
    def first_number(self) -> int:
        """What is added to a position to number a row: numbers rise with the entries."""
        return self.n << PLACE_BITS if self.base is None else self.base - self.begin

    @property
    def next_base(self) -> int:
        """A number that is greater than those of all rows of the entry, and as small as that of an entry behind it."""
        return self.first_number + self.length


class Listed:
    """The entries by number; those before `first` have been read for good and are not kept."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self._entries: list[Entry] = []

    def __len__(self) -> int:
        return self.first + len(self._entries)

    def __getitem__(self, n: int) -> Entry:
        return self._entries[n - self.first]

    def __setitem__(self, n: int, entry: Entry) -> None:
        self._entries[n - self.first : n - self.first + 1] = [entry]

    def between(self, start: int, stop: int | None = None) -> list[Entry]:
        """Those with numbers start..stop."""
        return self._entries[max(start - self.first, 0) : None if stop is None else max(stop - self.first, 0)]


# The last entry of each file, by its path; the number of the next entry; the last one.
Discover = Callable[[dict[str, Entry], int, Entry | None], list[Entry]]


class FileLog:
    """The entries, shared by every process that opens the same directory."""

    def __init__(self, directory: str) -> None:
        self._path = Path(directory) / "files.jsonl"
        self._owner = owner_of(directory)
        self._inode = 0
        self._begin()

    def _begin(self) -> None:
        self._listed = Listed()
        self._latest: dict[str, Entry] = {}
        self._last: Entry | None = None
        self._bytes = 0

    def entries(self, upto: int | None = None) -> Listed:
        """All entries; the file is read again only when entry `upto` is not loaded yet."""
        if upto is None or upto >= len(self._listed):
            self._load()
        return self._listed

    def extend(self, discover: Discover) -> None:
        """Append what `discover` finds."""
        with self._lock() as file:
            self._load()
            found = discover(self._latest, len(self._listed), self._last)
            if found:
                self._append(file, found)

    def replace(self, entries: list[Entry]) -> None:
        """List files again that are listed already, with the same numbers."""
        with self._lock() as file:
            self._load()
            self._append(file, entries)

    def forget(self, before: int) -> None:
        """Entries before this number are never read again: write the log anew without them, where that is much less.

        The last entry of each file stays: it records that the file was taken, and up to where.
        """
        # What goes are the entries before that number but the last ones of their files: at least half of them.
        if before - self._listed.first < max(sizes.forgotten_entries, 2 * len(self._latest)):
            return
        with self._lock():
            self._load()
            rest = self._listed.between(before)
            last = sorted((e for e in self._latest.values() if e.n < before), key=lambda e: e.n)
            lines = [encode_line(asdict(entry)) for entry in (*last, *rest)]
            part = self._path.with_name(self._path.name + ".part")
            with open(part, "wb") as file:
                file.write(b"".join([*first_lines(self._owner, self._path), encode_line({"first": before}), *lines]))
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self._path)
            sync_folder(self._path.parent)
            self._load()

    def _append(self, file: BinaryIO, found: list[Entry]) -> None:
        file.truncate(self._bytes)
        file.seek(self._bytes)
        lines = [
            *([] if self._bytes else first_lines(self._owner, self._path)),
            *(encode_line(asdict(entry)) for entry in found),
        ]
        file.write(b"".join(lines))
        file.flush()
        os.fsync(file.fileno())
        self._load()

    def _load(self) -> None:
        try:
            with openable(self._path):
                facts = self._path.stat()
        except FileNotFoundError:
            return
        if facts.st_ino != self._inode:  # written anew
            self._begin()
            self._inode = facts.st_ino
        if facts.st_size <= self._bytes:
            return
        with openable(self._path), open(self._path, "rb") as file:
            file.seek(self._bytes)
            data = file.read()
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
            found = self._parse(line)
            if "database" in found and not self._bytes:
                check_first_line(self._owner, self._path, found)
            elif "first" in found and not self._latest:
                self._listed = Listed(int(found["first"]))
            else:
                self._take(self._entry(found))
            self._bytes += len(line)

    def _take(self, entry: Entry) -> None:
        before = self._latest.get(entry.path)
        if entry.n >= self._listed.first:
            self._listed[entry.n] = entry  # a file that was repaired is listed once more
        if before is None or before.n <= entry.n:
            self._latest[entry.path] = entry
        if self._last is None or self._last.n <= entry.n:
            self._last = entry

    def check(self, file: int, at: int) -> None:
        """A position was only given for files that are in the log."""
        first, known = self._listed.first, len(self._listed)
        if file < first:
            raise damaged(str(self._path), f"it begins with file {first}, and file {file} is to be read")
        if file > known or (file == known and at > 0):
            why = f"{known} files are in it, file {file + (at > 0)} has been read"
            raise damaged(str(self._path), why) if self._path.exists() else missing(str(self._path), why)

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            return decode_line(line, is_bare_fine=True)
        except ValueError as error:
            raise self._damaged_problem(error) from None

    def _entry(self, found: dict[str, Any]) -> Entry:
        try:
            entry = Entry(**found)
            if not 0 <= entry.n <= len(self._listed):
                raise ValueError(f"it has the number {entry.n}")
        except (ValueError, TypeError) as error:
            raise self._damaged_problem(error) from None
        return entry

    def _damaged_problem(self, error: Exception) -> EngineProblem:
        return damaged(str(self._path), f"behind file {len(self._listed)}: {error}")

    @contextmanager
    def _lock(self) -> Iterator[BinaryIO]:
        is_new = not self._path.exists()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with open(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(file.fileno()).st_ino != self._path.stat().st_ino:
                    continue  # the log was written anew while this waited for the lock
                if is_new:
                    sync_folder(self._path.parent)
                yield file
                return
