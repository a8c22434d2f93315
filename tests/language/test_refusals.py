"""What is not possible is refused before anything changes, with a code, the reason and what to write instead."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.language.tables import fill
from tidemill.errors import TidemillError


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    database = LocalDatabase(str(folder / "db"))
    fill(database, folder)
    database.execute("CREATE STREAMED VIEW Str AS SELECT id, grp FROM S")
    database.execute("CREATE VIEW Comp AS SELECT grp, count(*) AS n FROM S GROUP BY grp")
    database.execute(f"CREATE SINK Out FROM Str TO FILES '{folder}/out'")
    yield database
    database.close()


def refused(db, text: str) -> TidemillError:
    before = db.catalog.to_dict()["entries"]
    with pytest.raises(TidemillError) as caught:
        db.execute(text)
    assert db.catalog.to_dict()["entries"] == before, "a refused statement leaves no trace"
    assert caught.value.hint, "every refusal says what to do"
    return caught.value


QUERIES = [
    # names
    ("SELECT idd FROM S", "TM201", 'there is no column "idd"', "did you mean id?"),
    ("SELECT S.nothing FROM S", "TM201", 'there is no column "nothing"', "columns here: id, grp"),
    ("SELECT id FROM S WHERE grp = JOE", "TM201", 'there is no column "JOE"', "single quotes: 'JOE'"),
    ("SELECT X.id FROM S", "TM201", 'there is no input named "X"', "the inputs here are S"),
    ("SELECT Sx.id FROM S", "TM201", 'there is no input named "Sx"', "did you mean S?"),
    ("SELECT id FROM Sx", "TM301", 'named "Sx"', "did you mean S?"),
    ("SELECT id FROM Raw", "TM212", '"Raw" is a raw source', "CREATE TAGGED STREAM RawStr OVER Raw"),
    ("SELECT id FROM Out", "TM301", 'named "Out"', ""),
    ("SELECT label FROM L, T WHERE L.key = T.key", "TM201", 'column "label" is ambiguous', "write L.label"),
    ("SELECT TS FROM K, L WHERE K.grp = L.key", "TM201", "TS is ambiguous", "write K.TS"),
    ("SELECT A.id FROM K A, K A", "TM201", 'two inputs are named "A"', "another alias"),
    ("SELECT __ts FROM S", "TM201", 'there is no column "__ts"', ""),
    ("SELECT id AS __x FROM S", "TM201", '"__x" is reserved', ""),
    ("SELECT * FROM a.b", "TM301", 'there is no site named "a"', ""),
    ("SELECT * FROM a.b.c", "TM202", "too many parts", "that of a site"),
    ("SELECT S.id FROM S JOIN T USING (nokey)", "TM201", '"nokey" on the left of USING', ""),
    # types
    ("SELECT id FROM S WHERE v", "TM203", "a condition must be true or false, this is INTEGER", "compare"),
    ("SELECT id FROM S WHERE grp + 1 > 2", "TM203", "+(VARCHAR", "DESCRIBE"),
    ("SELECT id FROM S WHERE moment > 5", "TM203", "TIMESTAMP", ""),
    ("SELECT sum(grp) AS s FROM S", "TM203", "sum(VARCHAR)", ""),
    ("SELECT grp FROM S GROUP BY grp HAVING sum(v)", "TM203", "HAVING must be true or false", "compare"),
    ("SELECT id FROM S UNION SELECT id, grp FROM S", "TM218", "1 and 2 columns", "same number"),
    ("SELECT grp FROM S UNION SELECT day FROM S", "TM203", "no common type", "cast"),
    ("SELECT id FROM S - T", "TM218", "9 and 3 columns", "same number"),
    # aggregates
    ("SELECT id FROM S WHERE count(*) > 1", "TM206", "an aggregate function is not possible here", "HAVING"),
    ("SELECT id, count(*) AS n FROM S", "TM206", "grouped or inside an aggregate", "GROUP BY"),
    ("SELECT id, count(*) AS n FROM S GROUP BY grp", "TM206", "grouped or inside an aggregate", "GROUP BY"),
    ("SELECT grp FROM S GROUP BY grp HAVING v > 1", "TM206", "grouped or inside an aggregate", ""),
    ("SELECT * FROM S GROUP BY grp", "TM201", "* is not possible with GROUP BY", "name the grouped columns"),
    ("SELECT sum(count(*)) AS s FROM S GROUP BY grp", "TM206", "not possible here", "a view on a view"),
    ("SELECT grp FROM S GROUP BY count(*)", "TM206", "not possible here", ""),
    ("SELECT grp FROM S GROUP BY 3", "TM201", "GROUP BY 3", "count from 1"),
    ("SELECT count(DISTINCT grp, v) AS n FROM S", "TM206", "takes one column", "concatenate"),
    ("SELECT count(grp, v) AS n FROM S", "TM206", "COUNT takes one column", "COUNT(*)"),
    ("SELECT reservoir_quantile(v, 0.5) AS m FROM S", "TM207", '"reservoir_quantile"', ""),
    # what a changing set has not
    ("SELECT id FROM S ORDER BY id", "TM208", "ORDER has no meaning in a standing query", "ad hoc SELECT"),
    ("SELECT * FROM S TABLESAMPLE 10 PERCENT", "TM202", "sample", "hash(key)"),
    ("SELECT id FROM S USING SAMPLE 1", "TM202", "sample is not possible", "hash(key)"),
    ("SELECT id FROM S FOR UPDATE", "TM202", "locks", ""),
    ("SELECT id INTO x FROM S", "TM202", "into", "CREATE VIEW"),
    ("SELECT id FROM ONLY S", "TM202", "only of table", ""),
    ("SELECT K.id FROM K JOIN T JOIN L ON T.key = L.key ON K.grp = T.key", "TM202", "nested", "behind each join"),
    ("SELECT K.id FROM (K JOIN T ON K.grp = T.key)", "TM202", "in parentheses", "SELECT * FROM"),
    ("SELECT S.id FROM S JOIN K FOR VERSION AS OF S.TS ON S.grp = K.grp", "TM202", "FOR VERSION", "SYSTEM_TIME"),
    ("SELECT list(v IGNORE NULLS) AS l FROM S", "TM206", "IGNORE NULLS in array_agg", "FILTER"),
    # NOW
    ("SELECT NOW AS n FROM S", "TM205", "NOW may only bound a window", "NOW - 5 < TS"),
    ("SELECT id FROM S WHERE NOW > 5", "TM205", "must read one input", ""),
    ("SELECT id FROM S WHERE NOW - 5 < v + NOW", "TM205", "NOW stands on both sides", "keep one"),
    ("SELECT id FROM S WHERE NOW <> TS", "TM205", "compared with <, <=, >, >= or =", ""),
    ("SELECT id FROM S WHERE NOW * 2 > TS", "TM205", "only NOW plus or minus a duration", ""),
    ("SELECT id FROM S WHERE NOW > grp", "TM205", "NOW cannot be compared with a VARCHAR", "TS"),
    ("SELECT id FROM S WHERE NOW - 5 < TS OR v > 1", "TM205", "NOW must be compared", ""),
    ("SELECT S.id FROM S LEFT JOIN T ON S.grp = T.key WHERE NOW - 5 < T.n", "TM205", "optional side", "WINDOW"),
    # joins that would grow for ever
    (
        "SELECT A.id FROM S A, S B WHERE A.id = B.id",
        "TM204",
        'join of stream "S" and stream "S" would keep state',
        "S [WINDOW",
    ),
    ("SELECT A.id FROM S A, L B WHERE A.grp = B.key", "TM204", 'stream "S" and stream "L"', "unbounded_state"),
    ("SELECT A.id FROM S A, S B WHERE A.id = B.id AND A.TS < B.TS", "TM204", "for ever", ""),
    ("SELECT A.id FROM S A, clockStr B WHERE A.id = B.TimePoint", "TM204", "clockStr", ""),
    ("SELECT A.id FROM Str A, Str B WHERE A.id = B.id", "TM204", "for ever", ""),
    ("SELECT A.id FROM S A LEFT JOIN S B ON A.id = B.id", "TM204", "for ever", ""),
    ("SELECT id FROM S RIGHT SEMI JOIN T ON S.grp = T.key", "TM202", "semi joins", ""),
    # windows and synchronization
    ("SELECT id FROM K [ROWS 3]", "TM209", "needs an append-only stream", "[WINDOW 10 MINUTES]"),
    ("SELECT id FROM S SYNC ON Str", "TM210", '"Str" is not a view of time points: it has 2 columns', "SELECT TS"),
    ("SELECT id FROM R(S, Comp)", "TM210", "not a view of time points", ""),
    ("SELECT id FROM S SYNC ON Nobody", "TM301", 'named "Nobody"', ""),
    # outside the language
    ("SELECT frobnicate(id) AS x FROM S", "TM207", '"frobnicate" is not part of the language', "reference"),
    ("SELECT date_format(moment, '%Y') AS x FROM S", "TM207", '"date_format"', "strftime"),
    ("SELECT split_index(grp, ',', 0) AS x FROM S", "TM207", '"split_index"', "split_part"),
    ("SELECT [x + i FOR x, i IN [id] IF x > 3] AS l FROM S", "TM207", "comprehension", "list_transform"),
    ("SELECT COLUMNS('i.*') FROM S", "TM207", '"columns"', "LIKE"),
    ("SELECT random() AS x FROM S", "TM207", "not part of the language", ""),
    ("SELECT getenv('HOME') AS x FROM S", "TM207", '"getenv"', ""),
    ("SELECT * FROM read_csv('/etc/passwd')", "TM202", "only streams, views, tables and subqueries", "REGISTER SOURCE"),
    ("SELECT * FROM range(DATE '2024-01-01', DATE '2024-02-01', INTERVAL 1 DAY)", "TM202", "whole numbers", "range(0"),
    ("SELECT * FROM range(id), S", "TM201", "no column", ""),
    ("SELECT * FROM range(1, 5, 0)", "TM202", "cannot be 0", ""),
    ("SELECT * FROM generate_series(1, 100000000)", "TM104", "at most", "shorter"),
    ("SELECT count(*) AS n FROM S WHERE n > 1", "TM206", "aggregate function", "HAVING"),
    ("SELECT * FROM '/etc/passwd'", "TM301", "/etc/passwd", ""),
    ("SELECT *", "TM202", "* without FROM", "name a stream"),
    ("SELECT v", "TM201", 'no column "v"', ""),
    ("SELECT * FROM (VALUES (1), (2, 3)) t", "TM202", "1 and 2 columns", "same columns"),
    ("SELECT * FROM (VALUES (1), ('x')) t", "TM203", "column 1 of VALUES", "one type"),
    ("VALUES (CAST('x' AS DATE))", "TM203", "column 1 of VALUES", ""),
    ("SELECT * FROM (VALUES (random())) t", "TM207", '"random"', ""),
    ("SELECT * FROM (VALUES (1)) t(a, b)", "TM201", "has 1 columns", ""),
    ("SELECT source FROM dead_letters", "TM301", "dead_letters", ""),
]


@pytest.mark.parametrize(("query", "code", "message", "hint"), QUERIES, ids=[q[0][:80] for q in QUERIES])
def test_standing_queries(db, query, code, message, hint):
    error = refused(db, f"CREATE VIEW Fresh AS {query}")
    assert error.code == code
    assert message in error.message
    assert hint in str(error.hint)


STATEMENTS = [
    ("SELECT * FROM Str", "TM215", "STREAMED view: it has no stored answer", "CREATE COMPLETE VIEW"),
    ("SELECT * FROM S", "TM215", "is a stream", "SELECT STREAMED"),
    ("SELECT * FROM Nobody", "TM301", 'named "Nobody"', "SHOW ALL"),
    ("SELECT * FROM Comp SYNC EVERY 2", "TM214", "belong to standing queries", "create a view"),
    ("SELECT frob(n) FROM Comp", "TM207", '"frob"', "reference"),
    ("SELECT date_format(n, '%Y') FROM Comp", "TM207", '"date_format"', "strftime"),
    ("SELECT * FROM read_csv('/etc/passwd')", "TM207", "not part of the language", ""),
    ("SELECT * FROM '/etc/passwd'", "TM301", "/etc/passwd", ""),
    ("SELECT nn FROM Comp", "TM203", '"nn"', "DESCRIBE"),
    ("CREATE VIEW S AS SELECT id FROM S", "TM302", '"S" is taken by a stream', "DROP"),
    ("CREATE VIEW comp AS SELECT id FROM S", "TM302", '"comp" is taken by a view', "another name"),
    ("CREATE VIEW clockStr AS SELECT id FROM S", "TM302", "built-in relation", ""),
    ("CREATE VIEW dead_letters AS SELECT id FROM S", "TM302", "built-in relation", ""),
    ("CREATE OR REPLACE VIEW Comp AS SELECT nothing FROM S", "TM201", "nothing", ""),
    ("CREATE VIEW V WITH (retain = 'soon') AS SELECT id FROM S", "TM213", "retain", "1 day"),
    ("CREATE TAGGED STREAM Z OVER Nobody", "TM301", 'no source named "Nobody"', ""),
    ("CREATE TAGGED STREAM Z OVER S", "TM301", 'no source named "S"', ""),
    ("CREATE TAGGED STREAM Z OVER Raw KEY nope", "TM303", 'has no column "nope"', "its columns are id"),
    ("CREATE SINK Z FROM Nobody TO FILES '/no/never'", "TM301", "Nobody", ""),
    ("CREATE SINK Z FROM Comp TO FILES '/no/never' WITH (format = 'xml')", "TM211", "xml", "parquet or json"),
    ("DROP VIEW Nobody", "TM301", 'no view or query named "Nobody"', ""),
    ("DROP TABLE S", "TM301", 'no table named "S"', ""),
    ("DROP VIEW Str", "TM306", 'view "Str" is still needed', "DROP VIEW Str CASCADE"),
    ("DROP STREAM S", "TM306", 'stream "S" is still needed', "CASCADE"),
    ("DROP SOURCE Raw", "TM306", 'source "Raw" is still needed', "CASCADE"),
    ("DESCRIBE nobody", "TM301", "nobody", ""),
    ("EXPLAIN nobody", "TM301", "nobody", ""),
    ("SUBSCRIBE nobody", "TM301", "nobody", ""),
    ("SET shards = 4", "TM217", 'no setting "shards"', "tidemill.open"),
    (
        "REGISTER SOURCE q (a INTEGER) FROM FILES '/no/q.csv' WITH (timestamp = 'z')",
        "TM407",
        'no column "z"',
        "columns are a",
    ),
    ("REGISTER SOURCE q (a INTEGER) FROM FILES '/no/q.csv' WITH (operation = 'z')", "TM407", 'no column "z"', ""),
    (
        "REGISTER SOURCE q (a INTEGER) FROM FILES '/no/q.csv' WITH (on_error = 'x')",
        "TM407",
        "on_error",
        "dead_letter, skip, fail",
    ),
    ("REGISTER SOURCE q (a INTEGER) FROM FILES '/no/q.csv' WITH (lateness = 'x')", "TM407", "lateness", "5 seconds"),
    (
        "REGISTER SOURCE q (a INTEGER) FROM FILES '/no/q.csv' WITH (format = 'xml')",
        "TM407",
        "xml",
        "parquet, csv, json",
    ),
    ("REGISTER SOURCE q (a INTEGER) FROM FILES '/no/q.csv' WITH (batch_rows = 0)", "TM407", "batch_rows", "100000"),
    ("REGISTER SOURCE S (a INTEGER) FROM FILES '/no/q.csv'", "TM302", '"S" is taken', ""),
]


@pytest.mark.parametrize(("text", "code", "message", "hint"), STATEMENTS, ids=[s[0][:80] for s in STATEMENTS])
def test_statements(db, text, code, message, hint):
    error = refused(db, text)
    assert error.code == code
    assert message in error.message
    assert hint in str(error.hint)


def test_the_place_is_named(db):
    error = refused(db, "CREATE VIEW Fresh AS\n  SELECT id,\n         grpp FROM S")
    assert (error.line, error.column) == (3, 10)
    error = refused(db, "CREATE VIEW Fresh AS SELECT id FROM S\nSYNC ON Nobody")
    assert error.line == 2


def test_dependents_are_listed(db):
    assert refused(db, "DROP STREAM S").detail == "by view Str, view Comp, sink Out"


def test_a_stream_of_operations_needs_a_key(db):
    db.execute("REGISTER SOURCE Ops (a INTEGER, op VARCHAR) FROM FILES 'never*.csv' WITH (operation = 'op')")
    assert refused(db, "CREATE TAGGED STREAM OpsStr OVER Ops").code == "TM304"


def test_query_takes_ad_hoc_selects_only(db):
    for text in ("SHOW VIEWS", "SELECT STREAMED id FROM S"):
        with pytest.raises(TidemillError) as caught:
            db.query(text)
        assert caught.value.code == "TM214"


def test_a_complete_view_has_no_change_log(db):
    with pytest.raises(TidemillError) as caught:
        db.changes("Comp")
    assert caught.value.code == "TM305" and "STREAMED" in str(caught.value.hint)


ALLOWED = ["SELECT A.id FROM S A, S B WHERE A.id = B.id", "SELECT A.id FROM S A LEFT JOIN S B ON A.id = B.id"]
BOUNDED = [
    "SELECT A.id FROM S [WINDOW 10] A, S [WINDOW 10] B WHERE A.id = B.id",
    "SELECT A.id FROM S A, S B WHERE A.id = B.id AND NOW - 5 < A.TS AND NOW - 5 < B.TS",
    "SELECT A.id FROM S A, S B WHERE A.id = B.id AND A.TS - 5 < B.TS < A.TS + 5",
    "SELECT A.id FROM S A, S B WHERE A.id = B.id AND B.TS >= A.TS AND B.TS <= A.TS + INTERVAL '1' MINUTE",
    "SELECT A.id FROM S A JOIN S B ON A.id = B.id AND B.TS BETWEEN A.TS - 5 AND A.TS + 5",
    "SELECT A.id FROM S [ROWS 10] A, S [ROWS 10] B WHERE A.id = B.id",
    "SELECT A.id FROM S [RANGE 10 SLIDE 5] A, S [RANGE 10 SLIDE 5] B WHERE A.id = B.id",
    "SELECT A.id FROM K A, K B WHERE A.id = B.id",
    "SELECT A.id FROM S [WINDOW 10] A, K B WHERE A.grp = B.grp",
    "SELECT A.id FROM S A, T B WHERE A.grp = B.key",
    "SELECT A.grp FROM Comp A, Comp B WHERE A.n = B.n",
    "SELECT A.grp FROM (SELECT DISTINCT grp FROM S) A JOIN K ON A.grp = K.grp",
]


@pytest.mark.parametrize("query", ALLOWED)
def test_unbounded_state_is_possible_when_asked_for(db, query):
    refused(db, f"CREATE VIEW Fresh AS {query}")
    db.execute(f"CREATE VIEW Fresh WITH (unbounded_state = true) AS {query}")
    db.execute("DROP VIEW Fresh")
    name = db.execute(query.replace("SELECT", "SELECT STREAMED", 1) + " WITH (unbounded_state = true)").name
    db.execute(f"DROP QUERY {name}")


@pytest.mark.parametrize("query", BOUNDED)
def test_bounded_joins_are_allowed(db, query):
    db.execute(f"CREATE VIEW Fresh AS {query}")
    db.execute("DROP VIEW Fresh")
