"""The cost of a configuration in one reader's share of a micro-batch: an epoch that begins and ends with empty tables.

The paper's cost (equations 7 and 8) adds collisions within an epoch and what is left at its end. Here both are one
count, the entries that a table makes (`fill`): each is evicted once, whenever. With the *eviction rate* y = entries /
probes in the place of the collision rate x, equation 7 is the whole cost. y depends on the probes themselves, so rates
are found from the raw relations down. A relation is fed only with rows, or entries, that a query below it wants.

Flow length (section 5.3) is the factor by which probes are fewer than rows, as far as collisions see it: rows that
repeat the one before find their own group. It never makes a table hold less than one entry for each key; where a table
collides more than random rows would, it is below 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tidemill.optimize.share.phantoms.configuration import Configuration, Relation
from tidemill.optimize.share.phantoms.fill import entries, left_over
from tidemill.optimize.share.phantoms.model import Model

REFUSED = 0.9  # entries for each probe from which on a phantom saves nothing
_NUDGE = 1e-2


class Comes(NamedTuple):
    """What comes to a relation in one share: its fragments, the keys of each fragment, and those of the whole share."""

    epochs: float
    keys: float
    whole: float


class Shares(Protocol):
    """What is known of a share, for relations and the queries at or below them."""

    @property
    def rows(self) -> float:
        """Rows of a share."""

    def comes(self, relation: Relation, below: frozenset[Relation]) -> Comes:
        """Epochs and keys of a relation above these queries."""

    def wanted(self, below: frozenset[Relation]) -> float:
        """The share of the rows that these queries want."""

    def passing(self, feeder: Relation, below: frozenset[Relation], fed: frozenset[Relation]) -> float:
        """The share of a feeder's entries that a relation above the queries `fed` is fed with."""

    def skew(self, relation: Relation, buckets: float) -> float:
        """How many equally frequent groups, in random order, collide like one group of the rows, in so many buckets."""

    def length(self, relation: Relation, feeder: Relation | None, buckets: float) -> float | None:
        """The flow length of a table that was there; None where that of its depth must do."""

    def refused(self, relation: Relation) -> bool:
        """True for a feeder that was seen to evict nearly everything."""


class _Stream(NamedTuple):
    """A configuration without its table sizes: what comes to each relation, and which share of what its feeder evicts
    (of the rows, if it is raw).
    """

    configuration: Configuration
    comes: list[Comes]
    shares: list[float]


@dataclass(frozen=True)
class ShareModel(Model):
    """Costs per row of a share."""

    known: Shares = field(kw_only=True)
    _comes: dict[tuple[Relation, frozenset[Relation]], Comes] = field(
        default_factory=dict, init=False, compare=False, repr=False)
    _passing: dict[tuple[Relation, frozenset[Relation], frozenset[Relation]], float] = field(
        default_factory=dict, init=False, compare=False, repr=False)
    _streams: dict[int, _Stream] = field(default_factory=dict, init=False, compare=False, repr=False)

    def stream(self, configuration: Configuration) -> _Stream:
        """Like `_known`, only the last configuration is remembered."""
        last = self._streams.get(0)
        if last is not None and last.configuration is configuration:
            return last
        comes, shares = [], []
        for relation, parent, below in zip(
            configuration.relations, configuration.parents, configuration.answered, strict=True
        ):
            if (relation, below) not in self._comes:
                self._comes[relation, below] = self.known.comes(relation, below)
            comes.append(self._comes[relation, below])
            if parent < 0:
                shares.append(self.known.wanted(below))
                continue
            path = configuration.relations[parent], configuration.answered[parent], below
            if path not in self._passing:
                self._passing[path] = self.known.passing(*path)
            shares.append(self._passing[path])
        self._streams[0] = found = _Stream(configuration, comes, shares)
        return found

    def groups(self, configuration: Configuration) -> Sequence[float]:
        """Keys that a table holds between two edges: what space is divided by."""
        return [max(1.0, c.keys) for c in self.stream(configuration).comes]

    def fed(self, configuration: Configuration, rates: Sequence[float]) -> list[float]:
        """Entries, or rows, that probe each relation for each row of the share."""
        fed: list[float] = []
        for parent, share in zip(configuration.parents, self.stream(configuration).shares, strict=True):
            fed.append(share * (1.0 if parent < 0 else fed[parent] * rates[parent]))
        return fed

    def rates(self, configuration: Configuration, buckets: Sequence[float]) -> list[float]:
        """y of each relation: entries evicted for each probe. A relation without a table (0 buckets) forgets none."""
        stream, rates = self.stream(configuration), list[float]()
        fed: list[float] = []
        for i, parent in enumerate(configuration.parents):
            fed.append(stream.shares[i] * (1.0 if parent < 0 else fed[parent] * rates[parent]))
            above = 1.0 if parent < 0 else rates[parent]
            rates.append(self._rate(configuration, i, fed[i], buckets[i], above))
        return rates

    def _flow(self, configuration: Configuration, i: int, buckets: float) -> float:
        parent = configuration.parents[i]
        feeder = configuration.relations[parent] if parent >= 0 else None
        found = self.known.length(configuration.relations[i], feeder, buckets)
        return self.flows(configuration)[i] if found is None else found

    def _rate(self, configuration: Configuration, i: int, fed: float, buckets: float, above: float) -> float:
        """y of one relation. A feeder that holds rows back (its rate is `above`) leaves little of their skew."""
        comes = self.stream(configuration).comes[i]
        probes = fed * self.known.rows / comes.epochs
        if probes <= 0:
            return 1.0
        if not buckets:
            return min(1.0, comes.keys / probes)
        skew = self.known.skew(configuration.relations[i], buckets) ** above
        return made(probes, comes.keys, buckets, self._flow(configuration, i, buckets), skew) / probes

    def cost_with(self, configuration: Configuration, buckets: Sequence[float], rates: Sequence[float]) -> float:
        """Probes times c1 and evictions of queries times c2, for each row."""
        fed = self.fed(configuration, rates)
        evicted = sum(f * y for f, y, query in zip(fed, rates, configuration.emits, strict=True) if query)
        return sum(fed) * self.constants.c1 + evicted * self.constants.c2

    def below(self, configuration: Configuration, rates: Sequence[float]) -> list[float]:
        """What one entry evicted from each relation costs (`evicted_costs`), for those that pass."""
        shares = self.stream(configuration).shares
        found = [self.constants.c2 if query else 0.0 for query in configuration.emits]
        for i in reversed(range(len(found))):
            parent = configuration.parents[i]
            if parent >= 0:
                found[parent] += shares[i] * (self.constants.c1 + rates[i] * found[i])
        return found

    def slopes(self, configuration: Configuration, buckets: Sequence[float]) -> list[float]:
        """By how much one more bucket lowers the cost per row, for each relation; the effect of fewer entries on the
        rates below is left out.
        """
        rates = self.rates(configuration, buckets)
        fed, below = self.fed(configuration, rates), self.below(configuration, rates)
        found = []
        for i, (b, parent) in enumerate(zip(buckets, configuration.parents, strict=True)):
            more = self._rate(configuration, i, fed[i], b * (1 + _NUDGE), 1.0 if parent < 0 else rates[parent])
            found.append(fed[i] * (rates[i] - more) / (b * _NUDGE) * below[i])
        return found

    def end_cost(self, configuration: Configuration, buckets: Sequence[float]) -> float:
        """E_e (8): all that is left in the tables of one reader when its share ends, evicted from the top down."""
        rates, stream = self.rates(configuration, buckets), self.stream(configuration)
        fed, below = self.fed(configuration, rates), self.below(configuration, rates)
        total = 0.0
        for comes, probes, b, lower in zip(stream.comes, fed, buckets, below, strict=True):
            rows = probes * self.known.rows
            total += left_over(rows, comes.whole, b) * lower if b else 0.0
        return total

    def refuses(self, configuration: Configuration, buckets: Sequence[float]) -> bool:
        """A phantom that evicts nearly all it is fed with only adds a probe."""
        rates = self.rates(configuration, buckets)
        return any(not query and (y >= REFUSED or self.known.refused(r))
                   for r, query, y in zip(configuration.relations, configuration.emits, rates, strict=True))


def made(probes: float, keys: float, buckets: float, flow: float, skew: float = 1.0) -> float:
    """Entries of an epoch: as of so many random probes as are left without those that repeat their flow."""
    keys = min(keys, probes)
    random = max(keys, probes / flow)
    return min(probes, entries(random, keys, buckets, skew))
