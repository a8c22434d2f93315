"""What a query adds to the work of the queries that run: operators that are there already cost nothing (paper 004, §9).

C = Σ T_in · c, in nanoseconds for each second of event time. T_in is what running operators have counted, where there
are such: those of the same query, or of an older one that computes the same. Everything else is assumed: a stream has
1,000 records a second, a condition keeps a third, a grouping or a synchronizer halves the number of changes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidemill.optimize.views.cost import RowCosts
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation

MARGIN = 0.8  # a view answers when the added cost is lower by a fifth
ASSUMED_RATE = 1_000.0  # records of a stream in a second
_SECOND = 1_000_000
_KEPT = 1 / 3  # of the rows of a condition
_HALF = 0.5  # of the changes, after a synchronizer or a grouping
_SHARED_WINDOW = 0.5  # of a grouping's cost: its hash tables and stores serve many queries
_JOIN = 4.0  # groupings: a join looks up and keeps both sides
_HALVING = (r.Synchronize, r.SynchronizePeriods, r.SynchronizeOn, r.GroupBy, r.JoinAggregate, r.SetCombine)


class Estimate(NamedTuple):
    """A number, and what it rests on: counts of operators, assumptions, or both."""

    value: float
    is_measured: bool = False
    is_assumed: bool = False

    @property
    def basis(self) -> str:
        """What it rests on, in a word or two.

        >>> Estimate(1.0, is_measured=True).basis, Estimate(1.0, is_assumed=True).basis
        ('measured', 'assumed')
        """
        if self.is_measured:
            return "partly measured" if self.is_assumed else "measured"
        return "assumed"


def add_estimates(found: Iterable[Estimate], scale: float = 1.0, assume: bool = False) -> Estimate:
    """The sum, scaled; `assume` where the scale is a guess.

    >>> add_estimates([Estimate(2.0, True), Estimate(4.0, True)], 0.5, assume=True)
    Estimate(value=3.0, is_measured=True, is_assumed=True)
    """
    parts = list(found)
    return Estimate(
        scale * sum(part.value for part in parts),
        any(part.is_measured for part in parts),
        assume or any(part.is_assumed for part in parts),
    )


def _never_counted(_: Relation) -> float | None:
    return None


@dataclass
class AddedCost:
    """The cost of a tree where the nodes with fingerprints in `running` are there already; `measured` gives the rows
    that a node brings in a second of event time, where they were counted.
    """

    running: Container[str] = ()
    costs: RowCosts = field(default_factory=RowCosts)
    measured: Callable[[Relation], float | None] = _never_counted
    _rows: dict[str, Estimate] = field(default_factory=dict)

    @staticmethod
    def is_cheaper(one: Estimate, other: Estimate) -> bool:
        """True when the first cost is less by the margin."""
        return one.value < MARGIN * other.value

    def of(self, node: Relation) -> Estimate:
        """Σ T_in · c over the nodes that do not run yet, each once."""
        return add_estimates(self._costs(node, set()))

    def _costs(self, node: Relation, seen: set[str]) -> Iterable[Estimate]:
        if node.fingerprint in seen or node.fingerprint in self.running or isinstance(node, r.View):
            return
        seen.add(node.fingerprint)
        inputs = [c for c in node.children if isinstance(c, Relation)]
        yield add_estimates(map(self.rows, inputs), self._cost(node))
        for below in inputs:
            yield from self._costs(below, seen)

    def rows(self, node: Relation) -> Estimate:
        """T_out of a node in a second."""
        if node.fingerprint not in self._rows:
            found = self.measured(node)
            self._rows[node.fingerprint] = self._estimate(node) if found is None else Estimate(found, is_measured=True)
        return self._rows[node.fingerprint]

    def _estimate(self, node: Relation) -> Estimate:
        inputs = [self.rows(c) for c in node.children if isinstance(c, Relation)]
        if not inputs:
            return _estimate_leaf(node)
        if isinstance(node, r.Filter):
            return add_estimates(inputs, _KEPT, assume=True)
        if isinstance(node, r.WindowAggregate):
            return add_estimates(inputs, _HALF if node.predicate is None else _KEPT * _HALF, assume=True)
        if isinstance(node, _HALVING) or (isinstance(node, r.Tag) and node.deleted is not None):
            rows = inputs if isinstance(node, (r.JoinAggregate, r.SetCombine)) else inputs[:1]
            return add_estimates(rows, _HALF, assume=True)
        return add_estimates(inputs)

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


def _estimate_leaf(node: Relation) -> Estimate:
    if isinstance(node, r.Clock):
        return Estimate(_SECOND / node.unit_us)
    if isinstance(node, r.Seed) or (isinstance(node, r.Scan) and node.static):
        return Estimate(0.0)  # rows that come once
    return Estimate(ASSUMED_RATE, is_assumed=True)


def shares_windows(query: Relation) -> bool:
    """True when a query is made of window aggregates over streams alone: these share their work with all others over
    the same stream, so a view has nothing to save.
    """
    kinds = {type(node) for node in walk(query) if isinstance(node, Relation)}
    return r.WindowAggregate in kinds and kinds <= {r.WindowAggregate, r.Project, r.Filter, r.Scan, r.Synchronize}
