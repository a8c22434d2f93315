"""What is measured: the operator itself with full windows, each plan, for some units of time in one micro-batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod

from benchmarks.experiments.joins.setting import Input, Inputs, Sweep
from tidemill.engine.adapt.calibration import join_plan
from tidemill.optimize.joins import derive_parameters, probe_orders
from tidemill.plan.physical import Linear, Physical
from tidemill.runtime.calibrate.joins import SteadyJoin
from tidemill.runtime.evaluation.evaluate import Evaluation
from tidemill.runtime.state.shard_state import ShardState

RUNS, UNITS, MOST_UNITS = 5, 4, 32
BEFORE = 2  # turns that do not count: the system still hands out memory, up to half of the time of a batch
Fixed = tuple[dict[str, float], dict[str, float]]
ENOUGH = 2_000_000  # joined rows of the LAP in a micro-batch


@dataclass(frozen=True)
class Work:
    """What one plan did in a unit of time: seconds of the join, rows joined in the last step, rows that came out, and
    seconds of the late aggregation that groups these rows.
    """

    seconds: float
    pairs: float
    out: float
    late: float = 0.0


@dataclass(frozen=True)
class Point:
    """All plans at one value of what is varied, over this many units of time in a micro-batch.

    `fixed` is what a micro-batch of the join costs that does next to nothing, `fixed_late` of the late aggregation.
    """

    x: float
    inputs: Inputs
    units: int
    work: dict[str, Work]
    fixed: dict[str, float]
    fixed_late: dict[str, float] = field(default_factory=dict)

    def seconds(self, plan: str, overhead: bool = False) -> float:
        """Of the join, for a unit of time, without or with the micro-batch's own cost."""
        return self.work[plan].seconds - (0.0 if overhead else self.fixed[plan] / self.units)

    def with_late(self, plan: str) -> float:
        """Of the join and the late aggregation behind it, without what the micro-batches cost by themselves."""
        return self.seconds(plan) + self.work[plan].late - self.fixed_late[plan] / self.units


class Grouped:
    """A steady join and the late aggregation behind it, which keeps its groups from batch to batch."""

    def __init__(self, plan: str, method: str, inputs: Sequence[Input]) -> None:
        self.join = steady(plan, method, inputs)
        (self._group,) = (op for op in compiled(plan, method).stage if op.kind == "group")
        self._state = ShardState.empty("")
        self._late()

    def unit(self, units: int = 1) -> tuple[float, float]:
        """This many units of time in one micro-batch: seconds of the join, and of the late aggregation."""
        return self.join.unit(units), self._late()

    def _late(self) -> float:
        assert self.join.out is not None
        began = time.process_time()
        Evaluation({self._group.id: self._group}, {self._group.inputs[0]: self.join.out}, self._state).batch(
            self._group.id
        )
        return time.process_time() - began


@cache
def compiled(plan: str, method: str) -> Physical:
    return join_plan(plan, method)


def steady(plan: str, method: str, inputs: Sequence[Input], seed: int = 1) -> SteadyJoin:
    """The plan with full windows. Changes probe in the order that the cost functions assume, and late inputs come as
    the plan's readers send them.
    """
    physical = compiled(plan, method)
    join = SteadyJoin(physical, [i.arrivals for i in inputs], seed)
    found = zip(join.op.joined, probe_orders(derive_parameters([i.stream for i in inputs]), plan), strict=True)
    join.op = replace(join.op, joined=tuple(replace(spec, order=tuple(order)) for spec, order in found))
    sent = {op.id.split(".")[0]: op for op in physical.reader if isinstance(op, Linear)}
    join.sides = [
        side if bit == "1" else replace(sent[side.id], id=side.id, inputs=side.inputs, schema=side.schema)
        for side, bit in zip(join.sides, plan, strict=True)
    ]
    return join


def measured(x: float, inputs: Inputs, sweep: Sweep, fixed: Fixed, runs: int = RUNS) -> Point:
    """One point. The plans take turns on the same data, each time another one first; the least of the last `runs`.

    What else the machine does can only add to the time of a run.
    """
    joins, units = {plan: Grouped(plan, sweep.method, inputs) for plan in sweep.plans}, units_of(inputs)
    taken: dict[str, list[tuple[float, float]]] = {plan: [] for plan in joins}
    for turn in range(BEFORE + runs):
        for plan in (*sweep.plans[turn % len(joins) :], *sweep.plans[: turn % len(joins)]):
            taken[plan].append(joins[plan].unit(units))
    work = {}
    for plan, grouped in joins.items():
        joined, late = (min(each) / units for each in zip(*taken[plan][BEFORE:], strict=True))
        work[plan] = Work(joined, grouped.join.note.pairs / units, grouped.join.note.groups / units, late)
    return Point(x, inputs, units, work, *fixed)


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


def fixed_costs(sweep: Sweep, runs: int = 9) -> Fixed:
    """What a micro-batch costs in which one tuple of each input comes and goes, and meets one row of each other: of the
    join, and of the late aggregation.
    """
    one = [Input(1, 1, 1, 1)] * len(sweep.points[0][1])
    joins = {plan: Grouped(plan, sweep.method, one) for plan in sweep.plans}
    taken = {plan: [grouped.unit() for _ in range(runs)] for plan, grouped in joins.items()}
    join, late = ({plan: min(pair[i] for pair in found) for plan, found in taken.items()} for i in (0, 1))
    return join, late
