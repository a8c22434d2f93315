"""Executes statements: a table says which handler each class of statement has."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby
from threading import get_ident
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tidemill.engine.run.runner import Runner
from tidemill.engine.settings.options import check_options, point_at_option
from tidemill.engine.settings.queries import QueryLimits
from tidemill.engine.settings.zones import zone_of
from tidemill.engine.show.tables import catalog_table, columns_table
from tidemill.engine.show.why import why
from tidemill.engine.state import DatabaseState
from tidemill.engine.statements.adhoc import answer, check_expressions
from tidemill.engine.statements.adhoc_streams import definitions_over_views, names_streams, read_streams_from_views
from tidemill.engine.statements.definitions import CREATES, Definitions
from tidemill.engine.statements.explain import explain
from tidemill.engine.statements.failures import Failures
from tidemill.engine.statements.partial_scripts import explain_partial_execution
from tidemill.engine.statements.settings import Settings
from tidemill.engine.statements.sites import SiteStatements, sites_table
from tidemill.engine.statements.subscribe import open_subscription
from tidemill.engine.statements.users import Users
from tidemill.engine.views.virtual_tables import Definitions as VirtualDefinitions
from tidemill.errors import TidemillError
from tidemill.interrupts import Cancellation
from tidemill.plan.statements import (
    AlterSource,
    AlterUser,
    CreateSite,
    CreateUser,
    Describe,
    Drop,
    DropUser,
    Explain,
    Export,
    Grant,
    Restart,
    RestartSource,
    Revoke,
    Select,
    Set,
    Show,
    Skip,
    Statement,
    Subscribe,
    Why,
)
from tidemill.runtime import fast_paths
from tidemill.runtime.garbage_collection import seldom_collected
from tidemill.sql.parse.statements import parse

Tell = Callable[[Any], None]
_DEFINITIONS = (*CREATES, Drop)


class Executor:
    """Executes statements one after the other. Ad hoc queries run beside each other; everything else holds the lock."""

    def __init__(self, state: DatabaseState, runner: Runner) -> None:
        self._state, self._runner = state, runner
        self.querying = QueryLimits(state.catalog)
        self.definitions = Definitions(state, runner)
        failures = Failures(state, runner, self.definitions)
        users = Users(state)
        self._sites = SiteStatements(state, self.definitions)
        self._handlers: dict[type[Statement], Callable[[Any], Any]] = {
            **dict.fromkeys(CREATES, self.definitions.create),
            Select: self.definitions.create_query,
            AlterSource: self.definitions.alter,
            Drop: self.definitions.drop,
            Restart: failures.restart_view,
            RestartSource: failures.restart_source,
            Skip: failures.skip_batch,
            Set: Settings(state, runner, self.querying).set,
            Show: self._show,
            Describe: self._describe,
            CreateSite: self._sites.create,
            Export: self._sites.export,
            Explain: self._explain,
            Why: self._why,
            Subscribe: lambda statement: open_subscription(state, runner, statement),
            CreateUser: users.create,
            AlterUser: users.alter,
            DropUser: users.drop,
            Grant: users.grant,
            Revoke: users.revoke,
        }

    def execute(self, text: str, tell: Tell | None = None) -> Any:
        """Execute a text of statements; see `Database.execute`."""
        with ExitStack() as collecting:
            with fast_paths.without(self._state.workload.fast_paths_off):
                # Once for both: the trees of all statements would be looked through between parsing and planning.
                collecting.enter_context(seldom_collected())
                statements = parse(text)
            return self._execute_parsed(statements, tell)

    def _execute_parsed(self, statements: list[Statement], tell: Tell | None) -> Any:
        results: list[Any] = []
        try:
            for ad_hoc, group in groupby(statements, _is_ad_hoc):
                if ad_hoc:
                    self._answer_each(list(group), results, tell)
                else:
                    self._execute_group(list(group), results, tell)
        except TidemillError as error:
            if len(statements) == 1:
                raise
            raise explain_partial_execution(error, results, len(statements), self._state.catalog.entries) from error
        return results[-1] if results else None

    def execute_one(self, statement: Statement) -> Any:
        """Execute a statement; an error points at its place in the text."""
        with point_at_option(statement):
            statement = check_options(statement)
            if isinstance(statement, Select) and not statement.output:
                return self.answer([statement])[0]
            with self._state.lock:
                return self._handlers[type(statement)](statement)

    def answer(
        self,
        selects: Sequence[Select],
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
        shape_only: bool = False,
        zone: str | None = None,
    ) -> list[pa.Table]:
        """Answer ad hoc queries as of one moment; `timeout` in seconds in place of the setting. `shape_only`: answers
        without rows, for their columns. `zone` in which they are computed, in place of the setting.
        """
        state, zone = self._state, zone or zone_of(self._state.catalog)
        selects, definitions = self._read_streams(selects, zone)
        tables = (table for select in selects for table in select.query.find_all(exp.Table))
        entries = (state.catalog.entries.get(table.name.lower()) for table in tables)
        if any(entry is not None and entry.kind in ("view", "query") for entry in entries):
            self._runner.check_answering()
        folder = os.path.join(state.paths.root, "adhoc", f"{os.getpid()}-{get_ident()}-{time.time_ns()}")
        clock, limits = self._runner.reports.last.get("clock"), self.querying.limits(timeout)
        try:
            return answer(
                selects, state.workload, state.store, clock, folder, limits, cancellation, shape_only, definitions, zone
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _read_streams(self, selects: Sequence[Select], zone: str) -> tuple[Sequence[Select], VirtualDefinitions]:
        """The queries, and the virtual views that they read, over views in the place of streams; the lock is held,
        since views may come and go.
        """
        workload, store = self._state.workload, self._state.store
        if not any(names_streams(select.query, workload) for select in selects):
            return selects, {}
        selects = [replace(select, query=select.query.copy()) for select in selects]
        for select in selects:
            check_expressions(select.query)
        with self._state.lock:
            as_of = selects[0].as_of
            definitions = definitions_over_views((select.query for select in selects), workload, store, as_of, zone)
            for select in selects:
                read_streams_from_views(select.query, workload, store, as_of, zone)
        return selects, definitions

    def _answer_each(self, statements: list[Statement], results: list[Any], tell: Tell | None) -> None:
        """Answer ad hoc queries; the lock is not held, so other threads need not wait."""
        for statement in statements:
            results.append(self.execute_one(statement))
            if tell is not None:
                tell(results[-1])

    def _execute_group(self, statements: list[Statement], results: list[Any], tell: Tell | None) -> None:
        """Execute statements under the lock. Definitions that follow each other are made durable together; only then
        are their results told.
        """
        untold: list[Any] = []

        def flush() -> None:
            self.definitions.flush()
            while untold:
                result = untold.pop(0)
                if tell is not None:
                    tell(result)

        with self._state.lock, fast_paths.without(self._state.workload.fast_paths_off), seldom_collected():
            try:
                with self.definitions.group_changes():
                    for statement in statements:
                        if not isinstance(statement, _DEFINITIONS):
                            flush()
                        results.append(self.execute_one(statement))
                        untold.append(results[-1])
            finally:
                flush()

    def _show(self, statement: Show) -> Any:
        state = self._state
        if statement.what == "sites":
            return sites_table(state.catalog, state.sites)
        return catalog_table(statement.what, state.catalog, state.workload, state.store, self.querying)

    def _explain(self, statement: Explain) -> Any:
        with self._state.sites.imports.resolve_names(statement.target) as target:
            return explain(self._state, target)

    def _describe(self, statement: Describe) -> Any:
        return columns_table(statement.name, self._state.catalog, self._state.workload)

    def _why(self, statement: Why) -> Any:
        known = self._state.outlet.progress.get("sources", {})
        view = self._state.find_view(statement.name, "EXPLAIN WHY")
        return why(view, self._state.workload, self._runner.status(), known)


def _is_ad_hoc(statement: Statement) -> bool:
    return isinstance(statement, Select) and not statement.output
