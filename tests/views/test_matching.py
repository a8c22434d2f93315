"""One case for each row of the table of matching: one that a view answers, and one that it must not."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.properties.trial import log_of
from tidemill.errors import PlanProblem

SETUP = """
REGISTER SOURCE Temps (room INTEGER, building INTEGER, temp INTEGER, name VARCHAR, x DOUBLE, day DATE, at BIGINT)
  FROM FILES '{}/*.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM RoomTempStr OVER Temps KEY room;
CREATE TAGGED STREAM Log OVER Temps;
SET view_matching = always;
"""
KEYED, LOG = "FROM RoomTempStr", "FROM Log"

# (what, view, query that it answers, query that it does not answer, why not)
CASES = [
    (
        "points",
        f"SELECT room, temp {KEYED} SYNC EVERY 2 SECONDS WHERE temp > 80",
        f"SELECT room, temp {KEYED} SYNC EVERY 4 SECONDS WHERE temp > 100",
        f"SELECT room, temp {KEYED} SYNC EVERY 3 SECONDS WHERE temp > 100",
        "every 2 s misses some of every 3 s",
    ),
    (
        "inputs",
        f"SELECT room, temp {KEYED} WHERE temp > 80",
        f"SELECT temp AS t, room {KEYED} WHERE temp > 80",
        f"SELECT temp AS t, room {LOG} WHERE temp > 80",
        None,
    ),
    (
        "intervals",
        f"SELECT room, temp {KEYED} WHERE temp > 80 AND temp < 120",
        f"SELECT room {KEYED} WHERE temp BETWEEN 81 AND 100",
        f"SELECT room {KEYED} WHERE temp >= 80 AND temp < 90",
        '"temp" > 80 is not implied',
    ),
    (
        "equality",
        f"SELECT room, temp, building {KEYED} WHERE building IN (1, 2, 3)",
        f"SELECT room {KEYED} WHERE building = 2",
        f"SELECT room {KEYED} WHERE building IN (3, 4)",
        '"building" IN (1, 2, 3) is not implied',
    ),
    (
        "either",
        f"SELECT room, temp, building {KEYED} WHERE temp > 80 OR building = 1",
        f"SELECT room {KEYED} WHERE temp > 90",
        f"SELECT room {KEYED} WHERE temp > 70",
        '"temp" > 80 OR "building" = 1 is not implied',
    ),
    (
        "values",
        f"SELECT room, temp {KEYED} WHERE temp IS NOT NULL",
        f"SELECT room {KEYED} WHERE temp <= 7",
        f"SELECT room {KEYED} WHERE coalesce(temp, 3) <= 7",
        'NOT "temp" IS NULL is not implied',
    ),
    (
        "texts",
        f"SELECT room, name {KEYED} WHERE name > 'a'",
        f"SELECT room {KEYED} WHERE name = 'b'",
        f"SELECT room {KEYED} WHERE name >= 'a'",
        "\"name\" > 'a' is not implied",
    ),
    (
        "dates are not ordered by their text",
        f"SELECT room, day {KEYED} WHERE day > '2024-01-04'",
        f"SELECT room {KEYED} WHERE day > '2024-01-04' AND room > 2",
        f"SELECT room {KEYED} WHERE day > '2024-1-05'",
        None,
    ),
    (
        "NOW windows",
        f"SELECT room, temp, TS {LOG} WHERE NOW - 60 < TS AND TS <= NOW",
        f"SELECT room {LOG} WHERE NOW - 10 < TS AND TS <= NOW AND temp > 5",
        f"SELECT room {LOG} WHERE NOW - 90 < TS AND TS <= NOW",
        "its window ends earlier",
    ),
    (
        "columns",
        f"SELECT room, temp % 10 AS t, name {KEYED} WHERE temp > 80",
        f"SELECT room, temp % 10 > 5 AS much {KEYED} WHERE temp > 80",
        f"SELECT room, temp {KEYED} WHERE temp > 80",
        'it does not give "temp"',
    ),
    (
        "grouping",
        f"SELECT building, room, count(*) AS n, sum(temp) AS s, max(x) AS m {KEYED} GROUP BY building, room",
        f"SELECT building, count(*) AS n, sum(temp) AS s, max(x) AS m {KEYED} WHERE building < 5 GROUP BY building",
        f"SELECT building, count(*) AS n {KEYED} WHERE temp > 5 GROUP BY building",
        '"temp" > 5 cannot be tested among its groups',
    ),
    (
        "averages",
        f"SELECT building, room, count(temp) AS n, sum(temp) AS s {KEYED} GROUP BY building, room",
        f"SELECT building, avg(temp) AS a {KEYED} GROUP BY building",
        f"SELECT building, avg(x) AS a {KEYED} GROUP BY building",
        'it does not give avg("x")',
    ),
    (
        "sums that are not exact",
        f"SELECT building, room, sum(x) AS s {KEYED} GROUP BY building, room",
        f"SELECT room, building, sum(x) AS s {KEYED} GROUP BY room, building",
        f"SELECT building, sum(x) AS s {KEYED} GROUP BY building",
        "sums of DOUBLE depend on their order",
    ),
    (
        "epochs",
        f"SELECT room, TS/10 AS e, count(*) AS n {LOG} GROUP BY room, TS/10",
        f"SELECT room, TS/60 AS e, count(*) AS n {LOG} GROUP BY room, TS/60",
        f"SELECT room, TS/15 AS e, count(*) AS n {LOG} GROUP BY room, TS/15",
        None,
    ),
    (
        "groups that are filtered",
        f"SELECT building, room, count(*) AS n {KEYED} GROUP BY building, room",
        f"SELECT building, room {KEYED} GROUP BY building, room HAVING count(*) > 1",
        f"SELECT building, count(DISTINCT name) AS n {KEYED} GROUP BY building",
        "COUNT does not add up from groups",
    ),
    (
        "groups without keys",
        f"SELECT building, count(*) AS n {KEYED} WHERE temp > 5 GROUP BY building",
        f"SELECT building + 1 AS b, n FROM (SELECT building, count(*) AS n {KEYED} WHERE temp > 5 GROUP BY building)",
        f"SELECT count(*) AS n {KEYED} WHERE temp > 5",
        None,
    ),
    (
        "joins",
        "SELECT a.room AS r, b.temp AS t FROM RoomTempStr a, Log [WINDOW 9 SECONDS] b WHERE a.room = b.room",
        "SELECT y.room AS z FROM Log [WINDOW 9 SECONDS] y, RoomTempStr x WHERE y.room = x.room AND y.temp > 3",
        "SELECT y.room AS z FROM Log [WINDOW 9 SECONDS] y, RoomTempStr x WHERE y.room = x.building AND y.temp > 3",
        '"room" = "room" is not implied',
    ),
    (
        "distinct",
        f"SELECT DISTINCT building {KEYED} WHERE temp > 5",
        f"SELECT building FROM (SELECT DISTINCT building {KEYED} WHERE temp > 5) WHERE building > 1",
        f"SELECT DISTINCT building {KEYED} WHERE temp > 6",
        None,
    ),
    (
        "expressions that may fail",
        f"SELECT room, temp, CAST(name AS INTEGER) AS i {KEYED} WHERE temp > 5",
        f"SELECT room, CAST(name AS INTEGER) AS i {KEYED} WHERE temp > 5 AND room > 1",
        f"SELECT room, temp {KEYED} WHERE temp > 5 AND room > 1",
        "may fail",
    ),
    (
        "groups of a view that has HAVING",
        f"SELECT building, count(*) AS n {KEYED} GROUP BY building HAVING count(*) > 3",
        f"SELECT building FROM (SELECT building, count(*) AS n {KEYED} GROUP BY building HAVING count(*) > 3)",
        f"SELECT building, count(*) AS n {KEYED} GROUP BY building",
        None,
    ),
    (
        "difference",
        "SELECT a.room, a.temp FROM R(RoomTempStr) a - R(Log) b",
        "SELECT c.room AS r FROM (SELECT a.room, a.temp FROM R(RoomTempStr) a - R(Log) b) c WHERE c.temp > 5",
        "SELECT c.room AS r FROM (SELECT a.room, a.temp FROM R(Log) a - R(RoomTempStr) b) c WHERE c.temp > 5",
        None,
    ),
    (
        "set operations",
        f"SELECT room FROM Log INTERSECT SELECT temp {KEYED}",
        f"SELECT room + 1 AS next FROM (SELECT room FROM Log INTERSECT SELECT temp {KEYED}) WHERE room > 5",
        f"SELECT room + 1 AS next FROM (SELECT room FROM Log INTERSECT ALL SELECT temp {KEYED}) WHERE room > 5",
        None,
    ),
    (
        "outer joins",
        "SELECT a.room, a.temp, b.name FROM RoomTempStr a LEFT JOIN Log [WINDOW 9 SECONDS] b ON a.room = b.room",
        "SELECT q.temp FROM (SELECT a.room, a.temp, b.name FROM RoomTempStr a LEFT JOIN Log [WINDOW 9 SECONDS] b"
        " ON a.room = b.room) q WHERE q.name IS NULL",
        "SELECT q.temp FROM (SELECT a.room, a.temp, b.name FROM RoomTempStr a RIGHT JOIN Log [WINDOW 9 SECONDS] b"
        " ON a.room = b.room) q WHERE q.name IS NULL",
        None,
    ),
]


@pytest.fixture
def db(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as made:
        made.execute(SETUP.format(tmp_path))
        yield made


def answered(db, name):
    return [part.view.name for part in db.workload.views[name].answer.parts]


@pytest.mark.parametrize(("view", "query"), [case[1:3] for case in CASES], ids=[case[0] for case in CASES])
def test_a_view_answers_what_it_contains(db, view, query):
    db.execute(f"CREATE VIEW v AS {view} WITH (unbounded_state = true)")
    db.execute(f"CREATE VIEW q AS {query} WITH (unbounded_state = true)")
    assert answered(db, "q") == ["v"], db.workload.views["q"].answer.refused


@pytest.mark.parametrize(("view", "query", "why"), [(c[1], c[3], c[4]) for c in CASES], ids=[c[0] for c in CASES])
def test_a_view_does_not_answer_what_it_does_not_contain(db, view, query, why):
    db.execute(f"CREATE VIEW v AS {view} WITH (unbounded_state = true)")
    db.execute(f"CREATE VIEW q AS {query} WITH (unbounded_state = true)")
    found = db.workload.views["q"].answer
    assert not found.parts and (why is None or why in found.refused["v"])


def test_example_11_is_matched_without_help(db):
    db.execute("SET view_matching = auto")
    db.execute(f"CREATE VIEW HotRooms2 AS SELECT room, temp {KEYED} SYNC EVERY 2 SECONDS WHERE temp > 80")
    text = str(db.explain(f"SELECT STREAMED room, temp {KEYED} SYNC EVERY 4 SECONDS WHERE temp > 100"))
    assert "answered from HotRooms2" in text and "points  every 4 s ⊆ every 2 s" in text
    assert 'data    "temp" > 100 implies "temp" > 80; rest Filter["temp" > 100]' in text


LOT = """
REGISTER SOURCE Ins (vid INTEGER, vtype VARCHAR, at BIGINT) FROM FILES '{0}/ins/*.csv' WITH (timestamp = 'at');
REGISTER SOURCE Outs (vid INTEGER, vtype VARCHAR, at BIGINT) FROM FILES '{0}/outs/*.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM S1 OVER Ins; CREATE TAGGED STREAM S2 OVER Outs;
CREATE STREAMED VIEW Sync2 AS SELECT C.TimePoint FROM R(clockStr) C WHERE C.TimePoint mod 2 = 0;
CREATE STREAMED VIEW Sync4 AS SELECT C.TimePoint FROM R(clockStr) C WHERE C.TimePoint mod 4 = 0;
CREATE STREAMED VIEW ParkLot2 AS SELECT R1.vid, R1.vtype FROM R(S1, Sync2) R1 - R(S2, Sync2) R2;
"""
P5 = (
    "SELECT P.vtype, count(P.vid) AS n FROM (SELECT R1.vid, R1.vtype FROM R(S1, Sync4) R1 - R(S2, Sync4) R2) P"
    " GROUP BY P.vtype"
)


def test_p5_is_answered_from_park_lot_2_without_help(db, tmp_path):
    for name in ("ins", "outs"):
        (tmp_path / name).mkdir()
    (tmp_path / "ins" / "1.csv").write_text(
        "vid,vtype,at\n1,car,1\n2,truck,2\n3,car,3\n4,POLICE,5\n5,bus,6\n6,POLICE,8\n"
    )
    (tmp_path / "outs" / "1.csv").write_text("vid,vtype,at\n1,car,4\n2,truck,7\n4,POLICE,8\n")
    db.execute("SET view_matching = auto;" + LOT.format(tmp_path))
    db.execute(f"CREATE STREAMED VIEW P5 AS {P5}; SET view_matching = off; CREATE STREAMED VIEW Plain AS {P5}")
    assert answered(db, "p5") == ["ParkLot2"], db.workload.views["p5"].answer.refused
    db.run()
    # Figure 5 of the paper.
    assert [(c.time // 1_000_000, c.tag, c.row) for c in log_of(db, "P5")] == [
        (4, "+", ("car", 1)),
        (4, "+", ("truck", 1)),
        (8, "-", ("truck", 1)),
        (8, "+", ("POLICE", 1)),
        (8, "+", ("bus", 1)),
    ]
    assert log_of(db, "P5") == log_of(db, "Plain")


def test_a_view_is_replaced_before_its_readers_have_a_batch(db, tmp_path):
    """The reader goes on with the old view, a later one is answered from the new one; both as without matching."""
    (tmp_path / "1.csv").write_text(
        "room,building,temp,name,x,day,at\n1,1,90,a,1.0,2024-01-01,1\n2,1,70,a,1.0,2024-01-01,2\n"
    )
    hot, cold = (f"SELECT room, temp {KEYED} WHERE temp {side} 80" for side in (">", "<"))
    queries = {"Hotter": hot.replace("80", "85"), "Colder": cold.replace("80", "75")}
    db.execute(f"CREATE VIEW V AS {hot}; CREATE STREAMED VIEW Hotter AS {queries['Hotter']}")
    old = db.workload.views["hotter"].answer.parts[0].view.id
    db.execute(f"CREATE OR REPLACE VIEW V AS {cold}; CREATE STREAMED VIEW Colder AS {queries['Colder']}")
    new = db.workload.views["colder"].answer.parts[0].view.id
    assert (old in db.catalog.hidden, new) == (True, db.workload.views["v"].entry.id)
    db.execute("SET view_matching = off")
    for name, query in queries.items():
        db.execute(f"CREATE STREAMED VIEW Plain{name} AS {query}")
    db.run()
    for name, room in (("Hotter", 1), ("Colder", 2)):
        assert [c.row[0] for c in log_of(db, name)] == [room]
        assert log_of(db, name) == log_of(db, f"Plain{name}")


def test_views_of_another_birth_do_not_answer(db, tmp_path):
    db.execute(f"CREATE VIEW Hot AS SELECT room, temp {KEYED} WHERE temp > 80")
    (tmp_path / "1.csv").write_text("room,building,temp,name,x,day,at\n1,1,90,a,1.0,2024-01-01,1\n")
    db.run(final=False)
    db.execute(f"CREATE VIEW Later AS SELECT room {KEYED} WHERE temp > 85")
    assert answered(db, "later") == []


def test_explain_names_views_that_were_not_compared(db, tmp_path):
    db.execute(
        f"REGISTER SOURCE Doors (door INTEGER, at BIGINT) FROM FILES '{tmp_path}/no*.csv' WITH (timestamp = 'at')"
    )
    db.execute("CREATE TAGGED STREAM Opened OVER Doors; CREATE VIEW Open AS SELECT door FROM Opened")
    db.execute(f"CREATE VIEW Hot AS SELECT room, temp {KEYED} WHERE temp > 80")
    query = f"EXPLAIN SELECT STREAMED room {KEYED} WHERE temp > 70"
    assert 'not answered from  Hot: "temp" > 80 is not implied · Open: other inputs' in str(db.execute(query))
    (tmp_path / "1.csv").write_text("room,building,temp,name,x,day,at\n1,1,90,a,1.0,2024-01-01,1\n")
    db.run(final=False)
    assert "Hot: it began earlier, and has seen other rows" in str(db.execute(query))
    db.execute(f"CREATE VIEW Late AS SELECT room, temp {KEYED} WHERE temp > 80")
    db.run(final=False)
    assert "Late: it began earlier, with another plan" in str(db.execute(query))


def test_settings(db):
    db.execute("SET view_matching = off")
    db.execute(f"CREATE VIEW Hot AS SELECT room, temp {KEYED} WHERE temp > 80")
    db.execute(f"CREATE VIEW Hotter AS SELECT room {KEYED} WHERE temp > 85")
    assert answered(db, "hotter") == []
    with pytest.raises(PlanProblem, match="one of auto, off, always"):
        db.execute("SET view_matching = sometimes")
