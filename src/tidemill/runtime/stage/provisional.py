"""What views would also show if the input ended here.

A run over finite input reads what is there, and more may come later: the newest times are not closed, and changes that
wait for them stay in the state. To complete the answer, every shard closes these times in a *copy* of its state and
sends the output of the views. The views show these provisional rows until the next rows come, and then remove them. So
any cut of the input into runs gives the answers of one run over all of it.

Views are closed by their own inputs only: those that read the same sources are closed together, at the greatest time
of these sources. Other queries do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemill.plan.below import Below
from tidemill.plan.physical import CLOCK, Exchange, Op, Physical
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.evaluation.evaluate import Evaluation
from tidemill.runtime.evaluation.failures import operators_above
from tidemill.runtime.evaluation.limits import memory_limited
from tidemill.runtime.stage.frontiers import clock_begin, close_sources
from tidemill.runtime.stage.ports import frontier_of, loop_frontiers, port_feeds, route_loop
from tidemill.runtime.state.forks import Forks
from tidemill.runtime.state.shard_state import ShardState

Piece = tuple[int, str, bytes]  # (shard, port, payload)


@dataclass(frozen=True)
class Group:
    """The views that read the same sources, and all that they need of a plan."""

    name: str
    sources: frozenset[str]
    ops: tuple[Op, ...]
    outputs: tuple[str, ...]
    loops: tuple[Exchange, ...]


@dataclass
class Ended:
    """What the shard of a group shows and sends when the input has ended."""

    outputs: list[tuple[str, pa.Table]]
    loops: list[Piece]
    frontiers: dict[str, int]  # of loops
    ends: dict[str, tuple[int, int]]  # output → its frontier, and the one that it has when it shows everything


def groups(plan: Physical) -> tuple[Group, ...]:
    """The outputs of a plan by the moving sources below them; those of tables alone need no end."""
    below = Below(plan)
    found: dict[frozenset[str], list[str]] = {}
    for output in plan.outputs:
        sources = below.sources(output.op)
        if sources:
            found.setdefault(sources, []).append(output.op)
    return tuple(
        _group(below, f"g{i}", sources, tuple(dict.fromkeys(outputs)))
        for i, (sources, outputs) in enumerate(sorted(found.items(), key=lambda item: sorted(item[0])))
    )


def _group(below: Below, name: str, sources: frozenset[str], outputs: tuple[str, ...]) -> Group:
    under = below.all(*outputs)
    return Group(
        name,
        sources,
        tuple(op for op in below.plan.stage if op.id in under),
        outputs,
        tuple(edge for edge in below.plan.loops if edge.port in under),
    )


class Provisional:
    """One shard at the provisional end of its input."""

    def __init__(self, plan: Physical, shard: int, directory: str) -> None:
        self.plan, self.shard, self.directory = plan, shard, directory

    def fork(self, blob: bytes, serial: int) -> Forks:
        """Copies of the state, one for each group."""
        return Forks(serial, {group.name: blob for group in groups(self.plan)})

    def end(
        self, forks: Forks, arrived: dict[str, list[pa.Table]], loops: dict[str, dict[str, int]]
    ) -> tuple[Forks, dict[str, Ended]]:
        """Close the times of each group in its copy, with the rows of loops since the last batch; what each group shows
        and sends. Copies of groups without loops are complete then and are not kept.
        """
        kept, found = Forks(forks.serial), {}
        for group in groups(self.plan):
            if group.name in forks.blobs:
                state = ShardState.load(forks.blobs[group.name], self.directory)
                state.value("@ports").update(loops.get(group.name, {}))
                found[group.name] = self._evaluate_end(group, state, arrived)
                if group.loops:
                    kept.blobs[group.name] = state.dump(collect=False)
        return kept, found

    def _evaluate_end(self, group: Group, state: ShardState, arrived: dict[str, list[pa.Table]]) -> Ended:
        failed: dict[str, str] = {}
        evaluation = Evaluation(
            {op.id: op for op in group.ops},
            self._feeds(group, state, arrived, failed),
            state,
            (self.plan.shards.index(self.shard), len(self.plan.shards)),
            lambda *_: None,
            failed=failed,
            lost=operators_above(self.plan, failed) if failed else set(),
            seconds=self.plan.operator_seconds,
        )
        evaluation.readers.update([e.source_op for e in group.loops] + list(group.outputs))
        with memory_limited(self.plan.operator_memory):
            evaluation.run()
        rows = [(output, found.rows) for output in group.outputs if (found := evaluation.outcome(output)) is not None]
        return Ended(
            [(output, table) for output, table in rows if table is not None and table.num_rows],
            [
                (shard, f"{group.name} {edge.port}", payload)
                for edge in group.loops
                for shard, payload in route_loop(self.plan, evaluation, edge)
            ],
            loop_frontiers(group.loops, evaluation),
            {output: (frontier_of(evaluation, output), state.value(CLOCK)["closed"]) for output in group.outputs},
        )

    def _feeds(
        self, group: Group, state: ShardState, arrived: dict[str, list[pa.Table]], failed: dict[str, str]
    ) -> dict[str, Batch]:
        """No rows but those of loops; the group's sources are closed."""
        sources = close_sources(state.sources(), group.sources)
        clock: dict[str, Any] = state.value(CLOCK)
        if all(sources[name].get("first") is None for name in group.sources):
            clock["begin"] = None  # for these sources time has not begun, whatever others have had
        elif clock.get("begin") is None:
            clock["begin"] = clock_begin(self.plan, sources)
        clock |= {"ended": True, "closed": min(sources[name]["floor"] for name in group.sources)}
        looped = {
            port.removeprefix(f"{group.name} "): tables
            for port, tables in arrived.items()
            if port.startswith(f"{group.name} ")
        }
        return port_feeds(self.plan, sources, state.value("@ports"), looped, failed)
