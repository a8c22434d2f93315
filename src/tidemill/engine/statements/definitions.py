"""CREATE, REGISTER, ALTER and DROP: what stands changes, and is made durable.

Definitions of one text are made durable together: a thousand views are one catalog file and one plan version. The
tables of new views are made first, then the catalog is written, then the tables of dropped views go; so the catalog
never names tables that are not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb

from tidemill.engine.directory.consistency import mark_source
from tidemill.engine.postgres_sources import drop_slot
from tidemill.engine.results import Created
from tidemill.engine.run.runner import Runner
from tidemill.engine.show.backfilling import views_behind
from tidemill.engine.show.why import describe_start, missed_rows
from tidemill.engine.state import DatabaseState
from tidemill.engine.statements.aggregates import entry_of
from tidemill.engine.statements.replacing import Replacement, check_new_definition, statement_again
from tidemill.errors import CatalogProblem, EngineProblem, TidemillError
from tidemill.plan.statements import (
    AlterSource,
    CreateSink,
    CreateTaggedStream,
    CreateView,
    Drop,
    RegisterSource,
    RegisterTable,
    Select,
)
from tidemill.sql.catalog import VIRTUAL, Entry

CREATES = (RegisterSource, RegisterTable, CreateTaggedStream, CreateView, CreateSink)


class Definitions:
    """Executes definitions; all calls hold the lock of the state."""

    def __init__(self, state: DatabaseState, runner: Runner) -> None:
        self._state, self._runner = state, runner
        self._catalog, self._workload = state.catalog, state.workload

    # ---- statements ----------------------------------------------------------------------------

    def create(self, statement: Any) -> Created:
        """CREATE and REGISTER; OR REPLACE drops the old one after the new one is known to be good."""
        with self._state.sites.imports.resolve_names(statement) as known:
            return self._create(known)

    def _create(self, statement: Any) -> Created:
        existing = self._catalog.entries.get(statement.name.lower())
        if existing and statement.if_not_exists:
            return Created(existing.kind, existing.name, f"{existing.kind} {existing.name} exists already")
        replacement = None
        if existing and statement.or_replace:
            replacement = self._begin_replacement(existing, statement)
        entry = self.install(statement)
        readers = self._finish_replacement(replacement) if replacement is not None else []
        changes_plan = any(e.is_stored or e.kind == "sink" for e in (entry, *readers))
        if changes_plan:
            self._workload.history.record_cause(f"CREATE {entry.kind.upper()} {entry.name}")
        self.record(changes_plan)
        view = self._workload.views.get(entry.name.lower()) if entry.kind == "view" else None
        remark = describe_start(view, self._catalog) if view is not None else ""
        again = f"; begun anew over it: {', '.join(e.name for e in readers)}" if readers else ""
        return Created(entry.kind, entry.name, f"{entry.kind} {entry.name} created{remark}{again}")

    def _begin_replacement(self, existing: Entry, statement: Any) -> Replacement | None:
        """Forget what is replaced. A view goes with its readers, once it is known that they can go on."""
        if isinstance(statement, CreateView) and existing.kind in ("view", "query"):
            found = Replacement.of(self._catalog, existing)
            found.check(self._state, statement)
            for entry in (*reversed(found.readers), existing):
                found.note_shown(self._workload.views.get(entry.name.lower()))
                self.forget(entry)
            return found
        if isinstance(statement, CreateView):
            check_new_definition(self._workload, existing, [], statement)
        self._drop_with_dependents(Drop(kind=existing.kind, name=existing.name))  # type: ignore[arg-type]
        return None

    def _finish_replacement(self, replacement: Replacement) -> list[Entry]:
        """Create what read the old definition over the new one; other sites may read what they might before."""
        for entry in replacement.readers:
            self._install_reader(entry)
        replacement.restore_exports(self._catalog)
        replacement.let_stand_in(self._state)
        return replacement.readers

    def create_query(self, statement: Select) -> Created:
        """A standing SELECT STREAMED, RSTREAM, ISTREAM or DSTREAM."""
        with self._state.sites.imports.resolve_names(statement) as known:
            view = self._workload.create_query(known)
        self._workload.history.record_cause(f"SELECT {view.entry.name}")
        self._state.pending.creates.append(view.stored)
        self.record(changes_plan=True)
        self.flush()
        return Created("query", view.entry.name, f"standing query {view.entry.name}")

    def create_aggregate(self, name: str, definition: Any, or_replace: bool, parts: dict[str, Any]) -> Created:
        """An aggregate function of the user."""
        made = entry_of(name, definition, **parts)
        if or_replace and name.lower() in self._catalog.entries:
            self._catalog.find(name, "aggregate")
            self._drop_with_dependents(Drop(kind="aggregate", name=name))
        self._catalog.add(made)
        self._state.save_catalog()
        return Created("aggregate", made.name, f"aggregate {made.name} created")

    def create_function(self, made: Entry, or_replace: bool) -> Created:
        """A scalar function of the user."""
        if or_replace and made.name.lower() in self._catalog.entries:
            self._catalog.find(made.name, "function")
            self._drop_with_dependents(Drop(kind="function", name=made.name))
        self._catalog.add(made)
        self._state.save_catalog()
        return Created("function", made.name, f"function {made.name} created")

    def alter(self, statement: AlterSource) -> Created:
        """ALTER SOURCE … ADD COLUMN, for views that are created from now on."""
        self._check_not_backfilled(statement)
        self._runner.publisher.publish()  # views that stand belong to a plan version before the column
        entry = self._workload.alter(statement)
        self._workload.history.record_cause(f"ALTER SOURCE {entry.name}")
        self.record(changes_plan=True)
        names = ", ".join(c.name for c in statement.columns)
        return Created("source", entry.name, f"source {entry.name} has {names}; views created from now on may read it")

    def _check_not_backfilled(self, statement: AlterSource) -> None:
        """A second reading must decode records as the first one did."""
        spec = self._catalog.find(statement.name, "source").spec
        views = list(self._workload.views.values())
        behind = views_behind(views, spec.name, self._state.store) if spec is not None else []
        if behind:
            raise CatalogProblem(
                "TM309",
                f'source "{statement.name}" cannot get another column while it is read again',
                detail=f"for {', '.join(behind)}",
                hint="wait until SHOW VIEWS no longer says backfilling, or drop the view",
            )

    def drop(self, statement: Drop) -> Created:
        """DROP; CASCADE drops what depends on it too."""
        entry = self._drop_with_dependents(statement)
        if entry is None:
            return Created(statement.kind, statement.name, f"there is no {statement.kind} {statement.name}")
        self._catalog.forget_grants()
        self._workload.history.record_cause(f"DROP {entry.kind.upper()} {entry.name}")
        self.record(changes_plan=True)
        drop_slot(entry.spec)
        return Created(entry.kind, entry.name, f"{entry.kind} {entry.name} dropped")

    def _drop_with_dependents(self, statement: Drop) -> Entry | None:
        """Forget an entry and what depends on it; None for IF EXISTS where there is none."""
        entry = self._catalog.entries.get(statement.name.lower())
        kinds = {"view": ("view", "query"), "query": ("query", "view")}.get(statement.kind, (statement.kind,))
        if entry is None or entry.kind not in kinds:
            if statement.if_exists:
                return None
            entry = self._catalog.find(statement.name, *kinds)
        dependents = self._catalog.dependents(entry.name)
        if dependents and not statement.cascade:
            names = ", ".join(f"{d.kind} {d.name}" for d in dependents)
            raise CatalogProblem(
                "TM306",
                f'{entry.kind} "{entry.name}" is still needed',
                detail=f"by {names}",
                hint=f"DROP {statement.kind.upper()} {entry.name} CASCADE drops them too",
            )
        for dropped in [*reversed(dependents), entry]:
            self.forget(dropped)
        return entry

    # ---- entries -------------------------------------------------------------------------------

    def install(self, statement: Any) -> Entry:
        """Add what a CREATE or REGISTER statement defines to the catalog; nothing is durable yet."""
        if isinstance(statement, (RegisterSource, RegisterTable)):
            return self._install_source(statement)
        if isinstance(statement, CreateTaggedStream):
            return self._workload.create_stream(statement)
        if isinstance(statement, CreateSink):
            if statement.path:
                self._state.directory.check_outside(statement.path)
            return self._workload.create_sink(statement)
        if statement.output == VIRTUAL:
            return self._workload.create_virtual_view(statement)
        view = self._workload.create_view(statement)
        view.entry.missed = missed_rows(view, self._catalog, self._state.outlet.source_totals)
        self._state.pending.creates.append(view.stored)
        return view.entry

    def _install_source(self, statement: RegisterSource | RegisterTable) -> Entry:
        entry = self._workload.register(statement)
        if entry.spec is not None and entry.kind == "source":
            mark_source(self._state.paths, entry.spec.name)
        try:
            self._state.ports.open(entry)
        except TidemillError:
            self._catalog.remove(entry.name)
            raise
        return entry

    def install_again(self, entries: list[Entry]) -> None:
        """Create dropped entries again from their text, and make it durable."""
        for entry in entries:
            self._install_reader(entry)
        self.record(changes_plan=True)
        self.flush()

    def _install_reader(self, entry: Entry) -> None:
        """Create a dropped entry again from its text, under its name."""
        with self._state.sites.imports.resolve_names(statement_again(entry, self._catalog)) as known:
            if isinstance(known, Select):
                self._state.pending.creates.append(self._workload.create_query(known, entry.name).stored)
            else:
                self.install(known)

    def forget(self, entry: Entry) -> None:
        """Take an entry out of the catalog; the tables of a view go when the catalog is written."""
        view = self._workload.views.get(entry.name.lower())
        self._workload.drop(entry.name)
        if view is not None:
            outlet = self._state.outlet
            with outlet.lock:
                outlet.views.pop(view.stored.id, None)
            self._state.pending.drops.append(view.stored)
        self._state.ports.close(entry.name)
        self._state.sites.forget(entry)

    # ---- durability ----------------------------------------------------------------------------

    @contextmanager
    def group_changes(self) -> Iterator[None]:
        """Inside, definitions wait for each other; they are made durable at the end, or where `flush` is called."""
        self._state.pending.grouped = True
        try:
            yield
        finally:
            self._state.pending.grouped = False

    def record(self, changes_plan: bool) -> None:
        """The catalog has changed, and maybe the plan: make it durable now, or with the definitions that follow."""
        self._state.sites.imports.forget_unread()
        pending = self._state.pending
        pending.catalog, pending.plan = True, pending.plan or changes_plan
        if not pending.grouped:
            self.flush()

    def take_up_plan(self) -> None:
        """Let a finite run that is under way take up what has changed: another site may wait for it."""
        self._runner.publish_in_run()

    def flush(self) -> None:
        """Make pending definitions durable: tables of new views first, then the catalog."""
        pending = self._state.pending
        try:
            if pending.creates:
                self._state.create_tables()
        except Exception as error:
            self._take_back()
            if not isinstance(error, duckdb.Error):
                raise
            raise EngineProblem(
                "TM624",
                f"no tables can be made for a view: {str(error).splitlines()[0]}",
                hint="the view has not been created; is there room on the disk?",
            ) from error
        finally:
            pending.creates.clear()
            pending.successions.clear()
            catalog, plan = pending.catalog, pending.plan
            pending.catalog = pending.plan = False
            if plan:
                self._runner.change_plan()
            elif catalog:
                self._state.save_catalog()

    def _take_back(self) -> None:
        """Remove views that have no tables, and what reads them, so that later statements do not see them."""
        for stored in self._state.pending.creates:
            if stored.name.lower() in self._workload.views:
                for entry in [*reversed(self._catalog.dependents(stored.name)), self._catalog.find(stored.name)]:
                    self._workload.drop(entry.name)
        self._state.show_views()
