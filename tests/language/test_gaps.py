"""Gaps cost nothing: answers that are given again and again do not fill them."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase

ROWS = "v,at\n1,2023-01-01 00:00:05\n2,2026-01-01 00:00:05\n3,2126-01-01 00:00:05\n"


@pytest.fixture
def db(tmp_path):
    (tmp_path / "in.csv").write_text(ROWS)
    with LocalDatabase(str(tmp_path / "db")) as opened:
        opened.execute(f"REGISTER SOURCE Raw (v INTEGER, at TIMESTAMP) FROM FILES '{tmp_path}/in.csv'"
                       " WITH (timestamp = 'at'); CREATE TAGGED STREAM S OVER Raw")
        yield opened


def answers(db, text, options=""):
    db.execute(f"CREATE RSTREAM VIEW W{options} AS {text}")
    db.run()
    return [(str(row.pop("TS")), *row.values()) for row in db.query("SELECT * FROM W ORDER BY TS").to_pylist()]


def test_an_empty_window_gives_no_row(db):
    found = answers(db, "SELECT COUNT(*) AS n, SUM(v) AS s FROM S [RANGE 20 SECONDS SLIDE 10 SECONDS]")
    assert [row[1:] for row in found] == [(1, 1), (1, 1), (1, 2), (1, 2)]
    assert found[1][0].startswith("2023-01-01 00:00:20")


@pytest.mark.parametrize("text", [
    "SELECT v, COUNT(*) AS n FROM S [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY v",
    "SELECT v FROM S SYNC EVERY 10 SECONDS AS S WHERE NOW - INTERVAL '20' SECOND < TS AND TS <= NOW",
    "SELECT MAX(v) AS m FROM S SYNC EVERY 10 SECONDS AS S WHERE NOW - INTERVAL '20' SECOND < TS AND TS <= NOW"])
def test_a_century_costs_no_more_than_a_minute(db, text):
    assert [row[1] for row in answers(db, text)] == [1, 1, 2, 2]


def test_who_wants_them_gets_them(tmp_path):
    (tmp_path / "in.csv").write_text("v,at\n1,5\n2,65\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"REGISTER SOURCE Raw (v INTEGER, at INTEGER) FROM FILES '{tmp_path}/in.csv'"
                   " WITH (timestamp = 'at'); CREATE TAGGED STREAM S OVER Raw")
        text = "SELECT COUNT(*) AS n FROM S [RANGE 10 SLIDE 10]"
        assert [row[1] for row in answers(db, text, " WITH (empty_windows = true)")] == [1, 0, 0, 0, 0, 0]


def test_having_may_ask_for_them(tmp_path):
    (tmp_path / "in.csv").write_text("v,at\n1,5\n2,65\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"REGISTER SOURCE Raw (v INTEGER, at INTEGER) FROM FILES '{tmp_path}/in.csv'"
                   " WITH (timestamp = 'at'); CREATE TAGGED STREAM S OVER Raw")
        assert [row[1] for row in answers(db, "SELECT COUNT(*) AS n FROM S [RANGE 10 SLIDE 10] HAVING COUNT(*) = 0")
                ] == [0, 0, 0, 0, 0]
