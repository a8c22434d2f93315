"""Views that seem to contain a query and do not: the log is the same with and without matching; near cases match."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness import LocalDatabase
from tests.properties.trial import contents_of, log_of
from tidemill.errors import CatalogProblem, PlanProblem
from tidemill.optimize.optimizer import optimize, younger_rules
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.sql.parse.statements import parse_one

SETUP = """
REGISTER SOURCE S (k INTEGER, v INTEGER, x DOUBLE, s VARCHAR, t BOOLEAN, b BIGINT, h HUGEINT, d DECIMAL(38,0),
  at DOUBLE) FROM FILES '{0}/a/*.json' WITH (timestamp = 'at', batch_rows = 2);
REGISTER SOURCE W (k INTEGER, v INTEGER, x DOUBLE, s VARCHAR, t BOOLEAN, b BIGINT, h HUGEINT, d DECIMAL(38,0),
  at BIGINT) FROM FILES '{0}/w/*.json' WITH (timestamp = 'at', batch_rows = 2);
REGISTER SOURCE U (k INTEGER, s VARCHAR, at BIGINT) FROM FILES '{0}/k/*.json' WITH (timestamp = 'at', batch_rows = 2);
CREATE TAGGED STREAM A OVER S; CREATE TAGGED STREAM B OVER W; CREATE TAGGED STREAM K OVER U KEY k;
REGISTER TABLE T (k INTEGER, w INTEGER) FROM FILES '{0}/t.csv';
"""
LARGE = "90000000000000000000000000000000000000"
ROWS: tuple[dict[str, Any], ...] = (
    {"k": 1, "v": 5, "x": 1.5, "s": "1", "t": True, "b": 3, "h": LARGE, "d": LARGE},
    {"k": 2, "v": 0, "x": -0.0, "s": "abc", "t": False, "b": (1 << 63) - 1, "h": 4, "d": 5},
    {"k": 1, "v": 7, "x": 0.0, "s": "true", "t": None, "b": 3, "h": LARGE, "d": LARGE},
    {"k": 3, "v": None, "x": 2.5, "s": None, "t": True, "b": 3, "h": 4, "d": 5},
    {"k": 2, "v": 4, "x": 0.0, "s": "no", "t": True, "b": 3, "h": 4, "d": 5},
)
KEYED = ((1, "5"), (1, "abc"), (2, "7"), (1, "9"), (3, "7"))


@pytest.fixture
def folder(tmp_path):
    for name, times in (("a", (0.7, 1.4, 2.1, 3.5, 9.1)), ("w", (1, 2, 3, 4, 9))):
        (tmp_path / name).mkdir()
        lines = (json.dumps({**row, "at": at}) for row, at in zip(ROWS, times, strict=True))
        (tmp_path / name / "1.json").write_text("\n".join(lines) + "\n")
    (tmp_path / "k").mkdir()
    lines = (json.dumps({"k": k, "s": s, "at": at}) for at, (k, s) in enumerate(KEYED, 1))
    (tmp_path / "k" / "1.json").write_text("\n".join(lines) + "\n")
    (tmp_path / "t.csv").write_text("k,w\n1,10\n7,70\n")
    return tmp_path


@pytest.fixture
def db(folder):
    with LocalDatabase(str(folder / "db")) as made:
        made.execute(SETUP.format(folder))
        yield made


# (view, query that it does not contain), (view, query that it contains)
CASES = {
    "a number negated twice": (
        ("SELECT NOT (NOT v) AS b, k FROM B", "SELECT v, k FROM B"),
        ("SELECT NOT (NOT (v > 3)) AS b, k FROM B", "SELECT v > 3 AS b, k FROM B"),
    ),
    "a text as a truth value": (
        ("SELECT k, v, NOT s AS ns FROM B", "SELECT k, v FROM B WHERE k > 0"),
        ("SELECT k, v, NOT t AS ns FROM B", "SELECT k, v FROM B WHERE k > 0"),
    ),
    "a text as a condition": (
        ("SELECT k, v FROM B WHERE s OR k > 0", "SELECT k, v FROM B WHERE k > 0 AND k < 3"),
        ("SELECT k, v FROM B WHERE t OR k > 0", "SELECT k, v FROM B WHERE k > 0 AND k < 3"),
    ),
    "a number that is no time": (
        ("SELECT k, v, make_timestamp(b) AS t FROM B", "SELECT k, v FROM B"),
        ("SELECT k, v, b AS t FROM B", "SELECT k, v FROM B"),
    ),
    "digits that do not fit": (
        ("SELECT k, h FROM B WHERE h > 0.5", "SELECT k, h FROM B WHERE h > 5"),
        ("SELECT k, h FROM B WHERE h > 2", "SELECT k, h FROM B WHERE h > 5"),
    ),
    "decimals that do not fit": (
        ("SELECT k, v, d > 0.5 AS y FROM B", "SELECT k, v FROM B"),
        ("SELECT k, v, v > 0.5 AS y FROM B", "SELECT k, v FROM B"),
    ),
    "a function of equal keys": (
        ("SELECT x, count(*) AS n FROM B GROUP BY x", "SELECT 1/x AS y, count(*) AS n FROM B GROUP BY 1/x"),
        ("SELECT v, count(*) AS n FROM B GROUP BY v", "SELECT v + 1 AS y, count(*) AS n FROM B GROUP BY v + 1"),
    ),
    "a text of equal keys": (
        (
            "SELECT x, count(*) AS n FROM B GROUP BY x",
            "SELECT x, count(*) AS n FROM B WHERE CAST(x AS VARCHAR) = '0.0' GROUP BY x",
        ),
        ("SELECT x, count(*) AS n FROM B GROUP BY x", "SELECT x, count(*) AS n FROM B WHERE x < 2.0 GROUP BY x"),
    ),
    "a sum that overflows": (
        ("SELECT k, v, sum(h) AS s, count(*) AS n FROM B GROUP BY k, v", "SELECT k, count(*) AS n FROM B GROUP BY k"),
        ("SELECT k, v, sum(b) AS s, count(*) AS n FROM B GROUP BY k, v", "SELECT k, count(*) AS n FROM B GROUP BY k"),
    ),
    "rows of a table beside points": (
        (
            "SELECT t.k, t.w, b.v FROM B b RIGHT JOIN T t ON b.k = t.k",
            "SELECT t.k, t.w, b.v FROM B SYNC EVERY 7 AS b RIGHT JOIN T t ON b.k = t.k",
        ),
        (
            "SELECT t.k, t.w, b.v FROM B b JOIN T t ON b.k = t.k",
            "SELECT t.k, t.w, b.v FROM B SYNC EVERY 7 AS b JOIN T t ON b.k = t.k",
        ),
    ),
    "groups of a table beside points": (
        (
            "SELECT k, count(*) AS n FROM (SELECT k FROM B UNION ALL SELECT k FROM T) GROUP BY k",
            "SELECT k, count(*) AS n FROM (SELECT k FROM B SYNC EVERY 2 ROWS UNION ALL SELECT k FROM T) GROUP BY k",
        ),
        ("SELECT k, count(*) AS n FROM B GROUP BY k", "SELECT k, count(*) AS n FROM B SYNC EVERY 2 ROWS GROUP BY k"),
    ),
    "times with fractions": (
        ("SELECT k, v, TS FROM A", "SELECT k, v FROM A [WINDOW 3]"),
        ("SELECT k, v, TS FROM B", "SELECT k, v FROM B [WINDOW 3]"),
    ),
    "the first row of an answer without groups": (
        ("SELECT k, v FROM B SYNC ON P", "SELECT count(*) AS n FROM B SYNC EVERY 6 WHERE v > 100"),
        ("SELECT k, v FROM B SYNC EVERY 2", "SELECT count(*) AS n FROM B SYNC EVERY 6 WHERE v > 100"),
    ),
}
POINTS = "CREATE STREAMED VIEW P AS SELECT C.TimePoint FROM R(clockStr) C WHERE TimePoint % 4 = 1 OR TimePoint % 6 = 0"


def compare(db, view, query):
    """Whether the query is answered from the view; its log must be the same either way."""
    free = " WITH (unbounded_state = true)"
    db.execute(f"SET view_matching = off; {POINTS}; CREATE VIEW V AS {view}{free}; SET view_matching = always")
    db.execute(f"CREATE STREAMED VIEW Q AS {query}{free}; SET view_matching = off")
    db.execute(f"CREATE STREAMED VIEW Plain AS {query}{free}")
    db.run()
    assert log_of(db, "Q") == log_of(db, "Plain")
    assert contents_of(db, "Q") == contents_of(db, "Plain")
    return bool(db.workload.views["q"].answer.parts)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_not_contained_is_not_answered(db, case):
    assert not compare(db, *case[0])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_near_case_is_answered(db, case):
    assert compare(db, *case[1])


def test_a_condition_that_fails_takes_the_old_row_away(db):
    """Whether it is merged into the tagger, stays above it, or is evaluated over a view."""
    query = "SELECT k FROM K WHERE CAST(s AS INTEGER) > 3"
    assert compare(db, "SELECT k, s, CAST(s AS INTEGER) AS i FROM K", query)
    assert [(c.time // 1_000_000, c.tag, c.row) for c in log_of(db, "Plain")] == [
        (1, "+", (1,)),
        (2, "-", (1,)),
        (3, "+", (2,)),
        (4, "+", (1,)),
        (5, "+", (3,)),
    ]


def test_views_of_earlier_versions_keep_their_merged_selections(db):
    statement: Any = parse_one("SELECT k FROM K WHERE CAST(s AS INTEGER) > 3")
    bound = db.workload.bind(statement.query)
    plans = {planning: optimize(bound.node, younger_rules(planning)).node for planning in (1, 2)}
    filters = {planning: any(isinstance(n, r.Filter) for n in walk(node)) for planning, node in plans.items()}
    assert filters == {1: False, 2: True}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT k FROM B",
        "SELECT k FROM B UNION SELECT v FROM B",
        "SELECT k FROM B EXCEPT SELECT v FROM B",
        "SELECT a.k, b.v FROM K SYNC EVERY 2 AS a JOIN B [WINDOW 4] SYNC EVERY 3 AS b ON a.k = b.k",
    ],
)
def test_a_view_of_the_same_text_answers_a_query_with_history(db, query):
    db.execute(f"CREATE VIEW V AS {query}")
    db.run(final=False)
    db.execute(f"CREATE VIEW Past WITH (begin = 'history') AS {query}")
    assert [part.view.name for part in db.workload.views["past"].answer.parts] == ["V"]
    db.run()
    assert contents_of(db, "Past") == contents_of(db, "V")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT q.k, q.TS AS since FROM (SELECT k, v FROM B WHERE v > 3) AS q",
        "SELECT q.k FROM (SELECT k, v FROM B WHERE v > 3) AS q [ROWS 2]",
        "SELECT q.k FROM (SELECT k, v FROM B WHERE v > 3) AS q [WINDOW 4]",
    ],
)
def test_contents_of_a_view_do_not_answer_what_depends_on_when_rows_came(db, query):
    db.execute(f"CREATE VIEW All_ AS SELECT k, v FROM B; CREATE STREAMED VIEW Twin WITH (retain = 9999) AS {query}")
    db.run(final=False)
    db.execute(f"CREATE STREAMED VIEW Past WITH (begin = 'history') AS {query}")
    assert db.workload.views["past"].entry.moment is not None
    db.run()
    assert contents_of(db, "Past") == contents_of(db, "Twin")


def test_a_view_is_not_replaced_by_one_that_only_it_answers(db, folder):
    db.execute("CREATE VIEW Hot AS SELECT k, v FROM B WHERE v > 3")
    db.run(final=False)
    (folder / "w" / "1.json").unlink()
    with pytest.raises(PlanProblem, match="TM223"):
        db.execute("CREATE OR REPLACE VIEW Hot WITH (begin = 'history') AS SELECT k FROM B WHERE v > 4")
    assert sorted(db.query("SELECT k FROM Hot")["k"].to_pylist()) == [1, 1, 2]


# ---- what is kept and said -----------------------------------------------------------------------


def test_a_virtual_view_stays_as_long_as_a_dropped_view_reads_it(db, folder):
    db.execute(
        "SET view_matching = always; CREATE VIRTUAL VIEW X AS SELECT k, v FROM B;"
        "CREATE VIEW V AS SELECT k, v FROM X; CREATE VIEW Q AS SELECT k FROM B WHERE v > 3"
    )
    assert db.workload.views["q"].answer.parts
    db.execute("DROP VIEW V")
    with pytest.raises(CatalogProblem, match="TM306"):
        db.execute("DROP VIEW X")
    with pytest.raises(CatalogProblem, match="TM306") as refused:
        db.execute("CREATE OR REPLACE VIRTUAL VIEW X AS SELECT k FROM B")
    assert "answered from a view that was dropped" in refused.value.detail
    db.close()
    with LocalDatabase(str(folder / "db")) as again:
        again.run()
        assert sorted(again.query("SELECT k FROM Q")["k"].to_pylist()) == [1, 1, 2]
        again.execute("DROP VIEW Q; DROP VIEW X")


def test_an_ad_hoc_query_is_not_answered_from_what_waits_for_its_point(db):
    db.execute("CREATE VIEW Slow AS SELECT k, v FROM B SYNC EVERY 10")
    db.run(final=False)
    with pytest.raises(PlanProblem, match="TM215") as refused:
        db.query("SELECT count(*) AS n FROM B")
    assert "Slow: every 10 s misses some of every change" in refused.value.detail
    db.execute("CREATE VIEW Fast WITH (begin = 'history') AS SELECT k, v FROM B")
    db.run(final=False)
    assert db.query("SELECT count(*) AS n FROM B")["n"].to_pylist() == [5]


def test_a_view_that_keeps_its_changes_for_a_while_is_complete(db):
    db.execute("CREATE VIEW All_ WITH (retain = 100) AS SELECT k, v FROM B")
    db.run(final=False)
    assert db.query("SELECT count(*) AS n FROM B")["n"].to_pylist() == [5]
    db.execute("CREATE VIEW Past WITH (begin = 'history') AS SELECT k FROM B WHERE v > 3")
    assert db.workload.views["past"].answer.parts
    assert "history" in str(db.explain("EXPLAIN VIEW Past"))


def test_explain_says_that_a_view_was_dropped(db):
    db.execute("SET view_matching = always; CREATE VIEW V AS SELECT k, v FROM B")
    db.execute(
        "CREATE VIEW Q AS SELECT k FROM B WHERE v > 3; DROP VIEW V; CREATE VIEW V AS SELECT k FROM B WHERE v < 0"
    )
    assert "answered from V, which was dropped and runs on" in str(db.explain("EXPLAIN VIEW Q"))


def test_settings_show_nothing_internal(db):
    db.execute("CREATE VIEW V AS SELECT k FROM B")
    assert "first_read" not in db.execute("SHOW SETTINGS")["name"].to_pylist()
