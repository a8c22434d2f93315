"""`*` with a pattern stands for the columns whose names match, exactly those that DuckDB shows."""

from __future__ import annotations

import duckdb
import pytest

from tests.harness import LocalDatabase
from tidemill.errors import TidemillError

TABLES = (
    "CREATE TABLE t (Col1 INTEGER, col2 INTEGER, other INTEGER, col_x INTEGER)",
    "CREATE TABLE u (col2 INTEGER, col3 INTEGER)",
)


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    place = tmp_path_factory.mktemp("stars")
    (place / "t.csv").write_text("Col1,col2,other,col_x\n1,2,3,4\n5,6,7,8\n")
    (place / "u.csv").write_text("col2,col3\n2,9\n6,8\n")
    with LocalDatabase(str(place / "db")) as found:
        found.execute(
            f"REGISTER TABLE t (Col1 INTEGER, col2 INTEGER, other INTEGER, col_x INTEGER)"
            f" FROM FILES '{place}/t.csv'; REGISTER TABLE u (col2 INTEGER, col3 INTEGER)"
            f" FROM FILES '{place}/u.csv'"
        )
        yield found


@pytest.fixture(scope="module")
def duck():
    with duckdb.connect(":memory:") as found:
        for text in TABLES:
            found.execute(text)
        found.execute("INSERT INTO t VALUES (1, 2, 3, 4), (5, 6, 7, 8)")
        found.execute("INSERT INTO u VALUES (2, 9), (6, 8)")
        yield found


ALIKE = [
    "SELECT * LIKE 'col%' FROM t",
    "SELECT * ILIKE 'col%' FROM t",
    "SELECT * NOT LIKE 'col%' FROM t",
    "SELECT * NOT ILIKE 'col%' FROM t",
    "SELECT t.* LIKE 'col%' FROM t",
    "SELECT t.* ILIKE 'COL%' FROM t",
    "SELECT * SIMILAR TO 'c.*' FROM t",
    "SELECT * GLOB 'c*' FROM t",
    "SELECT * LIKE 'col!_%' ESCAPE '!' FROM t",
    "SELECT * LIKE 'col%', other FROM t",
    "SELECT other, * ILIKE '%1' FROM t WHERE col2 > 2",
    "SELECT * LIKE 'col%' FROM t JOIN u USING (col2)",
    "SELECT u.* LIKE 'col%', other FROM t JOIN u USING (col2)",
    "SELECT DISTINCT * LIKE '%2' FROM t",
    "SELECT * LIKE 'col%' FROM (SELECT * FROM t) AS q",
    "SELECT * EXCLUDE (other) FROM t",
    "SELECT * EXCLUDE (OTHER, col1) FROM t",
    "SELECT t.* EXCLUDE (other), u.col3 FROM t JOIN u USING (col2)",
    "SELECT * EXCLUDE (col2) FROM t JOIN u USING (col2)",
    "SELECT * EXCLUDE (t.col2) FROM t JOIN u ON t.col2 = u.col2",
    "SELECT * REPLACE (other + 1 AS other) FROM t",
    "SELECT * RENAME (other AS o, col2 AS other) FROM t",
    "SELECT * FROM t NATURAL JOIN u",
    "SELECT col2, col3, other FROM t NATURAL JOIN u",
    "SELECT * FROM t NATURAL LEFT JOIN u",
    "SELECT * FROM t AS x(a, b)",
    "SELECT a, x.b FROM t AS x(a, b) WHERE other > 3",
]


@pytest.mark.parametrize("text", ALIKE)
def test_a_pattern_means_what_duckdb_means(db, duck, text):
    number = ALIKE.index(text)
    db.execute(f"CREATE COMPLETE VIEW v{number} AS {text}")
    db.run()
    expected, found = duck.sql(text), db.query(f"SELECT * FROM v{number}")
    assert found.column_names == expected.columns
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == sorted(expected.fetchall())


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT * LIKE 'zzz%' FROM t", "TM201"),
        ("SELECT * LIKE other FROM t", "TM202"),
        ("SELECT * LIKE 'c' || '%' FROM t", "TM202"),
        ("SELECT * LIKE NULL FROM t", "TM202"),
        ("SELECT (* LIKE 'col%') + 1 FROM t", "TM201"),
        ("SELECT (* LIKE 'col%') AS x FROM t", "TM201"),
        ("SELECT * LIKE 'col%' AS x FROM t", "TM201"),
        ("SELECT COUNT(* LIKE 'col%') FROM t", "TM201"),
        ("SELECT upper(*) FROM t", "TM201"),
        ("SELECT * LIKE 'col%', COUNT(*) FROM t GROUP BY col2", "TM201"),
        ("SELECT * EXCLUDE (nothing) FROM t", "TM201"),
        ("SELECT * EXCLUDE (col2, col3) FROM u", "TM202"),
        ("SELECT * REPLACE (1 AS nothing) FROM t", "TM201"),
        ("SELECT * RENAME (nothing AS o) FROM t", "TM201"),
        ("SELECT x.* FROM t AS x(a, b, c, d, e)", "TM201"),
        ("WITH x(a, b, c) AS (SELECT * FROM u) SELECT * FROM x", "TM201"),
        ("SELECT other FROM t NATURAL JOIN (SELECT col3 FROM u) AS q", "TM201"),
        ("SELECT other, GROUPING(col2) FROM t GROUP BY ROLLUP (other)", "TM206"),
        ("SELECT 1 FROM t GROUP BY CUBE (col2, other, col_x), CUBE (1 + col1, 2 + col1, 3 + col1, 4 + col1)", "TM206"),
        ("SELECT COLUMNS('col.*') FROM t", "TM207"),
        ("SELECT COLUMNS(*) FROM t", "TM207"),
        ("SELECT *COLUMNS('col.*') FROM t", "TM207"),
        ("SELECT min(COLUMNS(*)) FROM t", "TM207"),
        ("SELECT * SIMILAR TO '(' FROM t", "TM202"),
        ("SELECT * LIKE 'col!' ESCAPE '!' FROM t", "TM202"),
        ("SELECT * LIKE 'col%' ESCAPE 'ab' FROM t", "TM202"),
        ("SELECT t.* SIMILAR TO '[a' FROM t", "TM202"),
        ("SELECT x.* LIKE 'c%' FROM t", "TM201"),
        ("SELECT col2 FROM t WHERE * LIKE 'c%'", "TM201"),
    ],
)
def test_what_a_star_cannot_do_is_refused(db, text, code):
    with pytest.raises(TidemillError) as caught:
        db.execute(f"CREATE COMPLETE VIEW refused AS {text}")
    assert caught.value.code == code and caught.value.hint
