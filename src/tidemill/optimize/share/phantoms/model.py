"""Statistics, constants and table sizes put together: the predicted cost of any configuration and allocation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tidemill.optimize.share.phantoms.collisions import collision_rate, occupied_buckets
from tidemill.optimize.share.phantoms.configuration import Configuration, Relation
from tidemill.optimize.share.phantoms.cost import Constants, Evictions, end_cost, evicted_costs, intra_cost
from tidemill.optimize.share.phantoms.statistics import Statistics

Sizes = Callable[[Relation], int]
_NUDGE = 1e-3


def bucket_size(relation: Relation) -> int:
    """h: one unit of 4 bytes for each attribute and one for the counter (section 6.4)."""
    return len(relation.attributes) + 1


@dataclass(frozen=True)
class _Facts:
    configuration: Configuration
    groups: list[float]
    sizes: list[int]
    flows: list[float]


@dataclass(frozen=True)
class Model:
    """What a configuration with given table sizes will cost per tuple.

    Without `evictions` the cost is e_m (7). With them it is E_c (29) divided by n_c, so both are costs per tuple;
    `statistics.tuples` is then n_c. The paper lets a hash table eviction evict every bucket; with `only_occupied`
    it evicts the buckets in use, b (1 - (1 - 1/b)^g), which is what a table that skips empty buckets does.
    """

    statistics: Statistics
    constants: Constants = Constants()  # noqa: RUF009  frozen
    evictions: Evictions | None = None
    sizes: Sizes = bucket_size
    only_occupied: bool = False
    _times: dict[frozenset[Relation], float] = field(default_factory=dict, init=False, compare=False, repr=False)
    _each: dict[Relation, tuple[float, int]] = field(default_factory=dict, init=False, compare=False, repr=False)
    _facts: dict[int, _Facts] = field(default_factory=dict, init=False, compare=False, repr=False)

    def groups(self, configuration: Configuration) -> Sequence[float]:
        return self._facts_of(configuration).groups

    def bucket_sizes(self, configuration: Configuration) -> Sequence[int]:
        return self._facts_of(configuration).sizes

    def flows(self, configuration: Configuration) -> Sequence[float]:
        return self._facts_of(configuration).flows

    def _facts_of(self, configuration: Configuration) -> _Facts:
        """What does not depend on the sizes of tables. Only the last configuration is cached: an optimizer prices one
        configuration with many sizes, then goes on to the next.
        """
        known = self._facts.get(0)
        if known is None or known.configuration is not configuration:
            for r in configuration.relations:
                if r not in self._each:
                    self._each[r] = self.statistics.of(r), self.sizes(r)
            each = [self._each[r] for r in configuration.relations]
            flow = {depth: self.statistics.flow(depth) for depth in set(configuration.depths)}
            known = self._facts[0] = _Facts(
                configuration,
                [groups for groups, _ in each],
                [size for _, size in each],
                [flow[depth] for depth in configuration.depths],
            )
        return known

    def times(self, configuration: Configuration) -> list[float]:
        """n_R of each relation; zeros when hash table evictions are not counted."""
        if self.evictions is None:
            return [0.0] * len(configuration.relations)
        for answered in configuration.answered:
            if answered not in self._times:
                self._times[answered] = float(self.evictions(answered))
        return [self._times[answered] for answered in configuration.answered]

    def rates(self, configuration: Configuration, buckets: Sequence[float]) -> list[float]:
        """x of each relation by equation 15."""
        return [
            collision_rate(g, b, l)
            for g, b, l in zip(self.groups(configuration), buckets, self.flows(configuration), strict=True)
        ]

    def entries(self, configuration: Configuration, buckets: Sequence[float]) -> list[float]:
        """What a hash table eviction evicts: the buckets, or those in use."""
        if not self.only_occupied:
            return list(buckets)
        return [occupied_buckets(g, b) for g, b in zip(self.groups(configuration), buckets, strict=True)]

    def cost(self, configuration: Configuration, buckets: Sequence[float]) -> float:
        """Per tuple: e_m (7), or E_c (29) / n_c."""
        return self.cost_with(configuration, buckets, self.rates(configuration, buckets))

    def cost_with(self, configuration: Configuration, buckets: Sequence[float], rates: Sequence[float]) -> float:
        """Like `cost`, with given collision rates, for example measured ones."""
        within = intra_cost(configuration, rates, self.constants)
        if self.evictions is None:
            return within
        below = evicted_costs(configuration, rates, self.constants)
        entries = self.entries(configuration, buckets)
        ends = sum(n * e * v for n, e, v in zip(self.times(configuration), entries, below, strict=True))
        return within + ends / self.statistics.tuples

    def end_cost(self, configuration: Configuration, buckets: Sequence[float]) -> float:
        """E_e (8) with predicted collision rates."""
        rates = self.rates(configuration, buckets)
        return end_cost(configuration, self.entries(configuration, buckets), rates, self.constants)

    def slopes(self, configuration: Configuration, buckets: Sequence[float]) -> list[float]:
        """By how much one more bucket lowers the cost per tuple, for each relation."""
        rates = self.rates(configuration, buckets)
        below = evicted_costs(configuration, rates, self.constants)
        entries = self.entries(configuration, buckets)
        ends = [n / self.statistics.tuples for n in self.times(configuration)]
        flows, groups = self.flows(configuration), self.groups(configuration)
        fed: list[float] = []
        found: list[float] = []
        for i, parent in enumerate(configuration.parents):
            fed.append(1.0 if parent < 0 else rates[parent] * fed[parent] + ends[parent] * entries[parent])
            nudge = buckets[i] * _NUDGE
            curve = (collision_rate(groups[i], buckets[i] + nudge) - rates[i] * flows[i]) / nudge
            growth = -groups[i] * curve if self.only_occupied else 1.0
            found.append(-(fed[i] * curve / flows[i] + ends[i] * growth) * below[i])
        return found

    def refuses(self, configuration: Configuration, buckets: Sequence[float]) -> bool:
        """True if a phantom must not be used whatever its cost. The paper's model refuses none."""
        return False
