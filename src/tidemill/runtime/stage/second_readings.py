"""How far time is closed for sources that are read a second time, from the beginning.

Until it has caught up, the second reading is closed as far as the first one was at the same place. From then on both
are at the same place after every batch, and what is true of the first is true of the second.
"""

from __future__ import annotations

from tidemill.plan.measured.sources import Sources, SourceTimes
from tidemill.plan.physical import BEGINNING, Physical
from tidemill.runtime.messages.ticks import BatchNote, SecondReading

_NOT_BEGUN = SecondReading(behind=True, share=0.0, floor=BEGINNING)


def follow_first_readings(known: Sources, plan: Physical, note: BatchNote) -> None:
    """Bring second readings up to date in `known` (source → top, floor), where first readings are up to date; a floor
    never falls.
    """
    for spec in plan.sources:
        if spec.rereads is not None:
            said = note.sources[spec.name].second if spec.name in note.sources else None
            _follow(known[spec.name], known[spec.rereads], said or _NOT_BEGUN, bool(spec.timestamp))


def _follow(entry: SourceTimes, first: SourceTimes, said: SecondReading, timed: bool) -> None:
    entry["behind"], entry["share"] = said.behind, said.share
    # Records without event times come in the order of their arrival.
    entry["floor"] = max(entry["floor"], said.floor, BEGINNING if timed else entry["top"])
    if not said.behind:
        entry["top"], entry["floor"] = max(entry["top"], first["top"]), max(entry["floor"], first["floor"])
        entry["first"] = first.get("first") if entry.get("first") is None else entry["first"]
