"""Phantom choosing (paper 002, section 4): GC, GP and the exhaustive EPES."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidemill.optimize.share.phantoms.configuration import Configuration, Relation
from tidemill.optimize.share.phantoms.enumeration import all_configurations
from tidemill.optimize.share.phantoms.exhaustive import exhaustive_allocation
from tidemill.optimize.share.phantoms.feeding import FeedingGraph, assemble
from tidemill.optimize.share.phantoms.model import Model
from tidemill.optimize.share.phantoms.space import Allocate, pl, sl


@dataclass(frozen=True)
class Step:
    """A feeder that was added, and the configuration and cost after it (figure 17)."""

    feeder: Relation | None
    configuration: Configuration
    cost: float


@dataclass(frozen=True)
class Choice:
    """A configuration with its table sizes, predicted collision rates and cost per tuple."""

    configuration: Configuration
    buckets: Mapping[Relation, int]
    rates: Mapping[Relation, float]
    cost: float
    steps: tuple[Step, ...] = ()
    alternatives: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, configuration: Configuration, buckets: Sequence[int], model: Model, steps: Iterable[Step] = ()
    ) -> Choice:
        rates = model.rates(configuration, buckets)
        return cls(
            configuration,
            dict(zip(configuration.relations, buckets, strict=True)),
            dict(zip(configuration.relations, rates, strict=True)),
            model.cost_with(configuration, buckets, rates),
            tuple(steps),
        )

    @property
    def table_sizes(self) -> list[int]:
        """Buckets in the order of the configuration's relations."""
        return [self.buckets[r] for r in self.configuration.relations]


def gc(
    queries: Iterable[Relation], model: Model, memory: int, allocate: Allocate = sl, begin: Sequence[Relation] = ()
) -> Choice:
    """Greedy by increasing collision rates (figure 6).

    All memory is always allocated. Add the feeder that lowers the cost most, as long as one does. `begin` are feeders
    that are taken whatever they cost, which the paper does not have.
    """
    graph = FeedingGraph.of(queries)
    left, taken = [r for r in graph.candidates if r not in begin], list(begin)
    current = assemble(graph.queries, taken, model.statistics.of)
    buckets = allocate(current, model, memory)
    steps = [Step(None, current, model.cost(current, buckets))]
    while left:
        best: tuple[float, Relation, Configuration, list[int]] | None = None
        for candidate in left:
            trial = assemble(graph.queries, [*taken, candidate], model.statistics.of)
            if trial == current:
                continue
            sizes = allocate(trial, model, memory)
            cost = model.cost(trial, sizes)
            if cost < (best[0] if best else steps[-1].cost) and not model.refuses(trial, sizes):
                best = cost, candidate, trial, sizes
        if best is None:
            break
        cost, candidate, current, buckets = best
        taken.append(candidate)
        left.remove(candidate)
        steps.append(Step(candidate, current, cost))
    return Choice.of(current, buckets, model, steps)


def gp(
    queries: Iterable[Relation],
    model: Model,
    memory: int,
    phi: float,
    as_printed: bool = False,
    *,
    per_unit: bool = False,
) -> Choice:
    """Greedy by increasing space (figure 5): each relation has φ g buckets while phantoms are chosen.

    Add the phantom with the largest benefit for each of its φ g buckets (line 8), as long as one fits and has a
    benefit. With `as_printed` the loop continues with phantoms that raise the cost, as figure 5 does. In the end all
    memory is divided in proportion to the groups (section 8.4). With `per_unit`, which the paper does not have, the
    benefit is for each unit of space, φ g h.
    """
    graph = FeedingGraph.of(queries)
    left, taken = list(graph.candidates), list[Relation]()

    def proportional(configuration: Configuration) -> list[float]:
        return [max(1.0, phi * g) for g in model.groups(configuration)]

    def space(r: Relation) -> float:
        return 0.0 if r in graph.queries else phi * model.statistics.of(r) * model.sizes(r)

    current = Configuration.without_phantoms(graph.queries)
    free = memory - sum(phi * model.statistics.of(q) * model.sizes(q) for q in graph.queries)
    steps = [Step(None, current, model.cost(current, proportional(current)))]
    while left and free > 0:
        best: tuple[float, Relation, Configuration, float] | None = None
        for candidate in left:
            trial = assemble(graph.queries, [*taken, candidate], model.statistics.of)
            needed = sum(space(r) for r in trial.relations) - sum(space(r) for r in current.relations)
            if trial == current or free <= needed:
                continue
            cost = model.cost(trial, proportional(trial))
            price = phi * model.statistics.of(candidate) * (model.sizes(candidate) if per_unit else 1)
            benefit = (steps[-1].cost - cost) / price
            if best is None or benefit > best[0]:
                best = benefit, candidate, trial, cost
        if best is None or (best[0] <= 0 and not as_printed):
            break
        _, candidate, trial, cost = best
        free -= sum(space(r) for r in trial.relations) - sum(space(r) for r in current.relations)
        current = trial
        taken.append(candidate)
        left.remove(candidate)
        steps.append(Step(candidate, current, cost))
    return Choice.of(current, pl(current, model, memory), model, steps)


def epes(queries: Iterable[Relation], model: Model, memory: int, steps: int = 100) -> Choice:
    """The optimum: every configuration, with exhaustive space allocation at 1/steps of the memory.

    Hash table evictions only add to e_m. So the best e_m of a configuration is a lower bound of its cost, and a
    configuration whose bound is not below the best cost so far is not allocated a second time.
    """
    allocate = exhaustive_allocation(steps)
    alone = replace(model, evictions=None)
    bounds = []
    for configuration in all_configurations(queries):
        sizes = allocate(configuration, alone, memory)
        bounds.append((alone.cost(configuration, sizes), str(configuration), configuration, sizes))
    best: Choice | None = None
    for bound, _, configuration, sizes in sorted(bounds, key=lambda b: b[:2]):
        if best is not None and bound >= best.cost:
            break
        if model.evictions is not None:
            sizes = allocate(configuration, model, memory)
        tried = Choice.of(configuration, sizes, model)
        if model.refuses(configuration, sizes):
            continue
        if best is None or tried.cost < best.cost:
            best = tried
    assert best is not None
    return best


def detach_queries(configuration: Configuration, model: Model, memory: int, allocate: Allocate = sl) -> Configuration:
    """Let queries read the rows themselves, one after the other, as long as that lowers the cost.

    A query that wants few rows makes its feeder tell these rows apart: that may cost more than a table of its own.
    """
    asked = frozenset(configuration.queries)
    cost = model.cost(configuration, allocate(configuration, model, memory))
    while True:
        best = None
        feeders = {r: configuration.feeder(r) for r in configuration.relations}
        for query in (r for r in configuration.queries if feeders[r] is not None):
            trial = Configuration.of_valid(_without_idle({**feeders, query: None}, asked), asked)
            sizes = allocate(trial, model, memory)
            price = model.cost(trial, sizes)
            if price < cost and not model.refuses(trial, sizes):
                best, cost = trial, price
        if best is None:
            return configuration
        configuration = best


def _without_idle(
    feeders: dict[Relation, Relation | None], asked: Container[Relation]
) -> dict[Relation, Relation | None]:
    """The feeders without phantoms that feed fewer than two relations; what they feed goes to their own feeders."""
    while True:
        fed = list(feeders.values())
        idle = next((r for r in feeders if r not in asked and fed.count(r) < 2), None)
        if idle is None:
            return feeders
        feeders = {r: feeders[idle] if f == idle else f for r, f in feeders.items() if r != idle}
