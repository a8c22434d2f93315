"""What a name in an ad hoc query means: by the scopes of SQL, and never anything outside of the catalog."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.adhoc.conftest import SECRET
from tests.places import ROOT
from tests.properties.effort import effort
from tidemill.errors import TidemillError

ATTACKS = """
WITH "{file}" AS (SELECT * FROM "{file}") SELECT * FROM "{file}"
WITH RECURSIVE "{file}" AS (SELECT * FROM "{file}") SELECT * FROM "{file}"
SELECT * FROM "{file}"
SELECT * FROM '{file}'
FROM '{file}'
SELECT * FROM read_csv('{file}')
SELECT * FROM read_text('{file}')
SELECT * FROM glob('{file}')
SELECT content FROM read_blob('{file}')
SELECT * FROM query('SELECT * FROM ''{file}''')
SELECT * FROM query_table('{file}')
SELECT getenv('SECRET_WORD')
SELECT system.main.getenv('SECRET_WORD')
SELECT 'SECRET_WORD'.getenv()
SELECT current_setting('temp_directory')
SELECT * FROM ByRoom WHERE EXISTS (SELECT * FROM "{file}")
SELECT (SELECT max(word) FROM "{file}")
SELECT * FROM ByRoom JOIN (SELECT * FROM "{file}") x ON true
SELECT * FROM ByRoom, LATERAL (SELECT * FROM "{file}") x
SELECT n FROM ByRoom UNION ALL SELECT word FROM "{file}"
SELECT n FROM ByRoom ORDER BY (SELECT max(word) FROM "{file}")
SELECT n IN (SELECT word FROM "{file}") FROM ByRoom
SELECT n IN "{file}" FROM ByRoom
SELECT * FROM (WITH a AS (SELECT * FROM "{file}") SELECT * FROM a) b
WITH a AS (SELECT 1 AS x), b AS (SELECT * FROM "{file}") SELECT * FROM b
WITH a AS (WITH "{file}" AS (SELECT 1 AS x) SELECT * FROM "{file}") SELECT * FROM "{file}"
SELECT * FROM __meta
SELECT * FROM "__meta"
WITH __meta AS (SELECT * FROM __meta) SELECT * FROM __meta
SELECT * FROM __sealed_files
SELECT * FROM duckdb_tables
SELECT * FROM duckdb_tables()
WITH duckdb_tables AS (SELECT * FROM duckdb_tables) SELECT * FROM duckdb_tables
SELECT * FROM duckdb_secrets()
SELECT * FROM sqlite_master
WITH sqlite_master AS (SELECT * FROM sqlite_master) SELECT * FROM sqlite_master
SELECT * FROM information_schema.tables
SELECT * FROM pg_catalog.pg_tables
SELECT * FROM pg_tables
SELECT * FROM main.__meta
SELECT * FROM views.main.__meta
SELECT * FROM "contents v1"
WITH "contents v1" AS (SELECT * FROM "contents v1") SELECT * FROM "contents v1"
SELECT * FROM SECRET_TABLE
WITH SECRET_TABLE AS (SELECT * FROM SECRET_TABLE) SELECT * FROM SECRET_TABLE
SELECT * FROM ByRoom PIVOT (sum(n) FOR room IN (1, 2))
PIVOT "{file}" ON word
SUMMARIZE "{file}"
DESCRIBE "{file}"
SHOW TABLES FROM "{file}"
COPY (SELECT 1) TO '{file}'
COPY ByRoom FROM '{file}'
ATTACH '{file}' AS x
PRAGMA database_list
INSTALL httpfs
LOAD httpfs
SET enable_external_access = true
SELECT 1; SELECT * FROM '{file}'
SELECT * FROM ByRoom INTO OUTFILE '{file}'
VALUES ((SELECT word FROM '{file}'))
TABLE "{file}"
EXPLAIN ANALYZE SELECT * FROM '{file}'
CREATE VIEW Leak AS SELECT * FROM "{file}"
CREATE VIEW Leak AS SELECT * FROM read_csv('{file}')
CREATE VIEW Leak AS WITH "{file}" AS (SELECT * FROM "{file}") SELECT * FROM "{file}"
CREATE VIEW Leak AS SELECT * FROM __meta
CREATE VIEW Leak AS SELECT room, (SELECT max(word) FROM "{file}") AS w FROM T
CREATE VIEW Leak AS SELECT room FROM T WHERE room IN (SELECT word FROM "{file}")
CREATE VIEW Leak AS SELECT room, getenv('SECRET_WORD') AS w FROM T
CREATE VIEW Leak AS SELECT room, read_text('{file}') AS w FROM T
CREATE VIEW Leak AS SELECT room, 'SECRET_WORD'.getenv() AS w FROM T
CREATE VIEW Leak AS SELECT room, system.main.getenv('SECRET_WORD') AS w FROM T
CREATE VIEW Leak AS SELECT room, query('SELECT 1') AS w FROM T
CREATE VIEW Leak AS SELECT * FROM query_table('{file}')
CREATE VIEW Leak AS SELECT * FROM duckdb_tables()
SELECT STREAMED * FROM "{file}"
SELECT unnest((SELECT list(word) FROM "{file}"))
SELECT * FROM (VALUES ((SELECT max(word) FROM "{file}"))) v(x)
SELECT * REPLACE ((SELECT max(word) FROM "{file}") AS n) FROM ByRoom
SELECT * EXCLUDE (n), (FROM "{file}" SELECT max(word)) AS w FROM ByRoom
SELECT list_transform([1], lambda x: (SELECT max(word) FROM "{file}")) AS l
SELECT row_number() OVER w FROM ByRoom WINDOW w AS (ORDER BY (SELECT max(word) FROM "{file}"))
SELECT count(*) FILTER (WHERE EXISTS (SELECT * FROM "{file}")) AS n FROM ByRoom
SELECT n FROM ByRoom LIMIT (SELECT count(*) FROM "{file}")
SELECT n = ANY (SELECT word FROM "{file}") AS b FROM ByRoom
SELECT * FROM ByRoom POSITIONAL JOIN "{file}"
SELECT * FROM ByRoom ASOF JOIN "{file}" f ON ByRoom.n >= f.word
SELECT * FROM "{file}" AS ByRoom(room, n)
SELECT * FROM generate_series(1, (SELECT count(*) FROM '{file}'))
WITH RECURSIVE a(x) USING KEY (x) AS (SELECT 1 UNION SELECT word FROM a, "{file}") SELECT * FROM a
SELECT * FROM json_each((SELECT content FROM read_text('{file}')))
SELECT * FROM "input 0"
SELECT * FROM memory.main."input 0"
SELECT * FROM (SUMMARIZE "{file}")
CREATE VIRTUAL VIEW Leak AS WITH "{file}" AS (SELECT * FROM "{file}") SELECT * FROM "{file}"
CREATE VIEW Leak AS SELECT room, list_transform([1], lambda x: getenv('SECRET_WORD')) AS w FROM T
CREATE VIEW Leak AS SELECT room, x FROM T, UNNEST((SELECT list(word) FROM "{file}")) u(x)
CREATE VIEW Leak AS SELECT * FROM (VALUES (getenv('SECRET_WORD'))) v(x)
SUBSCRIBE "{file}"
EXPLAIN SELECT * FROM "{file}"
""".strip().splitlines()

SECRET_TABLE = [{"word": SECRET}]  # a Python variable that DuckDB would find by its name


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_refused(attack, db, secret, monkeypatch):
    """The attack is the name of the case: nothing of a file, an internal table or this process comes back."""
    monkeypatch.setenv("SECRET_WORD", SECRET)
    with pytest.raises(TidemillError) as refused:
        print(db.execute(attack.format(file=secret)))
    assert SECRET not in str(refused.value)


NAMES = {
    "WITH ByRoom AS (SELECT 1 AS x) SELECT * FROM ByRoom": [{"x": 1}],
    "WITH byroom AS (SELECT count(*) AS x FROM ByRoom) SELECT * FROM BYROOM": [{"x": 9}],
    'WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS x FROM a) SELECT * FROM "B"': [{"x": 2}],
    "WITH RECURSIVE ByRoom AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM ByRoom WHERE x < 3) SELECT sum(x) AS s "
    "FROM ByRoom": [{"s": 6}],
    "WITH RECURSIVE ByRoom AS (SELECT count(*) AS x FROM ByRoom) SELECT * FROM ByRoom": [{"x": 9}],
    "SELECT (WITH Log AS (SELECT 5 AS x) SELECT x FROM Log) AS a, (SELECT count(*) FROM Log) AS b": [
        {"a": 5, "b": 200}
    ],
    "SELECT count(*) AS c FROM ByRoom AS b(x, y, z) WHERE z > 0 AND x = 1": [{"c": 1}],
    "SELECT count(*) AS c FROM ByRoom, Log WHERE ByRoom.room = Log.room": [{"c": 200}],
    "SELECT count(*) AS c FROM ByRoom b WHERE n = (SELECT count(*) FROM Log l WHERE l.room = b.room)": [{"c": 9}],
    "SELECT count(*) AS c FROM Log NATURAL JOIN ByRoom": [{"c": 200}],
    "SELECT count(*) AS c FROM (ByRoom JOIN Log USING (room))": [{"c": 200}],
    'WITH "input 0" AS (SELECT 7 AS x) SELECT x, (SELECT count(*) FROM ByRoom) AS n FROM "input 0"': [{"x": 7, "n": 9}],
    "SELECT ByRoom.n > 0 AS b FROM ByRoom WHERE ByRoom.room = 1 UNION SELECT true": [{"b": True}],
    "SELECT count(b) AS c FROM ByRoom b": [{"c": 9}],
    "SELECT count(*) AS c FROM dead_letters": [{"c": 0}],
    "SELECT 1 AS one": [{"one": 1}],
}


@pytest.mark.parametrize("text", NAMES)
def test_a_name_means_what_its_scope_says(text, db):
    assert db.query(text).to_pylist() == NAMES[text]


def test_a_streamed_view_has_no_answer(db):
    with pytest.raises(TidemillError, match="TM215"):
        db.query("WITH Flow AS (SELECT * FROM Flow) SELECT * FROM Flow")


NAME = st.sampled_from(
    [
        "{file}",
        "__meta",
        "sqlite_master",
        "duckdb_tables",
        "SECRET_TABLE",
        "contents v1",
        "information_schema.tables",
        "ByRoom",
        "a",
        "b",
    ]
)


def spelled(name: str) -> str:
    return f'"{name}"' if any(c in name for c in "/{ ") else name


def places(name: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Queries with a name in every place where a table may stand."""
    table = name.map(spelled) | st.sampled_from(["'{file}'", "read_csv('{file}')", "query_table('{file}')"])
    base = table.map("SELECT * FROM {}".format) | table.map("FROM {}".format)

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        two = st.tuples(inner, table)
        return st.one_of(
            st.tuples(name.map(spelled), inner, inner).map(lambda t: f"WITH {t[0]} AS ({t[1]}) {t[2]}"),
            st.tuples(name.map(spelled), inner, inner).map(lambda t: f"WITH RECURSIVE {t[0]} AS ({t[1]}) {t[2]}"),
            st.tuples(name.map(spelled), inner, inner).map(
                lambda t: f"WITH RECURSIVE {t[0]} AS (SELECT '1' AS word UNION {t[1]}) {t[2]}"
            ),
            inner.map("SELECT * FROM ({}) x".format),
            two.map(lambda t: f"SELECT * FROM ({t[0]}) x, {t[1]} y"),
            two.map(lambda t: f"SELECT x.* FROM {t[1]} x WHERE EXISTS ({t[0]})"),
            two.map(lambda t: f"SELECT x.* FROM {t[1]} x WHERE 1 IN (SELECT 1 FROM ({t[0]}) y)"),
            two.map(lambda t: f"SELECT ({t[0]} LIMIT 1) AS s FROM {t[1]} x"),
            two.map(lambda t: f"SELECT max(z) FROM ({t[0]}) AS x(z) LEFT JOIN {t[1]} y ON true"),
            st.tuples(inner, inner).map(lambda t: f"({t[0]}) UNION ALL ({t[1]})"),
            inner.map(lambda q: f"SELECT 1 AS o ORDER BY ({q})"),
        )

    return st.recursive(base, larger, max_leaves=4)


@effort(150)
@given(text=places(NAME))
def test_no_query_shows_what_is_outside_of_the_catalog(text, db, secret):
    os.environ["SECRET_WORD"] = SECRET
    try:
        answer = str(db.query(text.format(file=secret)).to_pylist())
    except TidemillError as error:
        answer = str(error)
    finally:
        del os.environ["SECRET_WORD"]
    assert SECRET not in answer and "contents v" not in answer.replace('"contents v1"', "")


def test_every_function_that_the_reference_lists_for_ad_hoc_queries_works(db):
    """SELECT any_value(n) FROM ByRoom: documented, and refused as "ignorenulls"."""
    page = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    listed = page.partition("Ad hoc queries also have window functions (")[2].partition("Views have no")[0]
    windowed, _, others = listed.partition("more aggregates")
    calls = {
        "row_number": "",
        "rank": "",
        "dense_rank": "",
        "percent_rank": "",
        "cume_dist": "",
        "nth_value": "n, 1",
        "ntile": "3",
        "quantile": "n, 0.5",
        "string_agg": "n, ','",
        "arg_max": "n, room",
        "arg_min": "n, room",
    }
    names = [(name, " OVER (ORDER BY n)") for name in re.findall(r"`(\w+)`", windowed)]
    names += [(name, "") for name in re.findall(r"`(\w+)`", others)]
    assert len(names) > 15 and ("any_value", "") in names
    for name, over in names:
        assert db.query(f"SELECT {name}({calls.get(name, 'n')}){over} AS x FROM ByRoom").num_rows


VALUE = st.sampled_from(["5", "-1", "70.5", "'5'", "99999999999999999999", "temp", "(3, 4)", "1e400"])
CONDITION = st.builds(
    "{}{} {} {}".format,
    st.sampled_from(["", "Log.", "ROOM.", "x."]),
    st.sampled_from(["room", "Room", "temp", "word", "n"]),
    st.sampled_from(["=", "<", ">=", "<>", "IN"]),
    VALUE,
)


@effort(60)
@given(
    conditions=st.lists(CONDITION, min_size=1, max_size=3),
    glue=st.sampled_from([" AND ", " OR "]),
    columns=st.sampled_from(["*", "count(*) AS n", "room + 1 AS room", "temp AS word, room AS temp"]),
)
def test_rows_that_are_left_out_early_are_those_that_the_query_leaves_out(conditions, glue, columns, db):
    """The same with a subquery, which nothing reaches into."""

    def ask(text):
        try:
            return sorted(map(str, db.query(text).to_pylist()))
        except TidemillError as error:
            return error.code

    where = f"WHERE {glue.join(conditions)}"
    assert ask(f"SELECT {columns} FROM Log {where}") == ask(f"SELECT {columns} FROM (SELECT * FROM Log) AS Log {where}")


def test_two_tables_have_their_own_rows(db, place):
    """Both were read with one list of files: the second had the rows of the first as well, or could not be read."""
    for name in ("t", "u"):
        (place / f"{name}.csv").write_text(f"k,v\n{name},1\n")
        db.execute(f"REGISTER TABLE Tab_{name} (k VARCHAR, v INTEGER) FROM FILES '{place}/{name}.csv'")
    found = db.query("SELECT a.k AS a, b.k AS b FROM Tab_t AS a, Tab_u AS b, Tab_t AS c").to_pylist()
    assert found == [{"a": "t", "b": "u"}]
