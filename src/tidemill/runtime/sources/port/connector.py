"""The port connector: reads the spool that a Spooler fills; any process may."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.integrity import damaged
from tidemill.runtime.sources.columns import arrow_schema
from tidemill.runtime.sources.connector import Chunk, Position, Progress, Range
from tidemill.runtime.sources.port.checksums import sums_path
from tidemill.runtime.sources.port.segments import (
    FULL_LENGTH,
    HEADER,
    Records,
    read_json,
    records,
    segments,
    walk,
    write_json,
)
from tidemill.runtime.sources.records import gather, make_chunk, max_record_bytes, position_text, refuse
from tidemill.runtime.sources.text.decode import decode
from tidemill.runtime.sources.text.lines import Lines, declared_layout
from tidemill.runtime.thresholds import sizes


class Port:
    """Positions are {"byte": b}, the global byte in the spool where the next record starts."""

    def __init__(self, spec: SourceSpec, directory: str) -> None:
        arrow_schema(spec.columns)
        if spec.format not in (None, "csv", "json"):
            raise SourceProblem(
                "TM402",
                f'source "{spec.name}" cannot receive the format "{spec.format}"',
                hint="a port takes csv or json lines",
            )
        self.spec = spec
        self._directory = Path(directory)

    def initial(self) -> Position:
        return {"byte": 0}

    def latest(self, start: Position, max_rows: int | None, live: bool, now_us: int) -> Progress:
        head = read_json(self._directory / "head")
        visible, clock = head.get("byte", 0), head.get("clock", 0)
        if not self._has_spooler():
            visible, clock = self._whole_spool(visible, clock)
        first = int(start["byte"])
        if visible < first:
            raise damaged(str(self._directory), f"the spool ends at byte {visible}, and byte {first} has been read")
        end, following = self._admit(first, max(visible, first), max_rows)
        clock = clock if following is None else following
        return Progress({"byte": end}, following is None, None if self.spec.timestamp else clock)

    def _has_spooler(self) -> bool:
        try:
            with open(self._directory / "lock", "rb") as guard:
                fcntl.flock(guard, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return False
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def _whole_spool(self, visible: int, clock: int) -> tuple[int, int]:
        """Without a spooler, complete records that a crash left behind the head are visible too."""
        for segment in segments(self._directory):
            if segment.end <= visible:
                continue
            begin = max(visible, segment.start)
            found = records(segment.path.read_bytes()[begin - segment.start :], begin)
            if len(found.end):
                visible, clock = begin + int(found.end[-1]), max(clock, int(found.arrival[-1]))
        return visible, clock

    def _admit(self, start: int, end: int, max_rows: int | None) -> tuple[int, int | None]:
        """The end of at most max_rows records, and the arrival of the one behind if there is one."""
        # The smallest record is a header and one byte, so most batches need no counting.
        if max_rows is None or end - start <= max(max_rows, 1) * (HEADER.size + 1):
            return end, None
        left = max(max_rows, 1)
        for _, found in walk(self._directory, start, end, left + 1):
            if len(found.byte) > left:
                return int(found.byte[left]), int(found.arrival[left])
            left -= len(found.byte)
        return end, None

    def split(self, start: Position, end: Position, parts: int) -> list[Range]:
        first, last = int(start["byte"]), int(end["byte"])
        if first >= last:
            return []
        borders = [s.start for s in segments(self._directory) if first < s.start < last]
        cuts = [first, *([] if self.spec.timestamp else _evenly(borders, first, last, parts)), last]
        return [Range({"byte": a}, {"byte": b}, None) for a, b in pairwise(cuts)]

    def read(self, piece: Range) -> Iterator[Chunk]:
        return gather(self._chunks(int(piece.start["byte"]), int(piece.end["byte"])))

    def _chunks(self, start: int, end: int) -> Iterator[Chunk]:
        reached = start
        for data, found in walk(self._directory, start, end):
            for at in range(0, len(found.byte), sizes.chunk_records):
                yield self._chunk(data, found.pick(slice(at, at + sizes.chunk_records)))
            reached += int(found.end[-1])
        if reached < end:
            raise SourceProblem(
                "TM406",
                f'the spool of source "{self.spec.name}" is not complete',
                detail=f"{self._directory}: bytes {reached} to {end} are missing",
            )

    def _chunk(self, data: bytes, found: Records) -> Chunk:
        whole = found.pick(~found.is_cut) if found.is_cut.any() else found
        lines = Lines(data, whole.begin, whole.end)
        decoded = decode(
            lines, self.spec, None if self.spec.format == "json" else declared_layout(self.spec), mixed=True
        )
        bad = [(int(whole.byte[i]), reason, lines.record(i)) for i, reason in decoded.bad.items()]
        bad += [self._cut_record(data, found, i) for i in np.flatnonzero(found.is_cut).tolist()]
        bad.sort()
        if bad and self.spec.on_error == "fail":
            raise refuse(self.spec, bad[0][1], f"byte {bad[0][0]} of the spool")
        aside = [(reason, raw, position_text(byte=byte)) for byte, reason, raw in bad]
        kept = whole.pick(decoded.index) if len(decoded.index) < len(whole.byte) else whole
        return make_chunk(decoded.rows, lambda: kept.byte, lambda: kept.arrival, aside, decoded.undeclared)

    def _cut_record(self, data: bytes, found: Records, i: int) -> tuple[int, str, bytes]:
        begin, end = int(found.begin[i]), int(found.end[i])
        (length,) = FULL_LENGTH.unpack_from(data, begin)
        reason = f"record of {length} bytes exceeds {max_record_bytes(self.spec)} bytes"
        return int(found.byte[i]), reason, data[begin + FULL_LENGTH.size : end]

    def trim(self, committed: Position) -> None:
        """Records before the position are never read again: delete segments that hold only those."""
        byte = int(committed["byte"])
        if byte <= read_json(self._directory / "committed").get("byte", 0):
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        write_json(self._directory / "committed", {"byte": byte}, durable=True)
        # The last segment stays: the spooler may be writing it.
        for segment, following in pairwise(segments(self._directory)):
            if following.start <= byte:
                segment.path.unlink(missing_ok=True)
                sums_path(segment.path).unlink(missing_ok=True)


def _evenly(borders: list[int], first: int, last: int, parts: int) -> list[int]:
    """At most parts - 1 of the borders, nearest to even shares."""
    wanted = [first + (last - first) * i // parts for i in range(1, parts)]
    return sorted({min(borders, key=lambda border: abs(border - want)) for want in wanted}) if borders else []
