"""The one Spark source: all registered sources behind one Python Data Source.

Spark asks for offsets and partitions in a planner process on the driver and reads in workers; both do
nothing but call `planner` and `reader`. Heavy imports stay inside the methods, so that a worker loads only
what it uses.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa

MESSAGE_SCHEMA = "shard INT, port STRING, payload BINARY"
# How long the planner holds back a request of Spark for which there is nothing new. At rest only a command of the
# engine can be new; live, rows may arrive at any moment, and it looks after every pause. Stopping waits for it.
REST_S, PAUSE_S = 0.25, 0.04
# After this many requests without news, some five seconds, it looks less often and holds requests back longer.
QUIET_QUESTIONS, QUIET_REST_S, QUIET_PAUSE_S = 20, 1.0, 0.2


class AssignmentPartition(InputPartition):
    """One reader's share of a micro-batch."""

    def __init__(self, assignment: Any) -> None:
        self.assignment = assignment


class TidemillSource(DataSource):
    """Registered under the short name `tidemill`; options: root, cores."""

    @classmethod
    def name(cls) -> str:
        return "tidemill"

    def schema(self) -> str:
        return MESSAGE_SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return TidemillStreamReader(self.options["root"], int(self.options["cores"]))


class TidemillStreamReader(DataSourceStreamReader):
    """Offsets from the planner, rows from the reader."""

    def __init__(self, root: str, cores: int) -> None:
        self.root = root
        self.cores = cores
        self._planner: Any = None
        self._watch: Any = None
        self._unanswered = 0

    @property
    def planner(self) -> Any:
        """Made in the planner process only: it keeps connectors open from batch to batch."""
        if self._planner is None:
            from tidemill.runtime.planning.planner import Planner
            from tidemill.runtime.planning.waiting import Watch
            from tidemill.runtime.spark.warm_up import load_connectors

            self._planner = Planner(self.root, self.cores)
            self._watch = Watch(self._planner.paths.control)
            # The first batch is planned, and processes come up, while this goes on.
            threading.Thread(target=load_connectors, daemon=True, name="load connectors").start()
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        return self.planner.initial()

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        from tidemill.runtime.spark.warm_up import ready

        planner = self.planner
        before = self._watch.look()
        end = planner.latest(start)
        if end == start:
            ready()
            end = self._held_back(start, before)
        self._unanswered = self._unanswered + 1 if end == start else 0
        return end

    def _held_back(self, start: dict[str, Any], seen: Any) -> Any:
        """What is new within a moment, or `start`. To look again here costs less than to be asked again."""
        quiet = self._unanswered >= QUIET_QUESTIONS
        rest, pause = (QUIET_REST_S, QUIET_PAUSE_S) if quiet else (REST_S, PAUSE_S)
        until = time.monotonic() + rest
        if self.planner.resting:
            return self.planner.latest(start) if self._watch.wait_for_change(seen, rest) else start
        while time.monotonic() < until:
            if self._watch.wait_for_change(seen, pause, pause / 4):
                return self.planner.latest(start)
            end = self.planner.latest(start)
            if end != start:
                return end
        return start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if start == end:
            return []
        return [AssignmentPartition(a) for a in self.planner.assignments(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from tidemill.runtime.spark.tasks import begin_task

        begin_task()
        import pyarrow as pa

        from tidemill.runtime.reader.reader import Reader

        assert isinstance(partition, AssignmentPartition)
        for shard, port, payload in Reader(self.root, partition.assignment).messages():
            yield pa.RecordBatch.from_arrays(
                [pa.array([shard], pa.int32()), pa.array([port], pa.string()), pa.array([payload], pa.binary())],
                names=["shard", "port", "payload"],
            )

    def commit(self, end: dict[str, Any]) -> None:
        self.planner.commit(end)

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root, "cores": self.cores, "_planner": None, "_watch": None, "_unanswered": 0}
