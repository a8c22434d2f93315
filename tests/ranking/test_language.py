"""First rows, ranks and window functions in the spellings of SQL: answers are DuckDB's, the rest is refused."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.language.tables import batch, fill, rows
from tidemill.errors import TidemillError

# Orders are total here, so that DuckDB has one answer too.
QUERIES = {
    "limit": "SELECT id, v FROM S ORDER BY v DESC, id LIMIT 3",
    "offset": "SELECT id FROM S ORDER BY id LIMIT 2 OFFSET 3",
    "offset alone": "SELECT id FROM K ORDER BY id OFFSET 2",
    "limit of a sum": "SELECT id FROM S ORDER BY id LIMIT 1 + 2",
    "limit 0": "SELECT id FROM S ORDER BY id LIMIT 0",
    "limit all": "SELECT id FROM K ORDER BY id LIMIT ALL OFFSET 3",
    "fetch": "SELECT id FROM S ORDER BY id FETCH FIRST 2 ROWS ONLY",
    "by number": "SELECT v, id FROM S ORDER BY 1 NULLS FIRST, 2 DESC LIMIT 4",
    "a column twice": "SELECT v, id FROM S ORDER BY v, id DESC, v DESC LIMIT 4",
    "by alias": "SELECT id, v * 2 AS twice FROM S ORDER BY twice DESC NULLS LAST, id LIMIT 4",
    "by a hidden expression": "SELECT grp FROM S ORDER BY abs(v) DESC, id LIMIT 4",
    "star": "SELECT * FROM L ORDER BY n DESC LIMIT 2",
    "distinct": "SELECT DISTINCT grp FROM S ORDER BY grp NULLS FIRST LIMIT 3",
    "grouped": "SELECT grp, count(*) AS n FROM S GROUP BY grp ORDER BY count(*) DESC, grp LIMIT 2",
    "grouped, hidden": "SELECT grp FROM S GROUP BY grp ORDER BY sum(v) DESC NULLS LAST, grp LIMIT 2",
    "union": "SELECT id FROM S UNION ALL SELECT n FROM T ORDER BY id LIMIT 5",
    "subquery": "SELECT q.id FROM (SELECT id, v FROM S ORDER BY v, id LIMIT 4) q WHERE q.v < 5",
    "common table": "WITH q AS (SELECT id FROM S ORDER BY id DESC LIMIT 3) SELECT id FROM q",
    "joined": "SELECT S.id, T.label FROM S, T WHERE S.grp = T.key ORDER BY T.n DESC, S.id LIMIT 3",
    "distinct on": "SELECT DISTINCT ON (grp) grp, id FROM S ORDER BY grp, id DESC",
    "distinct on an expression": "SELECT DISTINCT ON (v % 2) id, v FROM S ORDER BY id",
    "distinct on, limit": "SELECT DISTINCT ON (grp) grp, id FROM S ORDER BY id DESC LIMIT 2",
    "last of a key": "SELECT grp, v FROM S QUALIFY row_number() OVER (PARTITION BY grp ORDER BY id DESC) = 1",
    "rank": "SELECT id, rank() OVER (ORDER BY v) AS r FROM S [WINDOW UNTIL NOW]",
    "dense rank": "SELECT id, dense_rank() OVER (PARTITION BY grp ORDER BY v DESC) AS r FROM K",
    "qualify by alias": "SELECT id, rank() OVER (PARTITION BY grp ORDER BY v) AS r FROM S QUALIFY r = 1",
    "outer condition": "SELECT id FROM (SELECT id, rank() OVER (ORDER BY v DESC NULLS LAST) AS r FROM S) WHERE r <= 3",
    "outer between": "SELECT id FROM (SELECT id, rank() OVER (ORDER BY id) AS r FROM S) q WHERE q.r BETWEEN 2 AND 4",
    "rank and more": "SELECT id, row_number() OVER (ORDER BY id) AS r, lag(v) OVER (ORDER BY id) AS l FROM K",
    "named window": "SELECT id, lag(id) OVER w AS a, lead(id) OVER w AS b FROM K WINDOW w AS (ORDER BY id)",
    "named, extended": "SELECT id, lag(id) OVER (w ORDER BY id) AS a FROM K WINDOW w AS (PARTITION BY b)",
    "neighbours": "SELECT id, lag(v, 2, -1) OVER (ORDER BY id) AS a, lead(v) OVER (ORDER BY id DESC) AS b FROM K",
    "values": "SELECT id, first_value(v) OVER w AS a, last_value(v) OVER w AS b, nth_value(v, 2) OVER w AS c FROM K"
    " WINDOW w AS (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "frame of groups alone": "SELECT id, count(*) OVER (GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n,"
    " count(*) OVER w AS m FROM K WINDOW w AS (GROUPS 1 PRECEDING)",
    "nulls": "SELECT id, first_value(grp IGNORE NULLS) OVER (ORDER BY id) AS a FROM K",
    "shares": "SELECT id, ntile(3) OVER (ORDER BY id) AS a, percent_rank() OVER (ORDER BY v) AS b,"
    " cume_dist() OVER (ORDER BY v) AS c FROM K",
    "sums": "SELECT id, sum(v) OVER (ORDER BY id) AS a, avg(v) OVER (PARTITION BY b) AS b,"
    " count(*) OVER () AS c FROM K",
    "frames": "SELECT id, sum(v) OVER (ORDER BY id ROWS 1 PRECEDING) AS a,"
    " sum(v) OVER (ORDER BY id RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) AS b,"
    " max(v) OVER (ORDER BY id GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS c FROM K",
    "frame of times": "SELECT id, count(*) OVER (ORDER BY moment RANGE BETWEEN INTERVAL 1 DAY PRECEDING"
    " AND CURRENT ROW) AS n FROM K",
    "filter": "SELECT id, count(*) FILTER (WHERE v > 4) OVER (ORDER BY id) AS n, count(DISTINCT v) OVER () AS m FROM K",
    "collected": "SELECT id, median(v) OVER (ORDER BY id ROWS 2 PRECEDING) AS m FROM K",
    "expressions": "SELECT id, v - lag(v * 2) OVER (PARTITION BY v % 2 ORDER BY -id) + 1 AS rise FROM K",
    "star and a rank": "SELECT *, row_number() OVER (ORDER BY n) AS r FROM L",
    "over groups": "SELECT grp, sum(v) AS s, rank() OVER (ORDER BY sum(v) DESC NULLS LAST) AS r FROM S GROUP BY grp",
    "sum of sums": "SELECT grp, sum(sum(v)) OVER (ORDER BY grp NULLS FIRST) AS s FROM S GROUP BY grp"
    " HAVING count(*) > 1",
    "over groups by alias": "SELECT v % 2 AS p, count(*) AS n, rank() OVER (ORDER BY count(*), v % 2) AS r FROM S"
    " GROUP BY p QUALIFY r < 3",
    "over groups, limited": "SELECT grp, rank() OVER (ORDER BY grp) AS r FROM S GROUP BY grp ORDER BY r DESC LIMIT 2",
    "two orders": "SELECT id, rank() OVER (ORDER BY v) AS a, rank() OVER (ORDER BY id DESC) AS b FROM K QUALIFY a <= 3",
    "text and dates": "SELECT id, min(grp) OVER (ORDER BY day) AS a, lag(day) OVER (ORDER BY moment) AS b FROM K",
    "decimals and doubles": "SELECT id, sum(d) OVER (ORDER BY id) AS a, rank() OVER (ORDER BY f DESC) AS b FROM K",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """(database after all rows, DuckDB with the same rows)."""
    folder = tmp_path_factory.mktemp("ranking")
    with LocalDatabase(str(folder / "db"), shards=2) as db:
        fill(db, folder)
        for i, text in enumerate(QUERIES.values()):
            db.execute(f"CREATE VIEW V{i} AS {text}")
        for source in ("S", "K", "L"):
            db.execute(f"CREATE VIEW All{source} AS SELECT * FROM {source}")
        db.run()
        with batch(folder) as duck:
            yield db, duck


@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_those_of_duckdb(answers, name):
    db, duck = answers
    found = db.query(f"SELECT * FROM V{list(QUERIES).index(name)}")
    expected = duck.sql(QUERIES[name].replace("[WINDOW UNTIL NOW]", "")).to_arrow_table()
    assert found.num_rows or "limit 0" in name
    assert rows(found) == rows(expected)


# A view of all rows has other columns than its stream.
AD_HOC = [name for name, text in QUERIES.items() if "S, T" not in text and "SELECT *" not in text]


@pytest.mark.parametrize("name", AD_HOC)
def test_ad_hoc_queries_have_the_same_language(answers, name):
    db, duck = answers
    text = QUERIES[name].replace("[WINDOW UNTIL NOW]", "")
    for source in ("S", "K", "L"):
        text = text.replace(f" FROM {source}", f" FROM All{source} AS {source}")
    assert rows(db.query(text)) == rows(duck.sql(QUERIES[name].replace("[WINDOW UNTIL NOW]", "")).to_arrow_table())


REFUSED = [
    ("SELECT id FROM S ORDER BY id", "TM208", "ORDER has no meaning", "add LIMIT"),
    ("SELECT id FROM S ORDER BY id LIMIT v", "TM245", "LIMIT must be a constant", "LIMIT 10"),
    ("SELECT id FROM S ORDER BY id LIMIT -1", "TM245", "not negative", "LIMIT 10"),
    ("SELECT id FROM S ORDER BY id LIMIT 'three'", "TM245", "constant", ""),
    ("SELECT id FROM S ORDER BY id LIMIT 2 OFFSET -2", "TM245", "OFFSET must be a constant", "OFFSET 10"),
    ("SELECT id FROM S ORDER BY id LIMIT 10 PERCENT", "TM245", "share", "QUALIFY"),
    ("SELECT id FROM S ORDER BY nothing LIMIT 2", "TM201", 'no column "nothing"', ""),
    ("SELECT id FROM S ORDER BY 7 LIMIT 2", "TM201", "no such column in the answer", "counted from 1"),
    ("SELECT id FROM S UNION SELECT n FROM T ORDER BY v LIMIT 2", "TM201", "no such column", "the columns are id"),
    ("SELECT id FROM S ORDER BY grp COLLATE NOCASE LIMIT 2", "TM202", "an order is one of columns", "lower(name)"),
    ("SELECT DISTINCT grp FROM S ORDER BY id LIMIT 2", "TM202", "with DISTINCT", "GROUP BY"),
    ("SELECT grp FROM S GROUP BY grp ORDER BY v LIMIT 2", "TM206", "grouped or inside an aggregate", ""),
    ("SELECT id, rank() OVER (ORDER BY v) AS r FROM S", "TM204", 'over stream "S" would keep state for ever', "WINDOW"),
    ("SELECT id, lag(v) OVER (ORDER BY id) AS l FROM S", "TM204", "state for ever", "unbounded_state"),
    ("SELECT id FROM S WHERE rank() OVER (ORDER BY v) = 1", "TM246", "not possible in WHERE", "QUALIFY"),
    ("SELECT grp FROM S GROUP BY grp HAVING rank() OVER (ORDER BY grp) = 1", "TM246", "in HAVING", "QUALIFY"),
    ("SELECT id FROM K QUALIFY id = 1", "TM246", "QUALIFY needs a window function", "WHERE"),
    ("SELECT rank() OVER (ORDER BY lag(v) OVER ()) AS r FROM K", "TM246", "inside another", "subquery"),
    ("SELECT rank() OVER w AS r FROM K", "TM201", 'no window named "w"', "WINDOW w AS"),
    ("SELECT reservoir_quantile(v, 0.5) OVER () AS m FROM K", "TM207", '"reservoir_quantile"', ""),
    ("SELECT sum(v) OVER (ORDER BY id ROWS v PRECEDING) AS s FROM K", "TM246", "constants", "ROWS BETWEEN"),
    ("SELECT sum(v) OVER (ORDER BY id ROWS -1 PRECEDING) AS s FROM K", "TM246", "not negative", "ROWS BETWEEN"),
    (
        "SELECT sum(v) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND CURRENT ROW) AS s FROM K",
        "TM246",
        "holds no rows",
        "ROWS BETWEEN",
    ),
    ("SELECT sum(v) OVER (ORDER BY grp RANGE 1 PRECEDING) AS s FROM K", "TM203", "VARCHAR", ""),
    ("SELECT sum(v) OVER (RANGE 1 PRECEDING) AS s FROM K", "TM203", "RANGE", ""),
    ("SELECT rank(v) OVER (ORDER BY id) AS r FROM K", "TM246", "rank takes no argument", ""),
    ("SELECT lag(v) FILTER (WHERE v > 1) OVER (ORDER BY id) AS r FROM K", "TM246", "lag has no FILTER", ""),
    ("SELECT sum(v) IGNORE NULLS OVER (ORDER BY id) AS r FROM K", "TM246", "does not skip NULLs", ""),
    ("SELECT sum(grp) OVER (ORDER BY id) AS r FROM K", "TM203", "sum(VARCHAR)", ""),
    ("SELECT rank() OVER (ORDER BY grp COLLATE NOCASE) AS r FROM K", "TM246", "order of a window", "lower(name)"),
    ("SELECT * FROM (SELECT sum(v) OVER (ORDER BY nothing) AS s FROM K) q", "TM201", "nothing", ""),
]


@pytest.mark.parametrize(("text", "code", "message", "hint"), REFUSED, ids=[r[0] for r in REFUSED])
def test_what_is_not_possible_is_refused(answers, text, code, message, hint):
    db, _ = answers
    with pytest.raises(TidemillError) as caught:
        db.execute(f"CREATE VIEW Wrong AS {text}")
    error = caught.value
    assert (error.code, error.line) == (code, 1), error
    assert message in str(error) and error.hint and hint in error.hint, error
