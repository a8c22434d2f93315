"""All that one set of experiments gave: its points, and the cost functions with constants calibrated and tuned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from benchmarks.experiments.joins.model import ENGINE, PAPER, Agreement, Family, Time, agreement, tuned
from benchmarks.experiments.joins.points import RUNS, Point, fixed_costs, measured
from benchmarks.experiments.joins.setting import Sweep
from benchmarks.experiments.joins.shape import fitted, terms
from tidemill.optimize.joins import Constants, PricedPlan

Done = Callable[[str], None]


@dataclass(frozen=True)
class Set:
    """A sweep, measured and predicted; times in seconds for a unit of time."""

    sweep: Sweep
    points: list[Point]
    calibrated: Constants

    @cached_property
    def tuned(self) -> Constants:
        return tuned(self.points, self.sweep)

    def paper(self, point: Point, plan: str) -> float:
        """(19) to (26) with the constants that were calibrated."""
        return PAPER.cost(point, plan, self.sweep.method, self.calibrated)

    def paper_tuned(self, point: Point, plan: str) -> float:
        """The same with constants tuned to this set of experiments."""
        return PAPER.cost(point, plan, self.sweep.method, self.tuned)

    def engine(self, point: Point, plan: str) -> float:
        """What the engine's optimizer computes: hash tables on the whole key, as many buckets as it takes."""
        return ENGINE.cost(point, plan, self.sweep.method, self.calibrated)

    def by(self, family: Family, point: Point, plan: str) -> float:
        """Cost functions of another family, with the constants that were calibrated."""
        return family.cost(point, plan, self.sweep.method, self.calibrated)

    def agreement(self, predict: Callable[[Point, str], float], time: Time = Point.seconds) -> Agreement:
        return agreement(self.points, self.sweep.plans, predict, time)

    def line(self, plan: str) -> list[float]:
        return [p.seconds(plan) for p in self.points]

    def winner(self, point: Point) -> str:
        """The plan that took the least time."""
        return min(self.sweep.plans, key=point.seconds)

    @property
    def across(self) -> list[float]:
        return [p.x for p in self.points]


def measured_set(sweep: Sweep, constants: Constants, done: Done, runs: int = RUNS) -> Set:
    fixed, points = fixed_costs(sweep), []
    for x, inputs in sweep.points:
        points.append(measured(x, inputs, sweep, fixed, runs))
        done(f"figure {sweep.figure}, {sweep.across} = {x:g}")
    return Set(sweep, points, constants)


def name(plan: str) -> str:
    """The paper's name of a plan."""
    return PricedPlan(plan, (), 0, 0, 0, 0).name


def total(sets: Sequence[Set], kind: str | Family, time: Time = Point.seconds) -> Agreement:
    """Over several sets; `kind` is paper, paper_tuned, engine or a family of cost functions."""
    found = Agreement(0, 0)
    for s in sets:
        predict = partial(s.by, kind) if isinstance(kind, Family) else getattr(s, kind)
        found = found + s.agreement(predict, time)
    return found


def shape_of(sets: Sequence[Set]) -> tuple[np.ndarray, Agreement, float]:
    """(seconds of each term, agreement, median error) of the operator's own cost over all sets of a figure."""
    points, sweep = [p for s in sets for p in s.points], sets[0].sweep
    each = fitted(points, sweep)

    def predict(point: Point, plan: str) -> float:
        return float(np.dot(terms(point, plan), each))

    errors = [abs(predict(p, plan) / p.seconds(plan) - 1) for p in points for plan in sweep.plans]
    return each, agreement(points, sweep.plans, predict), float(np.median(errors))
