"""An aggregate without GROUP BY has one row at the end of a finite run, even if no source has ever had a row."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.properties.streams import UNIT
from tests.properties.trial import contents_of, log_of

ROUTES = {
    "plain": "SELECT COUNT(*) AS n, SUM(v) AS s, MIN(v) AS m FROM S",
    "filter": "SELECT COUNT(*) AS n, SUM(v) AS s, MIN(v) AS m FROM S WHERE v > 1000",
    "window": "SELECT COUNT(*) AS n, SUM(v) AS s, MIN(v) AS m FROM S [WINDOW 10]",
    "shared window": "SELECT COUNT(*) AS n, SUM(v) AS s, MIN(v) AS m FROM S [RANGE 10 SLIDE 5]",
    "now": "SELECT COUNT(*) AS n, SUM(v) AS s, MIN(v) AS m FROM S WHERE NOW - 5 < TS AND TS <= NOW",
    "rows": "SELECT COUNT(*) AS n, SUM(v) AS s, MIN(v) AS m FROM S [ROWS 5]",
    "join": "SELECT COUNT(*) AS n, SUM(a.v) AS s, MIN(b.v) AS m FROM S [WINDOW 9] AS a"
    " JOIN S2 [WINDOW 9] AS b ON a.k = b.k",
    "band": "SELECT COUNT(*) AS n, SUM(a.v) AS s, MIN(b.v) AS m FROM S a, S2 b WHERE a.k = b.k"
    " AND b.TS BETWEEN a.TS AND a.TS + 3",
    "table": "SELECT COUNT(*) AS n, SUM(w) AS s, MIN(w) AS m FROM D",
    "join with a table": "SELECT COUNT(*) AS n, SUM(v) AS s, MIN(w) AS m FROM S JOIN D ON S.k = D.k",
    "keyed": "SELECT COUNT(*) AS n, SUM(v) AS s, MIN(v) AS m FROM K",
    "view": "SELECT COUNT(*) AS n, SUM(c) AS s, MIN(c) AS m FROM ByKey",
    "distinct": "SELECT COUNT(DISTINCT v) AS n, SUM(v) AS s, MIN(v) AS m FROM S",
    "having": "SELECT COUNT(*) AS n, SUM(v) AS s, MIN(v) AS m FROM S HAVING COUNT(*) = 0",
    "subquery": "SELECT COUNT(*) AS n, SUM(q.v) AS s, MIN(q.v) AS m FROM (SELECT DISTINCT v FROM S) AS q",
    "union": "SELECT COUNT(*) AS n, SUM(q.v) AS s, MIN(q.v) AS m FROM"
    " (SELECT v FROM S UNION ALL SELECT v FROM S2) AS q",
    "every": "SELECT COUNT(*) AS n, SUM(v) AS s, MIN(v) AS m FROM S SYNC EVERY 7 AS S",
    "every rows": "SELECT COUNT(*) AS n, SUM(v) AS s, MIN(v) AS m FROM S SYNC EVERY 3 ROWS AS S",
    "on": "SELECT COUNT(*) AS n, SUM(v) AS s, MIN(v) AS m FROM S SYNC ON Points AS S",
    "count of a count": "SELECT SUM(n) AS n, SUM(s) AS s, MIN(m) AS m FROM"
    " (SELECT COUNT(*) AS n, SUM(v) AS s, MIN(v) AS m FROM S) AS q",
}
FILLED = "k,v,tm\n1,10,1\n2,20,4\n1,30,22\n"


def opened(place, **contents):
    """A database over csv files; streams without contents are empty."""
    for name in ("S", "S2", "K", "D"):
        columns = "k,w" if name == "D" else "k,v,tm"
        (place / name).mkdir()
        (place / name / "0.csv").write_text(contents.get(name, columns + "\n"))
    db = LocalDatabase(str(place / "db"), shards=2)
    for name in ("S", "S2", "K"):
        key = " KEY (k)" if name == "K" else ""
        db.execute(
            f"REGISTER SOURCE {name}Raw (k INTEGER, v INTEGER, tm INTEGER) FROM FILES '{place}/{name}/*.csv'"
            f" WITH (timestamp = 'tm'); CREATE TAGGED STREAM {name} OVER {name}Raw{key}"
        )
    db.execute(
        f"REGISTER TABLE D (k INTEGER, w INTEGER) FROM FILES '{place}/D/*.csv';"
        "CREATE VIEW ByKey AS SELECT k, COUNT(*) AS c FROM S GROUP BY k;"
        "CREATE VIEW Points AS SELECT R.TS FROM R(S2) R"
    )
    return db


def create(db, output="STREAMED"):
    for number, text in enumerate(ROUTES.values()):
        db.execute(f"CREATE {output} VIEW v{number} WITH (unbounded_state = true) AS {text}")


def answers(db):
    return {route: list(contents_of(db, f"v{number}").elements()) for number, route in enumerate(ROUTES)}


NOTHING = {route: [(0, None, None)] for route in ROUTES}


@pytest.mark.parametrize("output", ["STREAMED", "COMPLETE"])
def test_no_source_has_a_row(tmp_path, output):
    with opened(tmp_path) as db:
        create(db, output)
        db.run()
        assert answers(db) == NOTHING


def test_another_source_has_rows(tmp_path):
    with opened(tmp_path, K=FILLED) as db:
        create(db)
        db.run()
        assert answers(db) == {**NOTHING, "keyed": [(2, 50, 20)]}


def test_rows_that_come_in_a_later_run_are_counted(tmp_path):
    with opened(tmp_path) as db:
        create(db)
        db.run()
        for name in ("S", "S2"):
            (tmp_path / name / "1.csv").write_text(FILLED)
        db.run()
        found = answers(db)
    assert found["plain"] == found["subquery"] == [(3, 60, 10)]
    assert found["filter"] == found["table"] == found["keyed"] == [(0, None, None)]
    assert found["join"] == [(0, None, None)], "a row is inside from the moment after its own time"
    assert found["band"] == [(3, 60, 10)] and found["having"] == [] and found["union"] == [(6, 120, 10)]
    assert found["every"] == [(2, 30, 10)] and found["on"] == [(3, 60, 10)]


def test_the_row_is_there_before_any_input(tmp_path):
    """All answers of rows that come later replace it: the log has no second first row."""
    with opened(tmp_path) as db:
        create(db)
        db.run()
        (tmp_path / "S" / "1.csv").write_text(FILLED)
        db.run()
        tags = [change.tag for change in log_of(db, "v0")]
    assert tags[0] == "+" and set(tags[1:]) == {"u"}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS n FROM S SYNC EVERY 5 AS S",
        "SELECT COUNT(*) AS n FROM S [RANGE 10 SLIDE 5]",
        "SELECT COUNT(*) AS n FROM S SYNC ON Points AS S",
    ],
)
def test_rstream_reports_at_points_and_there_are_none(tmp_path, text):
    with opened(tmp_path) as db:
        db.execute(f"CREATE RSTREAM VIEW r AS {text}")
        db.run()
        assert db.query("SELECT * FROM r").num_rows == 0
        (tmp_path / "S" / "1.csv").write_text(FILLED)
        (tmp_path / "S2" / "1.csv").write_text(FILLED)
        db.run()
        assert 1 <= db.query("SELECT * FROM r").num_rows <= 6


def test_rstream_of_every_change_has_the_row(tmp_path):
    with opened(tmp_path) as db:
        db.execute("CREATE RSTREAM VIEW r AS SELECT COUNT(*) AS n FROM S")
        db.run()
        assert [row["n"] for row in db.query("SELECT n FROM r").to_pylist()] == [0]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("SELECT COUNT(*) AS n FROM Slow SYNC EVERY 2", 4),
        ("SELECT COUNT(*) AS n FROM Slow", 3),
        ("SELECT COUNT(*) AS n FROM S SYNC EVERY 7 AS a JOIN S SYNC EVERY 5 AS b ON a.k = b.k WHERE a.v > 1000", 5),
        ("SELECT COUNT(*) AS n FROM S JOIN D ON S.k = D.k WHERE v > 1000", 1),
    ],
)
def test_the_row_comes_with_the_first_point_of_several_rhythms(tmp_path, text, first):
    """A view every 3 seen every 2 shows 3 at 4; of two inputs the earlier point counts, and tables have none."""
    with opened(tmp_path, S=FILLED) as db:
        db.execute(
            "CREATE VIEW Slow AS SELECT k, v FROM S SYNC EVERY 3 WHERE v > 1000;"
            f"CREATE STREAMED VIEW c WITH (unbounded_state = true) AS {text}"
        )
        db.run()
        log = log_of(db, "c")
        assert [(c.tag, c.time // UNIT) for c in log] == [("+", first)]
