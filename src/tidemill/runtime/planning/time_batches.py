"""When the passing of time alone begins a batch: only where something waits for it. An idle port costs no batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.plan.below import Below, sources_read_together
from tidemill.plan.physical import BEGINNING, Clock, Op, Physical, Rstream
from tidemill.runtime.checkpoint.offsets import SourceOffset
from tidemill.runtime.messages.batch_progress import SourceProgress

Waits = Mapping[str, int]  # operator → the first time for which something waits in it


@dataclass(frozen=True)
class Awaited:
    """The sources that each operator of a plan reads, the operators that report periodically, and the sources that are
    read together.
    """

    below: Mapping[str, frozenset[str]]
    rhythms: tuple[tuple[str, int, int], ...]  # operator, length, offset
    together: tuple[frozenset[str], ...]

    @staticmethod
    def by(plan: Physical) -> Awaited:
        below = Below(plan)
        return Awaited(
            {op.id: below.first_readings(op.id) for op in plan.stage},
            tuple((op.id, *found) for op in plan.stage if (found := _rhythm(op)) is not None),
            sources_read_together(plan),
        )

    def passes(self, source: str, since: int, until: int, waits: Waits | None, held: Mapping[str, int]) -> bool:
        """Whether an answer may change when the time of a source goes from `since` to `until`. An operator that also
        reads a source in `held` waits until that one is closed as far. True without `waits`: nothing is known.
        """
        if waits is None:
            return True
        points = [*waits.items(), *((op, since + (offset - since) % every) for op, every, offset in self.rhythms)]
        return any(point < until and self._moves(op, source, point, held) for op, point in points)

    def next_point(self, source: str, closed: int, waits: Waits | None) -> int | None:
        """The first time, not before `closed`, at which something waits for a source; None where nothing does.
        `closed` without `waits`: nothing is known.
        """
        if waits is None:
            return closed
        points = [*waits.items(), *((op, closed + (offset - closed) % every) for op, every, offset in self.rhythms)]
        own = (point for op, point in points if source in self.below.get(op, frozenset({source})))
        return min((point for point in own if point >= closed), default=None)

    def _moves(self, op: str, source: str, point: int, held: Mapping[str, int]) -> bool:
        below = self.below.get(op)
        return below is None or (source in below and all(held.get(name, point + 1) > point for name in below))


def held_sources(
    plan: Physical, sources: Mapping[str, SourceOffset], notes: Mapping[str, SourceProgress]
) -> dict[str, int]:
    """The sources whose time only rows advance, and how far they are closed."""
    return {
        s.name: notes[s.name]["floor"] if s.name in notes else BEGINNING
        for s in plan.sources
        if s.timestamp and not s.static and not s.rereads and not sources[s.name].idle
    }


def _rhythm(op: Op) -> tuple[int, int] | None:
    """The points at which an operator answers, whether anything has changed or not."""
    if isinstance(op, Clock):
        return op.unit_us, 0
    return op.period if isinstance(op, Rstream) else None
