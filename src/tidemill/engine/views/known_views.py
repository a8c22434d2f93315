"""What matching needs to know of the views that stand; kept, since a thousand queries may be created together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from tidemill.engine.adapt.measured_rates import MeasuredRates
from tidemill.engine.views.bound_view import BoundView
from tidemill.optimize.views.added_cost import AddedCost
from tidemill.optimize.views.answer import Candidate, Candidates
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation


class KnownViews:
    """Definitions, running nodes, and the views that may answer queries of their birth.

    New views are added; when one is dropped or stops, everything is made again the next time that it is needed.
    """

    def __init__(
        self,
        views: Callable[[], Iterable[BoundView]],
        may_answer: Callable[[BoundView], bool],
        define: Callable[[BoundView], Relation],
        has_whole_times: Callable[[BoundView], bool],
        rates: MeasuredRates,
    ) -> None:
        self._views, self._may_answer, self._define = views, may_answer, define
        self._has_whole_times, self._rates = has_whole_times, rates
        self._definitions: dict[Relation, Relation] = {}
        self._candidates: dict[str, Candidate] = {}
        self._born: dict[int, Candidates] = {}
        self._stopped: frozenset[str] = frozenset()
        self._is_current = False
        self.running: set[str] = set()  # fingerprints of all nodes of all plans

    def add(self, view: BoundView) -> None:
        """A view was created."""
        if self._is_current:
            self._learn(view)

    def forget(self) -> None:
        """A view was dropped."""
        self._is_current = False

    def refresh(self, stopped: Collection[str]) -> None:
        """Make sure that everything is there; `stopped` are the ids of views that no longer run."""
        if self._is_current and self._stopped == frozenset(stopped):
            return
        for known in (self._definitions, self._candidates, self._born, self.running):
            known.clear()
        self._rates.forget()
        self._stopped, self._is_current = frozenset(stopped), True
        for view in self._views():
            self._learn(view)

    def define(self, view: r.View) -> Relation:
        """The bound tree of a view that a tree reads."""
        return self._definitions.get(view.input, view.input)

    def candidate(self, view: BoundView) -> Candidate:
        """A view as it is read by queries that begin with it."""
        known = self._candidates.get(view.entry.id)
        if known is None:
            source, size = r.View(view.entry.name, view.node), self.size(view)
            known = Candidate(
                view.entry.id,
                view.entry.name,
                source,
                view.query.node,
                self.define,
                size,
                bool(view.answer.parts),
                self._has_whole_times(view),
            )
            self._candidates[view.entry.id] = known
        return known

    def size(self, view: BoundView) -> float:
        """Rows that a view brings in a second, as far as that is known now."""
        return AddedCost(measured=self._rates.find).rows(view.node).value

    def born(self, birth: int) -> Candidates:
        """The views that began with plan version `birth` and may answer others."""
        return self._born.setdefault(birth, Candidates())

    def _learn(self, view: BoundView) -> None:
        self._definitions[view.node] = self._define(view)
        self._rates.learn(view.node)
        self.running.update(n.fingerprint for n in walk(view.node))
        if self._may_answer(view) and view.entry.id not in self._stopped:
            self.born(view.entry.birth).add(self.candidate(view))
