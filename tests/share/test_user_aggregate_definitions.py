"""Users' aggregates in a database: made, checked, listed, kept, dropped, and failing."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest

from tests.harness import LocalDatabase
from tidemill.errors import CatalogProblem, PlanProblem
from tidemill.plan.node import _text
from tidemill.plan.user_aggregates import UserAggregate

ROWS = "k,x,at\na,1,1\na,4,2\nb,0,3\nb,9,4\na,2,6\na,,7\nb,3,11\n"


def opened(folder: Path) -> LocalDatabase:
    return LocalDatabase(str(folder / "db"))


@pytest.fixture
def db(tmp_path):
    (tmp_path / "rows.csv").write_text(ROWS)
    with opened(tmp_path) as made:
        made.execute(
            f"REGISTER SOURCE S (k VARCHAR, x INTEGER, at BIGINT) FROM FILES '{tmp_path}/rows.csv'"
            " WITH (timestamp = 'at', batch_rows = 2); CREATE TAGGED STREAM A OVER S"
        )
        yield made


def geomean(db: LocalDatabase) -> None:
    db.create_aggregate(
        "geomean",
        zero=(0, 0.0),
        add=lambda a, v: (a[0] + 1, a[1] + math.log(v)),
        combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        finish=lambda a: math.exp(a[1] / a[0]),
    )


def rows_of(db: LocalDatabase, view: str = "V") -> list[dict]:
    return db.query(f"SELECT * FROM {view} ORDER BY ALL").to_pylist()


def test_a_row_on_which_add_fails_is_put_aside_for_the_queries_that_use_it(db):
    geomean(db)
    db.execute(
        "CREATE RSTREAM VIEW V AS SELECT k, geomean(x) AS g, count(*) AS n FROM A [RANGE 5] GROUP BY k;"
        "CREATE RSTREAM VIEW N AS SELECT k, count(*) AS n FROM A [RANGE 5] GROUP BY k"
    )
    db.run()
    found = [(r["TS"], r["k"], round(r["g"], 6), r["n"]) for r in rows_of(db)]
    assert found == [(5, "a", 2.0, 2), (5, "b", 9.0, 1), (10, "a", 2.0, 2)]
    assert [r["n"] for r in rows_of(db, "N")] == [2, 2, 2]
    letters = db.query("SELECT source, reason, raw FROM dead_letters").to_pylist()
    assert letters == [{"source": "S", "reason": "ValueError: math domain error", "raw": '{"k": "b", "x": 0, "at": 3}'}]


def test_an_answer_on_which_finish_fails_is_put_aside_and_the_others_go_on(db):
    db.create_aggregate(
        "inverse", zero=0, add=lambda a, v: a + v, combine=lambda a, b: a + b, finish=lambda a: 36 / (a - 9)
    )
    db.execute("CREATE STREAMED VIEW V AS SELECT k, inverse(x) AS i FROM A [RANGE 5 SLIDE 5] GROUP BY k")
    db.run()
    changes = [(r["TAG"], r["TS"], r["k"], r["i"]) for r in db.changes("V").to_pylist()]
    assert changes == [("+", 5, "a", -9.0), ("u", 10, "a", 36 / -7)]
    letters = db.query("SELECT reason, raw FROM dead_letters").to_pylist()
    assert letters == [{"reason": "ZeroDivisionError: float division by zero", "raw": '{"k": "b"}'}]


def test_an_answer_of_another_type_is_put_aside(db):
    db.create_aggregate("texts", zero="", add=lambda a, v: a + str(v), combine=lambda a, b: a + b, returns="BIGINT")
    db.execute("CREATE VIEW V AS SELECT k, texts(x) AS t FROM A [RANGE 5] GROUP BY k")
    db.run()
    assert rows_of(db) == []
    assert db.query("SELECT * FROM dead_letters").num_rows > 0


def test_a_group_without_values_has_null(db):
    geomean(db)
    db.execute("CREATE RSTREAM VIEW V AS SELECT k, geomean(x) AS g FROM A [RANGE 1] WHERE at = 7 GROUP BY k")
    db.run()
    assert rows_of(db) == [{"TS": 8, "k": "a", "g": None}]


def test_without_keys_an_empty_window_has_no_row(db):
    db.create_aggregate("total", zero=0, add=lambda a, v: a + v, combine=lambda a, b: a + b)
    db.execute("CREATE STREAMED VIEW V AS SELECT total(x) AS t FROM A [RANGE 2 SLIDE 2]")
    db.run()
    changes = [(r["TAG"], r["TS"], r["t"]) for r in db.changes("V").to_pylist()]
    assert changes == [("+", 2, 1.0), ("u", 4, 4.0), ("u", 6, 9.0), ("u", 8, 2.0), ("-", 10, 2.0)]


def test_windows_of_rows_have_them_too(db):
    db.create_aggregate("total", zero=0, add=lambda a, v: a + v, combine=lambda a, b: a + b)
    db.execute("CREATE STREAMED VIEW V AS SELECT k, total(x) AS t, sum(x) AS s FROM A [ROWS 3 SLIDE 2] GROUP BY k")
    db.run()
    found = db.changes("V").to_pylist()
    assert found and all(r["t"] == r["s"] for r in found)


def test_a_value_on_which_add_fails_is_left_out_where_rows_never_leave(db):
    def add(seen, value):
        seen.append(value)  # fails half-way
        return [1 / value, *seen] if value != 4 else seen

    db.create_aggregate("listed", zero=[], add=add, combine=lambda a, b: a + b, finish=lambda a: sorted(a)[-1])
    db.execute("CREATE STREAMED VIEW V AS SELECT k, listed(x) AS t, count(*) AS n FROM A GROUP BY k")
    db.run()
    changes = [(r["TAG"], r["TS"], r["k"], r["t"], r["n"]) for r in db.changes("V").to_pylist()]
    assert changes == [
        ("+", 1, "a", 1.0, 1),
        ("u", 2, "a", 4.0, 2),
        ("+", 3, "b", None, 1),
        ("u", 4, "b", 9.0, 2),
        ("u", 6, "a", 4.0, 3),
        ("u", 7, "a", 4.0, 4),
        ("u", 11, "b", 9.0, 3),
    ]
    letters = db.query("SELECT reason, raw FROM dead_letters").to_pylist()
    assert letters == [{"reason": "ZeroDivisionError: float division by zero", "raw": '{"k": "b", "value": 0.0}'}]


def test_a_group_whose_finish_fails_has_no_row_until_it_does_not(db):
    db.create_aggregate(
        "inverse",
        zero=0,
        add=lambda a, v: a + v,
        combine=lambda a, b: a + b,
        finish=lambda a: 36 / (a - 5),
        accepts="BIGINT",
    )
    db.execute("CREATE STREAMED VIEW V AS SELECT inverse(x) AS i FROM A WHERE k = 'a'")
    db.run()
    changes = [(r["TAG"], r["TS"], r["i"]) for r in db.changes("V").to_pylist()]
    assert changes == [("+", 1, -9.0), ("-", 2, -9.0), ("+", 6, 18.0)]
    assert db.query("SELECT reason FROM dead_letters").to_pylist() == [
        {"reason": "ZeroDivisionError: division by zero"}
    ]


def test_an_answer_without_keys_begins_when_finish_does_not_fail(db):
    db.create_aggregate(
        "inverse",
        zero=0,
        add=lambda a, v: a + v,
        combine=lambda a, b: a + b,
        finish=lambda a: 36 / (a - 1),
        accepts="BIGINT",
    )
    db.execute("CREATE STREAMED VIEW V AS SELECT inverse(x) AS i FROM A WHERE k = 'a'")
    db.run()
    changes = [(r["TAG"], r["TS"], r["i"]) for r in db.changes("V").to_pylist()]
    assert changes[:1] == [("+", 2, 9.0)] and all(i is not None for _, _, i in changes)


def test_a_reopened_database_knows_them(tmp_path, db):
    geomean(db)
    db.execute("CREATE VIEW V AS SELECT k, geomean(x) AS g FROM A [RANGE 5] WHERE x > 0 GROUP BY k")
    db.close()
    with opened(tmp_path) as again:
        assert again.execute("SHOW AGGREGATES").column("name").to_pylist() == ["geomean"]
        again.execute("CREATE VIEW W AS SELECT geomean(x) AS g FROM A [RANGE 100 SLIDE 5] WHERE x > 0")
        again.run()
        assert [(r["k"], round(r["g"], 6)) for r in rows_of(again)] == [("a", 2.0)]
        assert rows_of(again, "W")[0]["g"] == pytest.approx((1 * 4 * 9 * 2) ** 0.25)


def test_it_stays_while_a_view_uses_it(db):
    geomean(db)
    db.execute("CREATE VIEW V AS SELECT k, geomean(x) AS g FROM A [RANGE 5] GROUP BY k")
    for drop in (
        lambda: db.drop_aggregate("geomean"),
        lambda: db.execute("DROP AGGREGATE geomean"),
        lambda: db.create_aggregate("geomean", zero=0, add=max, combine=max, or_replace=True),
    ):
        with pytest.raises(CatalogProblem, match="TM306"):
            drop()
    db.execute("DROP VIEW V; DROP AGGREGATE geomean")
    assert db.execute("SHOW AGGREGATES").num_rows == 0
    with pytest.raises(PlanProblem, match="TM207"):
        db.execute("CREATE VIEW V AS SELECT k, geomean(x) AS g FROM A [RANGE 5] GROUP BY k")


def test_another_definition_of_the_same_name_begins_afresh(db):
    db.create_aggregate("pick", zero=0, add=max, combine=max)
    db.execute("CREATE VIEW V AS SELECT pick(x) AS p FROM A [RANGE 100 SLIDE 5]")
    db.execute("DROP VIEW V")
    db.create_aggregate("pick", zero=99, add=min, combine=min, or_replace=True)
    db.execute("CREATE VIEW V AS SELECT pick(x) AS p FROM A [RANGE 100 SLIDE 5]")
    db.run()
    assert rows_of(db) == [{"p": 0.0}]


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"zero": 0, "add": lambda a: a, "combine": max}, "add does not take 2 arguments"),
        ({"zero": 0, "add": max, "combine": lambda: 0}, "combine does not take 2 arguments"),
        ({"zero": 0, "add": max, "combine": max, "finish": lambda a, b: a}, "finish does not take 1 argument"),
        ({"zero": 0, "add": max, "combine": 3}, "combine is no function"),
        ({"zero": 0, "add": max}, "combine is missing"),
        ({"zero": 0, "add": max, "combine": max, "merge": max}, '"merge" is no part'),
        ({"zero": 0, "add": max, "combine": max, "returns": "NUMBRE"}, "is no type"),
        ({"zero": threading.Lock, "add": max, "combine": max}, "cannot be pickled"),
    ],
)
def test_a_bad_definition_is_refused(db, parts, says):
    with pytest.raises(PlanProblem) as caught:
        db.create_aggregate("mine", **parts)
    assert caught.value.code == "TM221" and says in str(caught.value) and caught.value.hint
    assert db.execute("SHOW AGGREGATES").num_rows == 0


@pytest.mark.parametrize("name", ["sum", "median", "upper", "A"])
def test_a_taken_name_is_refused(db, name):
    with pytest.raises(CatalogProblem, match="TM302"):
        db.create_aggregate(name, zero=0, add=max, combine=max)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT k, total(x) AS t FROM K SYNC EVERY 2 GROUP BY k", "TM220"),
        ("SELECT a.k, total(b.x) AS t FROM A [WINDOW 3] a JOIN A [WINDOW 3] b ON a.k = b.k GROUP BY a.k", "TM220"),
        ("SELECT k, total(*) AS t FROM A [RANGE 5] GROUP BY k", "TM206"),
        ("SELECT k, total(x, x) AS t FROM A [RANGE 5] GROUP BY k", "TM206"),
        ("SELECT k, total(DISTINCT x) AS t FROM A [RANGE 5] GROUP BY k", "TM206"),
        ("SELECT k FROM A [RANGE 5] WHERE total(x) > 1 GROUP BY k", "TM206"),
        ("SELECT k FROM total GROUP BY k", "TM301"),
    ],
)
def test_where_it_cannot_be_maintained_it_is_refused(db, text, code):
    db.create_aggregate("total", zero=0, add=lambda a, v: a + v, combine=lambda a, b: a + b)
    db.execute("CREATE TAGGED STREAM K OVER S KEY k")
    with pytest.raises((PlanProblem, CatalogProblem), match=code) as caught:
        db.execute(f"CREATE VIEW V AS {text}")
    assert caught.value.hint


def test_the_fingerprint_of_a_user_aggregate_names_the_class_as_older_versions_did():
    node = _text(UserAggregate("total", "x", "INTEGER", "t", "BIGINT", body="gA=="))
    assert node.startswith('["CustomAggregate", ["total", "x"')
