"""What Spark says of a failure keeps what went wrong, and nothing else of any length."""

from __future__ import annotations

import re

from tidemill.engine.recovery.restarts import Revival
from tidemill.engine.run.job import SparkJob
from tidemill.runtime.spark.error_text import MOST, brief, describe_failure, shorten_failure

JAVA = "\n".join(f"\tat org.apache.spark.scheduler.Step${n}.run(Step.scala:{n})" for n in range(400))


def spark_text(reason: str, times: int) -> str:
    again = f"Job aborted: {reason}\nDriver stacktrace:\n{JAVA}\nCaused by: java.lang.InterruptedException\n{JAVA}\n"
    return "An error occurred while calling o99.collectToPython.\n: org.apache.spark.SparkException: " + again * times


def test_what_went_wrong_stays_and_frames_go():
    text = brief(spark_text("TM401 a file has changed", 5))
    assert "TM401 a file has changed" in text and "java.lang.InterruptedException" in text
    assert "\tat " not in text and len(text) <= MOST


def test_however_long_it_is():
    noise = "\n".join(f"line {n} of a worker" for n in range(5000))
    text = brief(f"first\n{noise}\n{spark_text('x', 2)}\nTM504 the last word")
    assert len(text) <= MOST and text.startswith("first") and text.endswith("TM504 the last word")


def test_spark_still_knows_an_interruption():
    """By the pattern with which it looks for one."""
    error = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})(spark_text("x", 3))
    wanted = r"py4j.protocol.Py4JJavaError: An error occurred while calling(.|\n)*(java\.lang\.InterruptedException)"
    assert re.search(wanted, str(shorten_failure(error)))


class _Java:
    """A Java exception as py4j shows it, or the Option around it."""

    def __init__(self, name: str, cause: _Java | None = None) -> None:
        self.name, self.cause = name, cause

    def get(self) -> _Java:
        return self

    def getClass(self) -> _Java:
        return self

    def getName(self) -> str:
        return self.name

    def getCause(self) -> _Java | None:
        return self.cause


class _FailedQuery:
    """A query whose planner was killed while Spark read its answer."""

    isActive = False

    def __init__(self, java: _Java) -> None:
        self._jsq = self
        self.java = java
        self.is_python = True

    def exception(self) -> object:
        self.is_python = not self.is_python
        return self.java if self.is_python else "[STREAM_FAILED] Query terminated with exception: (no cause message)"


def test_a_cause_without_a_message_is_known_by_its_class(tmp_path):
    """Spark's text of an EOFException has no word of it; the job was not started again after its planner was killed."""
    query = _FailedQuery(_Java("org.apache.spark.sql.streaming.StreamingQueryException", _Java("java.io.EOFException")))
    text = describe_failure(query)
    assert text is not None and text.startswith("java.io.EOFException\n[STREAM_FAILED]")
    job = SparkJob.__new__(SparkJob)
    job.paths = type("Paths", (), {"log": "spark.log"})()
    job.query = query
    assert Revival().is_due(job.problem(), 3)
