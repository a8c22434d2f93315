"""UNNEST: standing over streams, keyed streams and views, under deletion, and ad hoc, as DuckDB answers it."""

from __future__ import annotations

import json

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.corpus.oracle import plain_rows, same
from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tidemill.errors import TidemillError
from tidemill.runtime.thresholds import smallest

COLUMNS = "k INTEGER, xs INTEGER[], parts STRUCT(a INTEGER, b VARCHAR, ns INTEGER[])[], op VARCHAR, tm BIGINT"
SETUP = f"""
REGISTER SOURCE R ({COLUMNS}) FROM FILES '{{0}}/r/*.json'
WITH (timestamp = 'tm', operation = 'op', batch_rows = 2);
REGISTER TABLE Names (x INTEGER, name VARCHAR) FROM FILES '{{0}}/names.csv';
CREATE TAGGED STREAM K OVER R KEY k;
CREATE VIEW Counted AS SELECT k, list(x ORDER BY x) AS xs FROM K, UNNEST(K.xs) AS t(x) GROUP BY k;
"""
QUERIES = [
    "SELECT k, t.x FROM K, UNNEST(K.xs) AS t(x)",
    "SELECT k, x FROM K CROSS JOIN UNNEST(xs) AS t(x) WHERE x > 1 AND k < 3",
    "SELECT k, t.x, t.n FROM K, UNNEST(K.xs) WITH ORDINALITY AS t(x, n)",
    "SELECT k, x, n FROM K LEFT JOIN UNNEST(K.xs) WITH ORDINALITY AS t(x, n) ON TRUE",
    "SELECT * EXCLUDE (parts, xs) FROM K, UNNEST(K.xs) AS t(x)",
    "SELECT k, t.* FROM K, UNNEST(K.xs) AS t(x)",
    "SELECT K.k, u FROM K, UNNEST(K.xs) AS u",
    'SELECT K.k, "unnest" FROM K, UNNEST(K.xs)',
    "SELECT k, unnest(xs) AS x FROM K WHERE k > 0",
    "SELECT k, unnest(xs) + 1 AS x FROM K",
    "SELECT DISTINCT unnest(xs) AS x FROM K",
    "SELECT k, unnest([k, 7]) AS x FROM K",
    "SELECT t.x, count(*) AS n, sum(k) AS s FROM K, UNNEST(K.xs) AS t(x) GROUP BY t.x HAVING count(*) > 1",
    "SELECT count(*) AS n FROM K, UNNEST(K.xs) AS t(x)",
    "SELECT k, t.p.a, t.p.b FROM K, UNNEST(K.parts) AS t(p)",
    "SELECT k, p.a, i FROM K, UNNEST(K.parts) AS t(p), UNNEST(t.p.ns) AS u(i)",
    "SELECT K.k, t.x, Names.name FROM K, UNNEST(K.xs) AS t(x) JOIN Names ON Names.x = t.x",
    "SELECT K.k, x, m.k AS l FROM K JOIN K AS m ON K.k = m.k + 1, UNNEST(K.xs) AS t(x)",
    "SELECT K.k, x, y FROM K, UNNEST(K.xs) AS t(x), UNNEST(K.xs) AS u(y) WHERE x < y",
    "SELECT k, x FROM K JOIN UNNEST(K.xs) AS t(x) ON x = k OR x = 2 WHERE k = 1 OR k = 2",
    "SELECT k, p.b FROM K JOIN UNNEST(K.parts) AS t(p) ON t.p.a = 2",
    "SELECT k, x FROM K, UNNEST(list_filter(xs, lambda v: v > 1)) AS t(x)",
    "SELECT c.k, x FROM Counted c, UNNEST(c.xs) AS t(x)",
    "SELECT x FROM (SELECT k, xs FROM K WHERE k > 1) q, UNNEST(q.xs) AS t(x) WHERE x IN (SELECT Names.x FROM Names)",
    "SELECT k, x FROM K, UNNEST(K.xs) AS t(x) ORDER BY x DESC, k LIMIT 2",
]
COUNTED = "CREATE VIEW Counted AS SELECT k, list(x ORDER BY x) AS xs FROM K, UNNEST(K.xs) AS t(x) GROUP BY k"


def write(folder, records, names="x,name\n1,one\n2,two\n"):
    (folder / "r").mkdir()
    (folder / "r" / "1.json").write_text("".join(json.dumps(r) + "\n" for r in records))
    (folder / "names.csv").write_text(names)


def contents(records):
    """A DuckDB with what K holds in the end."""
    duck = duckdb.connect()
    duck.execute(f"CREATE TABLE all_rows ({COLUMNS}, seq INTEGER); CREATE TABLE Names (x INTEGER, name VARCHAR)")
    duck.execute("INSERT INTO Names VALUES (1, 'one'), (2, 'two')")
    for seq, row in enumerate(records):
        duck.execute(
            "INSERT INTO all_rows VALUES (?, ?, ?, ?, ?, ?)",
            [*(row[name] for name in ("k", "xs", "parts", "op", "tm")), seq],
        )
    last = "SELECT * FROM all_rows QUALIFY row_number() OVER (PARTITION BY k ORDER BY tm DESC, seq DESC) = 1"
    duck.execute(f"CREATE VIEW K AS SELECT * EXCLUDE (seq, op) FROM ({last}) WHERE op <> 'delete'")
    duck.execute(COUNTED)
    return duck


lists = st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=3))
structs = st.fixed_dictionaries({"a": st.integers(0, 2), "b": st.sampled_from(["x", None]), "ns": lists})
values = st.fixed_dictionaries(
    {
        "k": st.integers(0, 3),
        "xs": lists,
        "parts": st.one_of(st.none(), st.lists(structs, max_size=2)),
        "op": st.sampled_from(["insert", "update", "update", "delete"]),
    }
)
some = st.lists(st.sampled_from(QUERIES), min_size=6, max_size=8, unique=True)
workloads = st.lists(values, max_size=9).map(lambda rows: [{**row, "tm": i // 2} for i, row in enumerate(rows)])


@effort(2, thorough_cases=400)
@given(records=workloads, shards=st.integers(1, 3), chosen=some)
def test_lists_taken_apart_are_those_of_duckdb(tmp_path_factory, records, shards, chosen):
    folder = tmp_path_factory.mktemp("unnest")
    write(folder, records)
    with smallest(), LocalDatabase(str(folder / "db"), shards=shards) as db, contents(records) as duck:
        db.execute(SETUP.format(folder))
        for i, query in enumerate(chosen):
            db.execute(f"CREATE VIEW v{i} AS {query}")
        db.run()
        for i, query in enumerate(chosen):
            mine, theirs = plain_rows(db.query(f"SELECT * FROM v{i}")), plain_rows(duck.sql(query).to_arrow_table())
            assert same(mine, theirs), (query, mine, theirs)


RECORDS = [
    {"k": 1, "xs": [1, 2, 2], "parts": [{"a": 1, "b": "x", "ns": [4, 5]}], "op": "insert", "tm": 1},
    {"k": 2, "xs": None, "parts": None, "op": "insert", "tm": 1},
    {"k": 3, "xs": [], "parts": [], "op": "insert", "tm": 2},
    {"k": 4, "xs": [None, 3], "parts": [{"a": 2, "b": None, "ns": None}], "op": "insert", "tm": 3},
    {"k": 1, "xs": [2], "parts": None, "op": "update", "tm": 4},
    {"k": 4, "xs": None, "parts": None, "op": "delete", "tm": 5},
    {"k": 2, "xs": [1, 9], "parts": [{"a": 7, "b": "y", "ns": [1]}], "op": "update", "tm": 6},
]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unnest")
    write(folder, RECORDS)
    with LocalDatabase(str(folder / "db"), shards=2) as db, contents(RECORDS) as duck:
        db.execute(SETUP.format(folder))
        files = f"FROM FILES '{folder}/r/*.json' WITH (timestamp = 'tm')"
        db.execute(f"REGISTER SOURCE Q ({COLUMNS}) {files}; CREATE TAGGED STREAM S OVER Q")
        db.execute("CREATE VIEW Whole AS SELECT * FROM K")
        for i, query in enumerate(QUERIES):
            db.execute(f"CREATE VIEW v{i} AS {query}")
        db.execute("CREATE STREAMED VIEW recent AS SELECT k, x FROM S [WINDOW 2] SYNC EVERY 2 AS S, UNNEST(S.xs) t(x)")
        db.run()
        yield db, duck


@pytest.mark.parametrize("query", QUERIES)
def test_views_are_what_duckdb_answers(both, query):
    db, duck = both
    found = db.query(f"SELECT * FROM v{QUERIES.index(query)}")
    expected = duck.sql(query)
    assert same(plain_rows(found), plain_rows(expected.to_arrow_table()))
    assert found.column_names == expected.columns


def test_ad_hoc_queries_take_lists_of_views_apart(both):
    db, duck = both
    for query in [q.replace("K", "Whole") for q in QUERIES[:16] if "AS m" not in q]:
        theirs = duck.sql(query.replace("Whole", "K")).to_arrow_table()
        assert same(plain_rows(db.query(query)), plain_rows(theirs)), query


def test_windows_and_synchronizers_are_below_the_elements(both):
    db, _ = both
    shown = [(c["TS"], c["TAG"], c["k"], c["x"]) for c in db.changes("recent").to_pylist()]
    entered = [(2, "+", 1, 1), (2, "+", 1, 2), (2, "+", 1, 2), (4, "+", 4, None), (4, "+", 4, 3), (6, "+", 1, 2)]
    left = [(4, "-", 1, 1), (4, "-", 1, 2), (4, "-", 1, 2), (6, "-", 4, None), (6, "-", 4, 3)]
    assert sorted(shown, key=repr) == sorted([*entered, *left], key=repr)


REFUSED = [
    ("SELECT x FROM UNNEST([1, 2]) AS t(x)", "TM202", "UNNEST stands behind"),
    ("SELECT x FROM K, UNNEST(K.k) AS t(x)", "TM203", "map_entries"),
    ("SELECT y FROM K, UNNEST(K.xs) AS t(x), UNNEST(t.z) AS u(y)", "TM201", "it has x"),
    ("SELECT x FROM K RIGHT JOIN Names ON K.k = Names.x, UNNEST(K.xs) AS t(x)", "TM202", "subquery or a view"),
    ("SELECT x FROM K a, K b, UNNEST(a.xs || b.xs) AS t(x)", "TM202", "in a subquery"),
    ("SELECT x FROM K LEFT JOIN UNNEST(K.xs) AS t(x) ON x > 1", "TM202", "ON TRUE"),
    ("SELECT x FROM K FULL JOIN UNNEST(K.xs) AS t(x) ON TRUE", "TM202", "ON TRUE"),
    ("SELECT k FROM K, UNNEST(K.xs) AS t(k)", "TM201", "another name"),
    ("SELECT x FROM K, UNNEST(K.xs) AS t(x, y)", "TM202", "WITH ORDINALITY"),
    ("SELECT x FROM K AS t, UNNEST(t.xs) AS t(x)", "TM201", "another alias"),
    ("SELECT unnest(xs), unnest(parts) FROM K", "TM202", "one after the other"),
    ("SELECT unnest(xs) AS x, count(*) FROM K GROUP BY x", "TM202", "in FROM"),
    ("SELECT k FROM K WHERE unnest(xs) > 1", "TM207", "language reference"),
]


@pytest.mark.parametrize(("query", "code", "hint"), REFUSED)
def test_what_is_no_list_of_one_input_is_refused(both, query, code, hint):
    db, _ = both
    with pytest.raises(TidemillError) as refused:
        db.execute(f"CREATE VIEW no AS {query}")
    assert refused.value.code == code
    assert hint in (refused.value.hint or "")
