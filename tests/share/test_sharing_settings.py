"""Settings of shared aggregation: methods of paper 002 by name, and a plan that stays pinned."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.share.test_measured import STREAM, create
from tidemill.errors import PlanProblem


def opened(folder):
    return LocalDatabase(str(folder / "db"), shards=1, cores=1)


def sizes(db):
    (shown,) = db.explain().to_dict()["sharing"]
    return shown["configuration"], [r["buckets"] for r in shown["relations"]]


def test_a_pinned_plan_stays_when_the_database_is_opened_again(tmp_path):
    STREAM.write(tmp_path)
    with opened(tmp_path) as db:
        db.execute(STREAM.statements(tmp_path))
        create(db)
        before = sizes(db)
        db.execute("SET pin_plan = on")
        db.run()
        db.execute("SET lfta_memory = 60000")
        assert sizes(db) == before  # though statistics and memory are others now
    with opened(tmp_path) as db:
        assert sizes(db) == before
        db.execute("SET pin_plan = off")
        assert sizes(db) != before


def test_every_method_can_be_asked_for_and_changes_no_answer(tmp_path):
    STREAM.write(tmp_path)
    plans, answers = set(), []
    for i, method in enumerate(
        (
            "space_allocation = pl",
            "space_allocation = es",
            "phantom_choice = gp",
            "phantom_choice = epes",
            "peak_load = 100",
            "peak_load = none",
        )
    ):
        with LocalDatabase(str(tmp_path / f"db{i}"), shards=1, cores=1) as db:
            db.execute(STREAM.statements(tmp_path))
            db.execute(f"SET {method}")
            create(db, memory=3_000)
            plans.add(str(sizes(db)))
            db.run()
            answers.append([db.query(f"SELECT * FROM q{j} ORDER BY ALL").to_pylist() for j in range(4)])
    assert len(plans) >= 4 and all(answer == answers[0] for answer in answers) and answers[0][0]


@pytest.mark.parametrize("text", ["phantom_choice = best", "space_allocation = 3", "peak_load = 0", "peak_load = much"])
def test_bad_values_are_refused(tmp_path, text):
    with opened(tmp_path) as db, pytest.raises(PlanProblem, match="TM217"):
        db.execute(f"SET {text}")


def test_statistics_are_there_when_the_database_is_opened_again(tmp_path):
    STREAM.write(tmp_path)
    with opened(tmp_path) as db:
        db.execute(STREAM.statements(tmp_path))
        create(db)
        assert known(db) == "assumed"
        db.run()
        assert known(db) == "measured"
    with opened(tmp_path) as db:
        assert known(db) == "measured"


def known(db) -> str:
    (shown,) = db.explain().to_dict()["sharing"]
    return shown["statistics"]
