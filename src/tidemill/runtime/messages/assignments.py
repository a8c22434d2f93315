"""What the planner gives to the readers of one micro-batch."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemill.plan.physical import BEGINNING, Physical
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.messages.ticks import BatchNote
from tidemill.runtime.sources.connector import Range


@dataclass(frozen=True)
class Work:
    """A piece of one source for one reader, with the frontier and the greatest time before it."""

    source: str
    piece: Range
    floor: int
    top: int
    seen: int = BEGINNING  # the wall time at which the batch was planned, for sources that ask how far ahead rows are
    skip: bool = False  # its records become dead letters
    also: tuple[str, ...] = ()  # second readings of the source that have caught up: they get the same rows


@dataclass(frozen=True)
class Assignment:
    """All that one reader partition does in one micro-batch."""

    index: int
    plan: int
    work: tuple[Work, ...]
    feedback: tuple[int, ...]
    note: BatchNote = field(default_factory=BatchNote)


def spec_of(plan: Physical, name: str) -> SourceSpec:
    """The specification of a source instance in a plan."""
    return next(s for s in plan.sources if s.name == name)
