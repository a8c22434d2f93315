"""A query answered from views that already run: the largest parts of it that a view contains are read from the view.

Proposition 1 and theorems 1 to 3 of paper 004: the view contains the part when it has the data (`match`) and its full
points include all points of the part. The part is then the compensation over the view, under its own synchronizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tidemill.optimize.views.match import OTHER_SHAPE, Match, NoMatch, ViewData, match
from tidemill.optimize.views.peel import Definition, Peeled, peel_query, peel_view
from tidemill.plan import relations as r
from tidemill.plan.points import contained, show_points
from tidemill.plan.relations import Relation

_PARTS = (r.Project, r.Filter, r.Join, r.GroupBy, r.Temporal, r.Synchronize, r.SynchronizePeriods, r.SynchronizeOn)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A view that may contain a part of a query."""

    id: str
    name: str
    source: Relation  # its rows, as a query reads them
    bound: Relation  # its definition
    define: Definition

    @cached_property
    def peeled(self) -> Peeled:
        """Its data and its full points."""
        return peel_view(self.bound, self.define)

    @cached_property
    def data(self) -> ViewData:
        """Its data as blocks."""
        return ViewData.of(self.peeled.data)

    @cached_property
    def inputs(self) -> frozenset[Relation]:
        """The leaves of its data: only queries over the same leaves can be contained."""
        return frozenset(self.data.block.leaves)


@dataclass(frozen=True)
class Costs:
    """What a part of a query adds to the work: read from a view, read from the streams; whether the view is taken."""

    view: float
    streams: float
    accepted: bool


@dataclass(frozen=True)
class Answered:
    """A part of a query that is answered from a view."""

    part: Relation
    view: Candidate
    found: Match
    peeled: Peeled
    costs: Costs | None = None  # unknown where the decision is repeated

    @property
    def node(self) -> Relation:
        """The part over the rows of the view."""
        return self.peeled.synchronize(self.found.over(self.view.source))


@dataclass
class Answer:
    """A query, the parts of it that views answer, and why other views do not answer it."""

    node: Relation
    parts: list[Answered] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # by the name of the view


Weigh = Callable[[Answered], Costs]


def answer(query: Relation, candidates: Iterable[Candidate], define: Definition, weigh: Weigh) -> Answer:
    """Replace the largest parts of a query that a view contains by the cheapest such view, where `weigh` accepts it."""
    result = Answer(query)
    by_inputs: dict[frozenset[Relation], list[Candidate]] = {}
    for candidate in candidates:
        by_inputs.setdefault(candidate.inputs, []).append(candidate)
    if by_inputs:
        result.node = _Search(by_inputs, define, weigh, result).replace(query)
    return result


def replay(query: Relation, decided: Sequence[tuple[str, Candidate]], define: Definition) -> Answer:
    """Replace the parts that were decided, by fingerprint; a decision is never searched again."""
    result = Answer(query)
    views = dict(decided)

    def visit(node: Relation) -> Relation:
        if node.fingerprint not in views:
            return _with_inputs(node, visit)
        found = find(node, views[node.fingerprint], define)
        assert isinstance(found, Answered), (
            f"view {views[node.fingerprint].name} no longer answers a part of its reader"
        )
        result.parts.append(found)
        return found.node

    result.node = visit(query)
    return result


def find(part: Relation, candidate: Candidate, define: Definition) -> Answered | NoMatch:
    """Whether a view contains a part of a query."""
    peeled = peel_query(part, define)
    found = match(peeled.data, candidate.data)
    if isinstance(found, NoMatch):
        return found
    if not contained(peeled.points, candidate.peeled.points):
        return NoMatch(f"{_named_points(candidate.peeled)} misses some of {_named_points(peeled)}")
    return Answered(part, candidate, found, peeled)


@dataclass
class _Search:
    candidates: dict[frozenset[Relation], list[Candidate]]
    define: Definition
    weigh: Weigh
    result: Answer

    def replace(self, node: Relation) -> Relation:
        found = self._find(node) if isinstance(node, _PARTS) else None
        if found is None:
            return _with_inputs(node, self.replace)
        self.result.parts.append(found)
        self.result.refused.pop(found.view.name, None)
        return found.node

    def _find(self, node: Relation) -> Answered | None:
        peeled = peel_query(node, self.define)
        data = ViewData.of(peeled.data)
        if data.grouped is not None and not isinstance(peeled.data, r.GroupBy):
            return None  # the grouping below is compared, not what is shown of it
        named, best = _named(node), None
        for candidate in self.candidates.get(frozenset(data.block.leaves), ()):
            if candidate.name in named:
                continue  # read by its name already
            found = find(node, candidate, self.define)
            if isinstance(found, NoMatch):
                self._refuse(candidate.name, found.reason)
                continue
            costs = self.weigh(found)
            if not costs.accepted:
                self._refuse(candidate.name, "it would not be cheaper")
            elif best is None or best.costs is None or costs.view < best.costs.view:
                best = replace(found, costs=costs)
        return best

    def _refuse(self, view: str, reason: str) -> None:
        """Keep the reason for the largest part that has one; what a view shows says nothing about why."""
        if self.result.refused.get(view, OTHER_SHAPE[0]) in OTHER_SHAPE:
            self.result.refused[view] = reason


def _named_points(peeled: Peeled) -> str:
    return show_points(peeled.points, 1_000_000, "units")


def _named(node: Relation) -> set[str]:
    """The views that a tree reads by name."""
    return {n.name for n in _nodes(node) if isinstance(n, r.View)}


def _nodes(node: Relation) -> Iterator[Relation]:
    yield node
    if not isinstance(node, r.View):
        for child in node.children:
            if isinstance(child, Relation):
                yield from _nodes(child)


def _with_inputs(node: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """A node over changed inputs; created views and relations of points stay as they are."""
    if isinstance(node, r.View):
        return node
    inputs = [c for c in node.children if isinstance(c, Relation)]
    points = inputs[1:] if isinstance(node, r.SynchronizeOn) else []
    fresh = [i if i in points else change(i) for i in inputs]
    return node if all(a is b for a, b in zip(inputs, fresh, strict=True)) else r.with_children(node, *fresh)
