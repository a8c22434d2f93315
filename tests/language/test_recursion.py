"""WITH RECURSIVE in standing queries: the fixpoint at every time, under deletion, for every cut into batches."""

from __future__ import annotations

import duckdb
import pytest

from tests.harness import LocalDatabase
from tests.lifecycle.checkpointed import CheckpointedDatabase
from tidemill.errors import TidemillError
from tidemill.runtime.operators import recursive

EDGES = [  # id, from, to, operation
    (1, 1, 2, "+"),
    (2, 2, 3, "+"),
    (3, 3, 1, "+"),
    (4, 3, 4, "+"),
    (2, 2, 3, "-"),
    (5, 4, 4, "+"),
    (5, 4, 5, "u"),
    (2, 2, 4, "+"),
    (1, 1, None, "u"),
    (6, 5, 2, "+"),
]
QUERIES = {
    "reach": "WITH RECURSIVE r(a, b) AS (SELECT s, t FROM E UNION SELECT r.a, E.t FROM r JOIN E ON E.s = r.b)"
    " SELECT * FROM r",
    "counts": "WITH RECURSIVE r(a, n) AS (SELECT t, 1 FROM E UNION ALL SELECT E.t, n + 1 FROM E, r"
    " WHERE E.s = a AND n < 4) SELECT a, n, count(*) AS c FROM r GROUP BY a, n",
    "groups": "WITH RECURSIVE d AS (SELECT s, count(*) AS n FROM E GROUP BY s), r AS (SELECT 1 AS x UNION"
    " SELECT E.t FROM r JOIN E ON E.s = r.x JOIN d ON d.s = E.s AND d.n < 3) SELECT x FROM r",
    "nested": "SELECT s, (WITH RECURSIVE r(x) AS (SELECT t FROM E WHERE s = 3 UNION SELECT E.t FROM r, E WHERE E.s = x)"
    " SELECT count(*) FROM r) AS n FROM E",
}


def run(folder, query, batch_rows, shards=2):
    """What changes, and where it ends."""
    folder.mkdir()
    lines = [f"{i},{s},{'' if t is None else t},{op},{at}" for at, (i, s, t, op) in enumerate(EDGES)]
    (folder / "e.csv").write_text("\n".join(["id,s,t,op,tm", *lines]) + "\n")
    with LocalDatabase(str(folder / "db"), shards=shards) as db:
        db.execute(f"""
            REGISTER SOURCE R (id INTEGER, s INTEGER, t INTEGER, op VARCHAR, tm BIGINT)
            FROM FILES '{folder}/*.csv' WITH (timestamp = 'tm', operation = 'op', batch_rows = {batch_rows});
            CREATE TAGGED STREAM E OVER R KEY id;
            CREATE STREAMED VIEW V AS {query};
        """)
        db.run()
        return sorted(map(repr, db.changes("V").to_pylist())), db.changes("V").to_pylist()


def contents(duck, upto):
    """E after the first records."""
    held = {}
    for i, s, t, op in EDGES[: upto + 1]:
        held.pop(i, None)
        held |= {i: (s, t)} if op != "-" else {}
    duck.execute("CREATE OR REPLACE TABLE E (s INTEGER, t INTEGER)")
    for row in held.values():
        duck.execute("INSERT INTO E VALUES (?, ?)", row)


@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_at_every_time_is_the_fixpoint_for_every_cut(tmp_path, name):
    sorted_log, log = run(tmp_path / "a", QUERIES[name], 1000)
    assert run(tmp_path / "b", QUERIES[name], 3, shards=1)[0] == sorted_log
    duck = duckdb.connect()
    for upto in range(len(EDGES)):
        contents(duck, upto)
        expected = sorted(duck.sql(QUERIES[name]).fetchall(), key=repr)
        assert replay(log, upto) == expected, (name, upto)


def replay(log, upto):
    """The rows that a log of changes holds up to a time."""
    found = []
    for change in sorted((c for c in log if c["TS"] <= upto), key=lambda c: (c["TS"], c["TAG"] != "-")):
        new = tuple(v for k, v in change.items() if k not in ("TAG", "TS", "OLD"))
        if change["TAG"] == "u":
            old = dict(zip([k for k in change if k not in ("TAG", "TS", "OLD")], new, strict=True)) | change["OLD"]
            found.remove(tuple(old.values()))
        if change["TAG"] == "-":
            found.remove(new)
        else:
            found.append(new)
    return sorted(found, key=repr)


SETUP = """
REGISTER SOURCE R (a INTEGER, b INTEGER, tm BIGINT) FROM FILES '{0}/*.csv' WITH (timestamp = 'tm');
CREATE TAGGED STREAM S OVER R;
CREATE TAGGED STREAM K OVER R KEY a;
"""
REFUSED = [
    (
        "WITH RECURSIVE r AS (SELECT a, b FROM S UNION SELECT r.a, S.b FROM r JOIN S ON S.a = r.b) SELECT * FROM r",
        "TM204",
    ),
    ("WITH RECURSIVE r AS (SELECT a FROM K UNION SELECT max(a) FROM r) SELECT * FROM r", "TM202"),
    ("WITH RECURSIVE r AS (SELECT a FROM K UNION SELECT K.b FROM K LEFT JOIN r USING (a)) SELECT * FROM r", "TM202"),
    ("WITH RECURSIVE r AS (SELECT a FROM K EXCEPT SELECT a FROM r) SELECT * FROM r", "TM202"),
    ("WITH RECURSIVE r AS (SELECT a FROM r UNION SELECT a FROM K) SELECT * FROM r", "TM202"),
    ("WITH RECURSIVE r AS (SELECT a FROM K UNION SELECT a + 0.5 FROM r) SELECT * FROM r", "TM203"),
]


@pytest.mark.parametrize(("query", "code"), REFUSED, ids=[q[20:90] for q, _ in REFUSED])
def test_refused(tmp_path, query, code):
    with LocalDatabase(str(tmp_path / "db")) as db, pytest.raises(TidemillError) as refused:
        db.execute(SETUP.format(tmp_path) + f"CREATE VIEW V AS {query}")
    assert refused.value.code == code and refused.value.hint


def test_a_recursion_without_an_end_stops_its_view_and_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(recursive, "MOST_ROWS", 5000)
    (tmp_path / "r.csv").write_text("a,b,tm\n1,2,1\n2,1,2\n3,1,3\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path))
        db.execute("""
            CREATE VIEW Endless AS WITH RECURSIVE r AS (SELECT a FROM K UNION ALL SELECT b FROM K JOIN r USING (a))
            SELECT count(*) AS n FROM r;
            CREATE VIEW Fine AS WITH RECURSIVE r AS (SELECT a FROM K UNION SELECT b FROM K JOIN r USING (a))
            SELECT count(*) AS n FROM r;
        """)
        summary = str(db.run())
        assert "Endless has stopped" in summary and "finds more than 5,000 rows" in summary
        assert db.query("SELECT n FROM Fine").to_pylist() == [{"n": 3}]


def test_more_shards_later_change_nothing(tmp_path):
    query = QUERIES["reach"]
    lines = [f"{i},{s},{'' if t is None else t},{op},{at}" for at, (i, s, t, op) in enumerate(EDGES)]
    logs = []
    for shards in ((2, 2), (1, 3), (4, 1)):
        folder = tmp_path / f"{shards}"
        folder.mkdir()
        with CheckpointedDatabase(str(folder / "db"), shards=shards[0]) as db:
            db.execute(f"""
                REGISTER SOURCE R (id INTEGER, s INTEGER, t INTEGER, op VARCHAR, tm BIGINT)
                FROM FILES '{folder}/*.csv' WITH (timestamp = 'tm', operation = 'op');
                CREATE TAGGED STREAM E OVER R KEY id;
                CREATE STREAMED VIEW V AS {query};
            """)
            for part, rows in enumerate((lines[:5], lines[5:])):
                (folder / f"{part}.csv").write_text("\n".join(["id,s,t,op,tm", *rows]) + "\n")
                db.run(final=part == 1)
                db.rescale(shards[1])
            logs.append(sorted(map(repr, db.changes("V").to_pylist())))
    assert logs[0] == logs[1] == logs[2] == run(tmp_path / "whole", query, 1000)[0]
