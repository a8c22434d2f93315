"""What Spark says of a failure keeps what went wrong, and nothing else of any length."""

from __future__ import annotations

import re

from tidemill.runtime.spark.error_text import MOST, brief, shorten_failure

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
