"""Changes that visit the other inputs, site after site, make the log of the join: any order, any network, ties."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.sites.cases import Case, many_sites
from tests.sites.histories import K, log_of
from tests.sites.network import Network
from tidemill.plan.sites.half_joins import HalfJoins, closed_until, connected_orders, moment_seen

END = 10_000


class Visits:
    """One sequence: stage 0 is the head's own changes, stage i what has visited i inputs; edges lie between stages."""

    def __init__(self, world: World, plan: HalfJoins) -> None:
        self.world, self.plan = world, plan
        self.stages = (plan.head, *plan.order)
        self.done = [0] * (len(self.stages) + 1)  # frontier of what each stage has sent
        self.waiting: list[list[tuple[int, Any, int]]] = [[] for _ in self.stages]
        self.closed = [0] * len(self.stages)  # frontier of what has come to each stage
        for stage in range(1, len(self.stages) + 1):
            world.network.open(self.edge(stage))

    def edge(self, stage: int) -> str:
        return f"{self.plan.head}/{stage}"

    def run(self, stage: int) -> None:
        """Answer the changes of all times that are closed both here and on the way here."""
        number = self.stages[stage]
        frontier = self.world.frontier(number) if stage == 0 else min(self.closed[stage], self.world.frontier(number))
        if frontier <= self.done[stage]:
            return
        if stage == 0:
            ready = [(t, {number: row}, n) for t, row, n in self.world.logs[number] if self.done[0] <= t < frontier]
        else:
            ready = [out for c in self.waiting[stage] if c[0] < frontier for out in self.visit(number, *c)]
            self.waiting[stage] = [c for c in self.waiting[stage] if c[0] >= frontier]
        self.done[stage] = frontier
        self.world.network.send(self.edge(stage + 1), ready, frontier, 0)

    def visit(self, number: int, time: int, rows: dict[int, Any], diff: int) -> list[tuple[int, Any, int]]:
        there = self.world.relations[number](moment_seen(self.plan.head, number, time))
        near = [a if b == number else b for a, b in self.world.case.join.edges if number in (a, b)]
        values = {rows[n][K] for n in near if n in rows}
        return [
            (time, {**rows, number: row}, diff * n)
            for row, n in there.items()
            if values == {row[K]} and None not in values
        ]


class World:
    """Inputs at their sites, and a sequence for each of them; the last stage is where the answer is wanted."""

    def __init__(self, case: Case, orders: list[HalfJoins]) -> None:
        self.case, self.chance = case, random.Random(case.seed)
        self.network = Network(self.chance, case.loss, case.patience)
        self.relations = [i.window.over(i.relation()) for i in case.inputs]
        stamps = [row[2] for i in case.inputs for row, _ in i.rows]
        self.horizon = max(stamps, default=0) + 16
        self.logs = [log_of(r, range(self.horizon)) for r in self.relations]
        self.arrived = [0] * len(case.inputs)
        self.ended = False
        self.sequences = [Visits(self, plan) for plan in orders]
        self.delivered = [0] * len(orders)
        self.changes: list[tuple[int, Any, int]] = []
        self.given, self.log = 0, list[tuple[int, Any, int]]()

    def frontier(self, number: int) -> int:
        if self.ended:
            return END
        count = self.arrived[number]
        return self.case.inputs[number].rows[count - 1][0][2] if count else 0

    def round(self, *, calm: bool = False) -> None:
        for i, item in enumerate(self.case.inputs):
            self.arrived[i] = min(len(item.rows), self.arrived[i] + self.chance.choice((0, 1, 2)))
        self.ended = self.ended or calm
        for sequence in self.sequences:
            for stage in range(len(sequence.stages)):
                if calm or self.chance.random() < 0.8:
                    sequence.run(stage)
        for edge, message in self.network.round(calm=calm):
            head, stage = map(int, edge.split("/"))
            self.land(head, stage, message)
        self.answer()

    def land(self, head: int, stage: int, message: Any) -> None:
        sequence = self.sequences[head]
        if stage < len(sequence.stages):
            sequence.waiting[stage] += message.changes
            sequence.closed[stage] = message.frontier
            return
        assert all(t >= self.delivered[head] for t, _, _ in message.changes), "a late change"
        self.changes += message.changes
        self.delivered[head] = message.frontier

    def answer(self) -> None:
        frontier = min(closed_until(self.delivered), self.horizon)
        net: Counter[tuple[int, Any]] = Counter()
        for time, rows, diff in self.changes:
            if self.given <= time < frontier:
                net[time, tuple(rows[i] for i in range(len(rows)))] += diff
        self.log += [(t, row, n) for (t, row), n in sorted(net.items(), key=lambda x: (x[0][0], repr(x[0][1]))) if n]
        self.given = max(self.given, frontier)


@effort(120, thorough_cases=2_500)
@given(case=many_sites(), turns=st.lists(st.integers(0, 5), min_size=4, max_size=4))
def test_half_joins_in_any_order_make_the_log_of_the_join(case, turns):
    names = [i.alias for i in case.inputs]
    choices = [connected_orders(names, case.query().equalities, head) for head in range(len(names))]
    orders = [listed[turn % len(listed)] for listed, turn in zip(choices, turns, strict=False)]
    world = World(case, orders)
    for _ in range(30):
        world.round()
    for _ in range(12):
        world.round(calm=True)
    assert world.given == world.horizon
    expected = log_of(lambda t: case.join.at([r(t) for r in world.relations]), range(world.horizon))
    assert world.log == expected
