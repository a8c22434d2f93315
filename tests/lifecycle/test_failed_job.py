"""What a job that failed leaves is not taken for an answer, and what a row of statements leaves is said."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.paper.notation import rows_of
from tidemill.engine.recovery.restarts import start_with_retries
from tidemill.errors import EngineProblem, TidemillError

SOURCE = "REGISTER SOURCE R (k INTEGER, at BIGINT) FROM GENERATE (rate = 1, rows = 5, seed = 1, k = 'uniform(1,3)')"
VIEWS = "CREATE TAGGED STREAM S OVER R; CREATE VIEW V AS SELECT count(*) AS n FROM S"


class Ended:
    """A query of Spark that has ended with an error."""

    isActive = False

    def exception(self) -> str:
        return "org.apache.spark.SparkException: TM401 a file has changed"

    def stop(self) -> None:
        pass


@pytest.fixture
def db(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as made:
        made.execute(f"{SOURCE}; {VIEWS}")
        yield made


def test_a_query_after_a_live_job_failed_raises_the_reason(db):
    db.start()
    db.runner.job.query = Ended()
    for ask in (db.query, db.execute):
        with pytest.raises(EngineProblem) as caught:
            ask("SELECT n FROM V")
        assert caught.value.code == "TM504" and "TM401" in caught.value.message
        assert "stop()" in str(caught.value.hint)
    assert rows_of(db, "SELECT count(*) FROM dead_letters") == [(0,)], "what the job does not make can be read"
    db.stop()
    assert rows_of(db, "SELECT count(*) FROM V") == [(0,)]


def test_a_query_after_a_first_run_that_failed_raises_the_reason(db, monkeypatch):
    def fail() -> bool:
        raise EngineProblem("TM504", "the job failed: no room on the disk")

    with monkeypatch.context() as patch:
        patch.setattr(db, "step", fail)
        with pytest.raises(EngineProblem, match="no room"):
            db.run()
    with pytest.raises(EngineProblem, match="no room"):
        db.query("SELECT n FROM V")
    db.run()
    assert rows_of(db, "SELECT n FROM V") == [(5,)]


def test_after_a_later_run_that_failed_the_last_answers_are_there(db, monkeypatch):
    def fail() -> bool:
        raise EngineProblem("TM504", "the job failed: no room on the disk")

    db.run()
    db.execute("CREATE VIEW W AS SELECT k FROM S")
    monkeypatch.setattr(db, "step", fail)
    with pytest.raises(EngineProblem, match="no room"):
        db.run()
    assert rows_of(db, "SELECT n FROM V") == [(5,)]


def test_the_error_of_one_of_several_statements_says_what_stands(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        with pytest.raises(TidemillError) as caught:
            db.execute(f"{SOURCE}; {VIEWS}; CREATE VIEW W AS SELECT nothing FROM S; CREATE VIEW X AS SELECT k FROM S")
        assert caught.value.line is not None, "it still points at its place"
        assert "statement 4 of 5 failed" in str(caught.value.detail)
        assert "source R created, stream S created, view V created" in str(caught.value.detail)
        assert sorted(db.catalog.entries) == ["r", "s", "v"]
        with pytest.raises(TidemillError) as caught:
            db.execute("CREATE VIEW W AS SELECT nothing FROM S")
        assert "statement" not in str(caught.value.detail)
        with pytest.raises(TidemillError) as caught:
            db.execute("SELECT n FROM V; DROP VIEW V; DROP VIEW V")
        assert "statement 3 of 3 failed; what stands: view V dropped" in str(caught.value.detail)
    with LocalDatabase(str(tmp_path / "db")) as db:
        assert sorted(db.catalog.entries) == ["r", "s"]


def test_statements_that_cannot_be_parsed_change_nothing(db):
    before = dict(db.catalog.entries)
    with pytest.raises(TidemillError):
        db.execute("CREATE VIEW W AS SELECT k FROM S; CREATE VIEW FROM")
    assert db.catalog.entries == before


def test_a_view_whose_tables_cannot_be_made_is_not_said_to_stand(db, monkeypatch):
    import duckdb

    def fail(*views, **more):
        raise duckdb.IOException("no room")

    monkeypatch.setattr(db.store, "create", fail)
    with pytest.raises(TidemillError) as caught:
        db.execute("CREATE VIEW W AS SELECT k FROM S; CREATE VIEW X AS SELECT k FROM W")
    assert caught.value.code == "TM624" and "nothing has changed" in str(caught.value.detail)


def test_a_process_that_comes_up_too_late_is_waited_for_again_but_not_for_ever():
    waits: list[float] = []

    def late() -> None:
        raise RuntimeError("org.apache.spark.SparkException: Python worker failed to connect back.")

    with pytest.raises(RuntimeError, match="connect back"):
        start_with_retries(late, waits.append)
    assert len(waits) == 2


def test_other_failures_of_a_start_are_raised_at_once():
    def broken() -> None:
        raise RuntimeError("no such class")

    with pytest.raises(RuntimeError, match="no such class"):
        start_with_retries(broken, lambda seconds: pytest.fail("nothing is to be waited for"))
