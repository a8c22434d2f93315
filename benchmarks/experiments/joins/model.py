"""The cost functions beside what was measured: constants calibrated or tuned, and how often rankings agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from benchmarks.experiments.joins.points import Point
from benchmarks.experiments.joins.setting import BUCKETS, Sweep
from tidemill.optimize.joins import Constants, Parameters, derive_parameters, hash_join, nested_loop, unit_time_cost

METHODS = {"hash": hash_join, "nested loop": nested_loop}
NAMES = {"hash": ("P_h", "U_h", "U_g", "U_r"), "nested loop": ("P_n", "U_n", "U_g", "U_r")}
NOTHING = 1e-9
DIFFERENT = 1.1

Predict = Callable[[Point, str], float]
Time = Callable[[Point, str], float]


class Agreement(NamedTuple):
    """Pairs of plans whose measured times differ by more than 10 %, and how many are predicted that way round."""

    same: int
    pairs: int

    @property
    def share(self) -> float:
        """Nothing, where there is nothing to compare: that proves no agreement."""
        return self.same / self.pairs if self.pairs else 0.0

    @property
    def shown(self) -> str:
        return f"{100 * self.share:.0f} %" if self.pairs else "none"

    def __add__(self, other: object) -> Agreement:
        assert isinstance(other, Agreement)
        return Agreement(self.same + other.same, self.pairs + other.pairs)


@dataclass(frozen=True)
class Family:
    """Cost functions: the paper's tables with at most B buckets, or those that the engine assumes, on the whole key.

    `batched`: rows are fetched once for a micro-batch, and not for every tuple.
    """

    name: str
    whole_key: bool
    buckets: float
    batched: bool = False

    def known(self, point: Point) -> Parameters:
        return derive_parameters(
            [i.stream for i in point.inputs],
            self.buckets,
            whole_key=self.whole_key,
            batch=point.units if self.batched else None,
        )

    def cost(self, point: Point, plan: str, method: str, constants: Constants) -> float:
        """Seconds in a unit of time."""
        return unit_time_cost(self.known(point), plan, METHODS[method](constants)) * 1e-9

    def terms(self, point: Point, plan: str, method: str) -> list[float]:
        """What each constant is multiplied by: the cost functions are linear in them."""
        return [self.cost(point, plan, method, _given({name: 1.0})) for name in NAMES[method]]


PAPER = Family("paper", False, BUCKETS)
WHOLE_KEY = Family("hash tables on the whole key", True, float("inf"))
BATCHED = Family("rows fetched once a batch", False, BUCKETS, batched=True)
ENGINE = Family("engine", True, float("inf"), batched=True)


def _given(constants: dict[str, float]) -> Constants:
    """These constants, and next to nothing for the others."""
    return Constants(**{**dict.fromkeys(("P_n", "P_h", "U_n", "U_h", "U_g", "U_r"), NOTHING), **constants})


def tuned(points: Sequence[Point], sweep: Sweep, family: Family = PAPER) -> Constants:
    """Constants for one set of experiments, as the paper tunes them: least squares of relative errors."""
    rows = [(family.terms(p, plan, sweep.method), p.seconds(plan)) for p in points for plan in sweep.plans]
    found = not_negative(np.array([terms for terms, _ in rows]), np.array([seconds for _, seconds in rows]))
    return _given({name: max(NOTHING, float(value)) for name, value in zip(NAMES[sweep.method], found, strict=True)})


def not_negative(terms: np.ndarray, values: np.ndarray) -> np.ndarray:
    """x ≥ 0 with the least Σ (terms · x / values - 1)², by trying which x are zero.

    >>> not_negative(np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([2.0, 5.0, 8.0])).round(6).tolist()
    [2.0, 3.0]
    """
    scaled, ones = terms / values[:, None], np.ones(len(values))
    best, least = np.zeros(terms.shape[1]), float(len(values))
    for size in range(1, terms.shape[1] + 1):
        for chosen in combinations(range(terms.shape[1]), size):
            found = np.linalg.lstsq(scaled[:, chosen], ones, rcond=None)[0]
            error = float(((scaled[:, chosen] @ found - ones) ** 2).sum())
            if (found >= 0).all() and error < least:
                best, least = np.zeros(terms.shape[1]), error
                best[list(chosen)] = found
    return best


def agreement(points: Iterable[Point], plans: Sequence[str], predict: Predict, time: Time = Point.seconds) -> Agreement:
    """How often the ranking is that of the measured times."""
    found = [same for point in points for _, same in compared(point, plans, predict, time)]
    return Agreement(sum(found), len(found))


def compared(
    point: Point, plans: Sequence[str], predict: Predict, time: Time = Point.seconds
) -> Iterator[tuple[tuple[str, str], bool]]:
    """Every pair of plans that differs by more than 10 %, the faster one first, and whether that is predicted."""
    for pair in combinations(plans, 2):
        fast, slow = sorted(pair, key=lambda plan: time(point, plan))
        if time(point, slow) > DIFFERENT * max(time(point, fast), 0.0):
            yield (fast, slow), predict(point, fast) < predict(point, slow)
