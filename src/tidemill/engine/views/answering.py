"""Which views that run already answer a new query, and the decisions of queries that stand.

A decision names a part of the bound query by its fingerprint and a view by its id. It is made once, when the query is
created, and kept in the catalog: what stands is planned alike at every opening.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from tidemill.engine.adapt.measured_rates import MeasuredRates
from tidemill.engine.rereadable import RereadableSources
from tidemill.engine.views.bound_view import BoundView
from tidemill.engine.views.contents import NotFromContents, begin_now, begin_with_contents
from tidemill.engine.views.history import FirstReaders, begins_with_history, has_whole_times, no_history, streams_of
from tidemill.engine.views.inputs import view_input
from tidemill.engine.views.known_views import KnownViews
from tidemill.engine.views.rereading import NotAgain, SecondReadings, first_name, second_readings
from tidemill.optimize.optimizer import optimize
from tidemill.optimize.views.added_cost import AddedCost, add_estimates, shares_windows
from tidemill.optimize.views.answer import Answer, Answered, Candidate, Candidates, Costs, Part, Weigh, answer, replay
from tidemill.optimize.views.cost import RowCosts
from tidemill.optimize.views.match import OTHER_SHAPE, NoMatch
from tidemill.optimize.views.peel import Peeling
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.physical import BEGINNING
from tidemill.plan.relations import Relation
from tidemill.plan.statements import STREAM_OUTPUTS
from tidemill.runtime.views.stored_view import StoredView
from tidemill.sql.catalog import PLANNING, Catalog, Entry

SETTING = "view_matching"
WAYS = ("auto", "off", "always")
_MOST_REASONS = 3  # views that an error names
Decisions = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Beginning:
    """Where a query begins: the plan version, and for a query that stands what was decided when it was created."""

    birth: int
    decided: Decisions | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)  # ids of dropped views, by the names that the query uses
    history: bool = False  # it begins with the history of its streams, not with its creation
    planning: int = PLANNING  # as old as its plan
    moment: int | None = None  # when it was created, in event time, where it reads its streams again

    def searches(self, output: str) -> bool:
        """Whether views may answer: what they hold does not say when its rows came, which some outputs show."""
        return not (self.history and self.decided is None and output in STREAM_OUTPUTS)

    @classmethod
    def of_standing(cls, entry: Entry) -> Beginning:
        """The beginning of a view that stands."""
        history = begins_with_history(entry.options)
        return cls(entry.birth, entry.answered, entry.aliases, history, entry.planning, entry.moment)


class Answering:
    """Answers queries from the views of a workload; `hidden` are dropped views that others are answered from."""

    def __init__(
        self,
        catalog: Catalog,
        views: Mapping[str, BoundView],
        hidden: Mapping[str, BoundView],
        stopped: Callable[[], Collection[str]],
        rates: MeasuredRates,
        costs: RowCosts,
    ) -> None:
        self._catalog, self._views, self._hidden, self._stopped = catalog, views, hidden, stopped
        self._rates, self._costs = rates, costs
        self._known = KnownViews(self._all_views, self._may_be_listed, self._define, self._has_whole_times, rates)
        self.first_readers = FirstReaders(catalog)
        self.sources: RereadableSources | None = None  # of an open database
        self.last_closed: Callable[[BoundView], int] = lambda _: BEGINNING  # as of which time contents stand
        self._left_out = ""

    def add(self, view: BoundView) -> None:
        """A view was created, or bound again."""
        self._known.add(view)
        self.first_readers.record(view)

    def forget(self) -> None:
        """A view was dropped."""
        self._known.forget()

    @contextmanager
    def leaving_out(self, view: str) -> Iterator[None]:
        """Inside, the view of this id answers no query: it is about to be replaced."""
        self._left_out = view
        try:
            yield
        finally:
            self._left_out = ""

    def stored_views(self, frontiers: Mapping[str, int]) -> list[StoredView]:
        """The views whose rows are stored: those that have a name, and dropped ones that a view begins with which no
        batch has had yet. `frontiers` has the views of which a batch has said how far they are.
        """
        new = [view for view in self._views.values() if f"view {view.entry.id}" not in frontiers]
        wanted = {n.view for view in new for n in walk(view.node) if isinstance(n, r.Seed)}
        awaited = [view.stored for view in self._hidden.values() if view.entry.id in wanted]
        return [*(view.stored for view in self._views.values()), *awaited]

    def forget_source(self, entry: Entry) -> None:
        """An entry was dropped; where it was a source, its readers are no longer known."""
        if entry.spec is not None:
            self.first_readers.forget(entry.spec.name)

    def answer(self, query: Relation, begin: Beginning, without: Sequence[str], searches: bool = True) -> Answer:
        """The query with the parts that views answer: as was decided, or as is best now. Without `searches` no view
        answers it, but it may begin with its history.
        """
        if begin.moment is not None:
            return Answer(self._read_again(query, begin.birth), moment=begin.moment)
        if begin.history and self.first_readers.has_history(query):
            return self._answer_history(query, begin, without, searches)
        if not searches:
            return Answer(query)
        if begin.decided is None:
            return self._search(query, lambda: self._known.born(begin.birth), without)
        return self._repeat(query, begin.decided, self._known.candidate)

    def find_stored(self, query: Relation, unfit: Mapping[str, str] | None = None) -> tuple[str, Relation] | str:
        """The smallest stored view that has seen every row and contains a query, with the tree over its rows; a text
        says why there is none. `unfit`: why some views, by id, cannot be read now.
        """
        self._known.refresh(self._stopped())
        part = Part.of(self.first_readers.since_the_beginning(query), Peeling(self._known.define))
        by_id, reasons = {view.entry.id: view for view in self._all_views()}, []
        matches: list[tuple[float, str, Relation]] = []
        for view in self._views.values():
            is_stored = view.stored.output == "complete" and self._may_answer(view)
            if is_stored and self.first_readers.is_complete(view, by_id):
                candidate = self._complete_candidate(view, view.entry.birth)
                found = part.find(candidate)
                if isinstance(found, NoMatch):
                    reasons += [] if found.reason in OTHER_SHAPE else [f"{candidate.name}: {found.reason}"]
                elif unfit is not None and view.entry.id in unfit:
                    reasons.append(f"{candidate.name}: {unfit[view.entry.id]}")
                else:
                    matches.append((self._known.size(view), view.entry.name, found.found.over(candidate.source)))
        best = min(matches, key=lambda one: one[:2], default=None)
        return best[1:] if best is not None else "; ".join(reasons[:_MOST_REASONS]) or "there is no such view over it"

    def _answer_history(self, query: Relation, begin: Beginning, without: Sequence[str], searches: bool) -> Answer:
        """The query as it would stand since the beginning: all of it from views that have seen every row, or else from
        its streams, which are read again.
        """
        wanted = self.first_readers.since_the_beginning(query)
        if begin.decided is not None and not searches:
            return Answer(query)
        if begin.decided is not None:
            found = self._repeat(wanted, begin.decided, lambda view: self._complete_candidate(view, begin.birth))
            begins = begin.decided[0].get("begins") if begin.decided else None
            return found if begins is None else begin_with_contents(found, begins)
        found = self._begin_with_contents(wanted, begin, without) if searches else Answer(wanted)
        rest = streams_of(found.node)
        if not rest:
            return found
        try:
            node = self._read_again(query, begin.birth)
            return Answer(node, refused=found.refused, moment=self._find_moment(node))
        except NotAgain as reason:
            raise no_history(rest, found.refused, str(reason)) from None

    def _begin_with_contents(self, wanted: Relation, begin: Beginning, without: Sequence[str]) -> Answer:
        """A query that begins with what views hold; as it is where no views do."""
        by_id = {view.entry.id: view for view in self._all_views()}
        refused: dict[str, str] = {}
        while True:
            found = self._search_complete(wanted, begin, without, refused)
            if streams_of(found.node):
                return replace(found, refused={**refused, **found.refused})
            try:
                return begin_with_contents(found, begin_now(found.node, by_id.__getitem__, self.last_closed))
            except NotFromContents as reason:
                names = [by_id[reason.view].entry.name] if reason.view else [p.view.name for p in found.parts]
                if refused.keys() >= set(names):  # a view that the query names itself
                    return Answer(wanted, refused={**refused, **found.refused})
                refused |= dict.fromkeys(names, str(reason))

    def _search_complete(
        self, wanted: Relation, begin: Beginning, without: Sequence[str], others: Container[str] = ()
    ) -> Answer:
        """A query with the parts that views answer which have seen every row, but for the `others`."""
        by_id = {view.entry.id: view for view in self._all_views()}
        complete = [
            self._complete_candidate(view, begin.birth)
            for view in self._views.values()
            if view.entry.name not in others and self._may_answer(view) and self.first_readers.is_complete(view, by_id)
        ]
        return self._search(wanted, lambda: Candidates(complete), without, always=True)

    def _read_again(self, query: Relation, birth: int) -> Relation:
        """A query that begins with plan `birth` over second readings of its streams."""
        views = {view.node: view for view in self._all_views()}
        by_id = {view.entry.id: view for view in self._all_views()}

        def why_incomplete(node: r.View) -> str | None:
            view = views.get(node.input)
            complete = view is not None and self.first_readers.is_complete(view, by_id)
            return None if complete else f'view "{node.name}" has not seen every row'

        return SecondReadings(birth, partial(self.first_readers.was_read, birth=birth), why_incomplete).replace(query)

    def _find_moment(self, node: Relation) -> int:
        """As of which time a query begins whose streams are read again: all of them are closed up to it."""
        entries = {e.spec.name: e for e in self._catalog.of("source") if e.spec}
        floors = []
        for name in sorted({first_name(second) for second in second_readings(node)}):
            entry, known = entries[name], self.sources
            assert entry.spec is not None
            reason = known.why_not(entry, self.first_readers.first_read(name)) if known else "nothing is known of it"
            if known is None or reason is not None:
                raise NotAgain(f'"{entry.name}" cannot be read again: {reason}')
            floors.append(known.closed_until(entry.spec))
        return min(floors) - 1 if min(floors) > BEGINNING else BEGINNING

    def _complete_candidate(self, view: BoundView, birth: int) -> Candidate:
        """A view with its contents, for a query that began later."""
        bound = self.first_readers.since_the_beginning(self._define_older(view.query.node))
        source = view_input(view, birth).node
        return Candidate(
            view.entry.id,
            view.entry.name,
            source,
            bound,
            self._known.define,
            self._known.size(view),
            whole_times=self._has_whole_times(view),
        )

    def _define_older(self, node: Relation) -> Relation:
        """A tree in which views that ran before it are replaced by their definitions."""

        @cache
        def visit(node: Relation) -> Relation:
            if isinstance(node, r.View):
                return visit(self._known.define(node))
            if isinstance(node, r.Union) and isinstance(node.inputs[0], r.View) and node.inputs[0].late:
                return visit(self._known.define(node.inputs[0]))
            inputs = [c for c in node.children if isinstance(c, Relation)]
            return r.with_children(node, *map(visit, inputs)) if inputs else node

        return visit(node)

    def _search(
        self, query: Relation, candidates: Callable[[], Candidates], without: Sequence[str], always: bool = False
    ) -> Answer:
        """The query with the parts that views answer, as the setting says."""
        way = "always" if always else self._catalog.settings.get(SETTING, "auto")
        if way == "off" or (way == "auto" and shares_windows(optimize(query, without).node)):
            return Answer(query)
        self._known.refresh(self._stopped())
        return answer(query, candidates(), self._known.define, self._weigh(without, always=way == "always"))

    def _repeat(self, query: Relation, decisions: Decisions, candidate: Callable[[BoundView], Candidate]) -> Answer:
        """The query with the parts that were decided when it was created."""
        if not decisions:
            return Answer(query)
        self._known.refresh(self._stopped())
        by_id = {view.entry.id: view for view in self._all_views()}
        decided = [(d["part"], candidate(by_id[d["view"]])) for d in decisions]
        return replay(query, decided, self._known.define)

    def _may_be_listed(self, view: BoundView) -> bool:
        """Whether queries that begin with a view may be answered from it; a hidden one serves those that it has."""
        return view.entry.id not in self._hidden and self._may_answer(view) and not self._has_history(view)

    def _has_history(self, view: BoundView) -> bool:
        """Whether a view began with rows that came before its creation."""
        return begins_with_history(view.entry.options) and self.first_readers.has_history(view.query.node)

    def _has_whole_times(self, view: BoundView) -> bool:
        """Whether no event time of the streams of a view is between two clock units."""
        specs = {e.spec.name: e.spec for e in self._catalog.of("source") if e.spec}
        names = {first_name(n.source) for n in walk(view.query.node) if isinstance(n, r.Scan) and not n.static}
        return all(name not in specs or has_whole_times(specs[name]) for name in names)

    def _define(self, view: BoundView) -> Relation:
        """The bound tree of the rows that a view shows: an RSTREAM view repeats those of its query. A view that begins
        with its history has seen what queries of its birth have not.
        """
        node = view.query.node if _shows_its_rows(view) else view.node
        return self.first_readers.since_the_beginning(node) if self._has_history(view) else node

    def _may_answer(self, view: BoundView) -> bool:
        stands = view.entry.id != self._left_out and view.entry.id not in self._stopped()
        is_fixed = not isinstance(view.node, r.Alternatives)  # a query is matched with what a view reads
        return stands and is_fixed and _shows_its_rows(view)

    def _all_views(self) -> Iterator[BoundView]:
        yield from self._views.values()
        yield from self._hidden.values()

    def _weigh(self, without: Sequence[str], always: bool) -> Weigh:
        """What reading a part from a view adds, and what reading it from the streams adds."""
        added = AddedCost(self._known.running, self._costs, self._rates.find)

        def weigh(found: Answered) -> Costs:
            view, streams = (added.of(optimize(node, without).node) for node in (found.node, found.part))
            accepted = always or added.is_cheaper(view, streams)
            return Costs(view.value, streams.value, accepted, add_estimates((view, streams)).basis)

        return weigh


def _shows_its_rows(view: BoundView) -> bool:
    """True when the rows of a view are those of its query: no RSTREAM, no bounds of windows beside them."""
    return view.entry.output != "rstream" and view.node.schema == view.query.node.schema


def decisions_of(found: Answer) -> list[dict[str, Any]]:
    """What the catalog keeps of an answer."""
    begins = {} if found.begins is None else {"begins": list(found.begins)}
    return [{"part": part.part.fingerprint, "view": part.view.id, **begins} for part in found.parts]
