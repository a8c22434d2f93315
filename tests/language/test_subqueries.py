"""Subqueries in expressions of standing queries: answers, keys, bad input and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import LocalDatabase
from tests.language.tables import batch, fill, rows
from tidemill.errors import TidemillError

FILE = Path(__file__).with_name("subquery_answers.sql")
QUERIES = [line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("--")]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """One database with all the queries as views, and a plain DuckDB over the same files."""
    folder = tmp_path_factory.mktemp("subqueries")
    db = LocalDatabase(str(folder / "db"))
    fill(db, folder)
    refused = {}
    for i, query in enumerate(QUERIES):
        try:
            db.execute(f"CREATE VIEW v{i} WITH (unbounded_state = true) AS {query}")
        except Exception as error:
            refused[i] = error
    db.run()
    duck = batch(folder)
    yield db, duck, refused
    db.close()
    duck.close()


@pytest.mark.parametrize("i", range(len(QUERIES)), ids=[q[:100] for q in QUERIES])
def test_standing_answer_equals_the_batch_answer(both, i):
    db, duck, refused = both
    if i in refused:
        raise refused[i]
    mine, theirs = db.query(f"SELECT * FROM v{i}"), duck.sql(QUERIES[i]).to_arrow_table()
    assert rows(mine) == rows(theirs)
    declared = [c.type for c in db.workload.views[f"v{i}"].stored.columns]
    assert declared == [str(t) for t in duck.sql(QUERIES[i]).types]


def test_nothing_was_put_aside(both):
    assert both[0].query("SELECT * FROM dead_letters").num_rows == 0


# ---- changes and keys --------------------------------------------------------------------------------

ROOMS = """
REGISTER SOURCE Temps (room VARCHAR, temp INTEGER, op VARCHAR, at BIGINT)
  FROM FILES '{0}/rooms/*.csv' WITH (timestamp = 'at', operation = 'op');
REGISTER SOURCE Limits (room VARCHAR, most INTEGER, op VARCHAR, at BIGINT)
  FROM FILES '{0}/limits/*.csv' WITH (timestamp = 'at', operation = 'op');
CREATE TAGGED STREAM Rooms OVER Temps KEY room;
CREATE TAGGED STREAM Limit1 OVER Limits KEY room;
CREATE TAGGED STREAM LimitN OVER Limits KEY (room, most);
"""


@pytest.fixture
def rooms(tmp_path):
    (tmp_path / "rooms").mkdir()
    (tmp_path / "limits").mkdir()
    (tmp_path / "rooms/1.csv").write_text("room,temp,op,at\na,10,u,1\nb,20,u,2\na,30,u,4\nb,,d,8\n")
    (tmp_path / "limits/1.csv").write_text("room,most,op,at\na,15,u,2\na,25,u,3\na,25,d,5\na,35,u,6\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(ROOMS.format(tmp_path))
        yield db


def changes(db, name: str) -> list[tuple]:
    return [tuple(row.values()) for row in db.changes(name).drop_columns(["OLD"]).to_pylist()]


def test_the_outer_key_stays_and_updates_are_updates(rooms):
    one = "(SELECT most FROM Limit1 L WHERE L.room = R.room)"
    rooms.execute(f"CREATE STREAMED VIEW V AS SELECT room, temp, {one} AS most FROM Rooms R")
    assert rooms.workload.views["v"].stored.keys == ("room",)
    rooms.run()
    assert changes(rooms, "V") == [
        ("+", 1, "a", 10, None),
        ("u", 2, "a", 10, 15),
        ("+", 2, "b", 20, None),
        ("u", 3, "a", 10, 25),
        ("u", 4, "a", 30, 25),
        ("u", 5, "a", 30, None),
        ("u", 6, "a", 30, 35),
        ("-", 8, "b", 20, None),
    ]


def test_equal_outer_rows_stay_as_many_as_they_are(rooms):
    rooms.execute("CREATE VIEW Twice AS SELECT temp % 10 AS t FROM Rooms")
    rooms.execute("CREATE STREAMED VIEW V AS SELECT t FROM Twice WHERE EXISTS (SELECT 1 FROM LimitN WHERE most > t)")
    rooms.run()
    assert changes(rooms, "V") == [("+", 2, 0), ("+", 2, 0), ("-", 8, 0)]


def test_a_row_with_two_answers_is_put_aside_until_there_is_one(rooms):
    """At 3 and 4 room a has two limits; b goes on, and a comes back at 5."""
    rooms.execute(
        "CREATE STREAMED VIEW V AS SELECT room, (SELECT most FROM LimitN L WHERE L.room = R.room) AS most FROM Rooms R"
    )
    rooms.run()
    assert changes(rooms, "V") == [
        ("+", 1, "a", None),
        ("u", 2, "a", 15),
        ("+", 2, "b", None),
        ("-", 3, "a", 15),
        ("+", 5, "a", 15),
        ("-", 6, "a", 15),
        ("-", 8, "b", None),
    ]
    letters = rooms.query("SELECT DISTINCT reason, raw FROM dead_letters").to_pylist()
    assert {row["reason"] for row in letters} == {"Invalid Input Error: a subquery has more than one row for this row"}
    assert all('"R.room": "a"' in row["raw"] for row in letters)


def test_windows_and_synchronization_inside(rooms):
    rooms.execute("""
        CREATE STREAMED VIEW V AS SELECT room FROM Rooms SYNC EVERY 2
        WHERE temp > (SELECT max(temp) - 15 FROM Rooms [WINDOW 3]);
    """)
    rooms.run()
    # The window of 3 holds b's 20 at 3 and a's 30 from 5 to 7; at 8 it is empty, and nothing is greater than NULL.
    assert changes(rooms, "V") == [("+", 2, "a"), ("+", 2, "b"), ("-", 8, "a"), ("-", 8, "b")]


# ---- what is refused -----------------------------------------------------------------------------------

REFUSED = [
    ("SELECT id FROM S WHERE grp IN (SELECT key FROM L)", "TM204", "would keep state for ever", "WINDOW", (1, 37)),
    ("SELECT grp FROM K WHERE v > (SELECT v, id FROM K)", "TM218", "has 2 columns where 1 is wanted", "as many", None),
    ("SELECT grp FROM K WHERE v IN (SELECT v, id FROM K)", "TM218", "has 2 columns where 1 is wanted", "as many", None),
    ("SELECT grp FROM K WHERE v IN (SELECT day FROM K)", "TM203", "DATE and INTEGER", "DESCRIBE", None),
    ("SELECT grp FROM K WHERE v IN (SELECT nope FROM T)", "TM201", 'no column "nope"', "columns here", (1, 59)),
    ("SELECT grp FROM K WHERE EXISTS (SELECT nope FROM T)", "TM201", 'no column "nope"', "", (1, 61)),
    ("SELECT grp FROM K WHERE EXISTS (SELECT 1 FROM T WHERE X.n = 1)", "TM201", 'no input named "X"', "", (1, 76)),
    ("SELECT grp FROM K WHERE EXISTS (SELECT 1 FROM Nothing)", "TM301", "Nothing", "", (1, 68)),
    (
        "SELECT grp FROM K WHERE v = (SELECT n + max(n) FROM T)",
        "TM206",
        "grouped or inside an aggregate",
        "GROUP BY",
        None,
    ),
    ("SELECT grp FROM K GROUP BY grp HAVING 1 = (SELECT max(n) FROM T WHERE n < K.v)", "TM206", "grouped", "", None),
    ("SELECT grp FROM K WHERE v = (SELECT sum(K.v) FROM T)", "TM206", "aggregate of outer rows", "FROM", None),
    ("SELECT (SELECT DISTINCT n FROM T WHERE T.key = K.grp LIMIT 1) FROM K", "TM202", "LIMIT", "number the rows", None),
    (
        "SELECT grp FROM K, (SELECT count(*) AS n FROM T WHERE n < v GROUP BY CUBE (key)) x",
        "TM202",
        "keys",
        "totals",
        None,
    ),
    ("SELECT grp FROM K, (SELECT count(*) AS n FROM T WHERE n < v GROUP BY ALL) x", "TM202", "without keys", "", None),
    ("SELECT (SELECT count(*) FROM T WHERE n < v OFFSET 0) FROM K", "TM202", "without GROUP BY", "go around", None),
    ("SELECT (SELECT count(*) WHERE K.b) FROM K", "TM202", "without GROUP BY", "", None),
    ("SELECT grp FROM K WHERE ARRAY(SELECT n FROM T) = [1]", "TM202", "a list of the rows", "join", None),
    ("SELECT grp FROM K WHERE v = (SELECT NOW FROM T)", "TM205", "NOW", "", None),
    ("SELECT K.grp FROM K RIGHT JOIN LATERAL (SELECT K.v + 1 AS w) x ON TRUE", "TM202", "lateral", "", None),
    ("SELECT K.grp FROM K, LATERAL (SELECT K.v + 1 AS w) SYNC EVERY 2 x", "TM202", "no window and no SYNC", "", None),
    ("SELECT K.grp FROM K, LATERAL (SELECT K.nothing + 1 AS w) x", "TM201", '"nothing"', "", None),
    ("SELECT K.grp FROM K, LATERAL (SELECT L.n + 1 AS w) x, L", "TM201", '"L"', "", None),
    ("SELECT K.grp FROM K, LATERAL K x", "TM101", "unexpected", "", None),
    ("SELECT T.n FROM K SEMI JOIN T ON K.grp = T.key", "TM201", 'no input named "T"', "", (1, 29)),
]


@pytest.mark.parametrize(("query", "code", "message", "hint", "place"), REFUSED, ids=[r[0][:90] for r in REFUSED])
def test_refused_with_place_and_hint(both, query, code, message, hint, place):
    with pytest.raises(TidemillError) as refused:
        both[0].execute(f"CREATE VIEW Fresh AS {query}")
    error = refused.value
    assert (error.code, error.line is not None) == (code, True)
    assert message in error.message and hint in str(error.hint)
    assert place is None or (error.line, error.column) == place


def test_nesting_is_limited(both):
    text = "SELECT n FROM T"
    for _ in range(9):
        text = f"SELECT n FROM T WHERE n IN ({text})"
    with pytest.raises(TidemillError, match="TM104"):
        both[0].execute(f"CREATE VIEW Fresh AS {text}")
