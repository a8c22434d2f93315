"""A job that rests between runs: nothing is taken in that was not asked for, and no answer depends on it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tidemill.errors import EngineProblem

ROWS = [(moment, f"k{moment % 3}") for moment in range(40)]
VIEW = "CREATE STREAMED VIEW v AS SELECT k, count(*) AS n FROM S SYNC EVERY 5 SECONDS GROUP BY k"


def _write(folder, name, rows):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps({"ts": t, "k": k}) + "\n" for t, k in rows))


def _source(folder):
    return (
        f"REGISTER SOURCE P (ts BIGINT, k VARCHAR) FROM FILES '{folder}/*.jsonl' WITH (timestamp = 'ts');"
        " CREATE TAGGED STREAM S OVER P;"
    )


def _changes(db):
    return db.changes("v").to_pylist()


def test_warming_takes_nothing_in(tmp_path):
    _write(tmp_path / "in", "a.jsonl", ROWS)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(_source(tmp_path / "in") + VIEW)
        db.warm()
        assert db.batch == 1 and not db.is_running and _changes(db) == []
        assert db.run().rows == len(ROWS)


def test_a_job_that_is_up_is_not_brought_up_again(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.warm()
        planner, batch = db.planner, db.batch
        db.warm()
        assert db.planner is planner and db.batch == batch


def test_a_run_leaves_the_job_at_rest_and_the_next_one_goes_on_with_it(tmp_path):
    _write(tmp_path / "in", "a.jsonl", ROWS[:20])
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(_source(tmp_path / "in") + VIEW)
        db.run()
        planner = db.planner
        _write(tmp_path / "in", "b.jsonl", ROWS[20:])
        assert not db.step(), "a job at rest takes nothing in"
        assert db.run().rows == 20
        assert db.planner is planner
        db.start()
        assert db.is_running and db.planner is planner
        with pytest.raises(EngineProblem, match="live"):
            db.run()
        db.stop()
        assert not db.is_running and db.failure is None


def test_a_failed_run_does_not_leave_a_job_behind(tmp_path, monkeypatch):
    _write(tmp_path / "in", "a.jsonl", ROWS)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(_source(tmp_path / "in") + VIEW)
        with monkeypatch.context() as broken:
            broken.setattr(db, "finish", lambda end: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                db.run()
        assert not db.runner.job.is_up
        assert db.run().rows == len(ROWS)


@settings(deadline=None, max_examples=12)
@given(moments=st.lists(st.sampled_from(["warm", "run", "stop", "live"]), max_size=6), cut=st.integers(0, len(ROWS)))
def test_no_answer_depends_on_when_the_job_rested(tmp_path_factory, moments, cut):
    """A finite run closes its last time, so the second half begins with a later one."""
    folder = tmp_path_factory.mktemp("rest")
    answers = []
    for name, steps in (("plain", []), ("rested", moments)):
        place = folder / name
        _write(place, "a.jsonl", ROWS[:cut])
        with LocalDatabase(str(place / "db")) as db:
            db.execute(_source(place) + VIEW)
            db.run()
            for step in steps:
                if step == "live":
                    db.start()
                    while db.step():
                        pass
                if step in ("stop", "live"):
                    db.stop()
                elif step == "warm":
                    db.warm()
                else:
                    db.run()
            _write(place, "b.jsonl", ROWS[cut:])
            db.run()
            answers.append(_changes(db))
    assert answers[0] == answers[1] != []
