"""On a busy machine the planner's process may come up too late for Spark: then the job is started again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import tidemill
from tidemill.errors import EngineProblem
from tidemill.runtime.spark import job


class Query:
    """A streaming query that is up, or ended with an error."""

    def __init__(self, error: str | None) -> None:
        self.isActive, self.error = error is None, error

    def exception(self) -> str | None:
        return self.error

    def stop(self) -> None:
        self.isActive = False


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Open a database whose job starts in the given ways, and begin."""
    opened = []

    def begin(*errors: str | None):
        queries = [Query(error) for error in errors]
        left = list(queries)
        monkeypatch.setattr(job, "start", lambda *_, **__: left.pop(0))
        db = tidemill.open(
            str(tmp_path / "db"),
            spark=SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2, master="spark://elsewhere:7077")),
        )
        opened.append(db)
        db.catalog.settings["shards"] = 2
        db.runner.publisher.publish()
        db.runner.begin()
        return db, queries

    yield begin
    for db in opened:
        db.close()


LATE = "org.apache.spark.SparkException: Python worker failed to connect back."


def test_a_late_planner_gets_another_chance(start):
    db, queries = start(LATE, LATE, None)
    db.runner.wait_until(lambda: db.runner.job.query is queries[2])
    assert db.runner.job.is_up


def test_not_for_ever(start):
    db, _ = start(LATE, LATE, LATE, None)
    with pytest.raises(EngineProblem, match="TM504"):
        db.runner.wait_until(lambda: False)


def test_another_failure_is_raised_at_once(start):
    db, queries = start("java.lang.OutOfMemoryError: heap", None)
    with pytest.raises(EngineProblem, match="OutOfMemoryError"):
        db.runner.wait_until(lambda: False)
    assert db.runner.job.query is queries[0]
