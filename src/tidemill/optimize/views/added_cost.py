"""What a query adds to the work of the queries that run: operators that are there already cost nothing (paper 004, §9).

Rows that reach each operator are estimated from the number that its streams bring; without measurements a condition is
taken to keep a third, a grouping or a synchronizer to halve the number of changes.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field

from tidemill.optimize.views.cost import RowCosts
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation

MARGIN = 0.8  # a view answers when the added cost is lower by a fifth
_KEPT = 1 / 3  # of the rows of a condition
_HALF = 0.5  # of the changes, after a synchronizer or a grouping
_SHARED_WINDOW = 0.5  # of a grouping's cost: its hash tables and stores serve many queries
_JOIN = 4.0  # groupings: a join looks up and keeps both sides


@dataclass
class AddedCost:
    """The cost of a tree where the nodes with fingerprints in `running` are there already."""

    running: Container[str]
    costs: RowCosts = field(default_factory=RowCosts)
    measured: Callable[[Relation], float | None] = lambda _: (
        None
    )  # rows that a running node brings, if they were counted
    _rows: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def is_cheaper(one: float, other: float) -> bool:
        """True when the first cost is less by the margin."""
        return one < MARGIN * other

    def of(self, node: Relation, _seen: set[str] | None = None) -> float:
        """Σ T_in · c over the nodes that do not run yet, each once."""
        seen = set() if _seen is None else _seen
        if node.fingerprint in seen or node.fingerprint in self.running or isinstance(node, r.View):
            return 0.0
        seen.add(node.fingerprint)
        inputs = [c for c in node.children if isinstance(c, Relation)]
        return sum(map(self.rows, inputs)) * self._cost(node) + sum(self.of(i, seen) for i in inputs)

    def rows(self, node: Relation) -> float:
        """T_out of a node for one row of each stream."""
        if node.fingerprint not in self._rows:
            found = self.measured(node)
            self._rows[node.fingerprint] = self._estimate(node) if found is None else found
        return self._rows[node.fingerprint]

    def _estimate(self, node: Relation) -> float:
        inputs = [self.rows(c) for c in node.children if isinstance(c, Relation)]
        if not inputs:
            return 0.0 if isinstance(node, r.Scan) and node.static else 1.0
        if isinstance(node, r.Filter):
            return inputs[0] * _KEPT
        if isinstance(node, r.WindowAggregate) and node.predicate is not None:
            return inputs[0] * _KEPT * _HALF
        if isinstance(node, (r.GroupBy, r.WindowAggregate, r.JoinAggregate, r.SetCombine)):
            return sum(inputs) * _HALF
        if isinstance(node, r.Tag) and node.deleted is not None:
            return inputs[0] * _HALF
        return (
            inputs[0] * _HALF
            if isinstance(node, (r.Synchronize, r.SynchronizePeriods, r.SynchronizeOn))
            else sum(inputs)
        )

    def _cost(self, node: Relation) -> float:
        if isinstance(node, r.Tag):
            return self.costs.tagger
        if isinstance(node, (r.GroupBy, r.SetCombine)):
            return self.costs.grouping
        if isinstance(node, r.WindowAggregate):
            return self.costs.grouping * _SHARED_WINDOW
        if isinstance(node, (r.Join, r.JoinAggregate)):
            return self.costs.grouping * _JOIN
        if isinstance(node, (r.Synchronize, r.SynchronizePeriods, r.SynchronizeOn)):
            return self.costs.synchronizer
        return self.costs.filter


def shares_windows(query: Relation) -> bool:
    """True when a query is made of window aggregates over streams alone: these share their work with all others over
    the same stream, so a view has nothing to save.
    """
    kinds = {type(node) for node in walk(query) if isinstance(node, Relation)}
    return r.WindowAggregate in kinds and kinds <= {r.WindowAggregate, r.Project, r.Filter, r.Scan, r.Synchronize}
