"""Database: the one object users hold."""

from __future__ import annotations

import atexit
import os
import shutil
import threading
import time
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from tidemill.engine.adhoc import answer
from tidemill.engine.aggregates import entry_of
from tidemill.engine.altering import anew, inherit
from tidemill.engine.backup import Backup, Tell, back_up
from tidemill.engine.directory import Directory
from tidemill.engine.joining import JOINING
from tidemill.engine.letters import LETTERS, bounds_of
from tidemill.engine.options import check_open, checked, microseconds, placing
from tidemill.engine.partly import with_what_stands
from tidemill.engine.querying import OPERATORS, QUERYING, Querying, rows, trigger_length
from tidemill.engine.repair import again, check_skippable, restarted, stopped_problem
from tidemill.engine.requests import Requests
from tidemill.engine.rescale import follow_checkpoint
from tidemill.engine.results import Created, Subscription
from tidemill.engine.runner import Runner
from tidemill.engine.sharing import SHARING
from tidemill.engine.status import Status, status_of
from tidemill.engine.tables import catalog_table, columns_table
from tidemill.engine.whole import claim_parts, mark_source, read_catalog, restore_notes
from tidemill.engine.why import missed_rows, outlook, why
from tidemill.engine.workload import BoundView, Workload
from tidemill.errors import CatalogProblem, EngineProblem, PlanProblem, TidemillError
from tidemill.optimize.optimizer import RULES
from tidemill.plan.relations import Relation
from tidemill.plan.show import Explanation
from tidemill.plan.statements import (
    AlterSource,
    CreateSink,
    CreateTaggedStream,
    CreateView,
    Describe,
    Drop,
    Explain,
    RegisterSource,
    RegisterTable,
    Restart,
    RestartSource,
    Select,
    Set,
    Show,
    Skip,
    Statement,
    Subscribe,
    Why,
)
from tidemill.runtime.checkpoint import under_way
from tidemill.runtime.damage import duckdb_file
from tidemill.runtime.garbage import seldom_collected
from tidemill.runtime.given_session import check_session, check_workers
from tidemill.runtime.hearing import HEARING_BYTES
from tidemill.runtime.outlet import Outlet
from tidemill.runtime.shards import shard_labels
from tidemill.runtime.views import StoredView, ViewStore, present
from tidemill.sql.catalog import Entry
from tidemill.sql.parse import parse, parse_one
from tidemill.version import __version__

_CREATE = (RegisterSource, RegisterTable, CreateTaggedStream, CreateView, CreateSink)
_DEFINITIONS = (*_CREATE, Drop)


class Database(Runner):
    """Continuous SQL in one directory. Statements may come while it runs; answers are read at any time."""

    def __init__(self, path: str, *, spark: Any = None, shards: int | None = None, clock: str | None = None,
                 trigger: str | None = None, without: tuple[str, ...] = (), shared: bool | None = None) -> None:
        check_open(shards, clock, trigger)
        check_session(spark)
        self.directory = Directory(path, shared)
        self.paths = self.directory.paths
        super().__init__(spark, trigger)
        self._lock = threading.RLock()
        self._coming: list[StoredView] = []  # views whose tables are made together with what else is kept
        self._leaving: list[StoredView] = []
        self._together = False  # definitions that follow each other are kept together
        self._todo: Callable[[], None] | None = None
        try:
            check_workers(spark, self.paths.root, __version__)
            self.catalog = read_catalog(self.directory)
            follow_checkpoint(self.paths, self.catalog)
            self._settle(shards, clock)
            self._trigger = trigger_length(trigger or "", self.catalog.settings["unit_us"])
            self.querying = Querying(self.catalog)
            self.store = ViewStore(self.paths.views, self.paths.sealed)
            claim_parts(self.directory, self.catalog, self.store)
            self.workload = Workload(self.catalog, self.catalog.settings["unit_us"], tuple(without))
            self._open_views()
        except BaseException:
            self.directory.release()
            raise
        self.outlet = Outlet(self.paths.root, self.store)
        self.outlet.catalog = self.catalog.saved
        self.outlet.listeners += [self._listen, self._tell]
        self._told = restore_notes(self.paths, self.store)
        self.workload.stopped = dict(self.outlet.stopped)
        self._dirty = self._unpublished() or bool(self.workload.stopped)
        self._tidy()
        self._closed = False
        self._show_views()
        self._requests = Requests(
            self.paths, lambda target, tell, links: self.backup(target, links=links, progress=tell))
        atexit.register(self.close)

    # ---- statements ----------------------------------------------------------------------------

    def execute(self, text: str, tell: Callable[[Any], None] | None = None) -> Any:
        """Run statements one after the other; the result of the last one. `tell` hears of each result once it holds.

        What a row of definitions changes is written, and where the job runs installed, once at its end: a thousand
        views are one new plan. Where one fails, those before it stand, those after it are not executed, and the error
        says which.
        """
        self._check_open()
        results: list[Any] = []
        todo = parse(text)
        total = len(todo)
        try:
            while todo:
                if _is_ad_hoc(todo[0]):
                    # Others need not wait until it is answered.
                    results.append(self._execute(todo.pop(0)))
                    if tell is not None:
                        tell(results[-1])
                else:
                    count = next((i for i, statement in enumerate(todo) if _is_ad_hoc(statement)), len(todo))
                    self._execute_all(todo[:count], results, tell)
                    del todo[:count]
        except TidemillError as error:
            if total == 1:
                raise
            raise with_what_stands(error, results, total, self.catalog.entries) from error
        return results[-1] if results else None

    def _execute_all(self, statements: list[Statement], results: list[Any],
                     tell: Callable[[Any], None] | None) -> None:
        """Execute definitions and the like; their results are added to the others."""
        untold: list[Any] = []

        def settle() -> None:
            self._settled()
            while untold:
                result = untold.pop(0)
                if tell is not None:
                    tell(result)

        with self._lock, seldom_collected():
            self._together = True
            try:
                for statement in statements:
                    if not isinstance(statement, _DEFINITIONS):
                        settle()
                    results.append(self._execute(statement))
                    untold.append(results[-1])
            finally:
                self._together = False
                settle()

    def query(self, text: str, timeout: float | None = None) -> pa.Table:
        """An ad hoc SELECT over COMPLETE and RSTREAM views and tables; `timeout` in seconds where query_time is not
        meant. Ctrl-C ends it at once.
        """
        self._check_open()
        statement = parse_one(text)
        if not isinstance(statement, Select) or statement.output:
            raise PlanProblem("TM214", "only an ad hoc SELECT can be queried", hint="use execute for other statements")
        return self._ad_hoc(statement.query, timeout)

    def changes(self, name: str) -> pa.Table:
        """All tagged changes of a STREAMED view or standing query: TAG, TS, columns, OLD."""
        self._check_open()
        view = self._view(name)
        if view.stored.output != "streamed":
            raise CatalogProblem("TM305",
                                 f'"{view.entry.name}" is a {view.stored.output.upper()} view and keeps no changes',
                                 hint="create it as a STREAMED view, or subscribe to it")
        return self.store.changes(view.stored)

    def create_aggregate(self, name: str, definition: Any = None, *, or_replace: bool = False, **parts: Any) -> Created:
        """An aggregate function of your own: zero, add, combine, and where needed finish and invert, as functions or as
        attributes of an object; see docs/language.md, "Your own aggregates".
        """
        self._check_open()
        made = entry_of(name, definition, **parts)
        with self._lock:
            if or_replace and name.lower() in self.catalog.entries:
                self.catalog.find(name, "aggregate")
                self._drop(Drop(kind="aggregate", name=name), quietly=True)
            self.catalog.add(made)
            self._save()
        return Created("aggregate", made.name, f"aggregate {made.name} created")

    def drop_aggregate(self, name: str) -> Created:
        """Forget an aggregate; refused while a view uses it."""
        self._check_open()
        return self._execute(Drop(kind="aggregate", name=name))

    def subscribe(self, name: str, most_bytes: int = HEARING_BYTES) -> Subscription:
        """A live iterator of changes, from a snapshot on. At most so many bytes wait for whoever reads (TM518)."""
        self._check_open()
        view = self._view(name)
        snapshot, inbox = self.outlet.subscribe(view.stored, most_bytes)
        return Subscription(snapshot, inbox, lambda t: self._shaped(view, t), lambda: self.is_running,
                            lambda: self.outlet.unsubscribe(view.stored, inbox), lambda: self._broken(view))

    def _broken(self, view: BoundView) -> TidemillError | None:
        """Why nothing more comes of a view."""
        stopped = self.workload.stopped.get(view.entry.id)
        return stopped_problem(view.entry.name, stopped) if stopped else self.failure

    def explain(self, text: str | None = None) -> Explanation:
        """The plan of a query, a view, or of everything that stands."""
        if text is None:
            return self._explain(None)
        statement = parse_one(text)
        return self._explain(statement.target if isinstance(statement, Explain) else statement)

    def status(self) -> Status:
        """Sources, lag, frontier, rows/s, state size, late and bad records."""
        self._check_open()
        return Status(self._status())

    def _status(self) -> dict[str, Any]:
        senders = {name: spooler.senders.shown() for name, spooler in self._spoolers.items()}
        current = under_way(self.paths) if self.is_running else None
        return status_of(self.workload, self.store, self.outlet.sinks, self._last, self.is_running, senders, current)

    def backup(self, target: str, *, links: bool = True, progress: Tell | None = None) -> Backup:
        """A copy of everything as it is after the last batch, in a new directory, also while the job runs; `restore`
        makes a database of it. Files that never change are links where the file system has them, unless `links` is
        False. Input files are not in it, what waits on ports is.
        """
        self._check_open()
        return back_up(self.paths, target, self._standing, progress, links)

    def rescale(self, shards: int) -> Created:
        """Another number of shards, with the same answers from here on. Only while nothing runs."""
        self._check_open()
        check_open(shards, None, None)
        if self.is_running:
            raise EngineProblem("TM502", "the database is running live", hint="stop() it before its shards change")
        with self._lock:
            if self.outlet.committed < 0:
                self._end()
                self.catalog.settings["shards"] = shards
                self._changed()
            elif self.catalog.settings.get("shards") != shards:
                self._rescale(shards)
        return Created("setting", "shards", f"{shards} shards")

    # ---- life ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop and let the directory go; closing twice does no harm."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._requests.close()
        self._end()
        for spooler in self._spoolers.values():
            spooler.stop()
        self._spoolers.clear()
        if self._learned:  # statistics are kept with the catalog
            self._save()
        self._write_status()
        self.outlet.note_catalog()
        self.outlet.close()
        self.store.close()
        self.directory.release()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- statements, one by one ----------------------------------------------------------------

    def _execute(self, statement: Statement) -> Any:
        with placing(statement):
            statement = checked(statement)
            if isinstance(statement, Select) and not statement.output:
                return self._ad_hoc(statement.query)
            return self._change(statement)

    def _change(self, statement: Statement) -> Any:
        with self._lock:
            if isinstance(statement, _CREATE):
                return self._create(statement)
            if isinstance(statement, Select):
                return self._stand(statement)
            if isinstance(statement, Drop):
                return self._drop(statement)
            if isinstance(statement, Show):
                return catalog_table(statement.what, self.catalog, self.workload, self.store, self.querying)
            if isinstance(statement, Describe):
                return columns_table(statement.name, self.catalog, self.workload)
            if isinstance(statement, Explain):
                return self._explain(statement.target)
            if isinstance(statement, AlterSource):
                return self._alter(statement)
            if isinstance(statement, Why):
                known = self.outlet.progress.get("sources", {})
                return why(self._view(statement.name), self.workload, self._status(), known)
            if isinstance(statement, Subscribe):
                return self.subscribe(statement.name)
            if isinstance(statement, Restart):
                return self._restart(statement)
            if isinstance(statement, RestartSource):
                return self._restart_source(statement)
            if isinstance(statement, Skip):
                return self._skip(statement)
            assert isinstance(statement, Set)
            return self._set(statement)

    def _create(self, statement: Any) -> Created:
        existing = self.catalog.entries.get(statement.name.lower())
        if existing and statement.if_not_exists:
            return Created(existing.kind, existing.name, f"{existing.kind} {existing.name} exists already")
        if existing and statement.or_replace:
            self._check(statement)
            self._drop(Drop(kind=existing.kind, name=existing.name), quietly=True)
        entry = self._created(statement)
        plan = entry.kind in ("view", "sink")
        if plan:
            self.workload.history.caused_by(f"CREATE {entry.kind.upper()} {entry.name}")
        self._defined(plan)
        view = self.workload.views.get(entry.name.lower()) if entry.kind == "view" else None
        seen = outlook(view, self.catalog) if view is not None else ""
        return Created(entry.kind, entry.name, f"{entry.kind} {entry.name} created{seen}")

    def _alter(self, statement: AlterSource) -> Created:
        self._publish()  # views that stand belong to a version of the plan before the column
        entry = self.workload.alter(statement)
        self.workload.history.caused_by(f"ALTER SOURCE {entry.name}")
        self._defined(plan=True)
        names = ", ".join(c.name for c in statement.columns)
        return Created("source", entry.name, f"source {entry.name} has {names}; views created from now on may read it")

    def _check(self, statement: Any) -> None:
        """A replacement must be good before the old one goes."""
        if isinstance(statement, CreateView):
            self.workload.plan_query(statement.query, statement.output, statement.options)

    def _created(self, statement: Any) -> Entry:
        if isinstance(statement, (RegisterSource, RegisterTable)):
            entry = self.workload.register(statement)
            if entry.spec is not None and entry.kind == "source":
                mark_source(self.paths, entry.spec.name)
            try:
                self._listen_on(entry)
            except TidemillError:
                self.catalog.remove(entry.name)
                raise
            return entry
        if isinstance(statement, CreateTaggedStream):
            return self.workload.create_stream(statement)
        if isinstance(statement, CreateSink):
            if statement.path:
                self.directory.check_outside(statement.path)
            return self.workload.create_sink(statement)
        view = self.workload.create_view(statement)
        view.entry.missed = missed_rows(view, self.catalog, self.store)
        self._coming.append(view.stored)
        return view.entry

    def _stand(self, statement: Select) -> Created:
        view = self.workload.create_query(statement)
        self.workload.history.caused_by(f"SELECT {view.entry.name}")
        self._coming.append(view.stored)
        self._defined(plan=True)
        self._settled()
        return Created("query", view.entry.name, f"standing query {view.entry.name}")

    def _drop(self, statement: Drop, quietly: bool = False) -> Created:
        entry = self.catalog.entries.get(statement.name.lower())
        kinds = {"view": ("view", "query"), "query": ("query", "view")}.get(statement.kind, (statement.kind,))
        if entry is None or entry.kind not in kinds:
            if statement.if_exists:
                return Created(statement.kind, statement.name, f"there is no {statement.kind} {statement.name}")
            entry = self.catalog.find(statement.name, *kinds)
        dependents = self.catalog.dependents(entry.name)
        if dependents and not statement.cascade:
            names = ", ".join(f"{d.kind} {d.name}" for d in dependents)
            raise CatalogProblem("TM306", f'{entry.kind} "{entry.name}" is still needed', detail=f"by {names}",
                                 hint=f"DROP {statement.kind.upper()} {entry.name} CASCADE drops them too")
        for gone in [*reversed(dependents), entry]:
            self._forget(gone)
        if not quietly:
            self.workload.history.caused_by(f"DROP {entry.kind.upper()} {entry.name}")
            self._defined(plan=True)
        return Created(entry.kind, entry.name, f"{entry.kind} {entry.name} dropped")

    def _defined(self, plan: bool) -> None:
        """The catalog is another one, and maybe what stands: kept now, or with the definitions that follow."""
        self._todo = self._changed if plan else self._todo or self._save
        if not self._together:
            self._settled()

    def _settled(self) -> None:
        """Keep what definitions have changed: the tables of new views first, so that the catalog never names what is
        not there.
        """
        try:
            if self._coming:
                self.store.create(*self._coming)
        except Exception as error:
            self._take_back()
            if not isinstance(error, duckdb.Error):
                raise
            raise EngineProblem("TM624", f"no tables can be made for a view: {str(error).splitlines()[0]}",
                                hint="the view has not been created; is there room on the disk?") from error
        finally:
            self._coming.clear()
            todo, self._todo = self._todo, None
            if todo is not None:
                todo()

    def _take_back(self) -> None:
        """Views without tables are not there, nor what reads them: no later statement meets them."""
        for stored in self._coming:
            if stored.name.lower() in self.workload.views:
                for entry in [*reversed(self.catalog.dependents(stored.name)), self.catalog.find(stored.name)]:
                    self.workload.drop(entry.name)
        self._show_views()

    def _restart(self, statement: Restart) -> Created:
        """Stopped views begin anew, without what they held."""
        entries = restarted(self.catalog, self.workload, statement.name)
        for entry in reversed(entries):
            self._forget(entry)
        self._create_again(entries)
        names = ", ".join(e.name for e in entries if e.kind != "sink")
        return Created("view", statement.name, f"begun anew: {names}")

    def _restart_source(self, statement: RestartSource) -> Created:
        """The source is another one, and all that reads it: nothing remembers the times that it had."""
        entry = self.catalog.find(statement.name, "source")
        made = anew(entry, statement.options, self.catalog.settings["unit_us"])
        entries = self.catalog.dependents(entry.name)
        for gone in (*reversed(entries), entry):
            self._forget(gone)
        inherit(self._created(made), entry, statement.options)
        self.workload.history.caused_by(f"RESTART SOURCE {entry.name}")
        self._create_again(entries)
        names = ", ".join(e.name for e in entries if e.kind != "sink")
        return Created("source", entry.name, f"source {entry.name} is read from its beginning; begun anew: {names}")

    def _create_again(self, entries: list[Entry]) -> None:
        for entry in entries:
            again = parse_one(entry.text)
            if isinstance(again, Select):
                self._coming.append(self.workload.create_query(again).stored)
            else:
                self._created(again)
        self._defined(plan=True)
        self._settled()

    def _skip(self, statement: Skip) -> Created:
        if self.is_running:
            raise EngineProblem("TM502", "the database is running live", hint="stop() it before SKIP BATCH")
        self._end()
        entry = self.catalog.find(statement.source, "source", "table")
        self._publish()
        found = check_skippable(entry, self._pinned(), self.outlet.committed)
        self._control(again=again(self._told, found, self.catalog.version, entry.spec.name if entry.spec else ""))
        return Created("source", entry.name, f"the failed batch of source {entry.name} goes to the dead letters")

    def _forget(self, entry: Entry) -> None:
        view = self.workload.views.get(entry.name.lower())
        self.workload.drop(entry.name)
        if view is not None:
            with self.outlet.lock:
                self.outlet.views.pop(view.stored.id, None)
            self._leaving.append(view.stored)
        spooler = self._spoolers.pop(entry.name.lower(), None)
        if spooler is not None:
            spooler.stop()

    def _ad_hoc(self, query: exp.Expression, timeout: float | None = None) -> pa.Table:
        if any(table.name.lower() in self.workload.views for table in query.find_all(exp.Table)):
            self._check_answering()
        folder = os.path.join(self.paths.root, "adhoc", f"{os.getpid()}-{time.time_ns()}")
        try:
            return answer(query, self.workload, self.store, self._last.get("clock"), folder,
                          self.querying.limits(timeout))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _explanation(self, name: str, node: Relation, trace: tuple[tuple[str, str], ...]) -> Explanation:
        shards = shard_labels(self.catalog.settings.get("shards") or 2)
        roots = {name: node}
        physical = self.workload.physical(self.workload.pending, shards, roots)
        return Explanation(roots, physical, trace, *self.workload.sharing_of(roots), self.workload.joins_of(roots))

    def _explain(self, target: Any) -> Explanation:
        if target is None:
            shards = shard_labels(self.catalog.settings.get("shards") or 2)
            roots = {v.entry.name: v.node for v in self.workload.views.values()}
            physical = self.workload.physical(self.workload.pending, shards)
            return Explanation(roots, physical, (), *self.workload.sharing_of(roots), self.workload.joins_of(roots))
        if isinstance(target, exp.Table):
            view = self._view(target.name)
            return self._explanation(view.entry.name, view.node, view.trace)
        if isinstance(target, (Select, CreateView)):
            name = target.name if isinstance(target, CreateView) else "query"
            _, node, trace = self.workload.plan_query(target.query, str(target.output), target.options)
            return self._explanation(name, node, trace)
        raise PlanProblem("TM216", "only queries and views can be explained",
                          hint="EXPLAIN SELECT …, EXPLAIN VIEW v or EXPLAIN")

    def _set(self, statement: Set) -> Created:
        """optimizer_off: rules that queries created from now on do without; trigger: least time between batches;
        sealed_rows and the settings of shared aggregation and joins change the plan at the next batch, and no answer.
        """
        name, value = statement.name.lower(), str(statement.value).strip()
        if name == "optimizer_off":
            rules = tuple(r for r in value.replace(",", " ").split() if r)
            unknown = [r for r in rules if r not in {rule.__name__ for rule in RULES}]
            if unknown:
                raise PlanProblem("TM217", f'there is no rule "{unknown[0]}"',
                                  hint=f"the rules are {', '.join(rule.__name__ for rule in RULES)}")
            self.workload.without = rules
        elif name == "trigger":
            self._trigger = trigger_length(value, self.workload.unit_us)
            if not self._live:
                self._end()  # a job at rest would go on with the old one
        elif name == "sealed_rows":
            self.catalog.settings[name] = rows(name, value)
            self._changed()
        elif name in OPERATORS:
            self.catalog.settings[name] = OPERATORS[name](name, value)
            self._changed()
        elif name in SHARING or name in JOINING:
            (self.workload.sharing if name in SHARING else self.workload.joining).set(name, value)
            self.workload.history.caused_by(f"SET {name} = {value}")
            self._changed()
        elif name in QUERYING:
            self.querying.set(name, value)
            self._save()
        elif name in LETTERS:
            self.catalog.settings[name] = LETTERS[name](name, value)
            self.outlet.bounds = bounds_of(self.catalog)
            self._save()
        else:
            names = ", ".join([*SHARING, *JOINING, *QUERYING, *OPERATORS, *LETTERS])
            raise PlanProblem("TM217", f'there is no setting "{statement.name}" to change',
                              hint=f"optimizer_off, trigger, sealed_rows, {names} can be set;"
                              " shards and clock are given to tidemill.open")
        return Created("setting", name, f"{name} is {value or 'empty'}")

    def _open_views(self) -> None:
        """Nothing is swept before it is known that all parts belong together: what looks like left over from a crash
        may be what another part has lost.
        """
        try:
            with duckdb_file(self.paths.views):
                self._check_parts()
            self.store.sweep(v.stored for v in self.workload.views.values())
        except BaseException:
            self.store.close()
            raise

    def _view(self, name: str) -> BoundView:
        entry = self.catalog.find(name, "view", "query")
        return self.workload.views[entry.name.lower()]

    def _shaped(self, view: BoundView, table: pa.Table) -> pa.Table:
        """Changes as users see them."""
        duck = self.store.cursor()
        try:
            return present(view.stored, table, duck)
        finally:
            duck.close()

    def _settle(self, shards: int | None, clock: str | None) -> None:
        settings = self.catalog.settings
        if clock is not None:
            unit = microseconds(clock, 1_000_000)
            if settings.setdefault("unit_us", unit) != unit:
                raise EngineProblem("TM605", "the clock unit of a database cannot change",
                                    detail=f"it is {settings['unit_us']} microseconds", hint="open it without clock=")
        settings.setdefault("unit_us", 1_000_000)
        if shards is not None and settings.setdefault("shards", shards) != shards:
            raise EngineProblem("TM605", f"the database has {settings['shards']} shards",
                                hint=f"open it without shards=; tidemill rescale DB --shards {shards} changes it")


def _is_ad_hoc(statement: Statement) -> bool:
    return isinstance(statement, Select) and not statement.output
