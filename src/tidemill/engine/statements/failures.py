"""RESTART VIEW, RESTART SOURCE and SKIP BATCH: what a user does about failures."""

from __future__ import annotations

from tidemill.engine.alter_sources import inherit, rebuild_statement
from tidemill.engine.postgres_sources import drop_slot
from tidemill.engine.recovery.repair import check_skippable, describe_rerun, find_views_to_restart
from tidemill.engine.rereadable import SKIPPED
from tidemill.engine.results import Created
from tidemill.engine.run.runner import Runner
from tidemill.engine.show.backfilling import views_behind
from tidemill.engine.state import DatabaseState
from tidemill.engine.statements.definitions import Definitions
from tidemill.engine.views.history import HISTORY, OPTION, begins_with_history
from tidemill.errors import EngineProblem
from tidemill.plan.statements import CreateView, Restart, RestartSource, Select, Skip
from tidemill.sql.catalog import Entry
from tidemill.sql.parse.statements import parse_one


class Failures:
    """Statements after a failure; all calls hold the lock of the state."""

    def __init__(self, state: DatabaseState, runner: Runner, definitions: Definitions) -> None:
        self._state, self._runner, self._definitions = state, runner, definitions

    def restart_view(self, statement: Restart) -> Created:
        """Stopped views begin again, without what they held. Nothing changes where one of them cannot."""
        entries = find_views_to_restart(self._state.catalog, self._state.workload, statement.name)
        self._check_histories(entries)
        for entry in reversed(entries):
            self._definitions.forget(entry)
        self._definitions.install_again(entries)
        return Created("view", statement.name, f"begun anew: {_view_names(entries)}")

    def _check_histories(self, entries: list[Entry]) -> None:
        """Refuse to restart views whose history is not there any more."""
        for entry in entries:
            if begins_with_history(entry.options):
                made = parse_one(entry.text)
                assert isinstance(made, (CreateView, Select))
                self._state.workload.plan_query(made.query, entry.output, {**made.options, OPTION: HISTORY})

    def restart_source(self, statement: RestartSource) -> Created:
        """The source is read from its beginning, and everything that reads it begins again."""
        catalog = self._state.catalog
        entry = catalog.find(statement.name, "source")
        made = rebuild_statement(entry, statement.options, catalog.settings["unit_us"])
        entries = catalog.dependents(entry.name)
        for dropped in (*reversed(entries), entry):
            self._definitions.forget(dropped)
        inherit(self._definitions.install(made), entry, statement.options)
        self._state.workload.history.record_cause(f"RESTART SOURCE {entry.name}")
        self._definitions.install_again(entries)
        drop_slot(entry.spec)
        text = f"source {entry.name} is read from its beginning; begun anew: {_view_names(entries)}"
        return Created("source", entry.name, text)

    def skip_batch(self, statement: Skip) -> Created:
        """The failed batch is run without the records of a source; they become dead letters."""
        self._runner.check_stopped("SKIP BATCH")
        self._runner.end()
        catalog, publisher = self._state.catalog, self._runner.publisher
        entry = catalog.find(statement.source, "source", "table")
        publisher.publish()
        found = check_skippable(entry, self._runner.job.pinned_batch(), self._state.outlet.committed)
        name = entry.spec.name if entry.spec else ""
        behind = views_behind(list(self._state.workload.views.values()), name, self._state.store)
        if behind:
            raise EngineProblem(
                "TM512",
                f'the batch of source "{entry.name}" cannot be skipped while the source is read again',
                detail=f"for {', '.join(behind)}",
                hint="drop the view, skip the batch, and create the view again without begin = 'history'",
            )
        entry.options[SKIPPED] = True
        self._state.save_catalog()
        publisher.write_control(again=describe_rerun(publisher.control, found, catalog.version, name))
        return Created("source", entry.name, f"the failed batch of source {entry.name} goes to the dead letters")


def _view_names(entries: list[Entry]) -> str:
    return ", ".join(e.name for e in entries if e.kind != "sink")
