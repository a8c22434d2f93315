"""Queries P1 to P7 and T1 to T5 (sections 1.1, 3, 4 and 5), spelled as in the paper."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.paper.notation import Feed, answers, rows_of, tagged

ENTERED = "<1,car,JOE DOE>1 <2,truck,ANN LEE>2 <3,car,JANE ROE>3 <4,POLICE,CITY>5 <5,bus,LINE 9>6 <6,POLICE,CITY>8"
LEFT = "<1,car,JOE DOE>4 <2,truck,ANN LEE>7 <4,POLICE,CITY>8"
READ = "<a,99>1 <b,75>2 <c,80>3 <a,95>4 <b,105>5 <a,79>6 <c,125>7 <b,101>8 <c,130>9"
SYNC_I = "CREATE STREAMED VIEW Sync{0} AS SELECT C.TimePoint FROM R(clockStr) C WHERE C.TimePoint mod {0} = 0"
PARK_LOT = "CREATE STREAMED VIEW ParkLot AS SELECT R1.VID, R1.VType FROM R(S1) R1 - R(S2) R2"
HOT_ROOMS_2 = """CREATE STREAMED VIEW HotRooms2 AS
    SELECT RoomID, Temperature
    FROM R(RoomTempStr, Sync2) R
    WHERE R.Temperature > 80"""


@pytest.fixture
def lot(db, tmp_path):
    """The parking lot; both streams follow the schema <VID, VType, VOwner>."""
    schema = "VID INTEGER, VType VARCHAR, VOwner VARCHAR"
    feeds = Feed(db, tmp_path, "Entrance", schema), Feed(db, tmp_path, "Exit", schema)
    db.execute("CREATE TAGGED STREAM S1 OVER Entrance; CREATE TAGGED STREAM S2 OVER Exit")
    return feeds


@pytest.fixture
def full_lot(lot):
    lot[0].send(ENTERED)
    lot[1].send(LEFT)
    return lot


@pytest.fixture
def rooms(db, tmp_path):
    feed = Feed(db, tmp_path, "TemperatureSource", "RoomID VARCHAR, Temperature INTEGER").send(READ)
    db.execute("CREATE TAGGED STREAM RoomTempStr OVER TemperatureSource KEY RoomID")
    return feed


def standing(db, text: str) -> list[str]:
    """The tagged output of a standing query over everything there is."""
    name = db.execute(text).name
    db.run()
    return tagged(db, name)


# ---- the parking lot ---------------------------------------------------------------------------

IN_AND_OUT = [
    "+<1,car>1",
    "+<2,truck>2",
    "+<3,car>3",
    "-<1,car>4",
    "+<4,POLICE>5",
    "+<5,bus>6",
    "-<2,truck>7",
    "-<4,POLICE>8",
    "+<6,POLICE>8",
]
BY_TYPE = ["+<car,1>1", "+<truck,1>2", "u<car,2>3", "u<car,1>4", "+<POLICE,1>5", "+<bus,1>6", "-<truck,1>7"]


def test_p1_a_plus_for_who_comes_a_minus_for_who_goes(db, full_lot):
    assert standing(db, "SELECT STREAMED R1.VID, R1.VType FROM R(S1) R1 — R(S2) R2") == IN_AND_OUT


def test_p2_an_aggregate_over_the_view_of_p1(db, full_lot):
    """Example 3. At 8 one police car goes and one comes: nothing to tell. The truck's group leaves with the truck."""
    db.execute(PARK_LOT)
    assert standing(db, "SELECT STREAMED P.VType, Count(P.VID) FROM R(ParkLot) P GROUP BY P.VType") == BY_TYPE


def test_p1_and_p2_share_the_view(db, full_lot):
    db.execute(PARK_LOT)
    p1 = db.execute("SELECT STREAMED P.VID, P.VType FROM R(ParkLot) P").name
    p2 = db.execute("SELECT STREAMED P.VType, Count(P.VID) FROM R(ParkLot) P GROUP BY P.VType").name
    db.run()
    assert (tagged(db, p1), tagged(db, p2)) == (IN_AND_OUT, BY_TYPE)


def test_p3_an_ad_hoc_question_to_a_complete_view(db, lot):
    db.execute("""CREATE COMPLETE VIEW CompParkLot AS
        SELECT R1.VID, R1.VType, R1.VOwner
        FROM R(S1) R1 - R(S2) R2""")
    question = "SELECT * FROM CompParkLot C WHERE C.VOwner = 'JOE DOE'"
    lot[0].send("<1,car,JOE DOE>1 <2,truck,ANN LEE>2 <3,car,JANE ROE>3")
    db.run()
    assert rows_of(db, question) == [(1, "car", "JOE DOE")]
    lot[1].send("<1,car,JOE DOE>4")
    db.run()
    assert rows_of(db, question) == []
    lot[0].send("<1,car,JOE DOE>5")
    db.run()
    assert rows_of(db, question) == [(1, "car", "JOE DOE")]


PARK_LOT_2 = [
    "+<1,car>2",
    "+<2,truck>2",
    "-<1,car>4",
    "+<3,car>4",
    "+<4,POLICE>6",
    "+<5,bus>6",
    "-<2,truck>8",
    "-<4,POLICE>8",
    "+<6,POLICE>8",
]


def test_p4_the_lot_every_two_units(db, full_lot):
    db.execute(SYNC_I.format(2))
    text = "SELECT STREAMED R1.VID, R1.VType FROM R(S1, Sync2) R1 - R(S2, Sync2) R2"
    assert standing(db, text) == PARK_LOT_2


def test_figure_5_p5_over_the_view_of_p4(db, full_lot):
    """+ for a new group, u when its number changes, - when all its vehicles left. Police car 4 is never seen."""
    for i in (2, 4):
        db.execute(SYNC_I.format(i))
    db.execute("CREATE STREAMED VIEW ParkLot2 AS SELECT R1.VID, R1.VType FROM R(S1, Sync2) R1 - R(S2, Sync2) R2")
    p5 = standing(db, "SELECT STREAMED P.VType, Count(P.VID) FROM R(ParkLot2, Sync4) P GROUP BY P.VType")
    assert tagged(db, "ParkLot2") == PARK_LOT_2
    assert p5 == ["+<car,1>4", "+<truck,1>4", "-<truck,1>8", "+<POLICE,1>8", "+<bus,1>8"]


def test_p4_as_the_streamed_relation_of_section_1_2(db, full_lot):
    """Case 2: the whole answer at each point, again for those who stay."""
    db.execute(SYNC_I.format(2))
    name = db.execute("SELECT RSTREAM R1.VID FROM R(S1, Sync2) R1 - R(S2, Sync2) R2").name
    db.run()
    assert rows_of(db, f"SELECT TS, VID FROM {name} ORDER BY ALL") == [
        (2, 1),
        (2, 2),
        (4, 2),
        (4, 3),
        (6, 2),
        (6, 3),
        (6, 4),
        (6, 5),
        (8, 3),
        (8, 5),
        (8, 6),
    ]


POLICE_SYNC = "CREATE STREAMED VIEW PoliceSync AS SELECT R.TS FROM R(S1) R WHERE R.VType = 'POLICE'"


def test_example_7_time_points_of_an_event(db, full_lot):
    db.execute(POLICE_SYNC)
    db.run()
    assert tagged(db, "PoliceSync") == ["+<5>5", "+<8>8"]


def test_p6_refreshed_when_a_police_car_enters(db, full_lot):
    db.execute(PARK_LOT)
    db.execute(POLICE_SYNC)
    assert standing(db, "SELECT STREAMED P.VType, Count(P.VID) FROM R(ParkLot, PoliceSync) P GROUP BY P.VType") == [
        "+<POLICE,1>5",
        "+<car,1>5",
        "+<truck,1>5",
        "-<truck,1>8",
        "+<bus,1>8",
    ]


def test_p7_who_entered_during_the_last_five_units(db, full_lot):
    """Example 4: the input only grows, and yet there are deletions."""
    db.execute("CREATE STREAMED VIEW FiveUnitsWindow AS SELECT * FROM R(S1) R WHERE Now - 5 < R.TS ≤ Now")
    db.execute("CREATE STREAMED VIEW Who AS SELECT W.VID FROM R(FiveUnitsWindow) W")
    db.run()
    assert tagged(db, "Who") == ["+<1>1", "+<2>2", "+<3>3", "+<4>5", "-<1>6", "+<5>6", "-<2>7", "-<3>8", "+<6>8"]
    assert tagged(db, "FiveUnitsWindow")[:1] == ["+<1,car,JOE DOE,1>1"]


def test_p7_moves_when_only_the_clock_moves(db, lot):
    db.execute("CREATE STREAMED VIEW W AS SELECT R.VID FROM R(S1) R WHERE Now - 5 < R.TS <= Now")
    db.execute("CREATE VIEW Gone AS SELECT * FROM R(S2)")
    lot[0].send("<1,car,JOE DOE>1")
    lot[1].send("<9,car,>7")
    db.run()
    assert tagged(db, "W") == ["+<1>1", "-<1>6"]


# ---- room temperatures -------------------------------------------------------------------------


def test_t1_rooms_above_80(db, rooms):
    assert standing(db, "SELECT STREAMED RoomID, Temperature FROM R(RoomTempStr) R WHERE R.Temperature > 80") == [
        "+<a,99>1",
        "u<a,95>4",
        "+<b,105>5",
        "-<a,95>6",
        "+<c,125>7",
        "u<b,101>8",
        "u<c,130>9",
    ]


def test_t2_rooms_above_100(db, rooms):
    assert standing(db, "SELECT STREAMED RoomID, Temperature FROM R(RoomTempStr) R WHERE R.Temperature > 100") == [
        "+<b,105>5",
        "+<c,125>7",
        "u<b,101>8",
        "u<c,130>9",
    ]


T3 = ["+<a,99>2", "u<a,95>4", "-<a,95>6", "+<b,105>6", "u<b,101>8", "+<c,125>8"]
T4 = ["+<b,101>8", "+<c,125>8"]


def test_t3_is_t1_every_two_units(db, rooms):
    """Example 5."""
    db.execute(SYNC_I.format(2))
    db.execute(HOT_ROOMS_2)
    db.run()
    assert tagged(db, "HotRooms2") == T3


def test_t4_is_t2_every_four_units(db, rooms):
    db.execute(SYNC_I.format(4))
    assert (
        standing(db, "SELECT STREAMED RoomID, Temperature FROM R(RoomTempStr, Sync4) R WHERE R.Temperature > 100") == T4
    )


def test_example_11_t4_over_the_view_of_t3(db, rooms):
    for i in (2, 4):
        db.execute(SYNC_I.format(i))
    db.execute(HOT_ROOMS_2)
    query = "SELECT STREAMED V.RoomID, V.Temperature FROM R(HotRooms2, Sync4) V WHERE V.Temperature > 100"
    assert standing(db, query) == T4


def test_t5_refreshed_when_a_room_reports_more_than_120(db, rooms):
    db.execute("CREATE STREAMED VIEW HotSync AS SELECT R.TS FROM R(RoomTempStr) R WHERE R.Temperature > 120")
    assert standing(
        db, "SELECT STREAMED RoomID, Temperature FROM R(RoomTempStr, HotSync) R WHERE R.Temperature > 100"
    ) == ["+<b,105>7", "+<c,125>7", "u<b,101>9", "u<c,130>9"]


def test_two_applications_read_one_source_in_two_ways(db, rooms):
    """Section 4.1: an update stream of rooms, and a series of readings in which the room does not matter."""
    db.execute("CREATE TAGGED STREAM TempStr OVER TemperatureSource")
    db.execute("CREATE STREAMED VIEW Rooms AS SELECT RoomID FROM R(RoomTempStr)")
    db.execute("CREATE STREAMED VIEW Readings AS SELECT RoomID, Temperature FROM R(TempStr)")
    db.run()
    assert tagged(db, "Rooms") == ["+<a>1", "+<b>2", "+<c>3"]
    assert [t[0] for t in tagged(db, "Readings")] == ["+"] * 9


# ---- windows over joins ------------------------------------------------------------------------


def test_window_join_of_section_4_4(db, tmp_path):
    """Two tuples meet only when they are less than 5 units apart."""
    Feed(db, tmp_path, "A", "ID INTEGER, X VARCHAR").send("<1,a>1 <1,b>6 <2,c>7")
    Feed(db, tmp_path, "B", "ID INTEGER, Y VARCHAR").send("<1,p>2 <1,q>5 <1,s>11 <2,r>12")
    db.execute("CREATE TAGGED STREAM Si OVER A; CREATE TAGGED STREAM Sj OVER B")
    db.execute("""CREATE STREAMED VIEW Near AS SELECT I.X, J.Y FROM R(Si) I, R(Sj) J
                  WHERE I.TS - 5 < J.TS < I.TS + 5""")
    db.execute("""CREATE STREAMED VIEW Same AS SELECT I.X, J.Y FROM R(Si) I, R(Sj) J
                  WHERE I.ID = J.ID AND I.TS - 5 < J.TS < I.TS + 5""")
    db.run()
    assert tagged(db, "Near") == ["+<a,p>2", "+<a,q>5", "+<b,p>6", "+<b,q>6", "+<c,q>7", "+<c,s>11"]
    assert answers(db, "Same")[6] == [("a", "p"), ("a", "q"), ("b", "p"), ("b", "q")]


# ---- all of them together ----------------------------------------------------------------------


@pytest.mark.parametrize(("shards", "rows"), [(1, 1), (3, 2), (3, 1000)])
def test_shards_and_batches_do_not_show(tmp_path, shards, rows):
    """P1, P2, P4, P5, P6 and P7 in one database, whatever it is cut into."""
    db = LocalDatabase(str(tmp_path / "db"), shards=shards)
    schema, options = "VID INTEGER, VType VARCHAR, VOwner VARCHAR", f"batch_rows = {rows}"
    Feed(db, tmp_path, "Entrance", schema, options=options).send(ENTERED)
    Feed(db, tmp_path, "Exit", schema, options=options).send(LEFT)
    db.execute("CREATE TAGGED STREAM S1 OVER Entrance; CREATE TAGGED STREAM S2 OVER Exit")
    db.execute(PARK_LOT)
    db.execute(POLICE_SYNC)
    for i in (2, 4):
        db.execute(SYNC_I.format(i))
    db.execute("CREATE STREAMED VIEW P2 AS SELECT P.VType, Count(P.VID) FROM R(ParkLot) P GROUP BY P.VType")
    db.execute("CREATE STREAMED VIEW P4 AS SELECT R1.VID, R1.VType FROM R(S1, Sync2) R1 - R(S2, Sync2) R2")
    db.execute("CREATE STREAMED VIEW P5 AS SELECT P.VType, Count(P.VID) FROM R(P4, Sync4) P GROUP BY P.VType")
    db.execute("CREATE STREAMED VIEW P6 AS SELECT P.VType, Count(P.VID) FROM R(ParkLot, PoliceSync) P GROUP BY P.VType")
    db.execute("CREATE STREAMED VIEW P7 AS SELECT R.VID FROM R(S1) R WHERE Now - 5 < R.TS <= Now")
    db.run()
    assert tagged(db, "ParkLot") == IN_AND_OUT
    assert tagged(db, "P2") == BY_TYPE
    assert tagged(db, "P4") == PARK_LOT_2
    assert tagged(db, "P5") == ["+<car,1>4", "+<truck,1>4", "-<truck,1>8", "+<POLICE,1>8", "+<bus,1>8"]
    assert tagged(db, "P6") == ["+<POLICE,1>5", "+<car,1>5", "+<truck,1>5", "-<truck,1>8", "+<bus,1>8"]
    assert tagged(db, "P7") == ["+<1>1", "+<2>2", "+<3>3", "+<4>5", "-<1>6", "+<5>6", "-<2>7", "-<3>8", "+<6>8"]
    db.close()
