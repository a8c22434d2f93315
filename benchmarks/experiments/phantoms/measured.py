"""Real costs of every algorithm of paper 002, over several draws of the data (option 2, section 8.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.experiments.phantoms.setting import Setting, Workload, gcsl_refined, no_phantom, one_bucket_a_group
from benchmarks.experiments.phantoms.tables import measured_cost
from tidemill.optimize.share.phantoms.choose import Choice, epes, gc, gp
from tidemill.optimize.share.phantoms.model import Model

Costs = dict[str, float]


@dataclass(frozen=True)
class Measured:
    """Real costs for each M, one for each draw, and the configurations of EPES and GCSL in the first draw."""

    costs: dict[int, list[Costs]] = field(default_factory=dict)
    configurations: dict[int, list[str]] = field(default_factory=dict)

    def ratios(self, name: str, to: str) -> list[float]:
        """The mean over the draws of what one costs to another, for each M."""
        return [float(np.mean([c[name] / c[to] for c in drawn])) for drawn in self.costs.values()]

    def singles(self, name: str, to: str) -> list[float]:
        """The same for every draw; nothing when there is only one."""
        return [c[name] / c[to] for drawn in self.costs.values() if len(drawn) > 1 for c in drawn]

    def means(self, memory: int) -> Costs:
        drawn = self.costs[memory]
        return {name: float(np.mean([c[name] for c in drawn])) for name in drawn[0]}


def measured(
    setting: Setting, workloads: Iterable[Workload], lengths: tuple[int, ...] | None, done: Callable[[str], None]
) -> Measured:
    """Every algorithm on every draw at every M."""
    found = Measured()
    for workload in workloads:
        for memory in setting.memories:
            costs, configurations = _costs(setting, workload, memory, lengths)
            found.costs.setdefault(memory, []).append(costs)
            found.configurations.setdefault(memory, configurations)
        done(f"real collisions, {workload.name}{', different epochs' if lengths else ''}")
    return found


def _costs(
    setting: Setting, workload: Workload, memory: int, lengths: tuple[int, ...] | None
) -> tuple[Costs, list[str]]:
    """Real costs of every algorithm, and the configurations of EPES and GCSL."""
    model, asked = workload.model(memory, lengths), workload.queries
    best, ours = epes(asked, model, memory, setting.steps), gc(asked, model, memory)

    def least(as_printed: bool, per_unit: bool = False) -> float:
        return best_gp(setting, workload, model, memory, as_printed, per_unit)[1]

    found = {
        "EPES": measured_cost(best, model, workload.now),
        "GCSL": measured_cost(ours, model, workload.now),
        "GCSL refined": measured_cost(gcsl_refined(asked, model, memory), model, workload.now),
        "GP": least(as_printed=True),
        "GP stopping": least(as_printed=False),
        "GP by units": least(as_printed=False, per_unit=True),
        "no phantom": measured_cost(no_phantom(asked, model, memory), model, workload.now),
        "one bucket a group": measured_cost(one_bucket_a_group(asked, model), model, workload.now),
    }
    return found, [str(best.configuration), str(ours.configuration)]


def best_gp(
    setting: Setting, workload: Workload, model: Model, memory: int, as_printed: bool, per_unit: bool
) -> tuple[Choice, float]:
    """GP with the φ that turned out best, and its real cost."""
    options = [gp(workload.queries, model, memory, phi, as_printed, per_unit=per_unit) for phi in setting.ratios]
    distinct = {(c.configuration, tuple(c.table_sizes)): c for c in options}
    costs = [(chosen, measured_cost(chosen, model, workload.now)) for chosen in distinct.values()]
    return min(costs, key=lambda found: found[1])
