"""Where time alone is worth a batch: only where something waits for it. A silent port must not keep a machine busy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.plan.below import Below, read_together
from tidemill.plan.physical import BEGINNING, Op, Physical

Waits = Mapping[str, int]  # operator → the first time for which something waits in it


@dataclass(frozen=True)
class Awaited:
    """Which sources every operator of a plan reads, who reports at points of its own, and who is read together."""

    below: Mapping[str, frozenset[str]]
    rhythms: tuple[tuple[str, int, int], ...]  # operator, length, offset
    together: tuple[frozenset[str], ...]

    @staticmethod
    def by(plan: Physical) -> Awaited:
        below = Below(plan)
        return Awaited({op.id: below.sources(op.id) for op in plan.stage},
                       tuple((op.id, *found) for op in plan.stage if (found := _rhythm(op)) is not None),
                       read_together(plan))

    def passes(self, source: str, since: int, until: int, waits: Waits | None, held: Mapping[str, int]) -> bool:
        """Whether an answer may change when the time of a source goes from one to the other. What also reads a source
        that is `held` (and how far that one is) waits for it. Without `waits` nothing is known.
        """
        if waits is None:
            return True
        points = [*waits.items(), *((op, since + (offset - since) % every) for op, every, offset in self.rhythms)]
        return any(point < until and self._moves(op, source, point, held) for op, point in points)

    def _moves(self, op: str, source: str, point: int, held: Mapping[str, int]) -> bool:
        below = self.below.get(op)
        return below is None or (source in below and all(held.get(name, point + 1) > point for name in below))


def held(plan: Physical, sources: Mapping[str, Mapping[str, object]], notes: Mapping[str, Mapping[str, int]]
         ) -> dict[str, int]:
    """The sources that only rows move, and how far they are closed."""
    return {s.name: notes.get(s.name, {}).get("floor", BEGINNING)
            for s in plan.sources if s.timestamp and not s.static and not sources[s.name]["idle"]}


def _rhythm(op: Op) -> tuple[int, int] | None:
    """The points at which an operator answers, whether anything has changed or not."""
    if op.kind == "clock":
        return op.params["unit"], 0
    period = op.params.get("period") if op.kind == "rstream" else None
    return (period[0], period[1]) if period else None
