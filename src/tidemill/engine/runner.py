"""Runs the plan of a database: publish a version, start the one Spark query, watch it, stop it."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError

from tidemill.engine.compiling import compile_for
from tidemill.engine.directory import Directory
from tidemill.engine.history import Subject
from tidemill.engine.in_force import plans_in_force
from tidemill.engine.input_warnings import input_warnings
from tidemill.engine.lateness import late_warnings
from tidemill.engine.letters import bounds_of
from tidemill.engine.repair import Pinned, again, pinned_batch, repaired, unlog
from tidemill.engine.rescale import install, rehashed
from tidemill.engine.results import RunSummary
from tidemill.engine.reviving import Revival, started
from tidemill.engine.sharing import Pace
from tidemill.engine.tidying import tidy
from tidemill.engine.trials import learn_from, noted, tried_sources
from tidemill.engine.whole import check_parts
from tidemill.engine.workload import Workload
from tidemill.errors import EngineProblem
from tidemill.plan.node import walk
from tidemill.plan.physical import Op, Physical
from tidemill.plan.relations import JoinAggregate
from tidemill.runtime.checkpoint import Checkpoint, read_checkpoint
from tidemill.runtime.layout import Paths, load_plan, write_json, write_plan
from tidemill.runtime.logs import bound_log
from tidemill.runtime.offsets import Offset
from tidemill.runtime.outlet import Outlet
from tidemill.runtime.readiness import load, ready
from tidemill.runtime.shards import shard_labels
from tidemill.runtime.sources.spool import Spooler
from tidemill.runtime.views import StoredView, ViewStore
from tidemill.runtime.waiting import touch
from tidemill.sql.catalog import Catalog, Entry

Progress = Callable[[dict[str, Any]], None]
_PATIENCE = 1200.0
_LOOK_S = 1.0
_TELLING = re.compile(r"\s*(\S*(Error|Problem|Exception)\b|TM\d{3} )")
_NO_STATE = "CANNOT_LOAD_STATE_STORE"
_COMMIT_S, _COMMIT_LOOK_S = 10.0, 0.01  # until Spark has committed a batch whose results are in the views


class Runner:
    """The running half of a Database; the other half changes what stands."""

    paths: Paths
    directory: Directory
    catalog: Catalog
    workload: Workload
    outlet: Outlet
    store: ViewStore
    _dirty: bool
    _closed: bool
    _lock: threading.RLock
    _leaving: list[StoredView]
    _todo: Callable[[], None] | None

    def __init__(self, spark: Any, trigger: str | None) -> None:
        self._spark, self._trigger = spark, trigger
        self._query: Any = None
        self._live = False
        self._rests = spark is None  # a job in somebody else's session goes when its work is done
        self._heard = threading.Condition()
        self._last: dict[str, Any] = {}
        self._spoolers: dict[str, Spooler] = {}
        self._written, self._listened = 0.0, 0.0
        self._stale = False  # whether the plan in force has views that were stopped
        self._revival, self._reviving = Revival(), threading.Lock()
        self._pace = Pace()
        self._tidied = -1  # the plan in force when what nobody needs was last removed
        self._told: dict[str, Any] | None = None  # what the planner was told last
        self._failed: EngineProblem | None = None  # why the last run, or bringing up the job, failed
        self._learned = False  # whether there are statistics that nobody has written down

    def _status(self) -> dict[str, Any]:
        """Sources, lag, frontier, rows/s, state size, late and bad records."""
        raise NotImplementedError

    # ---- running -------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """True between start() and stop(), as long as the job is up."""
        return self._live and (self._up or self._is_lost())

    @property
    def failure(self) -> EngineProblem | None:
        """Why the job that was started is not running any more; None while it runs or after a stop."""
        if not self._live or self._up or self._is_lost():
            return None
        return self._problem(self._query)

    def warm(self) -> None:
        """Bring the job up and let it rest: a run() or start() after this does not wait for processes to start.

        Nothing is taken in, and no answer changes.
        """
        self._check_open()
        if self._up:
            return
        self._dirty = True  # a new plan version is a micro-batch in which nothing happens: all processes come up
        self._publish(mode="resting")
        version = self.catalog.version
        with self._ended_by_failure():
            self._bring_up()
            ready()
            self._await(lambda: self._last.get("plan", 0) >= version)
        load()

    def run(self, progress: Progress | None = None, *, final: bool = False) -> RunSummary:
        """Take in everything there is, return a summary. The job then rests until the next run or start.

        Queries then show the answers over all of it. What the newest times contribute stays open: rows that come with
        the next run may change it, as far back as the lateness of their source allows, and sinks and subscribers get
        it when it is closed. `final` says that the input is over: everything is closed, up to the greatest time of all.
        """
        self._check_open()
        if self.is_running:
            raise EngineProblem("TM502", "the database is running live", hint="stop() it before run()")
        began = time.monotonic()
        if not self.workload.views:
            self._publish()
            return RunSummary(0, 0, 0.0, 0, 0)
        number = self._last_run() + 1
        seen: list[dict[str, Any]] = []
        done = threading.Event()

        def follow(summary: dict[str, Any]) -> None:
            seen.append(summary)
            if any(s["final"] == number for s in seen) and not summary["content"]:
                done.set()
            if progress is not None:
                progress(_progress(seen, began))
            with self._heard:
                self._heard.notify_all()

        # Behind the one who learns from the summary, before the one who writes it down: nobody waits for that.
        self.outlet.listeners.insert(1, follow)
        try:
            with self._ended_by_failure():
                self._publish(mode="finite", run=number, closes=final)
                self._bring_up()
                self._await(done.is_set)
        finally:
            self.outlet.listeners.remove(follow)
        with self._lock:
            self._tidy()
        if self._rests:
            self._write_status()
            # What this process needs for a look at its sources before the next run: the first one does not wait for it.
            # Not a daemon: a process that ends while a thread is inside DuckDB is aborted.
            threading.Thread(target=load, name="load connectors").start()
        else:
            self._end()
        return _summary(seen, began, [stopped_text(v.entry.name, self.workload.stopped[v.entry.id]["reason"])
                                      for v in self.workload.views.values() if v.entry.id in self.workload.stopped])

    def start(self) -> None:
        """Run live, until stop()."""
        self._check_open()
        if self.is_running:
            return
        self._publish(mode="live")
        self._bring_up()
        self._live = True
        threading.Thread(target=self._watch, daemon=True, name="watch the job").start()

    def stop(self) -> None:
        """Stop running; everything taken in is kept, the next start goes on from here."""
        self._end()

    @contextmanager
    def running(self) -> Iterator[Any]:
        """Live inside the block."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineProblem("TM520", "the database is closed",
                                hint=f"tidemill.open({self.paths.root!r}) opens it again")

    # ---- the job -------------------------------------------------------------------------------

    @property
    def spark(self) -> Any:
        """The user's session, or one of our own on this machine."""
        from tidemill.runtime.session import forget, is_alive, local_session

        if self._spark is not None and not is_alive(self._spark):
            if not self._rests:
                raise EngineProblem("TM505", "the JVM of the given session is gone",
                                    hint="open the database again with a new session")
            forget(self._spark)
            self._spark = None
        if self._spark is None:
            self._spark = local_session(log=self.paths.log, shared=self.directory.shared)
        return self._spark

    def _changed(self) -> None:
        """The set of standing queries is another one: at the next micro-batch, or at the next start. It is durable when
        this returns; a micro-batch that is under way may take long, and nobody has to wait for it.
        """
        self._dirty = self.catalog.settings["unpublished"] = True
        self._show_views()
        if self.is_running:
            self._publish()
        else:
            self._save()

    def _publish(self, **control: Any) -> None:
        """Write the next plan version if there is one, and point the planner at it and at what it shall do."""
        if self._dirty and self._up:
            # Outside of the lock: the other views go on meanwhile.
            compile_for(lambda: self.workload.physical(self.workload.pending, self._shards()), self._spark).wait()
        with self._lock:  # what is learnt from the last batch may still be on its way into the catalog
            self._publish_now(**control)

    def _publish_now(self, **control: Any) -> None:
        if not self._dirty:
            if control:
                self._control(**control)
            return
        version, shards = self.workload.pending, self._shards()
        plan = self.workload.physical(version, shards, keep=True)
        # Where processes have to start, everything takes long: then the first batch tells.
        looks = tried_sources(self.paths, plan) if control.get("mode") == "finite" and self._up else {}
        if learn_from(self.workload.sharing, plan, looks):
            plan = self.workload.physical(version, shards, keep=True)
        write_plan(self.paths, plan)
        self.workload.history.publish(version, self.outlet.committed, plans_in_force(self.workload, plan))
        self.catalog.version = version
        self.catalog.settings.pop("unpublished", None)
        self._save()
        self._control(plan=version, tried=noted(looks, version), **control)
        self._dirty = False
        load_plan(self.paths.plan(version))  # while others read it too; the outlet will want it at once

    def _shards(self) -> tuple[int, ...]:
        if "shards" not in self.catalog.settings:  # only then: the JVM that knows may be gone
            self.catalog.settings["shards"] = self._cores()
        return shard_labels(self.catalog.settings["shards"])

    def _control(self, **values: Any) -> None:
        """Tell the planner. The file holds nothing that is not known elsewhere: one that is lost is written anew."""
        known = self._told or {"plan": self.catalog.version, "mode": "finite"}
        self._told = {**known, "run": self._last_run(), "database": self.directory.database,
                      "sources": [e.spec.name for e in self.catalog.of("source") if e.spec], **values}
        write_json(self.paths.control, self._told)

    def _last_run(self) -> int:
        """The number of the last finite run; a batch that ends one may be logged and not done yet."""
        logged = self._checkpoint()
        offset = (logged.offset if logged else None) or {}
        return max(int((self._told or {}).get("run", 0)), int(offset.get("final", 0)), self.outlet.final)

    def _unpublished(self) -> bool:
        """Whether the planner does not know the newest plan: nothing ran since, a crash came in between, or what tells
        it is lost.
        """
        published = int((self._told or {}).get("plan", 0))
        if self.catalog.settings.get("unpublished") or published != self.catalog.version or published == 0:
            return True
        try:
            load_plan(self.paths.plan(published))
        except EngineProblem:
            return True
        return False

    def _check_parts(self) -> None:
        check_parts(self.paths, self.catalog, self.store, self._checkpoint())

    def _checkpoint(self) -> Checkpoint | None:
        """What Spark has logged; None where nobody logs."""
        return read_checkpoint(self.paths)

    def _save(self) -> None:
        """Write the catalog; only then do the tables of dropped views go, so that it never names what is not there."""
        self.workload.history.save()
        self.catalog.saved += 1
        write_json(self.paths.catalog, {"database": self.directory.database, **self.catalog.to_dict()})
        with self.outlet.lock:
            self.outlet.catalog = self.catalog.saved
            left = bool(self._leaving)
            while self._leaving:
                view = self._leaving.pop()
                self.store.drop(view)
                self.outlet.subscribers.pop(view.id, None)
            if left and self.store.drop_pools(v.stored for v in self.workload.views.values()):
                self.outlet.pools.forget()

    def _tidy(self) -> None:
        """Remove what no batch can need any more, once for each plan that has come into force."""
        if self.outlet.plan != self._tidied:
            tidy(self.paths, self.catalog, self.outlet)
            self._tidied = self.outlet.plan

    def _show_views(self) -> None:
        with self.outlet.lock:
            self.outlet.views = {v.stored.id: v.stored for v in self.workload.views.values()}
            self.outlet.bounds = bounds_of(self.catalog)

    def _cores(self) -> int:
        if self._spark is None:
            return len(os.sched_getaffinity(0))
        return int(self.spark.sparkContext.defaultParallelism)

    @property
    def _up(self) -> bool:
        """True while the job is there, at work or at rest; a JVM that is gone runs nothing."""
        try:
            return self._query is not None and bool(self._query.isActive)
        except (OSError, Py4JError):
            return False

    def _bring_up(self) -> None:
        """The job that rests goes on with what it is told now; where there is none, one starts."""
        for entry in self.catalog.of("source"):
            self._listen_on(entry)
        if not self._up:
            self._begin()

    @contextmanager
    def _ended_by_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._end()
            self._failed = error if isinstance(error, EngineProblem) else None
            raise

    def _check_answering(self) -> None:
        """Refuse to answer from views that a failed job has left: they show less than whoever asks expects. After
        stop() they show what they have.
        """
        problem = self.failure or (self._failed if self.outlet.committed < 0 else None)
        if problem is not None:
            raise EngineProblem(problem.code, problem.message, detail=problem.detail,
                                hint="start() or run() tries again; after stop() the answers of the last batch that"
                                     f" succeeded can be read; the log is {self.paths.log}")

    def _begin(self) -> None:
        from pyspark.errors import PySparkException

        from tidemill.runtime import job

        self._check_parts()
        self._prepare()
        compilation = compile_for(lambda: load_plan(self.paths.plan(self.catalog.version)), self._spark)
        cores = int(self.spark.sparkContext.defaultParallelism)
        compilation.wait()
        try:
            self._query = started(lambda: job.start(self.spark, self.paths.root, self.outlet, cores=cores,
                                                    shards=self.catalog.settings["shards"], interval=self._trigger))
        except PySparkException as error:
            raise self._failure(str(error)) from error

    @contextmanager
    def _standing(self) -> Iterator[tuple[int, Checkpoint | None]]:
        """Inside, what belongs to the last batch in the views stands still: (that batch, the checkpoint). A batch that
        is on its way is computed, and waits with its results.
        """
        with self._lock, self.outlet.lock:
            until = time.monotonic() + _COMMIT_S
            while True:
                found = self._checkpoint()
                done = found is None or found.committed >= self.outlet.committed
                if done or not self._up or time.monotonic() > until:
                    break
                time.sleep(_COMMIT_LOOK_S)
            yield self.outlet.committed, found

    def _prepare(self) -> None:
        """A batch that was logged and did not succeed is run with the newest plan, and with files as they are now."""
        found = self._pinned()
        if found is None or found.batch <= self.outlet.committed:
            return
        if repaired(self.paths, self.catalog, found):
            self._unlog(found.batch)
        elif (way := again(self._told, found, self.catalog.version)) is not None:
            self._control(again=way)

    def _pinned(self) -> Pinned | None:
        return pinned_batch(self.paths)

    def _unlog(self, batch: int) -> None:
        unlog(self.paths, batch)

    def _rescale(self, shards: int) -> None:
        """Put the state into another number of shards. The job is down afterwards."""
        before = self.catalog.version
        self._drain()
        plan = load_plan(self.paths.plan(self.outlet.plan))
        homes, offset = self.workload.homes(plan.shards), self._last_offset()
        assert self.outlet.plan > before and offset is not None and offset["batch"] == self.outlet.committed
        blobs = rehashed(self.paths, plan, homes, self._blobs(), shard_labels(shards))
        self._install(offset, blobs)
        self.catalog.settings |= {"shards": shards, "unpublished": True}
        self._dirty = True
        self._save()

    def _drain(self) -> None:
        """Let a job take in what is on its way between its batches, and nothing else; then end it."""
        self._end()
        self._dirty = True
        self._publish(mode="resting")
        version = self.catalog.version
        with self._ended_by_failure():
            self._bring_up()
            self._await(lambda: self._last.get("plan", 0) >= version and not self._last["content"])
            with self._standing():
                pass
        self._end()

    def _last_offset(self) -> Offset | None:
        """The offset of the last batch, where nothing is logged behind it."""
        found = self._checkpoint()
        if found is None or not found.logged == found.committed == self.outlet.committed:
            raise EngineProblem("TM647", "the number of shards cannot be changed now",
                                detail="a batch is logged that is not done", hint="run() the database, then try again")
        return found.offset

    def _blobs(self) -> dict[int, bytes]:
        """The state of every shard; no job is up."""
        from tidemill.runtime import job

        return job.read_state(self.spark, self.paths)

    def _install(self, offset: Offset, blobs: dict[int, bytes]) -> None:
        install(self.paths, offset, blobs)

    def _end(self) -> None:
        query, self._query, self._live, self._failed = self._query, None, False, None
        if query is not None:
            touch(self.paths.control)
            with suppress(Exception):
                query.stop()
            self._write_status()

    def _listen_on(self, entry: Entry) -> None:
        """Open the port of a source; what arrives is spooled from now on."""
        if entry.spec is None or entry.spec.kind != "port" or entry.name.lower() in self._spoolers:
            return
        spooler = Spooler(entry.spec, self.paths.source(entry.spec.name))
        spooler.start()
        self._spoolers[entry.name.lower()] = spooler

    def _listen(self, summary: dict[str, Any]) -> None:
        now = time.monotonic()  # somebody may set the other clock
        summary["batch_seconds"] = now - self._listened if self._last else summary["stage_seconds"]
        self._listened = now
        with self._heard:
            self._last = summary
            self._heard.notify_all()
        if summary["stopped"]:
            self.workload.stopped = dict(self.outlet.stopped)
            self._stale = True
        changed = self.outlet.plan != self._tidied
        if (changed or summary["lfta"] or summary["joins"] or self._stale) and self._lock.acquire(blocking=False):
            # A statement that waits for this batch holds the lock: then the statistics wait for the next one.
            try:
                if summary["lfta"] or summary["joins"]:
                    self._learn(summary)
                if self._stale:
                    self._dirty, self._stale = True, False
                    self._publish()
                if changed and not self._leaving and self._todo is None:
                    self._tidy()
            finally:
                self._lock.release()

    def _tell(self, summary: dict[str, Any]) -> None:
        """Bring the status file up to date now and then."""
        if time.monotonic() - self._written > 1.0:
            self._written = time.monotonic()
            self._write_status()
            bound_log(self.paths.log)

    def _learn(self, summary: dict[str, Any]) -> None:
        """Statistics of the batch; where another plan is cheaper by a margin, it is installed at the next batch."""
        plan = load_plan(self.paths.plan(summary["plan"]))
        known = {op.id: op for op in plan.reader}
        notes = {s: n for s, n in summary["lfta"].items() if f"lfta.{s}" in known and n["rows"]}
        look = looked = self._pace.due()
        worth = False
        sharing, history = self.workload.sharing, self.workload.history
        self._learned |= bool(notes or summary["joins"])
        for source, note in notes.items():
            # After the last batch of a run nobody waits for the search: it would change nothing.
            subject, rested = Subject("windows", source), self._pace.rested and not summary["final"]
            learnt = sharing.learn(known[f"lfta.{source}"], note, look and not summary["final"], rested)
            looked |= learnt.looked
            if learnt.met is not None:
                history.measured(subject, learnt.met)
            if learnt.reason is not None:
                history.because(subject, learnt.reason, sharing.expected(source))
                worth = True
        for node, op, joined in self._joined(plan, summary):
            worth |= self.workload.joining.learn(node, op, joined, look=look, pinned=sharing.settings.pinned)
        if looked:
            self._pace.looked()
        if worth and not summary["final"] and summary["plan"] == self.catalog.version:
            self._dirty = True
            self._publish()

    def _joined(self, plan: Physical, summary: dict[str, Any]) -> Iterator[tuple[JoinAggregate, Op, list[Any]]]:
        """The aggregation joins that ran in a batch, with what every shard counted."""
        known = {op.id: op for op in plan.stage if op.kind == "join_aggregate"}
        nodes = {f"meet.{n.fingerprint}": n for v in self.workload.views.values() for n in walk(v.node)
                 if isinstance(n, JoinAggregate)} if known else {}
        for name, notes in summary["joins"].items():
            if name in nodes and name in known and all(n is not None for n in notes):
                yield nodes[name], known[name], notes

    def _write_status(self) -> None:
        with suppress(Exception):
            write_json(self.paths.status, self._status())

    def _await(self, reached: Callable[[], bool]) -> None:
        """Wait for the job to reach something; its failure is raised here."""
        quiet_since, last = time.monotonic(), -1
        while not reached():
            if not self._up and not self._revive():
                raise self._problem(self._query)
            with self._heard:
                if not reached():
                    self._heard.wait(0.05)
                batch = self._last.get("batch", -1)
            if batch != last:
                quiet_since, last = time.monotonic(), batch
            if time.monotonic() - quiet_since > _PATIENCE:
                raise EngineProblem("TM503", "the job makes no progress", hint=f"see {self.paths.log}")

    def _is_lost(self) -> bool:
        """Whether the job is down because a process of it was killed: then it is started again by itself."""
        return self._query is not None and self._revival.is_due(self._problem(self._query), self.outlet.committed)

    def _revive(self) -> bool:
        """Start a job again whose process was killed; a batch that was under way is run again."""
        with self._reviving:
            if self._query is None or self._up:
                return self._query is not None
            if not self._is_lost():
                return False
            self._revival.begun(self.outlet.committed)
            self._begin()
            return True

    def _watch(self) -> None:
        """While live, bring the job up again when a process of it was killed."""
        while self._live and self._query is not None:
            time.sleep(_LOOK_S)
            try:
                if self._live and not self._up and not self._revive():
                    return
            except Exception:  # whoever asks for the failure is told
                return

    def _problem(self, query: Any) -> EngineProblem:
        try:
            error = query.exception() if query is not None else None
        except (OSError, Py4JError):
            return EngineProblem("TM505", "the JVM is gone", hint=f"start again; the log is {self.paths.log}")
        if error is None:
            return EngineProblem("TM506", "the job was stopped", hint="start() or run() goes on from here")
        return self._failure(str(error))

    def _failure(self, text: str) -> EngineProblem:
        lines = text.splitlines()
        telling = [x.strip() for x in lines if _TELLING.match(x)] or [x for x in lines if x.startswith("Caused by: ")]
        reason = telling[-1] if telling else text[:300]
        if _NO_STATE in text:
            reason = f"Spark cannot load {os.path.join(self.paths.checkpoint, 'state')}: {reason}"
        return EngineProblem("TM504", f"the job failed: {reason}", detail=text[:2000],
                             hint=f"the log is {self.paths.log}")


def _progress(seen: list[dict[str, Any]], began: float) -> dict[str, Any]:
    last = seen[-1]
    total = sum(t["rows"] for s in seen for t in s["tallies"].values())
    seconds = max(time.monotonic() - began, 1e-6)
    return {**last, "rows": sum(t["rows"] for t in last["tallies"].values()), "total_rows": total,
            "rows_per_second": total / seconds}


def stopped_text(view: str, reason: str) -> str:
    """What a run says of a view that goes on no more."""
    return f"view {view} has stopped: {reason.splitlines()[0][:200]}"


def _summary(seen: list[dict[str, Any]], began: float, stopped: list[str]) -> RunSummary:
    def total(what: str) -> int:
        return sum(t[what] for s in seen for t in s["tallies"].values())

    return RunSummary(len(seen), total("rows"), time.monotonic() - began, total("late"), total("bad"),
                      (*late_warnings([s["tallies"] for s in seen], _tops(seen)),
                       *input_warnings([s["tallies"] for s in seen]), *stopped))


def _tops(seen: list[dict[str, Any]]) -> dict[str, int]:
    """The greatest time of each source after these batches."""
    return {name: entry["top"] for name, entry in seen[-1]["sources"].items()} if seen else {}

