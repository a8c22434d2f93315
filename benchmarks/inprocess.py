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
from tidemill.runtime import outbox, sealing
from tidemill.runtime.operators.base import Batch, Operator
from tidemill.runtime.planner import Planner
from tidemill.runtime.reader import Message, Reader
from tidemill.runtime.stage import Stage
from tidemill.runtime.state import Shelf

Timer = Callable[[], float]  # time.perf_counter for how long it takes, time.process_time for what it costs


class _Query:
    isActive = True

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> None:
        return None


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
        self.spent.update(reader=read - began, stage=staged - read, outlet=stored - staged)
        if self.after is not None:
            self.after(self)
        return stored - began

    def _without_answers(self, sent: list[Message]) -> list[Message]:
        answers = (outbox.VIEW, outbox.LETTER, sealing.SEALED)
        letters = [(port, payload) for _, port, payload in sent if port in answers]
        outbox.discard(self.paths.outbox, letters)
        self.store.tidy(note["file"] for note in sealing.received(letters))
        return [message for message in sent if message[1] not in answers]

    def state_rows(self, operator: str = "tagger") -> int:
        """Rows that the arrangements of one kind of operator hold, equal rows added up."""
        from tidemill.runtime.layout import load_plan

        plan = load_plan(self.paths.plan(self.catalog.version))
        total = 0
        for shard, blob in self.blobs.items():
            shelf = Shelf.load(blob, self.paths.shard(shard))
            for op in plan.stage:
                if op.kind == operator:
                    total += shelf.arrangement(op.id, "rows", _contents_of(op)).scan().num_rows
        return total

    def _cores(self) -> int:
        return 1

    def _begin(self) -> None:
        self.planner = Planner(self.paths.root, 1)
        self.offset = self.offset or self.planner.initial()
        self._query = _Query()

    def _await(self, reached: Callable[[], bool]) -> None:
        while not reached():
            if self.step() is None:
                raise RuntimeError("nothing is new but the run has not come to its end")


def _contents_of(op: Any) -> Any:
    from tidemill.runtime.operators.base import contents_layout

    return contents_layout(op.schema)


@contextmanager
def watching(operator: type[Operator], seen: Counter[str], timer: Timer = time.perf_counter) -> Iterator[None]:
    """Add up change rows into (`in`) and out of (`out`) every operator of a class, and its `seconds` of `timer`."""
    plain = operator.step

    def step(self: Operator, inputs: list[Batch], shelf: Shelf) -> Batch:
        began = timer()
        result = plain(self, inputs, shelf)
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
