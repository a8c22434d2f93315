"""Points of queries as the paper prints them: sections 5.3, 6.1 and 10.5."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import LocalDatabase
from tests.paper.notation import Feed
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.physical import Physical

SYNC = "CREATE STREAMED VIEW {0} AS SELECT C.TimePoint FROM R(clockStr) C WHERE {1}"
HOT = "SELECT RoomID, Temperature FROM {} R WHERE R.Temperature > 80"
BUILDINGS = """CREATE STREAMED VIEW BuildHotRooms AS SELECT R.Building, Count(R.RoomID) AS cntRooms
    FROM R(RoomTempStr) R WHERE Temperature > 85 GROUP BY R.Building"""
COUNTED = (
    "SELECT V.Building, V.n FROM (SELECT Building, Count(RoomID) AS n FROM RoomTempStr WHERE Temperature > 85"
    " GROUP BY Building) V {}"
)


@pytest.fixture
def rooms(db, tmp_path):
    schema = "RoomID VARCHAR, Building VARCHAR, Temperature INTEGER"
    feed = Feed(db, tmp_path, "TemperatureSource", schema).send("<a,x,99>1 <b,y,75>2 <c,x,80>3 <a,x,95>4 <b,y,105>5")
    db.execute("CREATE TAGGED STREAM RoomTempStr OVER TemperatureSource KEY RoomID")
    db.execute(SYNC.format("Sync2", "C.TimePoint mod 2 = 0"))
    db.execute(SYNC.format("Sync3", "C.TimePoint mod 3 = 0"))
    return feed


def plan(db: LocalDatabase, text: str) -> r.Relation:
    """The optimized plan of a query that would be created now."""
    [(_, found)] = db.explain(f"SELECT STREAMED {text.removeprefix('SELECT ')}").roots.items()
    return found


def physical(db: LocalDatabase, text: str) -> Physical:
    found = db.explain(f"SELECT STREAMED {text.removeprefix('SELECT ')}").physical
    assert found is not None
    return found


@pytest.mark.parametrize("ran", [False, True], ids=["with Sync2", "after Sync2 ran"])
@pytest.mark.parametrize(
    "printed, every",
    [
        (HOT.format("R(RoomTempStr, Sync2)"), HOT.format("RoomTempStr SYNC EVERY 2")),
        (COUNTED.format("SYNC ON Sync2"), COUNTED.format("SYNC EVERY 2")),
        (
            "SELECT V.Building, V.cntRooms FROM R(BuildHotRooms, Sync2) V",
            "SELECT V.Building, V.cntRooms FROM BuildHotRooms SYNC EVERY 2 AS V",
        ),
    ],
    ids=["HotRooms2", "10.5 in one query", "10.5"],
)
def test_printed_queries_have_the_plans_of_their_every_spellings(db, rooms, printed, every, ran):
    db.execute(BUILDINGS)
    if ran:
        db.run(final=False)
    assert plan(db, printed).fingerprint == plan(db, every).fingerprint
    assert physical(db, printed).to_json() == physical(db, every).to_json()


@pytest.mark.parametrize("points", ["R(BuildHotRooms, Sync2)", "BuildHotRooms SYNC EVERY 2 AS"])
def test_rooms_are_synchronized_before_they_are_counted(db, rooms, points):
    """Section 10.5, figure 10: the view is unfolded, and only its reader's points count. A view that is kept has
    readers of its own, so that it counts at every change.
    """
    query = f"SELECT V.Building, V.cntRooms FROM {points} V"
    db.execute(BUILDINGS)
    assert not any(isinstance(n, r.Synchronize) for n in walk(next(grouped(plan(db, query)))))
    db.execute(f"DROP VIEW BuildHotRooms; {BUILDINGS.replace('STREAMED', 'VIRTUAL')}")
    node = plan(db, query)
    assert any(isinstance(n, (r.Synchronize, r.SynchronizePeriods)) for n in walk(next(grouped(node))))


def grouped(node: r.Relation) -> Iterator[r.Relation]:
    """The groupings of a plan."""
    return (n for n in walk(node) if isinstance(n, r.GroupBy))


def test_the_selection_of_hot_rooms_is_merged_into_the_tagger(db, rooms):
    """Section 10.3.1, below a synchronizer on points from data as well."""
    db.execute("CREATE STREAMED VIEW Alarms AS SELECT TS FROM RoomTempStr WHERE Temperature > 120")
    for points in ("Sync2", "Alarms"):
        nodes = [*walk(plan(db, HOT.format(f"R(RoomTempStr, {points})")))]
        assert any(isinstance(n, r.Tag) and n.deleted is not None and "80" in n.deleted.sql for n in nodes)


def test_example_9_shows_6_as_full(db, rooms):
    text = "SELECT R2.RoomID FROM R(RoomTempStr, Sync2) R2, R(RoomTempStr, Sync3) R3 WHERE R2.RoomID = R3.RoomID"
    explained = db.explain(f"SELECT STREAMED {text.removeprefix('SELECT ')}")
    assert "\npoints: every 2 s ∪ every 3 s; full: every 6 s\n" in str(explained)
    assert explained.to_dict()["points"] == {"query": "every 2 s ∪ every 3 s; full: every 6 s"}
    db.execute(f"CREATE VIEW O AS {text}")
    assert set(db.execute("DESCRIBE O").column("points").to_pylist()) == {"every 2 s ∪ every 3 s; full: every 6 s"}
    assert "\npoints\n  Sync2: every 2 s\n  Sync3: every 3 s\n  O: every 2 s ∪ every 3 s; full" in str(db.explain())


def test_a_view_of_an_older_database_keeps_its_plan(db, rooms, tmp_path):
    """Its state fits the plan that it was made with: operators are found by their fingerprints."""
    db.execute(SYNC.format("Odd", "C.TimePoint mod 2 = 1"))
    db.execute("CREATE STREAMED VIEW Alarms AS SELECT TS FROM RoomTempStr WHERE Temperature > 100")
    db.execute(f"CREATE STREAMED VIEW Old AS {HOT.format('R(RoomTempStr, Odd)')}")
    db.execute(f"CREATE STREAMED VIEW Older AS {HOT.format('R(RoomTempStr, Alarms)')}")
    for name in ("old", "older"):
        db.catalog.entries[name].planning = 0
    db.run(final=False)
    db.close()
    with LocalDatabase(str(tmp_path / "db")) as again:
        for name in ("old", "older"):
            top = again.workload.views[name].node
            kinds = [type(n).__name__ for n in walk(top)]
            assert "SynchronizeOn" in kinds and "SynchronizePeriods" not in kinds
            filters = [n for n in walk(top) if isinstance(n, r.Filter) and isinstance(n.input, r.SynchronizeOn)]
            assert filters, "the selection stays above the synchronizer"
        again.execute(f"CREATE OR REPLACE STREAMED VIEW Old AS {HOT.format('R(RoomTempStr, Odd)')}")
        assert any(isinstance(n, r.SynchronizePeriods) for n in walk(again.workload.views["old"].node))
