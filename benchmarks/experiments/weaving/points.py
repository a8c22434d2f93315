"""What is measured for a set of queries and an input rate: groups and costs of three plans under both models."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from benchmarks.experiments.weaving.workload import table_two
from tidemill.optimize.share.weaving import WeavePlan, Weaving
from tidemill.optimize.share.weaving.edges import Edges

RATES = (0.5, 1, 2, 5, 10, 20, 50, 100, 300, 1_000, 3_000, 10_000)
SPARSE = 10  # up to this rate fragments without rows matter
PLANS = ("Shared", "Weave Share", "TriWeave")


@dataclass(frozen=True)
class Point:
    """For each plan its groups and its cost by equations 3 and 4.

    `floor` is a cost that no plan with TriOps goes below: λ + E + Σ_q E_q·Ω_q. There is at least one group, and a group
    has at least the edges of each of its queries.
    `held` is TriWeave by (4) to Weave Share by (3) when only fragments that hold rows are counted; None beyond SPARSE.
    """

    groups: dict[str, int]
    twoops: dict[str, float]
    triops: dict[str, float]
    floor: float
    held: float | None

    @property
    def ratio(self) -> float:
        """TriWeave with TriOps to Weave Share with TwoOps."""
        return self.triops["TriWeave"] / self.twoops["Weave Share"]


@dataclass(frozen=True)
class Points:
    """All draws: by whether overlaps are whole, by number of queries."""

    draws: dict[tuple[bool, int], list[dict[float, Point]]]

    def of(self, count: int, rate: float, whole: bool = False) -> list[Point]:
        return [draw[rate] for draw in self.draws[whole, count]]

    def mean(self, value: Callable[[Point], float], count: int, rate: float, whole: bool = False) -> float:
        return mean(map(value, self.of(count, rate, whole)))

    def every(self) -> list[tuple[float, Point]]:
        return [found for draws in self.draws.values() for draw in draws for found in draw.items()]


def mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def held(point: Point) -> float:
    """The ratio over fragments with rows, at a rate where it was taken."""
    assert point.held is not None
    return point.held


def measured(count: int, seed: int, whole: bool) -> dict[float, Point]:
    """One draw at all input rates."""
    weaving = Weaving(table_two(count, seed, whole))
    alone = sum(group.rate * group.overlap for group in weaving.unshared(1).groups)
    return {rate: _point(weaving, rate, alone) for rate in RATES}


def _point(weaving: Weaving, rate: float, alone: float) -> Point:
    plans = dict(zip(PLANS, (weaving.shared(rate), weaving.weave_share(rate), weaving.triweave(rate)), strict=True))
    return Point(
        {name: len(plan.groups) for name, plan in plans.items()},
        {name: plan.twoops for name, plan in plans.items()},
        {name: plan.triops for name, plan in plans.items()},
        rate + weaving.edge_rate + alone,
        _held(weaving, plans["TriWeave"], plans["Weave Share"]) if rate <= SPARSE else None,
    )


def _held(weaving: Weaving, tri: WeavePlan, two: WeavePlan) -> float:
    rate = tri.input_rate
    fine = occupied_rate(weaving.edges, weaving.edge_rate, rate)
    return (rate + len(tri.groups) * fine + _final(tri)) / (len(two.groups) * rate + _final(two))


def _final(plan: WeavePlan) -> float:
    return sum(occupied_rate(g.edges, g.rate, plan.input_rate) * g.overlap for g in plan.groups)


def occupied_rate(edges: Edges, edge_rate: float, rate: float, fragments: int = 3_000) -> float:
    """How many fragments with at least one row end in a unit of time, when rows arrive by Poisson.

    A fragment of length l has a row with chance 1 - exp(-λ·l); the mean over about this many fragments.

    >>> round(occupied_rate(((1, 0),), 1.0, 0.5), 4)  # 1 - exp(-1/2)
    0.3935
    """
    until = int(max(fragments / edge_rate, 2 * max(slide for slide, _ in edges)))
    ends = np.unique(np.concatenate([np.arange(phase, until, slide) for slide, phase in edges]))
    lengths = np.diff(ends)
    return float(-np.expm1(-rate * lengths).sum() / lengths.sum())
