"""Another plan for a join between sites while it runs, where that is cheaper by a fifth.

1. The parts of the new plan begin: edges of its own, and the same query over them. Both plans run; the old one answers.
2. When every part has said up to which stamp it may have missed rows, a time is agreed on, from which the new plan
   holds all rows that count.
3. At that time the new plan answers (`runtime.operators.alternatives`). Once answers are closed behind it, the parts of
   the old plan end.

Each step is a plan version, stored with the catalog: a batch that is replayed changes over where it did the first time,
and after a crash the change goes on where it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tidemill.engine.adapt.history import Subject
from tidemill.engine.sites.changeable import agree_on_time
from tidemill.engine.sites.choosing import Asked
from tidemill.engine.sites.imports import Known
from tidemill.engine.sites.placing import PlacedItem
from tidemill.engine.sites.realisation import Placement
from tidemill.engine.sites.reducers import FindTraffic, Reducers
from tidemill.engine.sites.remarks import SITE_COSTS
from tidemill.engine.sites.site_joins import SiteJoins
from tidemill.engine.views.ways import PLANNED, WAYS, is_changeable, names_read, options_by
from tidemill.engine.workload import Workload
from tidemill.errors import TidemillError
from tidemill.optimize.sites import takes_over
from tidemill.plan.physical import BEGINNING
from tidemill.plan.sites import SiteQuery
from tidemill.plan.sources import SITE, SourceSpec
from tidemill.runtime.views.batch_summary import BatchReport
from tidemill.runtime.views.moments import read_frontiers
from tidemill.runtime.views.outlet import Outlet
from tidemill.sql.catalog import Catalog, Entry
from tidemill.sql.parse.statements import parse_one

Begun = Callable[[str, str], int | None]  # a site and an edge → the stamp up to which it may have missed rows


@dataclass(frozen=True)
class Looked:
    """A view that may change its plan, and its join."""

    entry: Entry
    statement: Any
    known: Known
    query: SiteQuery
    items: dict[str, PlacedItem]


class PlanChanges:
    """Looks at the joins between sites now and then, and takes changes of their plans from step to step."""

    def __init__(
        self,
        catalog: Catalog,
        workload: Workload,
        joins: SiteJoins,
        outlet: Callable[[], Outlet],
        lock: threading.RLock,
        begun: Begun,
        is_refused: Callable[[str, str], bool],
        find_traffic: FindTraffic,
    ) -> None:
        self._catalog, self._workload, self._joins = catalog, workload, joins
        self._outlet, self._lock, self._begun, self._refuses = outlet, lock, begun, is_refused
        self._reducers = Reducers(find_traffic)
        self.publish: Callable[[], None] = lambda: None  # the plan has changed
        self._latest: dict[str, int] = {}  # view → the latest time at which the job may change over

    # ---- looking ---------------------------------------------------------------------------------

    def consider(self) -> None:
        """Price the plans of all joins by what is known today; a better one begins. Asks other sites, without the lock
        of the database: one that does not answer holds up nothing.
        """
        if self._workload.sharing.settings.pinned:
            return
        with self._lock:
            names = [entry.name for entry in self._changeable() if entry.options[WAYS]["next"] is None]
        for name in names:
            try:
                self._consider(name)
            except TidemillError:  # the other site is not there, or something was dropped meanwhile: another time
                continue

    def _consider(self, name: str) -> None:
        with self._lock:
            entry = self._catalog.find(name)
            statement = parse_one(entry.text)
        known = self._joins.ask_names(statement)
        with self._lock:
            found = self._joins.items_of(statement, known)
        if found is None:
            return
        asked = self._joins.choosing.ask_all(*found)
        with self._lock:
            if self._catalog.entries.get(name.lower()) is entry and entry.options[WAYS]["next"] is None:
                self._weigh(Looked(entry, statement, known, *found), asked)

    def _weigh(self, looked: Looked, asked: Asked) -> None:
        entry = looked.entry
        passed = self._reducers.count(entry.options, looked.query, looked.items)
        weighed = self._joins.weigh_again(looked.query, looked.items, looked.statement, asked, passed)
        current = self._joins.algorithm_of(entry.options)
        if weighed is None or weighed.assumed or current not in weighed.prices:
            return
        entry.options[SITE_COSTS] = weighed.show(current)
        old, new = weighed.prices[current].price, weighed.prices[weighed.best].price
        limit = weighed.limit
        is_late = limit is not None and old.latency > limit >= new.latency
        if weighed.best != current and (is_late or takes_over(old, new)):
            share = new.cost / old.cost if old.cost > 0 else 0.0
            why = f"{weighed.best} costs {share:.2f} of {current}" if not is_late else f"{current} is too late"
            self._begin(looked, self._joins.best(weighed), weighed.best, why)

    # ---- the steps -------------------------------------------------------------------------------

    def _begin(self, looked: Looked, placement: Placement | None, algorithm: str, why: str) -> None:
        """The parts of the new plan begin with the next plan version."""
        entry, ways = looked.entry, looked.entry.options[WAYS]
        options = self._joins.realise_again(looked.statement, looked.known, placement)
        plan = {name: options[name] for name in PLANNED if name in options}
        entry.options[WAYS] = {
            **ways,
            "next": {
                "number": 1 + max(ways["number"], ways.get("given_up", 0)),
                "birth": self._workload.pending,
                "agreed": None,
                "version": None,
                "options": plan,
                "algorithm": algorithm,
                "why": why,
            },
        }
        entry.needs = tuple(sorted({*entry.needs, *names_read(plan)}))
        try:
            self._bind_again(entry)
        except (TidemillError, AssertionError):  # the new plan would show something else: the old one stays
            self._give_up(entry)
            return
        self._joins.forget_unread()
        self.publish()

    def follow(self, report: BatchReport) -> None:
        """A batch was committed. What a statement holds up is done after the next batch."""
        if report["final"] or not any(e.options[WAYS]["next"] for e in self._changeable()):
            return
        if self._lock.acquire(blocking=False):
            try:
                for entry in list(self._changeable()):
                    if entry.options[WAYS]["next"] is not None:
                        self._go_on(entry)
            finally:
                self._lock.release()

    def _go_on(self, entry: Entry) -> None:
        """The next step of a change, if it is time."""
        coming, outlet = entry.options[WAYS]["next"], self._outlet()
        closed = read_frontiers(outlet.known).get(f"view {entry.id}", BEGINNING)
        if coming["agreed"] is None and self._is_refused(entry):
            self._give_up(entry)
            self.publish()
        elif coming["agreed"] is None:
            begun = self._find_beginnings(entry)
            if begun is not None:
                self._agree(entry, begun, closed)
        elif outlet.plan >= coming["version"] and closed > self._find_latest(entry, closed):
            self._finish(entry)

    def _find_latest(self, entry: Entry, closed: int) -> int:
        """The latest time at which the job may change over: the agreed one; or where it was when it heard of that, if
        it had passed it, which is not later than where it is when this is first asked.
        """
        return self._latest.setdefault(entry.id, max(entry.options[WAYS]["next"]["agreed"], closed))

    def _agree(self, entry: Entry, begun: list[int], closed: int) -> None:
        """Store the time at which the new plan takes over."""
        coming = entry.options[WAYS]["next"]
        agreed = agree_on_time(begun, entry.options[WAYS]["counts"], closed)
        coming |= {"agreed": agreed, "version": self._workload.pending}
        self._latest.pop(entry.id, None)
        self._bind_again(entry)
        self.publish()

    def _finish(self, entry: Entry) -> None:
        """The new plan is the only one."""
        ways = entry.options[WAYS]
        coming = ways["next"]
        entry.options = options_by(entry.options, coming["options"])
        entry.options[WAYS] = {**ways, "number": coming["number"], "birth": coming["birth"], "next": None}
        self._latest.pop(entry.id, None)
        self._keep_only_plan(entry)
        self._workload.history.record_reason(Subject("site", entry.id), coming["why"])
        self.publish()

    def _give_up(self, entry: Entry) -> None:
        """The old plan stays. The number of the other one is not used again: something of it may be stored."""
        ways = entry.options[WAYS]
        entry.options[WAYS] = {**ways, "next": None, "given_up": ways["next"]["number"]}
        self._keep_only_plan(entry)

    def _keep_only_plan(self, entry: Entry) -> None:
        """Bind the only plan that is left, and forget the parts of the other one."""
        self._bind_again(entry)
        entry.needs = tuple(sorted(self._workload.views[entry.name.lower()].query.needs))
        self._joins.forget_unread()

    def _bind_again(self, entry: Entry) -> None:
        """Bind the view and what reads it; what is stored of it may not change."""
        before = self._workload.views[entry.name.lower()]
        self._workload.bind_again(entry.name)
        self._joins.bind_edges(entry.name)
        after = self._workload.views[entry.name.lower()]
        assert after.stored == before.stored and after.node.schema == before.node.schema, "another plan, another view"

    # ---- what is known ---------------------------------------------------------------------------

    def _changeable(self) -> Iterator[Entry]:
        return (e for e in self._catalog.of("view", "query") if is_changeable(e.options))

    def _find_source(self, stream: str) -> SourceSpec | None:
        """The source of a stream of this site."""
        return self._catalog.find(self._catalog.find(stream, "stream").needs[0], "source").spec

    def _parts(self, coming: dict[str, Any]) -> Iterator[tuple[SourceSpec, bool]]:
        """The edges of other sites that a new plan reads, and whether it shares them with views that are older: then
        rows of them were read here before it began.
        """
        read = set(names_read(coming["options"]))
        for source in self._catalog.of("source"):
            spec, is_shared = source.spec, source.birth != coming["birth"]
            if spec is not None and spec.kind == SITE and (spec.name in read or not is_shared):
                yield spec, is_shared

    def _is_refused(self, entry: Entry) -> bool:
        """Whether another site refuses a part of the new plan."""
        parts = self._parts(entry.options[WAYS]["next"])
        return any(self._refuses(str(spec.origin["site"]), spec.name) for spec, _ in parts)

    def _find_beginnings(self, entry: Entry) -> list[int] | None:
        """For each part of the new plan the stamp up to which it may have missed rows; None where one has not begun."""
        coming, outlet = entry.options[WAYS]["next"], self._outlet()
        if outlet.plan < coming["birth"] or outlet.progress.get("batch") != outlet.committed:
            return None
        known, parts = outlet.progress.get("sources", {}), list(self._parts(coming))
        specs = [self._find_source(stream) for stream in entry.options[WAYS]["near"]]
        specs += [spec for spec, is_shared in parts if is_shared]
        found = [BEGINNING, *(int(known[s.name]["top"]) for s in specs if s is not None and s.name in known)]
        for spec, _ in parts:
            begun = self._begun(str(spec.origin["site"]), spec.name)
            if begun is None:
                return None
            found.append(begun)
        return found
