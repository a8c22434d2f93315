"""The cost of a configuration in one reader's share of a micro-batch: an epoch that begins and ends with empty tables.

The paper's cost (equations 7 and 8) adds the collisions within an epoch and the entries left at its end. Here both are
one count, the entries that a table makes (`fill`): each is evicted exactly once. With the *eviction rate* y = entries /
probes in place of the collision rate x, equation 7 is the whole cost. y depends on the number of probes, so rates are
computed from the raw relations down. A relation is fed only with rows, or entries, that a query below it needs.

The flow length (section 5.3) divides the number of probes that can collide: a row that repeats the group of the row
before finds its own group. A table still makes at least one entry for each key. Where a table collides more than with
random rows, the flow length is below 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tidemill.optimize.share.phantoms.configuration import Configuration, Relation
from tidemill.optimize.share.phantoms.fill import entries_left, entries_made
from tidemill.optimize.share.phantoms.model import Model

REFUSED = 0.9  # eviction rate from which a phantom saves nothing
_NUDGE = 1e-2


class Arrivals(NamedTuple):
    """What arrives at a relation in one share: epochs (fragments), keys of each epoch, keys of the whole share."""

    epochs: float
    keys: float
    whole: float


class Shares(Protocol):
    """Statistics of a share, for relations and the queries at or below them."""

    @property
    def rows(self) -> float:
        """Rows of a share."""

    def arrivals(self, relation: Relation, below: frozenset[Relation]) -> Arrivals:
        """Epochs and keys of a relation with these queries at or below it."""

    def wanted_share(self, below: frozenset[Relation]) -> float:
        """The share of the rows that pass the predicate of at least one of these queries."""

    def passing_share(self, feeder: Relation, below: frozenset[Relation], fed: frozenset[Relation]) -> float:
        """The share of a feeder's entries that goes to a child with the queries `fed` at or below it."""

    def skew(self, relation: Relation, buckets: float) -> float:
        """The number of equally frequent groups, in random order, that collide like one group of these rows."""

    def flow_length(self, relation: Relation, feeder: Relation | None, buckets: float) -> float | None:
        """The flow length of a table that has run; None if only that of its depth is known."""

    def is_refused(self, relation: Relation) -> bool:
        """True for a feeder that evicted nearly everything when it ran."""


class _Stream(NamedTuple):
    """What does not depend on table sizes: what arrives at each relation, and the share of its feeder's evictions that
    it is fed with (of the rows, if it is raw).
    """

    configuration: Configuration
    arrivals: list[Arrivals]
    shares: list[float]


@dataclass(frozen=True)
class ShareModel(Model):
    """Costs per row of a share."""

    known: Shares = field(kw_only=True)
    _arrivals: dict[tuple[Relation, frozenset[Relation]], Arrivals] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    _passing_shares: dict[tuple[Relation, frozenset[Relation], frozenset[Relation]], float] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    _streams: dict[int, _Stream] = field(default_factory=dict, init=False, compare=False, repr=False)

    def stream(self, configuration: Configuration) -> _Stream:
        """Like `_facts_of`, only the last configuration is cached."""
        last = self._streams.get(0)
        if last is not None and last.configuration is configuration:
            return last
        arrivals, shares = [], []
        for relation, parent, below in zip(
            configuration.relations, configuration.parents, configuration.answered, strict=True
        ):
            if (relation, below) not in self._arrivals:
                self._arrivals[relation, below] = self.known.arrivals(relation, below)
            arrivals.append(self._arrivals[relation, below])
            if parent < 0:
                shares.append(self.known.wanted_share(below))
                continue
            path = configuration.relations[parent], configuration.answered[parent], below
            if path not in self._passing_shares:
                self._passing_shares[path] = self.known.passing_share(*path)
            shares.append(self._passing_shares[path])
        self._streams[0] = found = _Stream(configuration, arrivals, shares)
        return found

    def groups(self, configuration: Configuration) -> Sequence[float]:
        """Keys of an epoch: space is divided in proportion to them."""
        return [max(1.0, c.keys) for c in self.stream(configuration).arrivals]

    def feed_rates(self, configuration: Configuration, rates: Sequence[float]) -> list[float]:
        """Entries, or rows, that probe each relation for each row of the share."""
        fed: list[float] = []
        for parent, share in zip(configuration.parents, self.stream(configuration).shares, strict=True):
            fed.append(share * (1.0 if parent < 0 else fed[parent] * rates[parent]))
        return fed

    def rates(self, configuration: Configuration, buckets: Sequence[float]) -> list[float]:
        """y of each relation: entries evicted for each probe. Without a table (0 buckets) it is one for each key."""
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
        found = self.known.flow_length(configuration.relations[i], feeder, buckets)
        return self.flows(configuration)[i] if found is None else found

    def _rate(self, configuration: Configuration, i: int, fed: float, buckets: float, above: float) -> float:
        """y of one relation. The lower the rate of its feeder (`above`), the less of the rows' skew reaches it."""
        arriving = self.stream(configuration).arrivals[i]
        probes = fed * self.known.rows / arriving.epochs
        if probes <= 0:
            return 1.0
        if not buckets:
            return min(1.0, arriving.keys / probes)
        skew = self.known.skew(configuration.relations[i], buckets) ** above
        return entries_with_flow(probes, arriving.keys, buckets, self._flow(configuration, i, buckets), skew) / probes

    def cost_with(self, configuration: Configuration, buckets: Sequence[float], rates: Sequence[float]) -> float:
        """Probes times c1 and evictions of queries times c2, for each row."""
        fed = self.feed_rates(configuration, rates)
        evicted = sum(f * y for f, y, query in zip(fed, rates, configuration.emits, strict=True) if query)
        return sum(fed) * self.constants.c1 + evicted * self.constants.c2

    def below(self, configuration: Configuration, rates: Sequence[float]) -> list[float]:
        """Like `evicted_costs`, for the share of the entries that goes on to each child."""
        shares = self.stream(configuration).shares
        found = [self.constants.c2 if query else 0.0 for query in configuration.emits]
        for i in reversed(range(len(found))):
            parent = configuration.parents[i]
            if parent >= 0:
                found[parent] += shares[i] * (self.constants.c1 + rates[i] * found[i])
        return found

    def slopes(self, configuration: Configuration, buckets: Sequence[float]) -> list[float]:
        """By how much one more bucket lowers the cost per row, for each relation. The effect of fewer entries on the
        rates of the relations below is neglected.
        """
        rates = self.rates(configuration, buckets)
        fed, below = self.feed_rates(configuration, rates), self.below(configuration, rates)
        found = []
        for i, (b, parent) in enumerate(zip(buckets, configuration.parents, strict=True)):
            more = self._rate(configuration, i, fed[i], b * (1 + _NUDGE), 1.0 if parent < 0 else rates[parent])
            found.append(fed[i] * (rates[i] - more) / (b * _NUDGE) * below[i])
        return found

    def end_cost(self, configuration: Configuration, buckets: Sequence[float]) -> float:
        """E_e (8): the entries left in the tables of one reader when its share ends, evicted from the top down."""
        rates, stream = self.rates(configuration, buckets), self.stream(configuration)
        fed, below = self.feed_rates(configuration, rates), self.below(configuration, rates)
        total = 0.0
        for arriving, probes, b, lower in zip(stream.arrivals, fed, buckets, below, strict=True):
            rows = probes * self.known.rows
            total += entries_left(rows, arriving.whole, b) * lower if b else 0.0
        return total

    def refuses(self, configuration: Configuration, buckets: Sequence[float]) -> bool:
        """True if a phantom evicts nearly all entries it is fed with: it only adds a probe."""
        rates = self.rates(configuration, buckets)
        return any(
            not query and (y >= REFUSED or self.known.is_refused(r))
            for r, query, y in zip(configuration.relations, configuration.emits, rates, strict=True)
        )


def entries_with_flow(probes: float, keys: float, buckets: float, flow: float, skew: float = 1.0) -> float:
    """Entries of an epoch whose probes arrive in flows: as many as probes / flow random probes make."""
    keys = min(keys, probes)
    random = max(keys, probes / flow)
    return min(probes, entries_made(random, keys, buckets, skew))
