"""Section 10 where it states answers: select-tagger, its two distributions, and presynchronization."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.paper.notation import Feed, tagged

READINGS = "<1,7,86>0 <2,7,90>0 <3,8,70>0 <1,7,84>1 <3,8,88>1 <1,7,87>1 <2,7,80>2 <1,7,95>3 <3,8,89>3 <2,7,99>4"
HOT = """SELECT R.Building, Count(R.RoomID) as cntRooms
    FROM R(RoomTempStr) R
    WHERE Temperature > 85
    GROUP BY R.Building"""


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ((89, 87, 79, 78), ["+<1,89>1", "u<1,87>2", "-<1,87>3"]),
        ((89, 79, 87, 78), ["+<1,89>1", "-<1,89>2", "+<1,87>3", "-<1,87>4"]),
    ],
    ids=["+ u -", "+ - + -"],
)
@pytest.mark.parametrize("without", [(), ("merge_select_tagger",)], ids=["merged", "tagger and select"])
def test_the_order_of_the_readings_decides_how_many_tuples_come_out(tmp_path, readings, expected, without):
    """Section 10.3.2: the same four readings, the same selectivity."""
    db = LocalDatabase(str(tmp_path / "db"), without=without)
    Feed(db, tmp_path, "TemperatureSource", "RoomID INTEGER, Temperature INTEGER").send(
        [(1, t, i) for i, t in enumerate(readings, 1)]
    )
    db.execute("CREATE TAGGED STREAM RoomTempStr OVER TemperatureSource KEY RoomID")
    db.execute(
        "CREATE STREAMED VIEW HotRooms1 AS SELECT RoomID, Temperature FROM R(RoomTempStr) R WHERE R.Temperature > 80"
    )
    db.run()
    assert tagged(db, "HotRooms1") == expected
    db.close()


def buildings(tmp_path, without=()) -> LocalDatabase:
    db = LocalDatabase(str(tmp_path / "db"), without=without)
    Feed(db, tmp_path, "TemperatureSource", "RoomID INTEGER, Building INTEGER, Temperature INTEGER").send(READINGS)
    db.execute("CREATE TAGGED STREAM RoomTempStr OVER TemperatureSource KEY RoomID")
    db.execute("CREATE STREAMED VIEW Sync2 AS SELECT C.TimePoint FROM R(clockStr) C WHERE C.TimePoint mod 2 = 0")
    return db


def test_hot_rooms_of_each_building(tmp_path):
    """Section 10.5: an update whenever a room enters or leaves the range; one for each building and point."""
    db = buildings(tmp_path)
    db.execute(f"CREATE STREAMED VIEW BuildHotRooms AS {HOT}")
    name = db.execute("SELECT STREAMED V.Building, V.cntRooms FROM R(BuildHotRooms, Sync2) V").name
    db.run()
    assert tagged(db, "BuildHotRooms") == ["+<7,2>0", "+<8,1>1", "u<7,1>2", "u<7,2>4"]
    assert tagged(db, name) == ["+<7,2>0", "u<7,1>2", "+<8,1>2", "u<7,2>4"]
    db.close()


@pytest.mark.parametrize("without", [(), ("presynchronize",), ("presynchronize", "merge_select_tagger")])
def test_presynchronization_does_not_change_the_answer(tmp_path, without):
    db = buildings(tmp_path, without)
    db.execute(f"CREATE STREAMED VIEW V AS SELECT V.Building, V.cntRooms FROM ({HOT}) V SYNC EVERY 2")
    db.run()
    assert tagged(db, "V") == ["+<7,2>0", "u<7,1>2", "+<8,1>2", "u<7,2>4"]
    db.close()


def test_presynchronization_puts_a_synchronizer_below_the_grouping(tmp_path):
    db = buildings(tmp_path)
    plan = str(db.explain(f"SELECT STREAMED V.Building, V.cntRooms FROM ({HOT}) V SYNC EVERY 2"))
    assert "presynchronize" in plan and "merge_select_tagger" in plan
    tree = plan.split("rules")[0]
    assert tree.index("GroupBy") < tree.index("Synchronize")
    db.close()


def test_building_groups_and_temperature_groups(tmp_path):
    """Section 10.6.1: two aggregates with different groups and different points over one stream."""
    db = buildings(tmp_path)
    db.execute("""CREATE STREAMED VIEW BuildingGroups AS SELECT Building, count(*) AS rooms
                  FROM RoomTempStr SYNC EVERY 2 WHERE Temperature > 80 GROUP BY Building""")
    db.execute("""CREATE STREAMED VIEW TemperatureGroups AS SELECT Temperature, count(*) AS rooms
                  FROM RoomTempStr SYNC EVERY 4 WHERE Temperature > 80 GROUP BY Temperature""")
    db.run()
    assert tagged(db, "BuildingGroups") == ["+<7,2>0", "u<7,1>2", "+<8,1>2", "u<7,2>4"]
    assert tagged(db, "TemperatureGroups") == [
        "+<86,1>0",
        "+<90,1>0",
        "-<86,1>4",
        "-<90,1>4",
        "+<89,1>4",
        "+<95,1>4",
        "+<99,1>4",
    ]
    db.close()
