"""Which views that run already answer a new query, and the decisions of queries that stand.

A decision names a part of the bound query by its fingerprint and a view by its id. It is made once, when the query is
created, and kept in the catalog: what stands is planned alike at every opening.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemill.engine.views.bound_view import BoundView
from tidemill.errors import PlanProblem
from tidemill.optimize.optimizer import optimize
from tidemill.optimize.views.added_cost import AddedCost
from tidemill.optimize.views.answer import Answer, Answered, Candidate, Costs, Weigh, answer, replay
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation
from tidemill.sql.catalog import PLANNING, Catalog

SETTING = "view_matching"
WAYS = ("auto", "off", "always")
Decisions = Sequence[Mapping[str, str]]


def check_way(name: str, value: str) -> str:
    """The value of `SET view_matching`."""
    if value.lower() not in WAYS:
        raise PlanProblem("TM217", f'{name} cannot be "{value}"', hint=f"one of {', '.join(WAYS)}")
    return value.lower()


@dataclass(frozen=True)
class Beginning:
    """Where a query begins: the plan version, and for a query that stands what was decided when it was created."""

    birth: int
    decided: Decisions | None = None
    aliases: Mapping[str, str] = field(
        default_factory=dict
    )  # ids of views that were dropped, by the names the query uses
    planning: int = PLANNING  # as old as its plan


class Answering:
    """Answers queries from the views of a workload; `hidden` are dropped views that others are answered from."""

    def __init__(
        self,
        catalog: Catalog,
        views: Mapping[str, BoundView],
        hidden: Mapping[str, BoundView],
        stopped: Callable[[], Container[str]],
    ) -> None:
        self._catalog, self._views, self._hidden, self._stopped = catalog, views, hidden, stopped
        self._known: dict[str, tuple[Relation, Candidate]] = {}  # by the id of a view

    def answer(self, query: Relation, begin: Beginning, without: Sequence[str]) -> Answer:
        """The query with the parts that views answer: as was decided, or as is best now."""
        if begin.decided is None:
            return self._search(query, begin.birth, without)
        return self._repeat(query, begin.decided)

    def _search(self, query: Relation, birth: int, without: Sequence[str]) -> Answer:
        """The query with the parts that views answer, as the setting says."""
        way = self._catalog.settings.get(SETTING, "auto")
        if way == "off":
            return Answer(query)
        weigh = self._weigh(without, always=way == "always")
        return answer(query, self._candidates(birth), self._define, weigh)

    def _repeat(self, query: Relation, decisions: Decisions) -> Answer:
        """The query with the parts that were decided when it was created."""
        if not decisions:
            return Answer(query)
        by_id = {view.entry.id: view for view in self._all_views()}
        decided = [(d["part"], self._candidate(by_id[d["view"]])) for d in decisions]
        return replay(query, decided, self._define)

    def _candidates(self, birth: int) -> Iterator[Candidate]:
        """Views that began with the query: they have seen the same rows."""
        for view in self._views.values():
            if view.entry.birth == birth and _shows_its_rows(view) and view.entry.id not in self._stopped():
                yield self._candidate(view)

    def _candidate(self, view: BoundView) -> Candidate:
        known = self._known.get(view.entry.id)
        if known is None or known[0] is not view.node:
            source = r.View(view.entry.name, view.node)
            made = Candidate(view.entry.id, view.entry.name, source, view.query.node, self._define)
            known = self._known[view.entry.id] = view.node, made
        return known[1]

    def _all_views(self) -> Iterator[BoundView]:
        yield from self._views.values()
        yield from self._hidden.values()

    def _define(self, view: r.View) -> Relation:
        """The bound tree of a view that a tree reads."""
        for known in self._all_views():
            if known.node is view.input:
                return known.query.node
        return view.input

    def _weigh(self, without: Sequence[str], always: bool) -> Weigh:
        """What reading a part from a view adds, and what reading it from the streams adds."""
        running = {n.fingerprint for v in self._all_views() for n in walk(v.node)}
        added = AddedCost(running)

        def weigh(found: Answered) -> Costs:
            view, streams = (added.of(optimize(node, without).node) for node in (found.node, found.part))
            return Costs(view, streams, always or added.is_cheaper(view, streams))

        return weigh


def _shows_its_rows(view: BoundView) -> bool:
    """True when the rows of a view are those of its query: no RSTREAM, no bounds of windows beside them."""
    return view.entry.output != "rstream" and view.node.schema == view.query.node.schema


def decisions_of(found: Answer) -> list[dict[str, Any]]:
    """What the catalog keeps of an answer."""
    return [{"part": part.part.fingerprint, "view": part.view.id} for part in found.parts]
