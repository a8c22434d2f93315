"""The statistics of a share for the leaves of a source's weaved groups, as the cost model needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidemill.optimize.share.phantoms.configuration import Relation
from tidemill.optimize.share.phantoms.share_model import Arrivals
from tidemill.optimize.share.stream_statistics import StreamStatistics, Wants
from tidemill.optimize.share.weaving.acq import Acq
from tidemill.optimize.share.weaving.cost import amortised_factor
from tidemill.optimize.share.weaving.edges import Edges, edges_of, union
from tidemill.optimize.share.window_queries import WindowQuery
from tidemill.plan.scalars import sql_of

OPERATION = 2.0  # a step of the final aggregation in probes: about 20 ns against 10


@dataclass(frozen=True)
class Leaves:
    """Implements `phantoms.share_model.Shares` for leaves, each with the queries that it answers."""

    known: StreamStatistics
    queries: Mapping[Relation, Sequence[WindowQuery]]
    edges: Mapping[Relation, Edges]
    wants: Mapping[Relation, Wants]
    # Many configurations contain the same sets of leaves: the edges of a thousand queries are united once for each set.
    _below: dict[frozenset[Relation], tuple[float, Wants]] = field(default_factory=dict, compare=False, repr=False)
    _arrivals: dict[tuple[frozenset[str], frozenset[Relation]], Arrivals] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def of(cls, known: StreamStatistics, queries: Mapping[Relation, Sequence[WindowQuery]]) -> Leaves:
        """Leaves with the edges of their windows and the rows that their queries need."""
        return cls(
            known,
            queries,
            {leaf: edges_of(q.window for q in asked) for leaf, asked in queries.items()},
            {leaf: Wants.of(sql_of(q.predicate) for q in asked) for leaf, asked in queries.items()},
        )

    @property
    def rows(self) -> float:
        return self.known.rows

    def arrivals(self, relation: Relation, below: frozenset[Relation]) -> Arrivals:
        kind = relation.attributes, below
        if kind not in self._arrivals:
            epochs, wants = self._epochs_and_wants(below)
            keys = self.known.keys
            self._arrivals[kind] = Arrivals(
                epochs,
                keys(relation.attributes, wants, self.known.rows / epochs),
                keys(relation.attributes, wants, self.known.rows),
            )
        return self._arrivals[kind]

    def wanted_share(self, below: frozenset[Relation]) -> float:
        return self.known.wanted_share(self._epochs_and_wants(below)[1])

    def passing_share(self, feeder: Relation, below: frozenset[Relation], fed: frozenset[Relation]) -> float:
        (epochs, wants), (_, passed) = self._epochs_and_wants(below), self._epochs_and_wants(fed)
        if passed.everything or passed == wants:
            return 1.0
        keys = self.arrivals(feeder, below).keys
        return min(1.0, self.known.keys(feeder.attributes, wants, self.known.rows / epochs, passed) / max(keys, 1e-9))

    def _epochs_and_wants(self, below: frozenset[Relation]) -> tuple[float, Wants]:
        """Epochs of a relation with these leaves at or below it, and the rows that they need."""
        if below not in self._below:
            wants = [self.wants[leaf] for leaf in below]
            epochs = self.known.epochs(union(*(self.edges[leaf] for leaf in below)))
            self._below[below] = (
                min(self.known.rows, epochs),
                Wants(frozenset().union(*(w.predicates for w in wants)), any(w.everything for w in wants)),
            )
        return self._below[below]

    def skew(self, relation: Relation, buckets: float) -> float:
        return self.known.skew(relation.attributes, buckets)

    def flow_length(self, relation: Relation, feeder: Relation | None, buckets: float) -> float | None:
        return self.known.length(relation.text, feeder.text if feeder else None, buckets)

    def is_refused(self, relation: Relation) -> bool:
        return self.known.is_refused(relation.attributes)

    def final_cost(self, probe: float) -> float:
        """Cost per row of the final aggregation: each fragment of a leaf enters and leaves each of its queries once."""
        total = 0.0
        for leaf, asked in self.queries.items():
            arriving = self.arrivals(leaf, leaf.alone)
            total += arriving.epochs * arriving.keys * sum(amortised_factor(acq_of(q)) for q in asked)
        return probe * OPERATION * total / self.known.rows


def acq_of(query: WindowQuery) -> Acq:
    """A query as weaving sees it."""
    return Acq(query.id, query.window, frozenset(query.names), sql_of(query.predicate))
