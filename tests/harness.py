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
from tidemill.engine.repair import Pinned
from tidemill.runtime.outlet import Outlet
from tidemill.runtime.planner import Planner
from tidemill.runtime.reader import Reader
from tidemill.runtime.stage import Stage


class _Query:
    isActive = True

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> None:
        return None


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
        super().__init__(path, shards=shards or 2, **options)

    def _cores(self) -> int:
        return self.cores

    def _checkpoint(self) -> None:
        """Nobody logs: what Spark would remember is in this object."""

    def _begin(self) -> None:
        self.planner = self._planner()
        if self.offset is None:
            self.offset = self.planner.initial()
        self._prepare()
        self._query = _Query()

    def _planner(self) -> Planner:
        made = Planner(self.paths.root, self.cores)
        made.quiet_s = self.quiet_s
        return made

    def _pinned(self) -> Pinned | None:
        return Pinned(self.batch, self.offset, self.logged) if self.logged is not None else None

    def _unlog(self, batch: int) -> None:
        self.logged = None

    def _await(self, reached: Callable[[], bool]) -> None:
        idle = 0
        while not reached():
            idle = 0 if self.step() else idle + 1
            assert idle < 3, "the job is idle but has not reached what it waits for"

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
        self.outlet = Outlet(self.paths.root, self.store)
        self.outlet.listeners = listeners
        self._show_views()
        if self.planner is not None:
            self.planner = self._planner()
