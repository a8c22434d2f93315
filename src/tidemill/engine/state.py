"""The state of an open database: what its statements change and its job runs.

`Database` opens it; the statement handlers and the `Runner` are given the same object.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import duckdb

from tidemill.engine.adapt.operator_totals import OperatorTotals
from tidemill.engine.directory.consistency import check_parts, claim_parts, read_catalog
from tidemill.engine.directory.directory import Directory
from tidemill.engine.directory.rescale import follow_checkpoint
from tidemill.engine.ports import Ports
from tidemill.engine.rereadable import RereadableSources
from tidemill.engine.settings.dead_letters import bounds_of
from tidemill.engine.settings.options import microseconds
from tidemill.engine.sites.flight import FlightTransport
from tidemill.engine.sites.sites import Sites
from tidemill.engine.slot_lags import SlotLags
from tidemill.engine.views.bound_view import BoundView
from tidemill.engine.views.virtual import find_stored
from tidemill.engine.workload import Workload
from tidemill.errors import EngineProblem
from tidemill.runtime.checkpoint.progress import Checkpoint
from tidemill.runtime.integrity import duckdb_file
from tidemill.runtime.paths import Paths, load_plan, write_json
from tidemill.runtime.views.feedback import last_closed
from tidemill.runtime.views.moments import read_frontiers
from tidemill.runtime.views.outlet import Outlet
from tidemill.runtime.views.store import ViewStore
from tidemill.runtime.views.stored_view import StoredView
from tidemill.runtime.views.successions import Succession, copy_shown
from tidemill.sql.catalog import Catalog

ReadCheckpoint = Callable[[], Checkpoint | None]


@dataclass
class PendingChanges:
    """Definitions that are executed but not durable yet. Those of one text are made durable together."""

    creates: list[StoredView] = field(default_factory=list)  # views that still need tables
    drops: list[StoredView] = field(default_factory=list)  # views whose tables go once the catalog is written
    successions: list[Succession] = field(default_factory=list)  # views that are read as others were until they begin
    catalog: bool = False  # the catalog must be written
    plan: bool = False  # a new plan must be published
    grouped: bool = False  # more definitions follow: wait for them

    @property
    def is_empty(self) -> bool:
        """True when nothing waits to be made durable."""
        return not (self.creates or self.drops or self.catalog or self.plan)


@dataclass
class DatabaseState:
    """Everything that an open database consists of, except the job that runs it."""

    directory: Directory
    catalog: Catalog
    store: ViewStore
    workload: Workload
    outlet: Outlet
    ports: Ports
    operators: OperatorTotals
    sites: Sites
    pending: PendingChanges = field(default_factory=PendingChanges)
    slots: SlotLags = field(default_factory=SlotLags)
    lingering: list[StoredView] = field(default_factory=list)  # dropped views that a new view begins with
    lock: threading.RLock = field(default_factory=threading.RLock)  # held while the catalog or the plan changes

    @property
    def paths(self) -> Paths:
        """The layout of the directory."""
        return self.directory.paths

    def find_view(self, name: str, what: str) -> BoundView:
        """The standing view or query of this name, for `what`; an error names what is there."""
        entry = find_stored(self.catalog, name, what)
        return self.workload.views[entry.name.lower()]

    def show_views(self) -> None:
        """Let the outlet know which views there are now, and how many dead letters it may keep."""
        with self.outlet.lock:
            self.outlet.views = {view.id: view for view in self._stored_views()}
            self.outlet.bounds = bounds_of(self.catalog)
            self.sites.note_edges()

    def create_tables(self) -> None:
        """Make the tables of views that are pending, and copy what those show that they replace."""
        stand = {view.entry.id for view in self.workload.views.values()}
        successions = [s for s in self.pending.successions if s.new.id in stand]
        stored: dict[str, str] = {}

        def copy(duck: duckdb.DuckDBPyConnection) -> None:
            stored.update(copy_shown(successions, self.store, duck))

        with self.outlet.lock:
            self.store.create(*self.pending.creates, also=copy if successions else None)
            self.outlet.known |= stored

    def save_catalog(self) -> None:
        """Write the catalog, then drop the tables of dropped views: the catalog never names tables that are gone."""
        self.workload.history.save()
        self.catalog.saved += 1
        write_json(self.paths.catalog, {"database": self.directory.database, **self.catalog.to_dict()})
        with self.outlet.lock:
            self.outlet.catalog = self.catalog.saved
            dropped = [*self.pending.drops, *self.lingering]
            stored = {view.id: view for view in self._stored_views()} if dropped else {}
            self.pending.drops.clear()
            self.lingering = [view for view in dropped if view.id in stored]
            for view in dropped:
                if view.id not in stored:
                    self.outlet.views.pop(view.id, None)
                    self.store.drop(view)
                self.outlet.subscribers.pop(view.id, None)
            if dropped and self.store.drop_pools(stored.values()):
                self.outlet.pools.forget()
                self.outlet.history.forget()

    def learn_streams(self) -> None:
        """What the plan in force has counted of keyed streams: for the taggers of new queries, and for EXPLAIN."""
        if self.operators.counts and self.outlet.plan:
            roots = [view.node for view in self.workload.running_views()]
            with suppress(EngineProblem), self.lock:  # a plan that is gone has nothing to tell
                self.workload.tagging.learn(load_plan(self.paths.plan(self.outlet.plan)), self.operators, roots)

    def _stored_views(self) -> list[StoredView]:
        return self.workload.answering.stored_views(read_frontiers(self.store.metas()))

    def close(self) -> None:
        """Close the files and release the directory."""
        self.outlet.note_catalog()
        self.outlet.close()
        self.store.close()
        self.directory.release()


def open_state(
    directory: Directory,
    read_checkpoint: ReadCheckpoint,
    shards: int | None,
    clock: str | None,
    without: tuple[str, ...],
) -> DatabaseState:
    """Read what is in a directory and check that its parts belong together; a new database is made."""
    paths = directory.paths
    catalog = read_catalog(directory)
    follow_checkpoint(paths, catalog)
    _fix_settings(catalog, shards, clock)
    store, fresh = ViewStore(paths.views, paths.answer_files), directory.fresh
    claim_parts(directory, catalog, store)
    totals = OperatorTotals(paths.operators, directory.database)
    workload = Workload(catalog, catalog.settings["unit_us"], without, totals)
    _check_views(paths, catalog, store, workload, read_checkpoint, fresh)
    outlet = Outlet(paths.root, store)
    outlet.catalog = catalog.saved
    workload.stopped = dict(outlet.stopped)
    lock = threading.RLock()
    sites = Sites(paths, catalog, workload, lambda: state.outlet, lock, FlightTransport())
    state = DatabaseState(directory, catalog, store, workload, outlet, Ports(paths), totals, sites, lock=lock)
    workload.answering.sources = RereadableSources(paths, lambda: state.outlet)
    workload.answering.last_closed = lambda view: last_closed(read_frontiers(state.outlet.known), view.stored)
    return state


def _check_views(
    paths: Paths, catalog: Catalog, store: ViewStore, workload: Workload, read_checkpoint: ReadCheckpoint, fresh: bool
) -> None:
    """Check the parts before anything is swept: what looks like the remains of a crash may be named by a part that was
    lost. A directory that was made just now has no remains, and DuckDB takes milliseconds to list its first tables.
    """
    try:
        with duckdb_file(paths.views):
            check_parts(paths, catalog, store, read_checkpoint())
        if not fresh:
            store.sweep(workload.answering.stored_views(read_frontiers(store.metas())))
    except BaseException:
        store.close()
        raise


def _fix_settings(catalog: Catalog, shards: int | None, clock: str | None) -> None:
    """The clock unit and the number of shards are given once; another value later is refused."""
    settings = catalog.settings
    if clock is not None:
        unit = microseconds(clock, 1_000_000)
        if settings.setdefault("unit_us", unit) != unit:
            raise EngineProblem(
                "TM605",
                "the clock unit of a database cannot change",
                detail=f"it is {settings['unit_us']} microseconds",
                hint="open it without clock=",
            )
    settings.setdefault("unit_us", 1_000_000)
    if shards is not None and settings.setdefault("shards", shards) != shards:
        raise EngineProblem(
            "TM605",
            f"the database has {settings['shards']} shards",
            hint=f"open it without shards=; tidemill rescale DB --shards {shards} changes it",
        )
