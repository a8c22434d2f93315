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
from typing import Any, cast

from tidemill.plan.physical import BEGINNING, Physical
from tidemill.plan.sources import ALWAYS, SHED, SHED_UPDATES, SourceSpec
from tidemill.runtime.checkpoint.offsets import Offset
from tidemill.runtime.messages.assignments import Work
from tidemill.runtime.messages.ticks import SecondReading
from tidemill.runtime.sources.connector import Connector, Position, Rereadable

MOST_JUMPS = 256  # that an offset carries; where there are more, the source cannot be read a second time
Jumps = list[Any]  # [place, how far time was closed] in order
_Entry = Mapping[str, Any]


def note_jump(plan: Physical, spec: SourceSpec, before: _Entry, after: _Entry, note: _Entry | None) -> Jumps | None:
    """The jumps of a source that a batch reads on from `before` to `after`; None where some are not known. `note` is
    how far the source was closed when the batch was planned.
    """
    entry = before.get(spec.name)
    if entry is None:
        return []
    jumps: Jumps | None = entry.get("jumps")
    if jumps is None or after[spec.name]["position"] == entry["position"] or not spec.timestamp:
        return jumps
    top, floor = ((note or entry)[name] for name in ("top", "floor"))
    by_rows = top - spec.lateness_us if top > BEGINNING else BEGINNING
    if floor <= max([by_rows, *(closed for _, closed in jumps[-1:])]):
        return jumps
    keeps = len(jumps) < MOST_JUMPS or _is_behind(plan, spec.name, before)
    return [*jumps, [entry["position"], floor]] if keeps else None


def advance_second(spec: SourceSpec, connector: Connector, before: _Entry, sources: dict[str, Any], rows: int) -> bool:
    """Move a second reading by at most `rows` rows, or with the first reading if both were at one place `before`; True
    when it is where the first reading is.
    """
    first, entry = sources[str(spec.rereads)], sources.get(spec.name)
    start = entry["position"] if entry else connector.initial()
    was = before[str(spec.rereads)]["position"] if spec.rereads in before else connector.initial()
    end = first["position"]
    position = end if start == was else cast(Rereadable, connector).portion(start, end, rows)
    sources[spec.name] = {
        "clock": "",
        "done": False,
        "floor": entry["floor"] if entry else BEGINNING,
        "idle": False,
        "position": position,
        "top": entry["top"] if entry else BEGINNING,
        **({"shed": spec.options.get(SHED) == ALWAYS} if SHED_UPDATES in spec.options else {}),
    }
    return bool(position == end)


def describe_second(spec: SourceSpec, connector: Connector, end: Offset) -> SecondReading:
    """How far a second reading is when the batch has been read."""
    first, own = end["sources"].get(spec.rereads), end["sources"].get(spec.name)
    if first is None or own is None:  # a batch that reads nothing
        return SecondReading(True, 0.0, BEGINNING)
    place = own["position"]
    order = cast(Rereadable, connector).order
    floor = max((closed for at, closed in first.get("jumps") or () if order(at) <= order(place)), default=BEGINNING)
    if place == first["position"]:
        return SecondReading(False, 1.0, max(floor, first["floor"]))
    return SecondReading(True, cast(Rereadable, connector).share(place, first["position"]), floor)


def second_pieces(spec: SourceSpec, connector: Connector, start: Offset, end: Offset) -> Iterator[Work]:
    """What one reader reads of a second reading that is behind: in order, and cut where time jumped."""
    entry = end["sources"].get(spec.name)
    if entry is None:
        return
    jumps = end["sources"][spec.rereads].get("jumps") or []
    order = cast(Rereadable, connector).order
    begin, until = _begin(start, spec.name, connector), entry["position"]
    cuts: list[Position] = [at for at, _ in jumps if order(begin) < order(at) < order(until)]
    for low, high in pairwise([begin, *cuts, until]):
        floor = max([entry["floor"], *(closed for at, closed in jumps if order(at) <= order(low))])
        for piece in connector.split(low, high, 1):
            yield Work(spec.name, piece, floor, entry["top"])


def in_step(plan: Physical, source: str, start: Offset, end: Offset) -> tuple[str, ...]:
    """The second readings of a source that read in a batch what the first one reads."""

    def places(name: str) -> tuple[Any, Any]:
        before, after = (offset["sources"].get(name) for offset in (start, end))
        return before and before["position"], after and after["position"]

    seconds = (s.name for s in plan.sources if s.rereads == source)
    return tuple(name for name in seconds if places(name) == places(source))


def _is_behind(plan: Physical, source: str, sources: _Entry) -> bool:
    """Whether a second reading of a source has not caught up."""
    seconds = [s.name for s in plan.sources if s.rereads == source]
    return any(name not in sources or sources[name]["position"] != sources[source]["position"] for name in seconds)


def needed_places(end: Offset, connectors: Mapping[str, Connector]) -> Iterator[tuple[str, Position]]:
    """For each source the place from which it is still read, by its slowest reading."""
    places: dict[str, list[Position]] = {}
    for name, connector in connectors.items():
        if name in end["sources"]:
            places.setdefault(connector.spec.origin_name, []).append(end["sources"][name]["position"])
    for name, found in places.items():
        if name in connectors:
            order = cast(Rereadable, connectors[name]).order if len(found) > 1 else None
            yield name, min(found, key=order) if order else found[0]


def _begin(start: Offset, name: str, connector: Connector) -> Position:
    before = start["sources"].get(name)
    return before["position"] if before else connector.initial()
