"""Runs the plan of a database: start the one job, watch it, wait for it, stop it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tidemill.engine.directory.consistency import check_parts_again
from tidemill.engine.directory.tidying import tidy
from tidemill.engine.recovery.restarts import Revival
from tidemill.engine.results import RunSummary
from tidemill.engine.run.batch_history import BatchHistory
from tidemill.engine.run.job import Job
from tidemill.engine.run.learning import Learner
from tidemill.engine.run.publisher import Publisher
from tidemill.engine.run.reports import BatchReports, describe_progress, stopped_text, summarize_run
from tidemill.engine.show.status import status_of
from tidemill.engine.state import DatabaseState
from tidemill.errors import EngineProblem
from tidemill.runtime.checkpoint.progress import Checkpoint, under_way
from tidemill.runtime.paths import load_plan, write_json
from tidemill.runtime.spark.log_file import bound_log
from tidemill.runtime.spark.warm_up import load, ready
from tidemill.runtime.views.batch_summary import BatchReport

Progress = Callable[[dict[str, Any]], None]
_PATIENCE_S = 1200.0  # without a batch, until the job is said to make no progress
_WATCH_S = 1.0
_STATUS_S = 1.0
_COMMIT_S, _COMMIT_LOOK_S = 10.0, 0.01  # until Spark has committed a batch whose results are in the views


class Runner:
    """Brings the job of a database up and down, and hears of each of its batches.

    The job is *live* between start() and stop(). Between finite runs it may be up and rest.
    """

    def __init__(self, state: DatabaseState, job: Job, trigger: str | None) -> None:
        self.state, self.job = state, job
        self.trigger = trigger  # the least time between batches, as Spark reads it
        self.publisher = Publisher(state, job)
        self.reports = BatchReports()
        self.history = BatchHistory()
        self.learner = Learner(state.workload, state.operators)
        self._live = self._runs_to_end = False
        self._failed: EngineProblem | None = None  # why the last run, or bringing up the job, failed
        self._plan_has_stopped_views = False
        self._revival, self._reviving = Revival(), threading.Lock()
        self._tidied_plan = -1  # the plan in force when the directory was last tidied
        self._status_written = 0.0
        service = state.sites.service
        state.outlet.listeners += [self._on_batch, self._keep_status, service.wake, service.measures.add]
        state.outlet.listeners.append(state.sites.changes.follow)
        state.sites.changes.publish = self.change_plan_at_once

    # ---- finite and live -----------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """True between start() and stop(), as long as the job is up."""
        return self._live and not self._is_down()

    @property
    def failure(self) -> EngineProblem | None:
        """Why the job that was started is not running any more; None while it runs or after a stop."""
        return self.job.problem() if self._live and self._is_down() else None

    def warm(self) -> None:
        """Bring the job up and let it rest; see `Database.warm`."""
        if self.job.is_up:
            return
        self._await_empty_batch(after=ready)
        load()

    def run(self, progress: Progress | None, final: bool) -> RunSummary:
        """Take in everything there is; see `Database.run`."""
        self.check_stopped("run()")
        began = time.monotonic()
        if not (self.state.workload.views or self.state.workload.shipped):
            self.publisher.publish()
            return RunSummary(0, 0, 0.0, 0, 0)
        seen = self._run_to_end(progress, final, began)
        self.state.sites.service.mark_end(final)
        with self.state.lock:
            self.tidy()
        if self.job.rests:
            self.write_status()
            # Loads connectors for a preview before the next run, so that this run does not wait for it.
            # Not a daemon: a process that ends while a thread is inside DuckDB is aborted.
            threading.Thread(target=load, name="load connectors").start()
        else:
            self.end()
        stopped = self.state.workload.stopped
        views = [v for v in self.state.workload.views.values() if v.entry.id in stopped]
        texts = [stopped_text(v.entry.name, stopped[v.entry.id]["reason"]) for v in views]
        return summarize_run(seen, began, texts)

    def _run_to_end(self, progress: Progress | None, final: bool, began: float) -> list[BatchReport]:
        """Run the job until the input is taken in; the reports of its batches."""
        number = self.publisher.last_run() + 1
        seen: list[BatchReport] = []
        done = threading.Event()

        def follow(report: BatchReport) -> None:
            seen.append(report)
            if any(s["final"] == number for s in seen) and not report["content"]:
                done.set()
            if progress is not None:
                progress(describe_progress(seen, began))
            self.reports.wake()

        listeners = self.state.outlet.listeners
        listeners.insert(1, follow)  # after learning from the report, before the status file is written
        try:
            with self._end_on_failure():
                self.publisher.publish(mode="finite", run=number, closes=final)
                self._runs_to_end = True
                self.bring_up()
                self.wait_until(done.is_set)
        finally:
            self._runs_to_end = False
            self.state.outlet.listeners.remove(follow)
        return seen

    def start(self) -> None:
        """Run live, until stop()."""
        if self.is_running:
            return
        self.publisher.publish(mode="live")
        self.bring_up()
        self._live = True
        threading.Thread(target=self._watch, daemon=True, name="watch the job").start()

    def change_plan(self) -> None:
        """The set of standing queries has changed: the job takes it up with its next batch, or when it is next started.

        The change is durable when this returns; the batch that is under way is not waited for.
        """
        self.publisher.plan_is_stale = self.state.catalog.settings["unpublished"] = True
        self.state.show_views()
        if self.is_running:
            self.publisher.publish()
        else:
            self.state.save_catalog()

    def change_plan_at_once(self) -> None:
        """The same; a finite run that is under way takes it up too, since another site may wait for it."""
        self.change_plan()
        self.publish_in_run()

    def publish_in_run(self) -> None:
        """Let a finite run that is under way take up a plan that has changed."""
        if self._runs_to_end and not self.is_running:
            self.publisher.publish()

    def set_trigger(self, trigger: str | None) -> None:
        """Another least time between batches, from the next start on; a job at rest is ended, it has the old one."""
        self.trigger = trigger
        if not self._live:
            self.end()

    # ---- up and down ---------------------------------------------------------------------------

    def bring_up(self) -> None:
        """Open the ports and start the job; a job that rests is up already and follows the control file."""
        for entry in self.state.catalog.of("source"):
            self.state.ports.open(entry)
        self.state.sites.open()
        if not self.job.is_up:
            self.begin()

    def begin(self) -> None:
        """Start the job where it was left; the parts of the directory must belong together."""
        state = self.state
        check_parts_again(state.paths, state.catalog, state.store, self.job.checkpoint())
        self.publisher.prepare_pinned_batch()
        self.job.start(state, self.trigger)

    def end(self) -> None:
        """Stop the job; the next one goes on from here."""
        self._live, self._failed = False, None
        if self.job.end():
            self.write_status()
            self.state.operators.save()
            self.state.sites.service.measures.save()

    def drain(self) -> None:
        """Let the job take in what is on its way between its batches, and nothing else; then end it."""
        self.end()
        self._await_empty_batch(settled=True)
        self.end()

    def _await_empty_batch(self, after: Callable[[], None] | None = None, settled: bool = False) -> None:
        """Publish a plan version and wait for the batch that takes it up: it reads no input, and brings up all
        processes. `settled`: wait until nothing is on its way between batches either, and Spark has committed.
        """
        self.publisher.plan_is_stale = True
        self.publisher.publish(mode="resting")
        version, reports = self.state.catalog.version, self.reports
        with self._end_on_failure():
            self.bring_up()
            if after is not None:
                after()
            self.wait_until(
                lambda: reports.last.get("plan", 0) >= version and not (settled and reports.last["content"])
            )
            if settled:
                with self.hold_batch():
                    pass

    @contextmanager
    def _end_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.end()
            self._failed = error if isinstance(error, EngineProblem) else None
            raise

    @contextmanager
    def hold_batch(self) -> Iterator[tuple[int, Checkpoint | None]]:
        """Inside, everything stays as it is after the last batch in the views: (that batch, the checkpoint). The next
        batch is computed meanwhile, and waits with its results.
        """
        with self.state.lock, self.state.outlet.lock:
            outlet, until = self.state.outlet, time.monotonic() + _COMMIT_S
            while True:
                found = self.job.checkpoint()
                done = found is None or found.committed >= outlet.committed
                if done or not self.job.is_up or time.monotonic() > until:
                    break
                time.sleep(_COMMIT_LOOK_S)
            yield outlet.committed, found

    # ---- waiting and reviving ------------------------------------------------------------------

    def wait_until(self, reached: Callable[[], bool]) -> None:
        """Wait for the job to reach something; its failure is raised here."""
        quiet_since, last = time.monotonic(), -1
        while not reached():
            if not self.job.is_up and not self._revive():
                raise self.job.problem()
            self.job.wait_for_batch(self.reports, reached)
            batch = self.reports.last.get("batch", -1)
            if batch != last:
                quiet_since, last = time.monotonic(), batch
            if time.monotonic() - quiet_since > _PATIENCE_S:
                raise EngineProblem("TM503", "the job makes no progress", hint=f"see {self.state.paths.log}")

    def _is_down(self) -> bool:
        """Whether the job is down for good. Another thread may be starting it again, or may just have done so: then the
        query is another one than at first.
        """
        query = self.job.query
        is_coming = self.job.is_up or self._reviving.locked() or self._is_lost()
        return not is_coming and self.job.query is query

    def _is_lost(self) -> bool:
        """Whether the job is down because a process of it was killed: then it is started again."""
        return self.job.query is not None and self._revival.is_due(self.job.problem(), self.state.outlet.committed)

    def _revive(self) -> bool:
        """Start a job again whose process was killed; a batch that was under way is run again."""
        with self._reviving:
            if self.job.query is None or self.job.is_up:
                return self.job.query is not None
            if not self._is_lost():
                return False
            self._revival.record_try(self.state.outlet.committed)
            self.begin()
            return True

    def _watch(self) -> None:
        """While live, bring the job up again when a process of it was killed."""
        while self._live and self.job.query is not None:
            time.sleep(_WATCH_S)
            try:
                if self._live and not self.job.is_up and not self._revive():
                    return
            except Exception:  # `failure` tells it
                return

    def check_stopped(self, action: str) -> None:
        """Refuse what cannot be done while the job is live."""
        if self.is_running:
            raise EngineProblem("TM502", "the database is running live", hint=f"stop() it before {action}")

    def check_answering(self) -> None:
        """Refuse to answer from views that a failed job has left: they show less than was asked for. After stop() they
        show what they have.
        """
        problem = self.failure or (self._failed if self.state.outlet.committed < 0 else None)
        if problem is not None:
            raise EngineProblem(
                problem.code,
                problem.message,
                detail=problem.detail,
                hint="start() or run() tries again; after stop() the answers of the last batch that"
                f" succeeded can be read; the log is {self.state.paths.log}",
            )

    # ---- after each batch ----------------------------------------------------------------------

    def _on_batch(self, report: BatchReport) -> None:
        self.reports.add(report)
        self.history.add(report)
        self.state.operators.add(report)
        outlet = self.state.outlet
        if report["stopped"]:
            self.state.workload.stopped = dict(outlet.stopped)
            self._plan_has_stopped_views = True
        plan_changed = outlet.plan != self._tidied_plan
        has_statistics = bool(report["lfta"] or report["joins"]) or self.learner.counts_matter
        if not (plan_changed or has_statistics or self._plan_has_stopped_views):
            return
        if not self.state.lock.acquire(blocking=False):
            return  # the statement that holds it may wait for this batch: the next batch does this
        try:
            if has_statistics:
                self._learn(report)
            if self._plan_has_stopped_views:
                self.publisher.plan_is_stale, self._plan_has_stopped_views = True, False
                self.publisher.publish()
            if plan_changed and self.state.pending.is_empty:
                self.tidy()
                plan = load_plan(self.state.paths.plan(report["plan"]))
                self.state.operators.forget({op.id for op in (*plan.reader, *plan.stage)})
        finally:
            self.state.lock.release()

    def _learn(self, report: BatchReport) -> None:
        """Take in statistics; a plan that is cheaper by a margin is published for the next batch."""
        plan = load_plan(self.state.paths.plan(report["plan"]))
        better = self.learner.learn(plan, report)
        if better and not report["final"] and report["plan"] == self.state.catalog.version:
            self.publisher.plan_is_stale = True
            self.publisher.publish()

    def tidy(self) -> None:
        """Remove what no batch can need any more, once for each plan that has come into force."""
        if self.state.outlet.plan != self._tidied_plan:
            tidy(self.state.paths, self.state.catalog, self.state.outlet)
            self._tidied_plan = self.state.outlet.plan

    # ---- status --------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Sources, lag, frontier, rows/s, state size, late and bad records."""
        state, is_running = self.state, self.is_running
        current = under_way(state.paths) if is_running else None
        senders, slots = state.ports.count_senders(), state.slots.read(state.workload.catalog.of("source"))
        return status_of(
            state.workload,
            state.store,
            state.outlet.sinks,
            self.reports.last,
            is_running,
            senders,
            slots,
            current,
            state.sites.status(),
        )

    def write_status(self) -> None:
        """Write the status file, which other processes read."""
        with suppress(Exception):
            write_json(self.state.paths.status, self.status())

    def _keep_status(self, _: BatchReport) -> None:
        """Bring the status file up to date, at most once a second."""
        if time.monotonic() - self._status_written > _STATUS_S:
            self._status_written = time.monotonic()
            self.write_status()
            self.state.operators.save_if_due()
            bound_log(self.state.paths.log)
