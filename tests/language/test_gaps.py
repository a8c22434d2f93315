"""Gaps cost nothing: answers that are given again and again do not fill them."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tidemill.runtime.operators.synchronizer import Clock

ROWS = "v,at\n1,2023-01-01 00:00:05\n2,2026-01-01 00:00:05\n3,2126-01-01 00:00:05\n"


@pytest.fixture
def db(tmp_path):
    (tmp_path / "in.csv").write_text(ROWS)
    with LocalDatabase(str(tmp_path / "db")) as opened:
        opened.execute(
            f"REGISTER SOURCE Raw (v INTEGER, at TIMESTAMP) FROM FILES '{tmp_path}/in.csv'"
            " WITH (timestamp = 'at'); CREATE TAGGED STREAM S OVER Raw"
        )
        yield opened


def answers(db, text, options=""):
    db.execute(f"CREATE RSTREAM VIEW W{options} AS {text}")
    db.run()
    return [(str(row.pop("TS")), *row.values()) for row in db.query("SELECT * FROM W ORDER BY TS").to_pylist()]


def test_an_empty_window_gives_no_row(db):
    found = answers(db, "SELECT COUNT(*) AS n, SUM(v) AS s FROM S [RANGE 20 SECONDS SLIDE 10 SECONDS]")
    assert [row[1:] for row in found] == [(1, 1), (1, 1), (1, 2), (1, 2)]
    assert found[1][0].startswith("2023-01-01 00:00:20")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT v, COUNT(*) AS n FROM S [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY v",
        "SELECT v FROM S SYNC EVERY 10 SECONDS AS S WHERE NOW - INTERVAL '20' SECOND < TS AND TS <= NOW",
        "SELECT MAX(v) AS m FROM S SYNC EVERY 10 SECONDS AS S WHERE NOW - INTERVAL '20' SECOND < TS AND TS <= NOW",
    ],
)
def test_a_century_costs_no_more_than_a_minute(db, text):
    assert [row[1] for row in answers(db, text)] == [1, 1, 2, 2]


def test_who_wants_them_gets_them(tmp_path):
    (tmp_path / "in.csv").write_text("v,at\n1,5\n2,65\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE Raw (v INTEGER, at INTEGER) FROM FILES '{tmp_path}/in.csv'"
            " WITH (timestamp = 'at'); CREATE TAGGED STREAM S OVER Raw"
        )
        text = "SELECT COUNT(*) AS n FROM S [RANGE 10 SLIDE 10]"
        assert [row[1] for row in answers(db, text, " WITH (empty_windows = true)")] == [1, 0, 0, 0, 0, 0]


def test_having_may_ask_for_them(tmp_path):
    (tmp_path / "in.csv").write_text("v,at\n1,5\n2,65\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE Raw (v INTEGER, at INTEGER) FROM FILES '{tmp_path}/in.csv'"
            " WITH (timestamp = 'at'); CREATE TAGGED STREAM S OVER Raw"
        )
        assert [
            row[1] for row in answers(db, "SELECT COUNT(*) AS n FROM S [RANGE 10 SLIDE 10] HAVING COUNT(*) = 0")
        ] == [0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "condition", ["TimePoint mod 2 = 0", "TimePoint mod 4 IN (0, 2)", "TimePoint mod 2 = 0 OR TimePoint mod 6 = 4"]
)
def test_points_of_the_clock_are_a_period(db, monkeypatch, condition):
    """The view of the clock itself would have half a row a second for a century: it stops and says why."""
    monkeypatch.setattr(Clock, "MOST_TICKS", 1_000)
    db.execute(
        f"CREATE STREAMED VIEW Even AS SELECT TimePoint FROM clockStr WHERE {condition};"
        "CREATE STREAMED VIEW V AS SELECT v FROM S SYNC ON Even;"
        "CREATE STREAMED VIEW W AS SELECT v FROM S SYNC EVERY 2 SECONDS"
    )
    db.run()
    assert db.changes("V").to_pylist() == db.changes("W").to_pylist() and db.changes("V").num_rows == 2
    [even] = [v for v in db.status()["views"] if v["name"] == "Even"]
    assert "clockStr would have" in even["stopped"]


@pytest.mark.parametrize(
    "points",
    [
        "SELECT TimePoint FROM clockStr WHERE TimePoint mod 3 = 0",
        "SELECT TimePoint FROM clockStr WHERE 0 = TimePoint % 3",
        "SELECT TimePoint FROM clockStr",
        "SELECT TimePoint AS TimePoint FROM clockStr WHERE mod(TimePoint, 3) = 0",
        "SELECT TimePoint FROM clockStr WHERE TimePoint mod 3 = 1",
        "SELECT TimePoint + 1 AS TimePoint FROM clockStr",
        "SELECT TimePoint FROM clockStr WHERE TimePoint mod 3 = 0 AND TimePoint mod 2 = 0",
        "SELECT TimePoint FROM clockStr WHERE TimePoint mod 3 = 0 OR TimePoint mod 2 = 0",
        "SELECT 3 * TimePoint AS TimePoint FROM clockStr",
        "SELECT TimePoint FROM clockStr SYNC EVERY 2 SECONDS",
        "SELECT TimePoint FROM clockStr WHERE TimePoint mod 3 = 0 AND TimePoint mod 3 = 0",
    ],
)
def test_points_of_the_clock_are_what_their_view_says(tmp_path, points):
    (tmp_path / "in.csv").write_text("v,at\n" + "".join(f"{t},{t}\n" for t in range(-7, 9, 2)))
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE Raw (v INTEGER, at INTEGER) FROM FILES '{tmp_path}/in.csv'"
            " WITH (timestamp = 'at');"
            f"CREATE TAGGED STREAM S OVER Raw; CREATE STREAMED VIEW P AS {points};"
            "CREATE STREAMED VIEW V AS SELECT v FROM S SYNC ON P"
        )
        db.run()
        seen = [(row["TimePoint"], row["TS"]) for row in db.changes("P").to_pylist()]
        # A point before it appears counts as of its appearance; one after the end has not come.
        at = sorted(max(pair) for pair in seen if max(pair) <= 7)
        wanted = [(v, min(p for p in at if p >= v)) for v in range(-7, 9, 2) if any(p >= v for p in at)]
        assert [(row["v"], row["TS"]) for row in db.changes("V").to_pylist()] == wanted


def test_answers_that_stay_through_a_century_stop_their_report_alone(tmp_path):
    """The whole answer at every second of a century has more rows than fit anywhere."""
    (tmp_path / "in.csv").write_text("k,at\n1,1920-01-01 00:00:01\n2,2020-01-01 00:00:01\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE Raw (k INTEGER, at TIMESTAMP) FROM FILES '{tmp_path}/in.csv'"
            " WITH (timestamp = 'at'); CREATE TAGGED STREAM S OVER Raw;"
            "CREATE RSTREAM VIEW Each AS SELECT k FROM S SYNC EVERY 1 SECOND;"
            "CREATE VIEW Last AS SELECT k FROM S SYNC EVERY 1 SECOND"
        )
        said = str(db.run(final=False))
        assert "view Each has stopped" in said and "rows at once" in said
        assert db.query("SELECT count(*) AS n FROM Last").to_pylist() == [{"n": 2}]


@pytest.mark.parametrize(
    "points, times",
    [
        ("SELECT TimePoint FROM clockStr WHERE TimePoint mod 3 = 0", [3, 6, 9, 12]),
        ("SELECT TimePoint * 3 AS TimePoint FROM clockStr", [3, 6, 9, 12]),
        ("SELECT CAST(TimePoint * 4 AS BIGINT) AS TimePoint FROM clockStr WHERE TimePoint mod 2 = 0", [8]),
        ("SELECT TimePoint * 1000000 AS TimePoint FROM clockStr", []),
    ],
)
def test_points_that_are_computed_from_the_clock_are_those_points(tmp_path, points, times):
    """Only the points of the clock itself are those of a period."""
    (tmp_path / "in.csv").write_text("k,at\n" + "".join(f"{i},{i}\n" for i in range(1, 13)))
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE Raw (k INTEGER, at BIGINT) FROM FILES '{tmp_path}/in.csv'"
            " WITH (timestamp = 'at'); CREATE TAGGED STREAM S OVER Raw;"
            f"CREATE VIEW P AS {points}; CREATE STREAMED VIEW V AS SELECT k FROM S SYNC ON P"
        )
        db.run()
        assert sorted(set(db.changes("V").column("TS").to_pylist())) == times
