"""The files connector: new files of a glob, in the order they were seen, cut at any row or line.

A file is taken as it is when it is listed. Text that grows is read on; a file that changes otherwise is reported and
not read again (`growth`). Writers of other formats should rename complete files into place.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.columns import arrow_schema
from tidemill.runtime.sources.connector import Chunk, Position, Progress, Range
from tidemill.runtime.sources.files import columnar, lined, listing
from tidemill.runtime.sources.files.absent import add_absent
from tidemill.runtime.sources.files.cuts import Place, cut_points
from tidemill.runtime.sources.files.growth import Growth
from tidemill.runtime.sources.files.log import Entry, FileLog, Listed
from tidemill.runtime.sources.files.names import base_directory
from tidemill.runtime.sources.files.slab import Slab
from tidemill.runtime.sources.records import gather, make_chunk, only_bad, position_text, refuse
from tidemill.runtime.thresholds import sizes

LOOK_S = 1.0  # seconds between two checks of listed files while others are still to be read
KEPT_BATCHES = 16  # the log keeps file parts of this many batches: a copy of the database may be that much older


class Files:
    """Positions are {"file": n, "at": row or byte}; the end of file n is the start of file n + 1."""

    def __init__(self, spec: SourceSpec, directory: str) -> None:
        arrow_schema(spec.columns)
        if spec.format is not None and spec.format not in listing.FORMATS:
            raise SourceProblem(
                "TM402",
                f'source "{spec.name}" has the unknown format "{spec.format}"',
                hint=f"one of {', '.join(listing.FORMATS)}",
            )
        if not spec.origin.get("glob"):
            raise SourceProblem(
                "TM402",
                f'source "{spec.name}" does not say where its files are',
                hint="give a pattern, for example '/data/in/*.parquet'",
            )
        self.spec = spec
        self._glob = os.path.abspath(spec.origin["glob"])
        self._base = base_directory(self._glob)
        self._log = FileLog(directory)
        self._growth = Growth(spec)
        self._committed: deque[int] = deque(maxlen=KEPT_BATCHES)
        self._looked = 0.0
        self._promised = 0

    def initial(self) -> Position:
        return {"file": 0, "at": 0}

    def latest(self, start: Position, max_rows: int | None, live: bool, now_us: int) -> Progress:
        self._promised = max(self._promised, now_us)
        listed = self._log.entries(int(start["file"]))
        self._log.check(*_pair(start))  # before more is listed: an older log would get the wrong files
        again = self._is_due(_place(start, listed) == (len(listed), 0))
        entries, end = self._advance(start, max_rows, live, again)
        exhausted = end == (len(entries), 0)
        if exhausted and not again and not self.spec.static:  # of what is listed: files may have grown meanwhile
            entries, end = self._advance(start, max_rows, live, True)
            exhausted = end == (len(entries), 0)
        clock = self._promised if exhausted else entries[end[0]].arrival_us
        return Progress(_position(end), exhausted, None if self.spec.timestamp else clock)

    def _advance(self, start: Position, max_rows: int | None, live: bool, again: bool) -> tuple[Listed, Place]:
        """List new files, with `again` also appended parts of listed ones; and how far a batch goes."""
        self._log.extend(lambda latest, n, last: self._discover(latest, n, last, live, again))
        entries = self._log.entries()
        return entries, self._admit(entries, *_place(start, entries), max_rows)

    def _is_due(self, at_end: bool) -> bool:
        """Whether listed files are checked again: when all is read, and every LOOK_S before."""
        now = time.monotonic()
        due = not self.spec.static and (at_end or now - self._looked >= LOOK_S)
        self._looked = now if due else self._looked
        return due

    def _discover(self, latest: dict[str, Entry], n: int, last: Entry | None, live: bool, again: bool) -> list[Entry]:
        """New entries: appended parts of listed files, and new files."""
        new = list(self._growth.look(latest, live)) if again else []
        for path, facts in listing.new_files(self._glob, latest):
            try:
                seen = listing.describe(path, facts, self.spec, self._base, live)
            except listing.NotYet:
                continue
            new.append(Entry(n=0, path=path, arrival_us=0, **seen))
        arrival = max(last.arrival_us if last else 0, self._promised)
        found: list[Entry] = []
        for number, entry in enumerate(new, n):
            base = last.next_base if last and (entry.begin or number >= sizes.numbered_entries) else None
            last = replace(entry, n=number, arrival_us=arrival, base=base)
            found.append(last)
        return found

    def _admit(self, entries: Listed, n: int, at: int, max_rows: int | None) -> tuple[int, int]:
        if max_rows is None:
            return len(entries), 0
        left = max(max_rows, 1)
        while n < len(entries) and left > 0:
            entry = entries[n]
            if entry.bad is not None:
                stop, used = entry.length, 1
            elif entry.format in ("csv", "json"):
                stop, used = lined.admit(entry, at, left, self.spec)
            else:
                stop = min(entry.length, at + left)
                used = stop - at
            left -= used
            n, at = _forward(n, stop, entries)
        return n, at

    def split(self, start: Position, end: Position, parts: int) -> list[Range]:
        entries = self._log.entries(int(end["file"]))
        for position in (start, end):
            self._log.check(*_pair(position))
        first, last = _place(start, entries), _place(end, entries)
        if first >= last:
            return []
        cuts = [first, *cut_points(entries, first, last, parts, self.spec), last]
        ranges = [self._range(entries, a, b) for a, b in pairwise(cuts)]
        if len(ranges) > 1 and self.spec.timestamp and any(r.max_time is None for r in ranges):
            return [self._range(entries, first, last)]
        return ranges

    def _range(self, entries: Listed, start: tuple[int, int], end: tuple[int, int]) -> Range:
        files = [e for e in entries.between(start[0], end[0] + 1) if e.n < end[0] or end[1] > 0]
        best = self._greatest_time(files, start, end) if self.spec.timestamp else None
        return Range(_position(start), _position(end), best, {"files": [vars(e) for e in files]})

    def _greatest_time(self, files: list[Entry], start: tuple[int, int], end: tuple[int, int]) -> int | None:
        best: int | None = None
        for entry in files:
            low, high = entry.span(start, end)
            if entry.bad is not None or low >= high:
                continue
            try:
                found = columnar.greatest_time(entry, low, high, self.spec) if entry.format == "parquet" else None
            except (OSError, pa.ArrowException):  # its reader reports the error
                return None
            if found is None:
                return None
            best = found if best is None else max(best, found)
        return best

    def read(self, piece: Range) -> Iterator[Chunk]:
        return gather(self._pieces(piece))

    def _pieces(self, piece: Range) -> Iterator[Chunk]:
        start, end = _pair(piece.start), _pair(piece.end)
        for data in piece.detail["files"]:
            entry = Entry(**data)
            low, high = entry.span(start, end)
            if low < high:
                yield from self._read(entry, low, high)

    def _read(self, entry: Entry, low: int, high: int) -> Iterator[Chunk]:
        if entry.bad is not None:
            yield self._bad_file(entry, entry.bad)
            return
        listing.check_unchanged(entry, self.spec, self._base)
        for slab in self._slabs(entry, low, high):
            if slab.bad and self.spec.on_error == "fail":
                raise refuse(self.spec, slab.bad[0][0], _where(entry, slab.bad[0][2]))
            arrived = partial(np.full, slab.rows.num_rows, entry.arrival_us, np.int64)
            numbers = partial(_numbers, entry.first_number, slab.places)
            yield make_chunk(slab.rows, numbers, arrived, slab.bad, slab.undeclared)

    def _slabs(self, entry: Entry, low: int, high: int) -> Iterator[Slab]:
        reader = columnar if entry.format in ("parquet", "arrow") else lined
        try:
            spec = reader.without_absent(entry, self.spec)
            for slab in reader.read(entry, low, high, spec):
                yield slab if spec is self.spec else replace(slab, rows=add_absent(slab.rows, self.spec))
        except (OSError, pa.ArrowException, ValueError) as error:
            raise SourceProblem(
                "TM401", f'source "{self.spec.name}" cannot read a file it has listed', detail=f"{entry.path}: {error}"
            ) from error

    def _bad_file(self, entry: Entry, reason: str) -> Chunk:
        if self.spec.on_error == "fail":
            raise refuse(self.spec, reason, entry.path)
        place = position_text(file=entry.n, at=0, path=entry.path)
        return only_bad(self.spec, [(reason, entry.path.encode(), place)], f"{entry.path}: {reason}")

    def trim(self, committed: Position) -> None:
        """Forget log entries that were read; the files belong to the user and stay."""
        self._committed.append(int(committed["file"]))
        if len(self._committed) == KEPT_BATCHES:
            self._log.forget(self._committed[0])

    def why_gone(self) -> str | None:
        """A file that was read may have been removed or changed since, or be listed no more."""
        entries = self._log.entries()
        if entries.first:
            return "the list of its first files is not kept any more"
        for entry in entries.between(0):
            try:
                if entry.bad is None:
                    listing.check_unchanged(entry, self.spec, self._base)
            except SourceProblem as problem:
                return problem.detail or problem.message
        return None

    def order(self, position: Position) -> tuple[int, ...]:
        return _place(position, self._log.entries(int(position["file"])))

    def portion(self, start: Position, end: Position, max_rows: int) -> Position:
        entries = self._log.entries(int(end["file"]))
        place = self._admit(entries, *_place(start, entries), max_rows)
        return _position(place) if place < _place(end, entries) else end

    def share(self, position: Position, end: Position) -> float:
        entries = self._log.entries(int(end["file"]))
        done, whole = (self._measure(entries, _place(p, entries)) for p in (position, end))
        return done / max(whole, 1)

    def _measure(self, entries: Listed, place: Place) -> int:
        """How many rows or bytes are before a place."""
        spans = (entry.span((0, 0), place) for entry in entries.between(0, place[0] + 1))
        return sum(max(high - low, 0) for low, high in spans)


def _where(entry: Entry, place: str) -> str:
    at = json.loads(place)["at"]
    if entry.format in ("csv", "json"):
        return f"{entry.path} line {lined.line_number(entry.path, at)}"
    return f"{entry.path} row {at}"


def _numbers(first: int, places: np.ndarray | range) -> np.ndarray:
    if isinstance(places, range):
        return np.arange(first + places.start, first + places.stop, dtype=np.int64)
    return first + places


def _pair(position: Position) -> tuple[int, int]:
    return int(position["file"]), int(position["at"])


def _position(place: tuple[int, int]) -> Position:
    return {"file": place[0], "at": place[1]}


def _forward(n: int, at: int, entries: Listed) -> tuple[int, int]:
    """The normal form of a place: the end of a listed file is the start of the next one."""
    while n < len(entries) and at >= entries[n].length:
        n, at = n + 1, 0
    return n, at


def _place(position: Position, entries: Listed) -> tuple[int, int]:
    return _forward(*_pair(position), entries)
