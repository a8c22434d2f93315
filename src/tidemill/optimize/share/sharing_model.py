"""The costs of a source's configurations: what is known of a share, for the leaves of its weaved groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidemill.optimize.share.asked import Asked
from tidemill.optimize.share.known import Known, Wants
from tidemill.optimize.share.phantoms.configuration import Relation
from tidemill.optimize.share.phantoms.share_model import Comes
from tidemill.optimize.share.weaving.acq import Acq
from tidemill.optimize.share.weaving.cost import amortised_factor
from tidemill.optimize.share.weaving.edges import Edges, edges_of, union

OPERATION = 2.0  # a step of the final aggregation in probes: about 20 ns against 10


@dataclass(frozen=True)
class Leaves:
    """`phantoms.share_model.Shares` for leaves, each with the queries that it answers."""

    known: Known
    queries: Mapping[Relation, Sequence[Asked]]
    edges: Mapping[Relation, Edges]
    wants: Mapping[Relation, Wants]
    # Configurations differ in how they combine leaves; a thousand queries' edges are put together once for each set.
    _below: dict[frozenset[Relation], tuple[float, Wants]] = field(default_factory=dict, compare=False, repr=False)
    _comes: dict[tuple[frozenset[str], frozenset[Relation]], Comes] = field(
        default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, known: Known, queries: Mapping[Relation, Sequence[Asked]]) -> Leaves:
        """With the edges of each leaf's windows, and the rows that its queries want."""
        return cls(known, queries, {leaf: edges_of(q.window for q in asked) for leaf, asked in queries.items()},
                   {leaf: Wants.of(q.predicate for q in asked) for leaf, asked in queries.items()})

    @property
    def rows(self) -> float:
        return self.known.rows

    def comes(self, relation: Relation, below: frozenset[Relation]) -> Comes:
        kind = relation.attributes, below
        if kind not in self._comes:
            epochs, wants = self._at(below)
            keys = self.known.keys
            self._comes[kind] = Comes(epochs, keys(relation.attributes, wants, self.known.rows / epochs),
                                      keys(relation.attributes, wants, self.known.rows))
        return self._comes[kind]

    def wanted(self, below: frozenset[Relation]) -> float:
        return self.known.wanted(self._at(below)[1])

    def passing(self, feeder: Relation, below: frozenset[Relation], fed: frozenset[Relation]) -> float:
        (epochs, wants), (_, passed) = self._at(below), self._at(fed)
        if passed.everything or passed == wants:
            return 1.0
        keys = self.comes(feeder, below).keys
        return min(1.0, self.known.keys(feeder.attributes, wants, self.known.rows / epochs, passed) / max(keys, 1e-9))

    def _at(self, below: frozenset[Relation]) -> tuple[float, Wants]:
        """Epochs of relations above these leaves, and the rows that they want."""
        if below not in self._below:
            wants = [self.wants[leaf] for leaf in below]
            epochs = self.known.epochs(union(*(self.edges[leaf] for leaf in below)))
            self._below[below] = min(self.known.rows, epochs), Wants(
                frozenset().union(*(w.predicates for w in wants)), any(w.everything for w in wants))
        return self._below[below]

    def skew(self, relation: Relation, buckets: float) -> float:
        return self.known.skew(relation.attributes, buckets)

    def length(self, relation: Relation, feeder: Relation | None, buckets: float) -> float | None:
        return self.known.length(relation.text, feeder.text if feeder else None, buckets)

    def refused(self, relation: Relation) -> bool:
        return self.known.refused(relation.attributes)

    def final_cost(self, probe: float) -> float:
        """Final aggregation for each row: every fragment of a leaf enters and leaves each of its queries once."""
        total = 0.0
        for leaf, asked in self.queries.items():
            comes = self.comes(leaf, leaf.alone)
            total += comes.epochs * comes.keys * sum(amortised_factor(acq_of(q)) for q in asked)
        return probe * OPERATION * total / self.known.rows


def acq_of(query: Asked) -> Acq:
    """A query as weaving sees it."""
    return Acq(query.id, query.window, frozenset(query.names), query.predicate)
