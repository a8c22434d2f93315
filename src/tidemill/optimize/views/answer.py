"""A query answered from views that already run: the largest parts of it that a view contains are read from the view.

Proposition 1 and theorems 1 to 3 of paper 004: the view contains the part when it has the data (`match`) and its full
points include all points of the part. The part is then the compensation over the view, under its own synchronizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain, islice

from tidemill.optimize.views.block import Block, WindowBounds, block_of
from tidemill.optimize.views.columns import project
from tidemill.optimize.views.match import Match, NoMatch, ViewData, match
from tidemill.optimize.views.peel import Definition, Peeled, Peeling, peel_view
from tidemill.plan import relations as r
from tidemill.plan.points import Every, Points, is_contained, show_points
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import ColumnRef

MOST_COMPARED = 100  # views that a part is compared with: bounded where there are thousands
MOST_FITTING = 8  # views that contain a part, or seem to and have more rows than one that does
MOST_EXPLAINED = 8  # views that are compared for the reason alone why they do not contain a part
_PARTS = (
    *(r.Project, r.Filter, r.Join, r.GroupBy, r.Temporal, r.Synchronize, r.SynchronizePeriods, r.SynchronizeOn),
    *(r.SetCombine, r.Union),
)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A view that may contain a part of a query."""

    id: str
    name: str
    source: Relation  # its rows, as a query reads them
    bound: Relation  # its definition
    define: Definition
    size: float = 1.0  # how many rows it brings in a second
    is_answered: bool = False  # it is read from another view itself, which contains what it contains
    whole_times: bool = True  # no event time of its streams is between two clock units

    @cached_property
    def peeled(self) -> Peeled:
        """Its data and its full points."""
        return peel_view(self.bound, self.define)

    @cached_property
    def data(self) -> ViewData:
        """Its data as blocks."""
        return ViewData.of(self.peeled.data, self.whole_times)


@dataclass(frozen=True)
class Costs:
    """What a part of a query adds to the work: read from a view, read from the streams, in nanoseconds for each second
    of event time; whether the view is taken; what the numbers rest on.
    """

    view: float
    streams: float
    accepted: bool
    basis: str


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
    moment: int | None = None  # of the creation of a query that reads its streams again
    begins: tuple[int, ...] | None = None  # how a query begins with what views hold: see `engine.views.contents`

    @property
    def shown_from(self) -> int | None:
        """The moment before which nothing of the query is shown."""
        return self.begins[1] if self.begins else self.moment


Weigh = Callable[[Answered], Costs]
_Inputs = tuple[frozenset[Relation], frozenset[WindowBounds] | None]  # the leaves, and the windows of groups


class Candidates:
    """Views that may answer, by their inputs."""

    def __init__(self, views: Iterable[Candidate] = ()) -> None:
        self._by_inputs: dict[tuple[_Inputs, bool], dict[str, Candidate]] = {}  # and whether other views answer them
        self._by_text: dict[Relation, list[Candidate]] = {}
        for view in views:
            self.add(view)

    def add(self, view: Candidate) -> None:
        """One more view."""
        key = _inputs_of(view.data.block, view.data.grouped is not None)
        self._by_inputs.setdefault((key, view.is_answered), {})[view.id] = view
        self._by_text.setdefault(view.bound, []).append(view)

    def near(self, part: Part, grouped: bool) -> Iterable[Candidate]:
        """The views of the same text, and those over the same inputs that show groups, or rows; of these first those
        that are not answered from others, the smallest first.
        """
        same = self._by_text.get(part.node, [])
        inputs = _inputs_of(part.block, grouped)
        own, answered = (self._by_inputs.get((inputs, way), {}).values() for way in (False, True))
        first = sorted(islice(own, MOST_COMPARED), key=lambda view: view.size)
        return chain(same, (v for v in chain(first, answered) if v.bound is not part.node))


def _inputs_of(block: Block, grouped: bool) -> _Inputs:
    """What a view and a query must have in common; the window of rows may also be inside the view's."""
    return frozenset(block.leaves), frozenset(block.windows) if grouped else None


def answer(query: Relation, candidates: Candidates, define: Definition, weigh: Weigh) -> Answer:
    """Replace the largest parts of a query that a view contains by the smallest such view, where `weigh` accepts it."""
    result = Answer(query)
    result.node = _Search(candidates, Peeling(define), weigh, result).replace(query)
    return result


def replay(query: Relation, decided: Sequence[tuple[str, Candidate]], define: Definition) -> Answer:
    """Replace the parts that were decided, by fingerprint; a decision is never searched again."""
    result = Answer(query)
    views, peeling = dict(decided), Peeling(define)

    @cache
    def visit(node: Relation) -> Relation:
        if node.fingerprint not in views:
            return r.change_inputs(node, visit)
        found = Part.of(node, peeling).find(views[node.fingerprint])
        assert isinstance(found, Answered), (
            f"view {views[node.fingerprint].name} no longer answers a part of its reader"
        )
        result.parts.append(found)
        return found.node

    result.node = visit(query)
    return result


@dataclass(frozen=True)
class Part:
    """A part of a query, in the form in which it is compared."""

    node: Relation
    peeled: Peeled
    block: Block
    _missed: dict[Points, NoMatch | None] = field(default_factory=dict, compare=False)  # by the points of views

    @classmethod
    def of(cls, node: Relation, peeling: Peeling) -> Part:
        peeled = peeling.peel(node)
        data = peeled.data
        return cls(node, peeled, block_of(data.input if isinstance(data, r.GroupBy) else data))

    def find(self, candidate: Candidate) -> Answered | NoMatch:
        """Whether a view contains the part: it has the same text, or its data and points are found in the view."""
        if self.node is candidate.bound and not (isinstance(self.node, r.GroupBy) and not self.node.keys):
            columns = {name: ColumnRef(name) for name in self.node.names}
            return Answered(
                self.node, candidate, Match(lambda source: project(source, self.node, columns)), Peeled(self.node)
            )
        found = match(self.peeled.data, self.block, candidate.data)
        if isinstance(found, NoMatch):
            return found
        return self._misses_points(candidate) or Answered(self.node, candidate, found, self.peeled)

    def find_among_alike(self, candidate: Candidate, in_full: bool = True) -> Answered | NoMatch | None:
        """The same for a view over the same inputs: points first, since they are compared in a fraction of the time;
        None where only these were compared.
        """
        missed = None if self.node is candidate.bound else self._misses_points(candidate)
        return missed or (self.find(candidate) if in_full else None)

    def _misses_points(self, candidate: Candidate) -> NoMatch | None:
        points = candidate.peeled.points
        if points not in self._missed:
            missed = NoMatch(f"{_named_points(candidate.peeled)} misses some of {_named_points(self.peeled)}")
            self._missed[points] = None if is_contained(self.peeled.points, points) else missed
        return self._missed[points]


@dataclass
class _Search:
    candidates: Candidates
    peeling: Peeling
    weigh: Weigh
    result: Answer
    known: dict[tuple[Relation, bool], tuple[Relation, list[Answered]]] = field(default_factory=dict)

    def replace(self, node: Relation, tried: bool = False) -> Relation:
        """A node with its largest contained parts replaced; searched once, however many nodes read it.

        `tried`: the node is below selections and projections of a part that no view contains; then no view contains
        the node either. A grouping is compared apart from what is made of its groups.
        """
        if (node, tried) not in self.known:
            before = len(self.result.parts)
            found = self._search(node, tried)
            self.known[node, tried] = found, self.result.parts[before:]
            return found
        found, parts = self.known[node, tried]
        self.result.parts += [part for part in parts if part not in self.result.parts]
        return found

    def _search(self, node: Relation, tried: bool) -> Relation:
        is_new = not tried or isinstance(node, r.GroupBy)
        found = self._find(node) if isinstance(node, _PARTS) and is_new else None
        if found is None:
            return self._replace_below(node)
        self.result.parts.append(found)
        self.result.refused.pop(found.view.name, None)
        return found.node

    def _replace_below(self, node: Relation) -> Relation:
        below = isinstance(node, _PARTS) and not isinstance(node, (r.Join, r.GroupBy, r.SetCombine, r.Union))
        known = len(self.result.parts)
        found = r.change_inputs(node, lambda child: self.replace(child, below))
        if isinstance(node, r.GroupBy) and not node.keys and not _begin_alike(node, found):
            for part in self.result.parts[known:]:
                self.result.refused[part.view.name] = "an answer without groups would begin at another time"
            del self.result.parts[known:]
            return node
        return found

    def _find(self, node: Relation) -> Answered | None:
        part = Part.of(node, self.peeling)
        grouped = isinstance(part.peeled.data, r.GroupBy)
        named, best, fitting = _views_read(node), None, 0
        for i, candidate in enumerate(islice(self.candidates.near(part, grouped), MOST_COMPARED)):
            if candidate.name in named:
                continue  # read by its name already
            is_smaller = best is None or candidate.size < best.view.size
            found = part.find_among_alike(candidate, is_smaller or i < MOST_EXPLAINED)
            if isinstance(found, NoMatch):
                self.result.refused[candidate.name] = found.reason
                continue
            best = found if is_smaller else best
            fitting += 1
            if fitting == MOST_FITTING:
                break
        return self._weigh(best)

    def _weigh(self, best: Answered | None) -> Answered | None:
        """The view with the least rows, if it pays."""
        if best is None:
            return None
        costs = self.weigh(best)
        if not costs.accepted:
            added = f"{show_cost(costs.view)} instead of {show_cost(costs.streams)} ms/s, {costs.basis}"
            self.result.refused[best.view.name] = f"it would not be cheaper: {added}"
        return replace(best, costs=costs) if costs.accepted else None


def show_cost(nanoseconds: float) -> str:
    """A cost in milliseconds, to two digits.

    >>> show_cost(913_000.0), show_cost(14_200.0), show_cost(25_300_000.0), show_cost(0.0)
    ('0.91', '0.014', '25', '0')
    """
    found = float(f"{nanoseconds / 1e6:.2g}")
    return f"{found:,.10f}".rstrip("0").rstrip(".")


def _begin_alike(one: Relation, other: Relation) -> bool:
    """Whether two groupings without keys have their first row at the same time."""
    ways, others = r.beginning(one), r.beginning(other)
    if isinstance(ways, str) or isinstance(others, str):
        return ways == others
    return {*map(_last_rounds, ways)} == {*map(_last_rounds, others)}


def _last_rounds(way: r.Rounds) -> r.Rounds:
    """The periods of a way that matter: what is rounded to a period and then to some of its points is rounded to these
    points.
    """
    return tuple(
        period
        for i, period in enumerate(way)
        if not any(is_contained(Every(*later), Every(*period)) for later in way[i + 1 :])
    )


def _named_points(peeled: Peeled) -> str:
    return show_points(peeled.points, 1_000_000, "units")


def _views_read(node: Relation) -> set[str]:
    """The views that a tree reads by name."""
    return {n.name for n in r.nodes_above_views(node) if isinstance(n, r.View)}
