"""What views would also show if the input ended here.

A run over finite input reads what is there, and more may come later: the newest times are not closed, and what waits
for them stays in the state. So that the answer is complete all the same, every shard closes them in a *copy* of its
state and sends what the gates then let out. The views show it until the next rows come; then it is as if it had never
been. So any cut of the input into runs gives the answers of one run over all of it.

Views are closed by their own inputs only: those that read the same sources are closed together, at the greatest time
of these sources. Other queries make no difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemill.plan.below import Below
from tidemill.plan.physical import CLOCK, Exchange, Op, Physical
from tidemill.runtime.evaluate import Evaluation
from tidemill.runtime.failures import above
from tidemill.runtime.forks import Forks
from tidemill.runtime.frontiers import clock_begin, ended
from tidemill.runtime.limits import memory_limited
from tidemill.runtime.operators.base import Batch
from tidemill.runtime.ports import feeds, loop_frontiers, sent_round
from tidemill.runtime.state import Shelf

Piece = tuple[int, str, bytes]  # (shard, port, payload)


@dataclass(frozen=True)
class Group:
    """The views that read the same sources, and all that they need of a plan."""

    name: str
    sources: frozenset[str]
    ops: tuple[Op, ...]
    gates: tuple[str, ...]
    loops: tuple[Exchange, ...]


@dataclass
class Ended:
    """What the shard of a group shows and sends when the input has ended."""

    gates: list[tuple[str, pa.Table]]
    loops: list[Piece]
    frontiers: dict[str, int]


def groups(plan: Physical) -> tuple[Group, ...]:
    """The outputs of a plan by the moving sources below them; those of tables alone need no end."""
    below = Below(plan)
    found: dict[frozenset[str], list[str]] = {}
    for output in plan.outputs:
        sources = below.sources(output.op)
        if sources:
            found.setdefault(sources, []).append(output.op)
    return tuple(_group(below, f"g{i}", sources, tuple(dict.fromkeys(gates)))
                 for i, (sources, gates) in enumerate(sorted(found.items(), key=lambda item: sorted(item[0]))))


def _group(below: Below, name: str, sources: frozenset[str], gates: tuple[str, ...]) -> Group:
    under = below.all(*gates)
    return Group(name, sources, tuple(op for op in below.plan.stage if op.id in under), gates,
                 tuple(edge for edge in below.plan.loops if edge.port in under))


class Provisional:
    """One shard at the provisional end of its input."""

    def __init__(self, plan: Physical, shard: int, directory: str) -> None:
        self.plan, self.shard, self.directory = plan, shard, directory

    def forked(self, blob: bytes, serial: int) -> Forks:
        """Copies of the state, one for each group."""
        return Forks(serial, {group.name: blob for group in groups(self.plan)})

    def end(self, forks: Forks, arrived: dict[str, list[pa.Table]],
            loops: dict[str, dict[str, int]]) -> tuple[Forks, dict[str, Ended]]:
        """Close the times of each group in its copy, with what has come round since; what it shows and sends. Copies
        without loops have said everything then and are not kept.
        """
        kept, found = Forks(forks.serial), {}
        for group in groups(self.plan):
            if group.name in forks.blobs:
                shelf = Shelf.load(forks.blobs[group.name], self.directory)
                shelf.value("@ports").update(loops.get(group.name, {}))
                found[group.name] = self._ended(group, shelf, arrived)
                if group.loops:
                    kept.blobs[group.name] = shelf.dump(collect=False)
        return kept, found

    def _ended(self, group: Group, shelf: Shelf, arrived: dict[str, list[pa.Table]]) -> Ended:
        failed: dict[str, str] = {}
        evaluation = Evaluation(
            {op.id: op for op in group.ops}, self._feeds(group, shelf, arrived, failed), shelf,
            (self.plan.shards.index(self.shard), len(self.plan.shards)), lambda *_: None,
            failed=failed, lost=above(self.plan, failed) if failed else set(), seconds=self.plan.operator_seconds,
        )
        evaluation.readers.update([e.source_op for e in group.loops] + list(group.gates))
        with memory_limited(self.plan.operator_memory):
            evaluation.run()
        rows = [(gate, found.rows) for gate in group.gates if (found := evaluation.outcome(gate)) is not None]
        return Ended(
            [(gate, table) for gate, table in rows if table is not None and table.num_rows],
            [(shard, f"{group.name} {edge.port}", payload) for edge in group.loops
             for shard, payload in sent_round(self.plan, evaluation, edge)],
            loop_frontiers(group.loops, evaluation),
        )

    def _feeds(self, group: Group, shelf: Shelf, arrived: dict[str, list[pa.Table]],
               failed: dict[str, str]) -> dict[str, Batch]:
        """No rows but those of loops; the group's sources are closed."""
        sources = ended(shelf.value("@sources"), group.sources)
        clock: dict[str, Any] = shelf.value(CLOCK)
        if all(sources[name].get("first") is None for name in group.sources):
            clock["begin"] = None  # for these sources time has not begun, whatever others have had
        elif clock.get("begin") is None:
            clock["begin"] = clock_begin(self.plan, sources)
        clock |= {"ended": True, "closed": min(sources[name]["floor"] for name in group.sources)}
        mine = {port.removeprefix(f"{group.name} "): tables for port, tables in arrived.items()
                if port.startswith(f"{group.name} ")}
        return feeds(self.plan, sources, shelf.value("@ports"), mine, failed)
