"""The whole engine in one process, so that Spark's fixed cost of a micro-batch does not hide the operators.

Planner, reader, stage and outlet are the ones that run under Spark; with one reader and one shard, times are those
of one pipeline.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tidemill.engine.database import Database
from tidemill.engine.recovery.repair import Pinned
from tidemill.engine.run.job import Job
from tidemill.engine.run.reports import BatchReports
from tidemill.engine.state import DatabaseState
from tidemill.runtime.answer_files import write
from tidemill.runtime.checkpoint.progress import Checkpoint
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.messages import outbox
from tidemill.runtime.messages.message import Message
from tidemill.runtime.planning.planner import Planner
from tidemill.runtime.reader.reader import Reader
from tidemill.runtime.stage.stage import Stage
from tidemill.runtime.state.shard_state import ShardState

Timer = Callable[[], float]  # time.perf_counter for how long it takes, time.process_time for what it costs


class _Query:
    isActive = True

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> None:
        return None


class _InProcessJob(Job):
    """A job whose micro-batches are the steps of an InProcess database; nothing is logged."""

    def __init__(self, db: InProcess) -> None:
        super().__init__(db.directory)
        self.db = db

    def start(self, state: DatabaseState, interval: str | None) -> None:
        self.db.open_planner()
        self.query = _Query()

    def wait_for_batch(self, reports: BatchReports, reached: Callable[[], bool]) -> None:
        if self.db.step() is None:
            raise RuntimeError("nothing is new but the run has not come to its end")

    def count_cores(self) -> int:
        return 1

    def checkpoint(self) -> Checkpoint | None:
        return None

    def pinned_batch(self) -> Pinned | None:
        return None

    def read_shards(self) -> dict[int, bytes]:
        return dict(self.db.blobs)


class InProcess(Database):
    """A database driven by hand. `spent` adds up seconds of `timer` by part: reader, stage, outlet.

    Without `stores` the answer leaves the stages and is dropped; time and frontiers go on as ever.
    """

    def __init__(
        self, path: str, *, shards: int = 1, stores: bool = True, timer: Timer = time.perf_counter, **options: Any
    ) -> None:
        self.shards = shards
        self.stores = stores
        self.timer = timer
        self.blobs: dict[int, bytes] = {}
        self.offset: dict[str, Any] | None = None
        self.planner: Planner | None = None
        self.batch = 0
        self.spent: Counter[str] = Counter()
        self.after: Callable[[InProcess], None] | None = None
        super().__init__(path, shards=shards, **options)

    @property
    def pipeline_seconds(self) -> float:
        """Reading and operators, without storing the answer."""
        return self.spent["reader"] + self.spent["stage"]

    def step(self) -> float | None:
        """One micro-batch; the seconds it took, None when nothing is new."""
        assert self.planner is not None and self.offset is not None
        began = self.timer()
        end = json.loads(json.dumps(self.planner.latest(self.offset)))
        if end == self.offset:
            return None
        inbox: dict[int, list[tuple[str, bytes]]] = {}
        for assignment in self.planner.assignments(self.offset, end):
            for shard, port, payload in Reader(self.paths.root, assignment).messages():
                inbox.setdefault(shard, []).append((port, payload))
        read = self.timer()
        sent = []
        for shard, messages in inbox.items():
            self.blobs[shard], out = Stage(self.paths.root, shard, self.blobs.get(shard)).step(messages)
            sent += out
        staged = self.timer()
        self.outlet.apply(self.batch, sent if self.stores else self._without_answers(sent))
        self.planner.commit(end)
        self.offset, self.batch = end, self.batch + 1
        stored = self.timer()
        self.spent.update(reader=read - began, stage=staged - read, outlet=stored - staged)  # type: ignore[call-overload]  # floats
        if self.after is not None:
            self.after(self)
        return stored - began

    def _without_answers(self, sent: list[Message]) -> list[Message]:
        answers = (outbox.VIEW, outbox.VIEW_FILE, write.ANSWERS)
        answered = [(port, payload) for _, port, payload in sent if port in answers]
        outbox.discard(self.paths.outbox, answered)
        self.store.tidy(file.file for file in write.receive(answered))
        return [message for message in sent if message[1] not in answers]

    def state_rows(self, operator: str = "tagger") -> int:
        """Rows that the arrangements of one kind of operator hold, equal rows added up."""
        from tidemill.runtime.paths import load_plan

        plan = load_plan(self.paths.plan(self.catalog.version))
        total = 0
        for shard, blob in self.blobs.items():
            state = ShardState.load(blob, self.paths.shard(shard))
            for op in plan.stage:
                if op.kind == operator:
                    total += state.arrangement(op.id, "rows", _contents_of(op)).scan().num_rows
        return total

    def open_planner(self) -> None:
        """A new planner, as in a job that has just started."""
        self.planner = Planner(self.paths.root, 1)
        self.offset = self.offset or self.planner.initial()

    def _make_job(self, spark: Any) -> Job:
        return _InProcessJob(self)


def _contents_of(op: Any) -> Any:
    from tidemill.runtime.dataflow.changes import contents_layout

    return contents_layout(op.schema)


@contextmanager
def watching(operator: type[Operator], seen: Counter[str], timer: Timer = time.perf_counter) -> Iterator[None]:
    """Add up change rows into (`in`) and out of (`out`) every operator of a class, and its `seconds` of `timer`."""
    plain = operator.step

    def step(self: Operator, inputs: list[Batch], state: ShardState) -> Batch:
        began = timer()
        result = plain(self, inputs, state)
        seen.update(
            {
                "seconds": timer() - began,
                "in": sum(b.rows.num_rows for b in inputs if b.rows is not None),
                "out": result.rows.num_rows if result.rows is not None else 0,
            }
        )
        return result

    operator.step = step  # type: ignore[method-assign]
    try:
        yield
    finally:
        operator.step = plain  # type: ignore[method-assign]
