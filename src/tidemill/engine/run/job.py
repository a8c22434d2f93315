"""The job of a database: the one streaming query that runs its plan, and what that query keeps on disk.

`SparkJob` runs it on Spark. Tests and benchmarks drive micro-batches by hand with a `Job` of their own.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from tidemill.engine.directory.directory import Directory
from tidemill.engine.directory.rescale import install
from tidemill.engine.recovery.repair import Pinned, pinned_batch, unlog
from tidemill.engine.recovery.restarts import start_with_retries
from tidemill.engine.run.compiling import compile_for
from tidemill.engine.run.reports import BatchReports
from tidemill.errors import EngineProblem
from tidemill.runtime.checkpoint.offsets import Offset
from tidemill.runtime.checkpoint.progress import Checkpoint, read_checkpoint
from tidemill.runtime.paths import load_plan
from tidemill.runtime.planning.waiting import touch
from tidemill.runtime.spark.error_text import describe_failure

if TYPE_CHECKING:
    from tidemill.engine.state import DatabaseState

_LOOK_S = 0.05  # between two looks at a job that starts or ends: any value far below the seconds that this takes
_CAUSE = re.compile(r"\s*(\S*(Error|Problem|Exception)\b|TM\d{3} )")
_NO_STATE = "CANNOT_LOAD_STATE_STORE"


class Job(ABC):
    """A streaming query that is up or not, and its checkpoint."""

    query: Any = None  # as Spark's StreamingQuery: isActive, exception(), stop()
    spark: Any = None  # the session, once there is one
    rests = True  # whether the job stays up after a run, and waits for the next one

    def __init__(self, directory: Directory) -> None:
        self.directory, self.paths = directory, directory.paths

    def session(self) -> Any:
        """The session in which the job runs; None where it does not run on Spark."""
        return self.spark

    # ---- the query -----------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """True while the query is there, at work or at rest; a JVM that is gone runs nothing."""
        try:
            return self.query is not None and bool(self.query.isActive)
        except (OSError, Py4JError):
            return False

    @abstractmethod
    def start(self, state: DatabaseState, interval: str | None) -> None:
        """Start the query, with at least `interval` between micro-batches."""

    @abstractmethod
    def wait_for_batch(self, reports: BatchReports, reached: Callable[[], bool]) -> None:
        """Wait a moment for the next report, unless `reached` holds."""

    @abstractmethod
    def count_cores(self) -> int:
        """How many tasks run at the same time: the number of shards where the user does not say one."""

    def end(self) -> bool:
        """Stop the query; False when there is none."""
        query, self.query = self.query, None
        if query is None:
            return False
        touch(self.paths.control)  # a planner that waits for the control file returns
        with suppress(Exception):
            query.stop()
        return True

    def problem(self) -> EngineProblem:
        """Why the query is not up."""
        try:
            text = describe_failure(self.query) if self.query is not None else None
        except (OSError, Py4JError):
            return EngineProblem("TM505", "the JVM is gone", hint=f"start again; the log is {self.paths.log}")
        if text is None:
            return EngineProblem("TM506", "the job was stopped", hint="start() or run() goes on from here")
        return self.failure(text)

    def failure(self, text: str) -> EngineProblem:
        """The error of a query that ended with `text`: the innermost cause that names an error."""
        lines = text.splitlines()
        causes = [x.strip() for x in lines if _CAUSE.match(x)] or [x for x in lines if x.startswith("Caused by: ")]
        reason = causes[-1] if causes else text[:300]
        if _NO_STATE in text:
            reason = f"Spark cannot load {os.path.join(self.paths.checkpoint, 'state')}: {reason}"
        return EngineProblem(
            "TM504", f"the job failed: {reason}", detail=text[:2000], hint=f"the log is {self.paths.log}"
        )

    # ---- its checkpoint ------------------------------------------------------------------------

    def checkpoint(self) -> Checkpoint | None:
        """What is logged of batches; None where nothing is logged."""
        return read_checkpoint(self.paths)

    def pinned_batch(self) -> Pinned | None:
        """The batch that is logged but not committed, if there is one."""
        return pinned_batch(self.paths)

    def unlog(self, batch: int) -> None:
        """Let a logged batch be planned again."""
        unlog(self.paths, batch)

    @abstractmethod
    def read_shards(self) -> dict[int, bytes]:
        """The state of every shard; only while the query is not up."""

    def install_shards(self, offset: Offset, blobs: dict[int, bytes]) -> None:
        """Put a checkpoint with other shards in the place of the one that is there."""
        install(self.paths, offset, blobs)


class SparkJob(Job):
    """The job on Spark: in the session that the user gives, or in a local one of our own."""

    def __init__(self, directory: Directory, spark: Any) -> None:
        super().__init__(directory)
        self.spark = spark
        self.rests = spark is None  # a job in the user's session ends when its work is done

    def session(self) -> Any:
        """The user's session, or a local one of our own, which is made when it is first needed."""
        from tidemill.runtime.spark.session import forget, is_alive, local_session

        if self.spark is not None and not is_alive(self.spark):
            if not self.rests:
                raise EngineProblem(
                    "TM505", "the JVM of the given session is gone", hint="open the database again with a new session"
                )
            forget(self.spark)
            self.spark = None
        if self.spark is None:
            self.spark = local_session(log=self.paths.log, shared=self.directory.shared)
        return self.spark

    def start(self, state: DatabaseState, interval: str | None) -> None:
        """Compile missing kernels while the session comes up, then start the query."""
        from pyspark.errors import PySparkException

        from tidemill.runtime.spark import job

        compilation = compile_for(load_plan(self.paths.plan(state.catalog.version)), self.spark)
        cores = int(self.session().sparkContext.defaultParallelism)
        compilation.wait()
        try:
            self.query = start_with_retries(
                lambda: job.start(
                    self.session(),
                    self.paths.root,
                    state.outlet,
                    cores=cores,
                    shards=state.catalog.settings["shards"],
                    interval=interval,
                )
            )
        except PySparkException as error:
            raise self.failure(str(error)) from error

    def wait_for_batch(self, reports: BatchReports, reached: Callable[[], bool]) -> None:
        """Batches run in other threads: wait for a report of one."""
        reports.wait(_LOOK_S, reached)

    def count_cores(self) -> int:
        """The default parallelism of the session; before there is one, the cores that this process may use."""
        if self.spark is None:
            return len(os.sched_getaffinity(0))
        return int(self.session().sparkContext.defaultParallelism)

    def read_shards(self) -> dict[int, bytes]:
        """The state of every shard, from Spark's state store."""
        from tidemill.runtime.spark import job

        return job.read_state(self.session(), self.paths)
