"""The durable list of slices of a topic, in the order in which they were taken.

A slice is a range of offsets of each partition that had something new. It is on disk before any position names it; so
a position means the same records after any crash, whatever the topic has got since. Lines are appended, each with its
checksum; no position names a torn last line, so it is cut off. The first line names the database and folder of the log;
a log without it is from an older version, or of no database.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemill.errors import EngineProblem
from tidemill.runtime.durable import sync_folder
from tidemill.runtime.integrity import damaged, missing, openable
from tidemill.runtime.paths import owner_of
from tidemill.runtime.sources.log_lines import check_first_line, decode_line, encode_line, first_lines

Part = tuple[int, int, int]  # partition, the first offset, the offset behind the last


@dataclass(frozen=True)
class Slice:
    """Slice number `n`; its records are numbered from `base` on, and arrived at `arrival` microseconds."""

    n: int
    base: int
    arrival: int
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """How many offsets are in it: at least as many as records."""
        return sum(end - start for _, start, end in self.parts)

    def to_list(self) -> list[Any]:
        return [self.n, self.base, self.arrival, [list(part) for part in self.parts]]

    @staticmethod
    def from_list(data: list[Any]) -> Slice:
        n, base, arrival, parts = data
        return Slice(int(n), int(base), int(arrival), tuple((int(p), int(a), int(b)) for p, a, b in parts))


class SliceLog:
    """The slices, shared by every process that opens the same directory; one plans, and appends."""

    def __init__(self, directory: str) -> None:
        self._path = Path(directory) / "slices.jsonl"
        self._owner = owner_of(directory)
        self._inode = 0
        self._reset()

    def _reset(self) -> None:
        self.first = 0  # the number of the first slice that is kept
        self.slices: list[Slice] = []
        self.begin: dict[int, int] = {}  # where each partition was begun
        self.ends: dict[int, int] = {}  # how far each is in slices
        self.is_begun = False
        self.notes: dict[str, Any] = {}  # what else is known of the source
        self._bytes = 0
        self._base, self._arrival = 0, 0

    def __len__(self) -> int:
        return self.first + len(self.slices)

    @property
    def rows(self) -> int:
        """How many offsets are in all slices."""
        return self._base

    @property
    def arrival(self) -> int:
        return self._arrival

    def between(self, start: int, end: int) -> list[Slice]:
        """The slices numbered start to end."""
        self.check(start)
        self.check(end)
        return self.slices[start - self.first : end - self.first]

    def check(self, n: int) -> None:
        """A position was only given for slices that are in the log."""
        if n > len(self):
            self.load()
        if self.first <= n <= len(self):
            return
        why = f"it has slices {self.first} to {len(self)}, and slice {n} is to be read"
        raise damaged(str(self._path), why) if self._path.exists() else missing(str(self._path), why)

    def base(self, n: int) -> int:
        """How many offsets are before slice `n`."""
        self.check(n)
        return self._base if n == len(self) else self.slices[n - self.first].base

    def arrival_from(self, n: int) -> int:
        """A time that is not after that of any record from slice `n` on."""
        return self.between(n, n + 1)[0].arrival if n < len(self) else self._arrival

    def end_within(self, first: int, most: int | None) -> int:
        """The slice before which a batch ends that begins with `first` and has `most` offsets, or one slice."""
        if most is None:
            return len(self)
        base, end = self.base(first), first
        while end < len(self) and (end == first or self.base(end + 1) - base <= most):
            end += 1
        return end

    def append(self, find: Callable[[], list[dict[str, Any]]]) -> None:
        """Append what `find` finds beyond what is listed: {'begin': …} and {'parts': …, 'at': …}."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self._path.exists()
        with open(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.load()
            found = find()
            if not found:
                return
            file.truncate(self._bytes)
            file.seek(self._bytes)
            file.write(
                b"".join([*([] if self._bytes else first_lines(self._owner, self._path)), *map(encode_line, found)])
            )
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_folder(self._path.parent)
        self.load()

    def forget(self, before: int) -> None:
        """Write the log anew without the slices before a number: they were read for good."""
        with open(self._path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.load()
            kept = self.slices[before - self.first :]
            state = {"first": before, "base": self.base(before), "ends": self._ends_before(before), "note": self.notes}
            lines = [encode_line({"begin": self.begin}), encode_line(state)]
            lines += [encode_line({"parts": s.parts, "at": s.arrival}) for s in kept]
            part = self._path.with_name(self._path.name + ".part")
            with open(part, "wb") as new:
                new.write(b"".join([*first_lines(self._owner, self._path), *lines]))
                new.flush()
                os.fsync(new.fileno())
            os.replace(part, self._path)
            sync_folder(self._path.parent)
        self.load()

    def _ends_before(self, n: int) -> dict[int, int]:
        ends = dict(self.ends)
        for later in reversed(self.slices[n - self.first :]):
            ends |= {partition: start for partition, start, _ in later.parts}
        return ends

    def load(self) -> None:
        """Take in what was appended."""
        try:
            with openable(self._path):
                facts = self._path.stat()
        except FileNotFoundError:
            return
        if facts.st_ino != self._inode:
            self._reset()
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
            else:
                self._take(found)
            self._bytes += len(line)

    def _take(self, found: dict[str, Any]) -> None:
        self.notes |= found.get("note", {})
        if "begin" in found:
            self.begin |= {int(p): int(o) for p, o in found["begin"].items()}
            self.ends = {**self.begin, **self.ends}
            self.is_begun = True
        elif "first" in found:
            self.first, self._base = int(found["first"]), int(found["base"])
            self.ends |= {int(p): int(o) for p, o in found["ends"].items()}
        elif "parts" in found:
            made = Slice.from_list([len(self), self._base, found["at"], found["parts"]])
            self.slices.append(made)
            self.ends |= {partition: end for partition, _, end in made.parts}
            self._base, self._arrival = self._base + made.rows, made.arrival

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            return decode_line(line)
        except ValueError as error:
            raise self._damaged_problem(error) from None

    def _damaged_problem(self, error: Exception) -> EngineProblem:
        return damaged(str(self._path), f"behind slice {len(self)}: {error}")
