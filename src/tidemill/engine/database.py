"""Database: the one object users hold."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, overload

import pyarrow as pa

from tidemill.engine.directory.backup import Backup, Tell, back_up
from tidemill.engine.directory.directory import Directory
from tidemill.engine.directory.requests import Requests
from tidemill.engine.results import Created, RunSummary
from tidemill.engine.run.job import Job, SparkJob
from tidemill.engine.run.rescaling import rescale_shards
from tidemill.engine.run.runner import Progress, Runner
from tidemill.engine.settings.options import check_open
from tidemill.engine.settings.queries import trigger_length
from tidemill.engine.show.status import Status
from tidemill.engine.state import open_state
from tidemill.engine.statements.executor import Executor
from tidemill.engine.statements.explain import explain
from tidemill.engine.statements.functions import function_entry
from tidemill.engine.statements.subscribe import (
    AnySubscription,
    MomentSubscription,
    TableSubscription,
    follow,
    subscribe,
)
from tidemill.engine.workload import Workload
from tidemill.errors import CatalogProblem, EngineProblem, PlanProblem
from tidemill.plan.show.plans import Explanation
from tidemill.plan.statements import AsOf, Drop, Explain, Select
from tidemill.runtime.paths import Paths
from tidemill.runtime.spark.given_session import check_session, check_workers
from tidemill.runtime.views.outlet import Outlet
from tidemill.runtime.views.store import ViewStore
from tidemill.runtime.views.subscriptions import QUEUE_BYTES
from tidemill.sql.catalog import Catalog
from tidemill.sql.parse.statements import parse_one
from tidemill.version import __version__


class Database:
    """Continuous SQL in one directory. Statements may come while it runs; answers are read at any time.

    It has a `state` (what stands), a `runner` (what runs) and an `executor` (statements, which change both).
    """

    def __init__(
        self,
        path: str,
        *,
        spark: Any = None,
        shards: int | None = None,
        clock: str | None = None,
        trigger: str | None = None,
        without: tuple[str, ...] = (),
        shared: bool | None = None,
    ) -> None:
        check_open(shards, clock, trigger)
        check_session(spark)
        self.directory = Directory(path, shared)
        try:
            check_workers(spark, self.paths.root, __version__)
            job = self._make_job(spark)
            self.state = open_state(self.directory, job.checkpoint, shards, clock, tuple(without))
            length = trigger_length(trigger or "", self.catalog.settings["unit_us"])
        except BaseException:
            self.directory.release()
            raise
        self.runner = Runner(self.state, job, length)
        self.runner.tidy()
        self.state.show_views()
        self.executor = Executor(self.state, self.runner)
        self._closed = False
        self._requests = Requests(
            self.paths, lambda target, tell, links: self.backup(target, links=links, progress=tell)
        )
        atexit.register(self.close)

    def _make_job(self, spark: Any) -> Job:
        """The job that runs the plan."""
        return SparkJob(self.directory, spark)

    # ---- statements ----------------------------------------------------------------------------

    def execute(self, text: str, tell: Callable[[Any], None] | None = None) -> Any:
        """Run statements one after the other; the result of the last one. `tell` is called with each result when it is
        durable.

        Definitions that follow each other are written once at their end, and installed in a running job as one plan
        version. Where a statement fails, those before it stand, those after it are not executed, and the error says
        which.
        """
        self._check_open()
        return self.executor.execute(text, tell)

    def query(self, text: str, timeout: float | None = None) -> pa.Table:
        """Answer an ad hoc SELECT over COMPLETE and RSTREAM views and tables, in at most `timeout` seconds (the setting
        query_time where not given). Ctrl-C ends it at once. `tidemill.as_of` says as of which time the answer is.
        """
        self._check_open()
        return self.executor.answer([_parse_select(text)], timeout)[0]

    def query_together(self, texts: Mapping[str, str], timeout: float | None = None) -> dict[str, pa.Table]:
        """Answer several ad hoc SELECTs as of one moment, as if they were one query: name → answer."""
        self._check_open()
        selects = {name: _parse_select(text) for name, text in texts.items()}
        for select in selects.values():
            if select.as_of is not None:
                raise PlanProblem(
                    "TM112",
                    "queries that are asked together are as of one moment",
                    hint="leave AS OF out, or ask with query",
                    line=select.as_of.place[0],
                    column=select.as_of.place[1],
                )
        answers = self.executor.answer(list(selects.values()), timeout) if selects else []
        return dict(zip(selects, answers, strict=True))

    def changes(self, name: str) -> pa.Table:
        """All tagged changes of a STREAMED view or standing query: TAG, TS, columns, OLD."""
        self._check_open()
        view = self.state.find_view(name, "changes()")
        if view.stored.output != "streamed":
            raise CatalogProblem(
                "TM305",
                f'"{view.entry.name}" is a {view.stored.output.upper()} view and keeps no changes',
                hint="create it as a STREAMED view, or subscribe to it",
            )
        return self.store.changes(view.stored)

    @overload
    def subscribe(self, names: str, most_bytes: int = QUEUE_BYTES) -> TableSubscription: ...

    @overload
    def subscribe(self, names: Sequence[str], most_bytes: int = QUEUE_BYTES) -> MomentSubscription: ...

    @overload
    def subscribe(
        self, names: str, most_bytes: int = QUEUE_BYTES, *, as_of_batch: int | None = None, by_batch: bool = False
    ) -> AnySubscription: ...

    def subscribe(
        self,
        names: str | Sequence[str],
        most_bytes: int = QUEUE_BYTES,
        *,
        as_of_batch: int | None = None,
        by_batch: bool = False,
    ) -> AnySubscription:
        """A live iterator of changes of a view, from a snapshot on. At most `most_bytes` wait for its reader (TM518).

        Of several views it yields a `Moment` after the other: the changes of all views up to a time that all have
        closed, so that after each of them the views are as of one time.

        With `by_batch` it yields the changes of one view in moments that have whole batches and say which; with
        `as_of_batch` without the contents, going on after a batch.
        """
        self._check_open()
        if as_of_batch is not None or by_batch:
            if not isinstance(names, str):
                raise PlanProblem("TM112", "batches are told of one view", hint="subscribe to each view by itself")
            begin = None if as_of_batch is None else AsOf(None, batch=as_of_batch)
            with self.state.lock:
                return follow(self.state, self.runner, names, begin, most_bytes, by_batch=True)
        return subscribe(self.state, self.runner, names, most_bytes)

    def create_aggregate(self, name: str, definition: Any = None, *, or_replace: bool = False, **parts: Any) -> Created:
        """An aggregate function of your own: zero, add, combine, and where needed finish and invert, as functions or as
        attributes of an object; see docs/language.md, "Your own aggregates".
        """
        self._check_open()
        with self.state.lock:
            return self.executor.definitions.create_aggregate(name, definition, or_replace, parts)

    def drop_aggregate(self, name: str) -> Created:
        """Forget an aggregate; refused while a view uses it."""
        self._check_open()
        made: Created = self.executor.execute_one(Drop(kind="aggregate", name=name))
        return made

    def create_function(
        self,
        name: str,
        function: Callable[..., Any],
        accepts: str | Sequence[str] = "DOUBLE",
        returns: str = "DOUBLE",
        *,
        or_replace: bool = False,
    ) -> Created:
        """A scalar function of your own, in Python, for values of the types `accepts`; see docs/language.md, "Your own
        functions".
        """
        self._check_open()
        made = function_entry(name, function, accepts, returns)
        with self.state.lock:
            return self.executor.definitions.create_function(made, or_replace)

    def drop_function(self, name: str) -> Created:
        """Forget a function; refused while a view uses it."""
        self._check_open()
        made: Created = self.executor.execute_one(Drop(kind="function", name=name))
        return made

    def explain(self, text: str | None = None) -> Explanation:
        """The plan of a query, a view, or of everything that stands."""
        statement = None if text is None else parse_one(text)
        with self.state.lock:  # statements of other threads change what is explained
            return explain(self.state, statement.target if isinstance(statement, Explain) else statement)

    # ---- running -------------------------------------------------------------------------------

    def run(self, progress: Progress | None = None, *, final: bool = False) -> RunSummary:
        """Take in everything there is, return a summary. The job then rests until the next run or start.

        Queries then show the answers over all of it. What the newest times contribute stays open: rows that come with
        the next run may change it, as far back as the lateness of their source allows, and sinks and subscribers get
        it when it is closed. `final` says that the input is over: everything is closed, up to the greatest time of all.
        """
        self._check_open()
        return self.runner.run(progress, final)

    def warm(self) -> None:
        """Bring the job up and let it rest: a run() or start() after this does not wait for processes to start.

        Nothing is taken in, and no answer changes.
        """
        self._check_open()
        self.runner.warm()

    def start(self) -> None:
        """Run live, until stop()."""
        self._check_open()
        self.runner.start()

    def stop(self) -> None:
        """Stop running; everything taken in is kept, the next start goes on from here."""
        self.runner.end()

    @contextmanager
    def running(self) -> Iterator[Any]:
        """Live inside the block."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    @property
    def is_running(self) -> bool:
        """True between start() and stop(), as long as the job is up."""
        return self.runner.is_running

    @property
    def failure(self) -> EngineProblem | None:
        """Why the job that was started is not running any more; None while it runs or after a stop."""
        return self.runner.failure

    def status(self) -> Status:
        """Sources, lag, frontier, rows/s, state size, late and bad records."""
        self._check_open()
        return Status(self.runner.status())

    # ---- the directory -------------------------------------------------------------------------

    def backup(self, target: str, *, links: bool = True, progress: Tell | None = None) -> Backup:
        """A copy of everything as it is after the last batch, in a new directory, also while the job runs; `restore`
        makes a database of it. Files that never change are links where the file system has them, unless `links` is
        False. Input files are not in it, what waits on ports is.
        """
        self._check_open()
        return back_up(self.paths, target, self.runner.hold_batch, progress, links)

    def rescale(self, shards: int) -> Created:
        """Another number of shards, with the same answers from here on. Only while nothing runs."""
        self._check_open()
        check_open(shards, None, None)
        self.runner.check_stopped("its shards change")
        with self.state.lock:
            if self.outlet.committed < 0:
                self.runner.end()
                self.catalog.settings["shards"] = shards
                self.runner.change_plan()
            elif self.catalog.settings.get("shards") != shards:
                rescale_shards(self.runner, shards)
        return Created("setting", "shards", f"{shards} shards")

    def close(self) -> None:
        """Stop and release the directory; closing twice does no harm."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._requests.close()
        self.state.sites.close()
        self.runner.end()
        self.state.ports.close_all()
        if self.runner.learner.has_unsaved:
            self.state.save_catalog()
        self.runner.write_status()
        self.state.slots.close()
        self.state.operators.save()
        self.state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineProblem(
                "TM520", "the database is closed", hint=f"tidemill.open({self.paths.root!r}) opens it again"
            )

    # ---- the parts of its state ----------------------------------------------------------------

    @property
    def spark(self) -> Any:
        """The user's session, or a local one of our own."""
        return self.runner.job.session()

    @property
    def paths(self) -> Paths:
        """The layout of the directory."""
        return self.directory.paths

    @property
    def catalog(self) -> Catalog:
        """All definitions."""
        return self.state.catalog

    @property
    def workload(self) -> Workload:
        """The relations behind the names of the catalog."""
        return self.state.workload

    @property
    def store(self) -> ViewStore:
        """Stored answers."""
        return self.state.store

    @property
    def outlet(self) -> Outlet:
        """Where the results of batches arrive."""
        return self.state.outlet


def _parse_select(text: str) -> Select:
    statement = parse_one(text)
    if not isinstance(statement, Select) or statement.output:
        raise PlanProblem("TM214", "only an ad hoc SELECT can be queried", hint="use execute for other statements")
    return statement
