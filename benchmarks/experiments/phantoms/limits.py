"""What happens when group counts are wrong, and under a peak load: figures 21 and 22 of paper 002."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.experiments.figures import Figure, Line, Panel
from benchmarks.experiments.phantoms.setting import Part, Setting, groups_of, no_phantom
from benchmarks.experiments.phantoms.tables import measured_cost, measured_rates
from tidemill.optimize.share.phantoms.choose import gc
from tidemill.optimize.share.phantoms.configuration import Relation
from tidemill.optimize.share.phantoms.cost import end_cost
from tidemill.optimize.share.phantoms.model import Model
from tidemill.optimize.share.phantoms.peak import peak_load, shift, shrink

ERRORS = tuple(range(-50, 51, 10))
SHARES = (1.0, 0.97, 0.94, 0.91, 0.88, 0.85, 0.8, 0.7, 0.6, 0.5)


def limits(setting: Setting, done: Callable[[str], None]) -> Part:
    """Sections 8.5.1 and 8.5.2."""
    part = Part([_misestimated(setting), _peak(setting)])
    done("misestimation and peak load")
    return part


def _misestimated(setting: Setting) -> Figure:
    """Figure 21: group counts wrong by a random share up to the given error."""
    workload = setting.trace
    lines: list[Line] = []
    spread: list[float] = []
    for memory in (60_000, 100_000):
        model = workload.model(memory)
        plain = measured_cost(no_phantom(workload.queries, model, memory), model, workload.now)
        gains = []
        for error in ERRORS:
            costs = []
            for seed in range(2 if setting.quick else 6):
                wrong = _wrong(model, error / 100, seed)
                chosen = gc(workload.queries, wrong, memory)
                costs.append(measured_cost(chosen, model, workload.now))
            gains.append(plain / float(np.mean(costs)))
        spread.append(1 - min(gains) / gains[len(ERRORS) // 2])
        lines.append((f"M = {memory:,}", list(ERRORS), gains))
    return Figure(
        "phantoms_21",
        "Figure 21: effect of misestimation in the number of groups",
        "The gain over no phantoms is stable over a wide range of errors.",
        f"The gain falls by at most {max(spread):.1%} of what it is with exact counts.",
        [Panel("packet trace", "error (%)", "no phantom over GCSL", lines, from_zero=True)],
    )


def _wrong(model: Model, error: float, seed: int) -> Model:
    """The same model with each relation's group count wrong by its own random share of the error."""

    def groups(relation: Relation) -> float:
        chance = np.random.default_rng([seed, *map(ord, str(relation))])
        return groups_of(relation) * (1 + error * float(chance.uniform(0, 1)))

    return replace(model, statistics=replace(model.statistics, groups=groups))


def _peak(setting: Setting) -> Figure:
    """Figure 22: shrink and shift keep the end-of-epoch cost under a share of what it would be."""
    workload, memory = setting.trace, 40_000
    model = workload.model(memory)
    chosen = gc(workload.queries, model, memory)
    forest, buckets = chosen.configuration, chosen.table_sizes
    peak = peak_load(forest, buckets, model)
    lines: list[Line] = []
    reached: dict[str, float] = {}
    for name, method in (("shrink", shrink), ("shift", shift)):
        across: list[float] = []
        up: list[float] = []
        for share in SHARES:
            sizes = method(forest, buckets, model, share * peak)
            if sizes is not None:
                rates = measured_rates(forest, sizes, workload.now)
                across.append(100 * share)
                up.append(model.cost_with(forest, sizes, rates) / measured_cost(chosen, model, workload.now))
        lines.append((name, across, up))
        reached[name] = min(across)
    real_peak = end_cost(forest, buckets, measured_rates(forest, buckets, workload.now), model.constants) / peak
    return Figure(
        "phantoms_22",
        "Figure 22: peak load constraint",
        "Shift is better when E_p is not much smaller than E_e, shrink when it is.",
        f"Where shift reaches the limit it costs at most {max(lines[1][2]):.3f} times the unconstrained cost, and"
        f" shrink up to {max(lines[0][2][: len(lines[1][2])]):.3f} times at the same limits. But shift reaches no"
        f" less than {reached['shift']:.0f} % of E_e, shrink all limits tried, down to {reached['shrink']:.0f} %: a"
        " smaller table of a query collides more often at the end of the epoch too, so from some point on shifting"
        f" raises E_e. (With the rates that were met E_e is {real_peak:.2f} times the prediction.)",
        [Panel("packet trace, M = 40,000", "E_p (% of E_e)", "cost over unconstrained", lines)],
    )
