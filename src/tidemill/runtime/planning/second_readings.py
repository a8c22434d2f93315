"""Sources that are read a second time, from the beginning, for views that begin with the history of their streams.

In plans and offsets the second reading of a source is a source of its own (`SourceSpec.rereads`). It reads a portion in
every batch beside the first reading, and never more than that has read. Once both are at the same place, the rows of
the first reading are given to both.

The second reading must find the same rows late as the first one did. That follows from the rows, except where time was
closed further than they say: the source was idle, or the input was said to be over. Such *jumps* are noted in the
offset of the first reading when it goes on: the place, and how far time was closed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import cast

from tidemill.plan.measured.sources import SourceTimes
from tidemill.plan.physical import BEGINNING, Physical
from tidemill.plan.sources import ALWAYS, SHED, SHED_UPDATES, SourceSpec
from tidemill.runtime.checkpoint.offsets import Jump, Offset, SourceOffset
from tidemill.runtime.messages.assignments import Work
from tidemill.runtime.messages.ticks import SecondReading
from tidemill.runtime.sources.connector import Connector, Position, Rereadable

MOST_JUMPS = 256  # some 16 KB of every offset; a source with more cannot be read a second time
_Sources = Mapping[str, SourceOffset]


def note_jump(
    plan: Physical, spec: SourceSpec, before: _Sources, now: SourceOffset, note: SourceTimes | None
) -> tuple[Jump, ...] | None:
    """The jumps of a source that a batch reads on from `before` to `now`; None where some are not known. `note` is
    how far the source was closed when the batch was planned.
    """
    entry = before.get(spec.name)
    if entry is None:
        return ()
    jumps = entry.jumps
    if jumps is None or now.position == entry.position or not spec.timestamp:
        return jumps
    top, floor = (note["top"], note["floor"]) if note else (entry.top, entry.floor)
    by_rows = top - spec.lateness_us if top > BEGINNING else BEGINNING
    if floor <= max([by_rows, *(jump.closed for jump in jumps[-1:])]):
        return jumps
    keeps = len(jumps) < MOST_JUMPS or _is_behind(plan, spec.name, before)
    return (*jumps, Jump(entry.position, floor)) if keeps else None


def advance_second(
    spec: SourceSpec, connector: Connector, before: _Sources, sources: dict[str, SourceOffset], rows: int
) -> bool:
    """Move a second reading by at most `rows` rows, or with the first reading if both were at one place `before`; True
    when it is where the first reading is.
    """
    entry = sources.get(spec.name)
    start = entry.position if entry else connector.initial()
    was = before[str(spec.rereads)].position if spec.rereads in before else connector.initial()
    end = sources[str(spec.rereads)].position
    position = end if start == was else cast(Rereadable, connector).portion(start, end, rows)
    sources[spec.name] = SourceOffset(
        position,
        floor=entry.floor if entry else BEGINNING,
        top=entry.top if entry else BEGINNING,
        shed=SHED_UPDATES in spec.options and spec.options.get(SHED) == ALWAYS,
    )
    return position == end


def describe_second(spec: SourceSpec, connector: Connector, end: Offset) -> SecondReading:
    """How far a second reading is when the batch has been read."""
    first, own = end.sources.get(str(spec.rereads)), end.sources.get(spec.name)
    if first is None or own is None:  # a batch that reads nothing
        return SecondReading(True, 0.0, BEGINNING)
    place, order = own.position, cast(Rereadable, connector).order
    floor = max((closed for at, closed in first.jumps or () if order(at) <= order(place)), default=BEGINNING)
    if place == first.position:
        return SecondReading(False, 1.0, max(floor, first.floor))
    return SecondReading(True, cast(Rereadable, connector).share(place, first.position), floor)


def second_pieces(spec: SourceSpec, connector: Connector, start: Offset, end: Offset) -> Iterator[Work]:
    """What one reader reads of a second reading that is behind: in order, and cut where time jumped."""
    entry = end.sources.get(spec.name)
    if entry is None:
        return
    jumps = end.sources[str(spec.rereads)].jumps or ()
    order = cast(Rereadable, connector).order
    begin, until = _begin(start, spec.name, connector), entry.position
    cuts: list[Position] = [at for at, _ in jumps if order(begin) < order(at) < order(until)]
    for low, high in pairwise([begin, *cuts, until]):
        floor = max([entry.floor, *(closed for at, closed in jumps if order(at) <= order(low))])
        for piece in connector.split(low, high, 1):
            yield Work(spec.name, piece, floor, entry.top)


def in_step(plan: Physical, source: str, start: Offset, end: Offset) -> tuple[str, ...]:
    """The second readings of a source that read in a batch what the first one reads."""

    def places(name: str) -> tuple[Position | None, Position | None]:
        before, after = start.sources.get(name), end.sources.get(name)
        return before.position if before else None, after.position if after else None

    seconds = (s.name for s in plan.sources if s.rereads == source)
    return tuple(name for name in seconds if places(name) == places(source))


def _is_behind(plan: Physical, source: str, sources: _Sources) -> bool:
    """Whether a second reading of a source has not caught up."""
    seconds = [s.name for s in plan.sources if s.rereads == source]
    return any(name not in sources or sources[name].position != sources[source].position for name in seconds)


def needed_places(end: Offset, connectors: Mapping[str, Connector]) -> Iterator[tuple[str, Position]]:
    """For each source the place from which it is still read, by its slowest reading."""
    places: dict[str, list[Position]] = {}
    for name, connector in connectors.items():
        if name in end.sources:
            places.setdefault(connector.spec.origin_name, []).append(end.sources[name].position)
    for name, found in places.items():
        if name in connectors:
            order = cast(Rereadable, connectors[name]).order if len(found) > 1 else None
            yield name, min(found, key=order) if order else found[0]


def _begin(start: Offset, name: str, connector: Connector) -> Position:
    before = start.sources.get(name)
    return before.position if before else connector.initial()
