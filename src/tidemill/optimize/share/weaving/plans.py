"""Weaved plans: unshared, Shared, Weave Share, TriWeave (paper 003, sections II-C and III).

    plan          groups                        its model
    unshared      one for each query            TwoOps, equation 3
    Shared        one                           TwoOps
    Weave Share   merged while it lowers (3)    TwoOps
    TriWeave      merged while it lowers (4)    TriOps, equation 4

Every plan knows its cost under both models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tidemill.optimize.share.weaving.acq import Acq
from tidemill.optimize.share.weaving.cost import overlap_factor, triops_cost, twoops_cost
from tidemill.optimize.share.weaving.edges import Edges, edge_rate, edges_of, union
from tidemill.optimize.share.weaving.greedy import Merge, MergeOrder

Factor = Callable[[Acq], float]


@dataclass(frozen=True)
class WeavedGroup:
    """Queries that share fragments: their edges, the edge rate E_i, the overlap factor Ω_i.

    `error` bounds how far the edge rate may be off; 0 when it was counted.
    """

    queries: tuple[str, ...]
    edges: Edges
    rate: float
    overlap: float
    error: float = 0.0


@dataclass(frozen=True)
class WeavePlan:
    """A partition of queries into weaved groups.

    Rates are for each `unit` of the windows' time: `input_rate` is λ in rows, `edge_rate` is E of all queries together.
    `changes` counts the queries added and removed since the plan was made afresh; its E was then `fresh_rate`.
    """

    acqs: dict[str, Acq]
    groups: tuple[WeavedGroup, ...]
    edges: Edges
    edge_rate: float
    input_rate: float
    unit: int = 1
    factor: Factor = overlap_factor
    changes: int = 0
    fresh_rate: float = 0.0

    @cached_property
    def twoops(self) -> float:
        """Operations for each unit of time by equation 3."""
        return twoops_cost(self.input_rate, self.groups)

    @cached_property
    def triops(self) -> float:
        """Operations for each unit of time by equation 4."""
        return triops_cost(self.input_rate, self.edge_rate, self.groups)


class Weaving:
    """All plans of a set of queries. The order of merges is found once and serves every plan and every input rate.

    >>> from tidemill.optimize.share.weaving.acq import sliding
    >>> weaving = Weaving([Acq("a", sliding(8, 5)), Acq("b", sliding(5, 4)), Acq("c", sliding(10, 5))])
    >>> [g.queries for g in weaving.triweave(rate=100).groups]  # the edges of c are among those of a
    [('a', 'c'), ('b',)]
    """

    def __init__(self, acqs: Iterable[Acq], unit: int = 1, factor: Factor = overlap_factor) -> None:
        queries = list(acqs)
        self.acqs = {acq.name: acq for acq in queries}
        if len(self.acqs) < len(queries):
            raise ValueError("two queries have the same name")
        self.unit = unit
        self.factor = factor
        # Queries with the same edges lose nothing by a merge: Algorithm 1 merges them before all others. Sorted, so
        # that equal losses are decided in the same way whatever the order of the queries.
        alike: dict[Edges, list[Acq]] = {}
        for acq in sorted(queries, key=lambda acq: acq.name):
            alike.setdefault(edges_of([acq.window]), []).append(acq)
        self._alike = dict(sorted(alike.items()))
        self.edges = union(*self._alike)
        self.edge_rate = edge_rate(self.edges).value * unit

    @cached_property
    def order(self) -> MergeOrder:
        """Merges of the sets of queries with the same edges; losses are for each time unit, not for each `unit`."""
        return MergeOrder(list(self._alike), [sum(map(self.factor, alike)) for alike in self._alike.values()])

    def unshared(self, rate: float) -> WeavePlan:
        """Every query alone."""
        return self._plan([[acq] for acq in self.acqs.values()], rate)

    def shared(self, rate: float) -> WeavePlan:
        """All queries in one group (Shared Time Slices)."""
        return self._plan([list(self.acqs.values())] if self.acqs else [], rate)

    def weave_share(self, rate: float) -> WeavePlan:
        """Greedy merging under TwoOps: a group fewer is worth λ."""
        return self._plan(self._partition(self.order.merges_until(rate / self.unit)), rate)

    def triweave(self, rate: float) -> WeavePlan:
        """Algorithm 1: greedy merging under TriOps, a group fewer is worth E.

        Losses need not rise from merge to merge, so a merge that does not pay can be followed by some that do. The
        search continues until that is impossible, because no merge gains more than E, and takes the cheapest plan on
        the way. Unshared, Weave Share's plan and Shared are on it: by (4), TriWeave never costs more than any of them.
        """
        worth = self.edge_rate / self.unit
        gain, best, chosen = 0.0, 0.0, 0
        merges: list[Merge] = []
        while merge := self.order.merge(len(merges)):
            merges.append(merge)
            gain += worth - merge.loss
            if gain > best:
                best, chosen = gain, len(merges)
            elif gain + worth * (len(self._alike) - 1 - len(merges)) <= best:
                break
        return self._plan(self._partition(merges[:chosen]), rate)

    def _partition(self, merges: Sequence[Merge]) -> list[list[Acq]]:
        """The groups after these merges, queries and groups in the order of the queries."""
        place = {name: i for i, name in enumerate(self.acqs)}
        groups = {i: list(alike) for i, alike in enumerate(self._alike.values())}
        for merge in merges:
            groups[merge.first] += groups.pop(merge.second)
        ordered = [sorted(group, key=lambda acq: place[acq.name]) for group in groups.values()]
        return sorted(ordered, key=lambda group: place[group[0].name])

    def _plan(self, partition: Iterable[Sequence[Acq]], rate: float) -> WeavePlan:
        groups = tuple(weaved_group(part, self.unit, self.factor) for part in partition)
        return WeavePlan(
            self.acqs, groups, self.edges, self.edge_rate, rate, self.unit, self.factor, fresh_rate=self.edge_rate
        )


def weaved_group(acqs: Sequence[Acq], unit: int = 1, factor: Factor = overlap_factor) -> WeavedGroup:
    """The group of these queries; its edge rate is for each `unit` of time."""
    edges = edges_of(acq.window for acq in acqs)
    rate = edge_rate(edges)
    return WeavedGroup(
        tuple(acq.name for acq in acqs), edges, rate.value * unit, sum(map(factor, acqs)), rate.error * unit
    )


def unshared(acqs: Iterable[Acq], rate: float, unit: int = 1) -> WeavePlan:
    """Every query alone."""
    return Weaving(acqs, unit).unshared(rate)


def shared(acqs: Iterable[Acq], rate: float, unit: int = 1) -> WeavePlan:
    """All queries in one group."""
    return Weaving(acqs, unit).shared(rate)


def weave_share(acqs: Iterable[Acq], rate: float, unit: int = 1) -> WeavePlan:
    """The plan of the Weave Share optimizer, made for TwoOps."""
    return Weaving(acqs, unit).weave_share(rate)


def triweave(acqs: Iterable[Acq], rate: float, unit: int = 1) -> WeavePlan:
    """The plan of the TriWeave optimizer (Algorithm 1), made for TriOps."""
    return Weaving(acqs, unit).triweave(rate)
