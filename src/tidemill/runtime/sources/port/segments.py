"""The spool on disk: records in segment files, each named by the global byte it starts at.

A record is [arrival micros, 8 bytes][length, 4 bytes][bytes], little endian. The top bit of the length marks
a record that was too long: its bytes are then [full length, 8 bytes][the first bytes]. A record
is never empty and never crosses two segments.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tidemill.errors import SourceProblem
from tidemill.runtime.integrity import openable, parse_stamped, read_bytes, stamp
from tidemill.runtime.paths import check_owner, owner_of
from tidemill.runtime.sources.port.checksums import read_verified

HEADER = struct.Struct("<qI")
FULL_LENGTH = struct.Struct("<q")
CUT_SHORT = 1 << 31  # the top bit of a length, which records of at most 2^31 - 1 bytes leave free


@dataclass(frozen=True)
class Segment:
    """A spool file and the global bytes it holds now."""

    path: Path
    start: int
    end: int


class Records(NamedTuple):
    """Records as columns: global byte, arrival, where the bytes are in the data, whether cut short."""

    byte: np.ndarray
    arrival: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    is_cut: np.ndarray

    def pick(self, index: np.ndarray | slice) -> Records:
        return Records(*(column[index] for column in self))


def segment_path(directory: Path, start: int) -> Path:
    return directory / f"spool-{start:012d}.log"


def segments(directory: Path) -> list[Segment]:
    """The segments that exist, in order."""
    found = []
    for path in directory.glob("spool-*.log"):
        try:
            start = int(path.stem.removeprefix("spool-"))
            with openable(path):
                found.append(Segment(path, start, start + path.stat().st_size))
        except (ValueError, FileNotFoundError):
            continue
    return sorted(found, key=lambda segment: segment.start)


def records(data: bytes, base: int, limit: int | None = None) -> Records:
    """The complete records from the start of `data`, at most `limit`; `base` is its global byte.

    Where the complete records stop, a torn one may follow.
    """
    # Here, because a planner as a rule needs no record, and the compiler's library takes a while to load.
    from tidemill.runtime.kernels.text.spool import find_records

    octets = np.frombuffer(data, np.uint8)
    most = -1 if limit is None else limit
    none, unmarked = np.empty(0, np.int64), np.empty(0, np.bool_)
    count = find_records(octets, most, none, none, none, unmarked)
    arrival, begin, end = (np.empty(count, np.int64) for _ in range(3))
    marks = np.empty(count, np.bool_)
    find_records(octets, most, arrival, begin, end, marks)
    return Records(base + begin - HEADER.size, arrival, begin, end, marks)


def walk(directory: Path, start: int, end: int, limit: int | None = None) -> Iterator[tuple[bytes, Records]]:
    """The complete records of bytes start..end, segment by segment with its data; at most `limit`.

    Bytes that were trimmed away are an error; bytes that are not there yet just end the walk.
    """
    for segment in segments(directory):
        if segment.end <= start or segment.start >= end or limit == 0:
            continue
        if segment.start > start:
            raise SourceProblem(
                "TM406",
                "a part of the spool is missing",
                detail=f"{directory}: bytes {start} to {segment.start}",
                hint="positions before the last commit cannot be read again",
            )
        data = read_verified(segment.path, segment.start, start, min(end, segment.end))
        found = records(data, start, limit)
        if not len(found.end):
            return
        yield data, found
        start += int(found.end[-1])
        limit = None if limit is None else limit - len(found.end)


def read_json(path: Path) -> dict[str, int]:
    """A small state file; {} while it does not exist. One of another database is refused."""
    try:
        found = parse_stamped(str(path), read_bytes(path))
    except FileNotFoundError:
        return {}
    if "database" in found:  # else from before they had one
        check_owner(owner_of(str(path.parent)), str(path), found)
        del found["database"]
    return found


def write_json(path: Path, state: dict[str, int], durable: bool = False) -> None:
    """Replace a state file at once: readers see the old or the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    database = owner_of(str(path.parent)).database
    with open(draft, "wb") as file:
        file.write(stamp(json.dumps({**state, **({"database": database} if database else {})}).encode()))
        file.flush()
        if durable:
            os.fsync(file.fileno())
    with openable(path):
        os.replace(draft, path)
