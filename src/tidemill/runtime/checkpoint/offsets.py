"""Offsets: everything that a replay of a micro-batch needs to compute the same again.

Spark logs offsets as JSON, in files that are found by the number of their batch, and compares them as text. An offset
that is put in the place of another one is known by its checksum, its database and its batch. One without these is from
before there were any, or the first.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tidemill.plan.physical import BEGINNING
from tidemill.plan.physical.codec import decoder, encode
from tidemill.plan.sources import Position
from tidemill.runtime.integrity import damaged, foreign, misfit
from tidemill.runtime.paths import Paths

Logged = dict[str, Any]  # an offset as Spark's interface has it: the JSON object that it logs


class Jump(NamedTuple):
    """Where time was closed further than the rows say: the source was idle, or its input was said to be over."""

    place: Position
    closed: int


@dataclass(frozen=True)
class SourceOffset:
    """How far one source is read, and what was known of its time when the batch was planned."""

    position: Position
    clock: int | None = None  # the arrival clock, where there is no timestamp column
    done: bool = False  # a table that was read to its end
    idle: bool = False
    floor: int = BEGINNING  # everything before it is closed
    top: int = BEGINNING  # the greatest time
    silent: int = 0  # for how long all sources that are read together have had no rows, in microseconds
    seen: int | None = None  # when its rows came, where some may be too far ahead of that
    end: int = BEGINNING  # the greatest time of the input of another site, where that is over
    over: int = 0  # OVER, OVER_FOR_GOOD
    shed: bool = False  # the batch drops updates beyond the cap of the source
    jumps: tuple[Jump, ...] | None = None  # in order; None: some are not known


@dataclass(frozen=True)
class Offset:
    """The end of a batch, which is the start of the next one."""

    plan: int = 0
    feedback: int = -1  # the last feedback that was taken in
    final: int = 0  # the finite run that ends here
    closes: int = 0  # the finite run here that closes everything
    peek: int = 0  # which end of the input the batch shows; 0: none
    peeks: int = 0  # such ends so far
    sources: dict[str, SourceOffset] = field(default_factory=dict)
    batch: int | None = None
    database: str = ""
    sum: int | None = None

    def encode(self) -> Logged:
        """As Spark logs it; `decode_offset` is the inverse."""
        found: Logged = json.loads(json.dumps(self, default=encode))
        return found


def decode_offset(logged: Logged) -> Offset:
    """An offset that was logged by this version, or an older one: a time that was not known was an empty text.

    >>> offset = Offset(plan=3, sources={"S": SourceOffset({"row": 7}, jumps=(Jump({"row": 2}, 40),))})
    >>> decode_offset(offset.encode()) == offset
    True
    >>> decode_offset({"plan": 1, "sources": {"S": {"position": {"row": 7}, "clock": ""}}}).sources["S"].clock is None
    True
    """
    sources = {
        name: {**entry, "clock": None if entry.get("clock") == "" else entry.get("clock")}
        for name, entry in logged["sources"].items()
    }
    found: Offset = decoder(Offset)({**logged, "sources": sources})
    return found


def read_offset(paths: Paths, path: str, logged: Logged, batch: int | None = None) -> Offset:
    """An offset that Spark has logged. Another one, or that of another database or batch, is refused."""
    if logged.get("sum") is not None and logged["sum"] != offset_sum(logged):
        raise damaged(path, "the checksum of an offset is not that of its content")
    found, database = decode_offset(logged), paths.database
    if database and found.database not in ("", database):
        raise foreign(path, found.database, database)
    if batch is not None and found.batch not in (None, batch):
        raise misfit(path, f"it is the offset of batch {found.batch}, not of batch {batch}")
    return found


def sign_offset(end: Offset, start: Offset, reached: int | None, database: str) -> Offset:
    """The end of the batch that follows `start`. `reached` is the last batch that is done, for a start without one."""
    before = reached if start.batch is None else start.batch
    own = replace(end, batch=None if before is None else before + 1, database=database)
    return replace(own, sum=offset_sum(own.encode()))


def offset_sum(logged: Logged) -> int:
    """The checksum of an offset."""
    text = json.dumps({name: value for name, value in logged.items() if name != "sum"}, sort_keys=True)
    return zlib.crc32(text.encode())
