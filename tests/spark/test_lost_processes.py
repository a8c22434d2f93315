"""The JVM dies, a source runner is killed, the process that forks the workers is killed."""

from __future__ import annotations

import pytest

from tests.spark.processes import Child, module, until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]


def test_a_job_lives_on_and_a_database_recovers_from_a_dead_jvm(tmp_path):
    """The JVM dies: stop() and start() in the same process recover; waiting calls and subscriptions raise. A killed
    source runner does not stop the job.
    """
    ends_well(tmp_path)


def test_those_who_wait_for_a_dead_jvm_are_told(tmp_path):
    """The JVM is killed under run(), and under a subscriber that waits: both raise. Statements do not wait at all."""
    ends_well(tmp_path, "waiting")


def ends_well(tmp_path, *words: str) -> None:
    child = Child(module("tests.spark.lost_processes_child", str(tmp_path / "db"), *words), log=tmp_path / "log")
    try:
        until(lambda: not child.is_alive, 800, "the end")
        text = (tmp_path / "log").read_text(errors="replace")
        assert text.rstrip().endswith("ok"), text[-3000:]
    finally:
        child.end()
