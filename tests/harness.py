"""A database whose micro-batches run in this process, without Spark: planner, reader, stage, outlet.

The same code as under Spark, driven by hand, so that a test can cut batches anywhere, replay them and crash between
any two steps.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from tidemill.engine.database import Database
from tidemill.engine.recovery.repair import Pinned
from tidemill.engine.run.job import Job
from tidemill.engine.run.reports import BatchReports
from tidemill.engine.state import DatabaseState
from tidemill.runtime.checkpoint.offsets import decode_offset
from tidemill.runtime.checkpoint.progress import Checkpoint
from tidemill.runtime.planning.planner import Planner
from tidemill.runtime.reader.reader import Reader
from tidemill.runtime.stage.stage import Stage
from tidemill.runtime.views.outlet import Outlet


class _Query:
    isActive = True

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> None:
        return None


class LocalJob(Job):
    """A job whose micro-batches are the steps of a LocalDatabase; what Spark would log is in that object."""

    def __init__(self, db: LocalDatabase) -> None:
        super().__init__(db.directory)
        self.db, self.idle = db, 0

    def start(self, state: DatabaseState, interval: str | None) -> None:
        self.db.open_planner()
        self.query = _Query()

    def wait_for_batch(self, reports: BatchReports, reached: Callable[[], bool]) -> None:
        self.idle = 0 if self.db.step() else self.idle + 1
        if self.idle:
            self.db.on_idle()
        assert self.idle < 3, "the job is idle but has not reached what it waits for"
        if reached():
            self.idle = 0

    def count_cores(self) -> int:
        return self.db.cores

    def checkpoint(self) -> Checkpoint | None:
        return None

    def pinned_batch(self) -> Pinned | None:
        db = self.db
        if db.logged is None:
            return None
        return Pinned(db.batch, decode_offset(db.offset) if db.offset else None, decode_offset(db.logged))

    def unlog(self, batch: int) -> None:
        self.db.logged = None

    def read_shards(self) -> dict[int, bytes]:
        return dict(self.db.blobs)


class LocalDatabase(Database):
    """Like Database; `shards` defaults to 2 so that exchanges and loops are real. Live, a quiet moment shows nothing by
    itself unless a test says how long it is: batches do not depend on how fast the machine is.
    """

    quiet_s = math.inf

    def __init__(self, path: str, *, shards: int | None = None, cores: int = 2, **options: Any) -> None:
        self.cores = cores
        self.blobs: dict[int, bytes] = {}
        self.offset: dict[str, Any] | None = None
        self.batch = 0
        self.logged: dict[str, Any] | None = None  # the end of a batch that was begun, as in Spark's offset log
        self.planner: Planner | None = None
        self.on_idle: Callable[[], None] = lambda: None  # a finite run waits for another site: what happens meanwhile
        super().__init__(path, shards=shards or 2, **options)

    def _make_job(self, spark: Any) -> Job:
        return LocalJob(self)

    def open_planner(self) -> None:
        """A new planner, as in a job that has just started."""
        self.planner = self._planner()
        if self.offset is None:
            self.offset = self.planner.initial()

    def _planner(self) -> Planner:
        made = Planner(self.paths.root, self.cores)
        made.quiet_s = self.quiet_s
        return made

    def run(self, progress: Any = None, *, final: bool = True) -> Any:
        """To the end: what tests of answers want."""
        return super().run(progress, final=final)

    def step(self) -> bool:
        """One micro-batch; False when nothing is new."""
        planned = self.logged or self.plan()
        if planned is None:
            return False
        self.logged = planned
        self.finish(planned)
        return True

    def plan(self) -> dict[str, Any] | None:
        """The end offset of the next batch, as Spark would log it."""
        assert self.planner is not None and self.offset is not None
        start = json.loads(json.dumps(self.offset))
        end = json.loads(json.dumps(self.planner.latest(start)))
        return None if end == self.offset else end

    def compute(self, end: dict[str, Any]) -> tuple[dict[int, bytes], list[Any]]:
        """New states and outlet messages of a batch; nothing is changed yet."""
        assert self.planner is not None and self.offset is not None
        inbox: dict[int, list[tuple[str, bytes]]] = {}
        for assignment in self.planner.assignments(self.offset, end):
            for shard, port, payload in Reader(self.paths.root, assignment).messages():
                inbox.setdefault(shard, []).append((port, payload))
        blobs, out = {}, []
        for shard, messages in inbox.items():
            blobs[shard], sent = Stage(self.paths.root, shard, self.blobs.get(shard)).step(messages)
            out += sent
        return blobs, out

    def finish(self, end: dict[str, Any]) -> None:
        """Compute, apply, commit."""
        blobs, out = self.compute(end)
        self.outlet.apply(self.batch, out)
        self.blobs.update(blobs)
        assert self.planner is not None
        self.planner.commit(end)
        self.offset, self.logged = end, None
        self.batch += 1

    def reopen_outlet(self) -> None:
        """As after a crash: everything in memory is new, what was committed is there."""
        self.outlet.duck.close()
        listeners = self.outlet.listeners
        self.state.outlet = Outlet(self.paths.root, self.store)
        self.outlet.listeners = listeners
        self.state.show_views()
        if self.planner is not None:
            self.planner = self._planner()
