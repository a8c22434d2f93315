"""Listed files are checked again: appended text is read, every other change is reported.

A file is still the one that was listed if the bytes that were taken of it look as they did (`mark_of`: their first and
last 4 KiB). What was appended becomes a new entry of whole lines. A last line without a line end
is not read while tail = true; otherwise a finite run reads it, or a live one when the file has not changed for a
while. If such a line continues after it was read, the rest is a bad record.

A file that has changed in another way becomes one bad record with its name and is not checked again. Files may be
removed when they have been read.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.files import lined
from tidemill.runtime.sources.files.log import Entry
from tidemill.runtime.sources.files.names import packing
from tidemill.runtime.thresholds import sizes

SPAN = 4096  # bytes at the beginning and at the end by which a file is known again
HALF_LINE = 15  # an unfinished last line is read after this many times `settle_seconds` without a change
_LEFT = "the rest of a line that was taken before it was finished; WITH (tail = true) waits for whole lines"


def mark_of(path: str, size: int) -> int:
    """What the first `size` bytes of a file look like at their two ends."""
    with open(path, "rb", buffering=0) as file:
        head = end = file.read(min(SPAN, size))
        if size > SPAN:
            file.seek(size - SPAN)
            end = file.read(SPAN)
        return zlib.crc32(end, zlib.crc32(head))


def settle_seconds(spec: SourceSpec) -> float:
    """Seconds without a change before a file that cannot be read as a whole is reported as bad."""
    return float(spec.options.get("settle_seconds", 2))


def is_followed(path: str, kind: str, spec: SourceSpec) -> bool:
    """Whether text appended to a file is read."""
    return (
        kind in ("csv", "json") and packing(path) is None and not spec.static and spec.options.get("tail") is not False
    )


def takes_half(facts: os.stat_result, spec: SourceSpec, live: bool) -> bool:
    """Whether a last line without a line end is taken now."""
    if spec.options.get("tail"):
        return False
    return not live or abs(time.time() - facts.st_mtime) >= HALF_LINE * settle_seconds(spec)


@dataclass
class Growth:
    """Changes of a source's files since they were listed."""

    spec: SourceSpec
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)  # size and time of a file that had nothing new
    growing: dict[str, None] = field(default_factory=dict)  # in this process, the last ones
    turn: int = 0

    def look(self, latest: dict[str, Entry], live: bool) -> Iterator[Entry]:
        """New entries without number and arrival, from the `latest` of each file; live, some files at a time."""
        for path in self._choose_files(latest) if live else list(latest):
            entry = latest[path]
            try:
                facts = os.stat(path)
                now = facts.st_size, facts.st_mtime_ns
                if entry.mark is None or now == (entry.size, entry.mtime_ns) or self.seen.get(path) == now:
                    continue
                found, done = self._news(entry, facts, live)
            except OSError:
                continue  # removed after it was read; a reader that still needs it reports the error
            yield from found
            if done:
                self.seen[path] = now

    def _choose_files(self, latest: dict[str, Entry]) -> list[str]:
        """The files that grow, and the next of the others in turn."""
        paths, count = list(latest), sizes.watched_files
        if len(paths) <= count:
            return paths
        start = self.turn = self.turn % len(paths)
        self.turn += count
        return [*dict.fromkeys([*self.growing, *paths[start : start + count]])]

    def _news(self, entry: Entry, facts: os.stat_result, live: bool) -> tuple[list[Entry], bool]:
        """New entries of a file, and whether that is all until it changes again."""
        if facts.st_size < entry.size or mark_of(entry.path, entry.size) != entry.mark:
            return [_changed_entry(entry, facts)], True
        if facts.st_size == entry.size:
            return [], True
        if not is_followed(entry.path, entry.format, self.spec):
            return [_changed_entry(entry, facts)], True
        return self._take_growth(entry, facts, live)

    def _take_growth(self, entry: Entry, facts: os.stat_result, live: bool) -> tuple[list[Entry], bool]:
        end = lined.whole_end(entry.path, entry.size, facts.st_size)
        if end < facts.st_size and takes_half(facts, self.spec, live):
            end = facts.st_size
        if end == entry.size:
            # Live, a line that is not finished is taken when the file has rested.
            return [], not live or bool(self.spec.options.get("tail"))
        self.growing.pop(entry.path, None)
        self.growing[entry.path] = None
        if len(self.growing) > sizes.growing_files:
            del self.growing[next(iter(self.growing))]
        found, begin = [], _line_begin(entry.path, entry.size, end)
        if begin > entry.size:
            found.append(_part(entry, facts, entry.size, begin, _LEFT))
        if begin < end:
            found.append(_part(entry, facts, begin, end, None))
        return found, end == facts.st_size


def _line_begin(path: str, begin: int, end: int) -> int:
    """Where the first record behind `begin` starts: there, unless an unfinished line goes on."""
    with open(path, "rb", buffering=0) as file:
        file.seek(begin - 1)
        around = file.read(3)
    ended = around[:1] == b"\n" or around[1:2] in (b"\n", b"\r")
    return begin if ended else lined.line_end(path, begin + 1, end)


def _part(entry: Entry, facts: os.stat_result, begin: int, end: int, bad: str | None) -> Entry:
    place = (begin, end) if bad is None else (0, 1)
    return replace(
        entry,
        size=end,
        mtime_ns=facts.st_mtime_ns,
        mark=mark_of(entry.path, end),
        bad=bad,
        begin=place[0],
        length=place[1],
    )


def _changed_entry(entry: Entry, facts: os.stat_result) -> Entry:
    how = (
        f"it had {entry.size:,} bytes and has {facts.st_size:,}"
        if facts.st_size != entry.size
        else "it has other content"
    )
    if facts.st_size > entry.size:
        how = (
            f"the {entry.size:,} bytes that were read are not its beginning any more"
            if mark_of(entry.path, entry.size) != entry.mark
            else f"{how}, and only text with tail is read on"
        )
    reason = f"the file has changed since it was read, and is not read again: {how}"
    return replace(
        entry,
        size=facts.st_size,
        mtime_ns=facts.st_mtime_ns,
        begin=entry.size,
        length=entry.size + 1,
        mark=None,
        bad=reason,
    )
