"""What is measured: the operator itself with full windows, each plan, for some units of time in one micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod

from experiments.joins_setting import Input, Inputs, Sweep
from tidemill.optimize.joins import orders, parameters
from tidemill.plan.physical import Physical
from tidemill.runtime.calibrate_joins import SteadyJoin
from tidemill.serve.calibrate import join_plan

RUNS, UNITS, MOST_UNITS = 5, 4, 32
BEFORE = 2  # turns that do not count: the system still hands out memory, up to half of the time of a batch
ENOUGH = 2_000_000  # joined rows of the LAP in a micro-batch


@dataclass(frozen=True)
class Work:
    """What one plan did in a unit of time: seconds, rows joined in the last step, and rows that came out."""

    seconds: float
    pairs: float
    out: float


@dataclass(frozen=True)
class Point:
    """All plans at one value of what is varied, over so many units of time in a micro-batch.

    `fixed` is what a micro-batch costs that does next to nothing.
    """

    x: float
    inputs: Inputs
    units: int
    work: dict[str, Work]
    fixed: dict[str, float]

    def seconds(self, plan: str, overhead: bool = False) -> float:
        """For a unit of time, without or with the micro-batch's own cost."""
        return self.work[plan].seconds - (0.0 if overhead else self.fixed[plan] / self.units)


@cache
def compiled(plan: str, method: str) -> Physical:
    return join_plan(plan, method)


def steady(plan: str, method: str, inputs: Sequence[Input], seed: int = 1) -> SteadyJoin:
    """The plan with full windows. Changes probe in the order that the cost functions assume, and late inputs come as
    the plan's readers send them.
    """
    physical = compiled(plan, method)
    join = SteadyJoin(physical, [i.arrivals for i in inputs], seed)
    for spec, order in zip(join.op.params["inputs"], orders(parameters([i.stream for i in inputs]), plan), strict=True):
        spec["order"] = list(order)
    sent = {op.id.split(".")[0]: op for op in physical.reader}
    join.sides = [side if bit == "1" else replace(side, kind=sent[side.id].kind, params=sent[side.id].params)
                  for side, bit in zip(join.sides, plan, strict=True)]
    return join


def measured(x: float, inputs: Inputs, sweep: Sweep, fixed: dict[str, float], runs: int = RUNS) -> Point:
    """One point. The plans take turns on the same data, each time another one first; the least of the last `runs`.

    What else the machine does can only add to the time of a run.
    """
    joins, units = {plan: steady(plan, sweep.method, inputs) for plan in sweep.plans}, units_of(inputs)
    taken: dict[str, list[float]] = {plan: [] for plan in joins}
    for turn in range(BEFORE + runs):
        for plan in (*sweep.plans[turn % len(joins) :], *sweep.plans[: turn % len(joins)]):
            taken[plan].append(joins[plan].unit(units) / units)
    work = {plan: Work(min(taken[plan][BEFORE:]), join.note["pairs"] / units, join.note["groups"] / units)
            for plan, join in joins.items()}
    return Point(x, inputs, units, work, fixed)


def units_of(inputs: Inputs) -> int:
    """Units of time in a micro-batch: as many as it takes to make its own cost small beside the work.

    >>> units_of((Input(300, 5000, 150, 10),) * 2), units_of((Input(300, 5000, 150, 2000),) * 2)
    (4, 32)
    """
    matches = [i.window / i.values for i in inputs]
    joined = sum(2 * i.rate * prod(m for j, m in enumerate(matches) if j != k) for k, i in enumerate(inputs))
    units = UNITS
    while units < MOST_UNITS and units * joined < ENOUGH:
        units *= 2
    return units


def fixed_costs(sweep: Sweep, runs: int = 9) -> dict[str, float]:
    """What a micro-batch costs in which one tuple of each input comes and goes, and meets one row of each other."""
    one = [Input(1, 1, 1, 1)] * len(sweep.points[0][1])
    joins = {plan: steady(plan, sweep.method, one) for plan in sweep.plans}
    taken = {plan: [join.unit() for _ in range(runs)] for plan, join in joins.items()}
    return {plan: min(found) for plan, found in taken.items()}
