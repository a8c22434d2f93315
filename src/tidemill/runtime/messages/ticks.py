"""Ticks: what readers send to every shard, and shards to the outlet, at the end of their part of a micro-batch.

A tick is a dataclass; `encode_tick` and the two `decode_…` functions are its only codec, by the types of its fields.
Ticks live for one batch and are never stored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tidemill.plan.measured.joins import JoinCounts
from tidemill.plan.measured.sources import Sources
from tidemill.plan.measured.windows import ReaderCounts, SourceCounts
from tidemill.plan.physical import BEGINNING
from tidemill.plan.physical.codec import decoder
from tidemill.runtime.messages.operator_counts import Counts, ShedCount
from tidemill.runtime.messages.source_counts import Tally
from tidemill.runtime.sites.join_values import Measure


@dataclass(frozen=True)
class SecondReading:
    """How far the second reading of a source is when a batch ends."""

    behind: bool  # the first reading is further
    share: float  # of what the first reading has read
    floor: int  # how far time is closed there, whatever the rows say


OVER, OVER_FOR_GOOD = 1, 2


@dataclass(frozen=True)
class SourceNote:
    """The state of a source when the planner plans a batch."""

    done: bool = False  # a table that was read to its end
    idle: bool = False
    clock: int | None = None  # the arrival clock, where there is no timestamp column
    silent: int = 0  # for how long all sources that are read together have been silent, in microseconds
    shed: bool = False  # the batch drops updates beyond the cap of the source
    end: int = BEGINNING  # the greatest time of the input of another site, where that is over
    over: int = 0  # there is nothing more in this finite run (OVER), and never will be (OVER_FOR_GOOD)
    again: bool = False  # it can be read a second time with the same late rows
    second: SecondReading | None = None  # of a source that is read a second time


@dataclass(frozen=True)
class BatchNote:
    """What the planner sends to all readers and shards of a batch."""

    batch: int | None = None
    offset: int | None = None  # the checksum of the offset that the batch ends at
    sweep: bool = False  # the first batch after a start: remove what failed attempts left behind
    final: int = 0  # the finite run that ends with this batch; 0: none
    closes: bool = False  # the input is over for good
    peek: int = 0  # the end of the input that the batch shows; 0: none
    sources: dict[str, SourceNote] = field(default_factory=dict)


@dataclass
class ReaderTick:
    """What one reader sends to every shard."""

    index: int
    plan: int
    note: BatchNote
    tallies: dict[str, Tally] = field(default_factory=dict)
    loops: dict[str, int] = field(default_factory=dict)  # port → how far what came round is closed
    seeds: dict[str, int] = field(default_factory=dict)
    peeks: dict[str, dict[str, int]] = field(default_factory=dict)  # group → loops of the provisional end
    failed: dict[str, str] = field(default_factory=dict)  # operator → why
    lfta: dict[str, list[ReaderCounts]] = field(default_factory=dict)  # for one shard only: it passes them on
    operators: Counts = field(default_factory=dict)  # for the same shard: what the reader's operators did
    measures: dict[str, Measure] = field(default_factory=dict)  # for the same shard: join values of sources


@dataclass
class ShardTick:
    """What one shard sends to the outlet."""

    plan: int
    offset: int | None
    final: int
    sources: Sources
    tallies: dict[str, Tally]
    loops: dict[str, int]
    outputs: list[int]  # the frontier of each output of the plan
    failed: dict[str, str]
    state_rows: int
    state_bytes: int
    state_files: int
    seconds: float
    waits: dict[str, int]  # operator → the first time for which something waits
    clock: int
    lfta: dict[str, SourceCounts]
    joins: dict[str, JoinCounts]  # by operator
    shed: dict[str, ShedCount]  # by operator
    inbox: list[str]  # files that the shard has read
    peek: int
    peeks: dict[str, dict[str, int]]
    operators: Counts = field(default_factory=dict)  # what the operators of the shard did, and those of readers
    ends: dict[str, tuple[int, int]] = field(default_factory=dict)  # output of the provisional end → frontier, end
    measures: dict[str, Measure] = field(default_factory=dict)  # join values of sources, all readers together


def encode_tick(tick: ReaderTick | ShardTick) -> bytes:
    """The payload of a tick.

    >>> tick = ReaderTick(0, 7, BatchNote(3, sources={"S": SourceNote(clock=5)}), {"S": Tally(rows=2)})
    >>> decode_reader_tick(encode_tick(tick)) == tick
    True
    """
    return json.dumps(vars(tick), default=vars).encode()


def decode_reader_tick(payload: bytes | memoryview) -> ReaderTick:
    """The tick of a reader."""
    found: ReaderTick = decoder(ReaderTick)(json.loads(bytes(payload)))
    return found


def decode_shard_tick(payload: bytes) -> ShardTick:
    """The tick of a shard."""
    found: ShardTick = decoder(ShardTick)(json.loads(payload))
    return found
