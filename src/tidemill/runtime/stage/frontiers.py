"""How far time is closed for each source: the same computation in every shard, from the same ticks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.plan.below import sources_read_together
from tidemill.plan.measured.sources import Sources
from tidemill.plan.physical import BEGINNING, FOREVER, Physical
from tidemill.plan.relations import STATIC_TIME
from tidemill.plan.sources import SHED_UPDATES, SITE, SourceSpec
from tidemill.runtime.messages.ticks import OVER_FOR_GOOD, BatchNote, ReaderTick, SourceNote
from tidemill.runtime.stage.second_readings import follow_first_readings

_FIRST_DAYS_US = 400 * 86_400_000_000  # longer than any calendar period, so that each has a point in them


def advance(known: Sources, plan: Physical, ticks: list[ReaderTick]) -> Sources:
    """Update `known` (source → top, floor) in place; a floor never falls.

    floor = greatest time seen − lateness, or the arrival clock where there is no timestamp column.
    The second reading of a source is where the first one was, and with it once it has caught up (`second_readings`).
    The time of an idle source is closed, and it follows the event times that it is read together with; where all of
    those are idle, time passes as long as they are silent. Arrival times close no event times. When the input is over
    for good, every source is closed up to and including the greatest time of all; if none has ever had a row, up to
    some days after the time of static rows, which is before every other.
    """
    note = ticks[0].note
    for spec in plan.sources:
        entry = known.setdefault(spec.name, {"top": BEGINNING, "floor": BEGINNING})
        for tick in ticks:
            tally = tick.tallies.get(spec.name)
            if tally:
                entry["top"] = max(entry["top"], tally.top)
                if entry.get("first") is None and tally.first is not None:
                    # Rows may still come from before the first one, as far back as the lateness allows.
                    entry["first"] = tally.first - spec.lateness_us
        said = note.sources.get(spec.name, SourceNote())
        if spec.kind == SITE:
            entry["top"] = max(entry["top"], said.end)
        entry.pop("over", None)
        if said.over:
            entry["over"] = said.over
        if SHED_UPDATES in spec.options:
            entry["shed"] = said.shed
        if said.again or "again" in entry:
            entry["again"] = said.again
        entry["floor"] = max(entry["floor"], _source_floor(spec, entry["top"], note.sources.get(spec.name)))
    _advance_idle(known, plan, note)
    ended = {s.name for s in _moving(plan) if known[s.name].get("over") == OVER_FOR_GOOD}
    if note.closes or ended:
        known |= close_sources(known, {s.name for s in _moving(plan)} if note.closes else ended)
    follow_first_readings(known, plan, note)
    for name in [n for n in known if n not in {s.name for s in plan.sources}]:
        del known[name]
    return known


def clock_of(plan: Physical, sources: Sources) -> int:
    """The database clock: the least floor of all sources that move."""
    return min((sources[s.name]["floor"] for s in _clock_sources(plan)), default=BEGINNING)


def clock_begin(plan: Physical, sources: Sources) -> int | None:
    """The time at which clockStr begins to tick: before the earliest row that any source may still deliver."""
    if clock_of(plan, sources) <= BEGINNING:
        return None
    firsts = [sources[s.name].get("first") for s in _clock_sources(plan)]
    return min((f for f in firsts if f is not None), default=None)


def _clock_sources(plan: Physical) -> list[SourceSpec]:
    """The sources that the clock follows: those of this site, so that another one cannot stop it; where there are
    none, what other sites deliver.
    """
    moving = _moving(plan)
    return [s for s in moving if s.kind != SITE] or moving


def has_ended(plan: Physical, clock: dict[str, Any], ticks: list[ReaderTick]) -> bool:
    """True from the end of the input until rows come again; answers may still be on their way through loops."""
    if ticks[0].note.closes:
        return True
    second = {s.name for s in plan.sources if s.rereads}
    rows = (t.rows for tick in ticks for name, t in tick.tallies.items() if name not in second)
    return bool(clock.get("ended")) and not any(rows)


def close_sources(known: Sources, names: Iterable[str]) -> Sources:
    """The sources as if these had no more rows: closed up to and including their greatest time."""
    names = set(names)
    end = max((known[n]["top"] for n in names), default=BEGINNING)
    if end <= BEGINNING:
        # There were no rows. Answers without rows begin at the static time; every period has a point in this span.
        end = STATIC_TIME + _FIRST_DAYS_US
    return {
        name: {**entry, "floor": max(entry["floor"], end + 1)} if name in names else entry
        for name, entry in known.items()
    }


def _moving(plan: Physical) -> list[SourceSpec]:
    """The sources whose time passes: no tables, and no second readings."""
    return [s for s in plan.sources if not s.static and not s.rereads]


def _source_floor(spec: SourceSpec, top: int, note: SourceNote | None) -> int:
    if spec.static:
        return FOREVER if note and note.done else BEGINNING
    if spec.timestamp:
        return top - spec.lateness_us if top > BEGINNING else BEGINNING
    return note.clock if note and note.clock is not None else BEGINNING


def _advance_idle(known: Sources, plan: Physical, note: BatchNote) -> None:
    notes = note.sources
    idle = {s.name for s in _moving(plan) if s.timestamp and notes.get(s.name, SourceNote()).idle}
    if not idle:
        return
    for together in sources_read_together(plan):
        ahead = max((known[n]["floor"] for n in together - idle), default=BEGINNING)
        top = max(known[n]["top"] for n in together)
        if together <= idle and top > BEGINNING:
            ahead = top + max(notes[n].silent for n in together) + 1
        for name in together & idle:
            own = known[name]["top"] + 1 if known[name]["top"] > BEGINNING else BEGINNING
            known[name]["floor"] = max(known[name]["floor"], own, ahead)
