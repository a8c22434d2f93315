"""Figures 1 to 4 and examples 1, 5, 6, 8 and 9: one relation, its synchronization, its way back into a stream."""

from __future__ import annotations

import pytest

from tests.paper.notation import Feed, answers, raw, rows_of, tagged

FIGURE_1 = "<a,99>1 <b,75>2 <c,80>3 <a,95>4"
SYNC_I = "CREATE STREAMED VIEW Sync{0} AS SELECT C.TimePoint FROM R(clockStr) C WHERE C.TimePoint mod {0} = 0"


@pytest.fixture
def rooms(db, tmp_path):
    feed = Feed(db, tmp_path, "TemperatureSource", "RoomID VARCHAR, Temperature INTEGER").send(FIGURE_1)
    db.execute("CREATE TAGGED STREAM RoomTempStr OVER TemperatureSource KEY RoomID")
    return feed


def test_figure_1_a_tagged_stream_of_inserts_and_updates(db, rooms):
    db.execute("CREATE STREAMED VIEW Rel AS SELECT RoomID, Temperature, R.TS AS Since FROM R(RoomTempStr) R")
    db.run()
    assert tagged(db, "Rel") == ["+<a,99,1>1", "+<b,75,2>2", "+<c,80,3>3", "u<a,95,4>4"]


def test_figure_1_the_time_varying_relation(db, rooms):
    db.execute("CREATE STREAMED VIEW Rel AS SELECT RoomID, Temperature, R.TS AS Since FROM R(RoomTempStr) R")
    db.run()
    assert answers(db, "Rel") == {
        1: [("a", 99, 1)],
        2: [("a", 99, 1), ("b", 75, 2)],
        3: [("a", 99, 1), ("b", 75, 2), ("c", 80, 3)],
        4: [("a", 95, 4), ("b", 75, 2), ("c", 80, 3)],
    }


def test_an_update_carries_the_old_values(db, rooms):
    db.execute("CREATE STREAMED VIEW Rel AS SELECT RoomID, Temperature FROM R(RoomTempStr)")
    db.run()
    changes = db.changes("Rel").to_pylist()
    assert [c["OLD"] for c in changes] == [None, None, None, {"RoomID": "a", "Temperature": 99}]


def test_figures_2_and_3_a_synchronized_relation_and_its_stream(db, rooms):
    db.execute(SYNC_I.format(2))
    db.execute("CREATE STREAMED VIEW Sout AS SELECT RoomID, Temperature, R.TS AS Since FROM R(RoomTempStr, Sync2) R")
    db.run()
    assert tagged(db, "Sout") == ["+<a,99,1>2", "+<b,75,2>2", "u<a,95,4>4", "+<c,80,3>4"]
    assert answers(db, "Sout") == {2: [("a", 99, 1), ("b", 75, 2)], 4: [("a", 95, 4), ("b", 75, 2), ("c", 80, 3)]}


def test_example_8_star_shows_the_attributes_and_their_time(db, rooms):
    db.execute(SYNC_I.format(2))
    name = db.execute("SELECT STREAMED * FROM R(RoomTempStr, Sync2)").name
    db.run()
    assert tagged(db, name) == ["+<a,99,1>2", "+<b,75,2>2", "u<a,95,4>4", "+<c,80,3>4"]


def test_between_two_points_nothing_is_seen(db, rooms):
    """At time 3 the relation of figure 2 is still that of time 2."""
    db.execute(SYNC_I.format(2))
    db.execute("CREATE COMPLETE VIEW Now2 AS SELECT RoomID, Temperature FROM R(RoomTempStr, Sync2)")
    rooms.folder.joinpath("000001.json").unlink()
    rooms.send("<a,99>1 <b,75>2 <c,80>3")
    db.run()
    assert rows_of(db, "SELECT * FROM Now2 ORDER BY ALL") == [("a", 99), ("b", 75)]
    rooms.send("<a,95>4")
    db.run()
    assert rows_of(db, "SELECT * FROM Now2 ORDER BY ALL") == [("a", 95), ("b", 75), ("c", 80)]


def test_example_6_synchronization_streams_over_the_clock(db, tmp_path):
    Feed(db, tmp_path, "Raw", "x INTEGER").send("<1>0 <1>9")
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE STREAMED VIEW V AS SELECT x FROM R(S)")
    db.execute("CREATE STREAMED VIEW Ticks AS SELECT C.TimePoint FROM R(clockStr) C")
    for i in (2, 3):
        db.execute(SYNC_I.format(i))
    db.run()
    assert tagged(db, "Ticks") == [f"+<{t}>{t}" for t in range(10)]
    assert tagged(db, "Sync2") == ["+<0>0", "+<2>2", "+<4>4", "+<6>6", "+<8>8"]
    assert tagged(db, "Sync3") == ["+<0>0", "+<3>3", "+<6>6", "+<9>9"]


def test_the_clock_begins_with_the_first_event(db, rooms):
    db.execute("CREATE STREAMED VIEW Ticks AS SELECT C.TimePoint FROM R(clockStr) C")
    db.execute("CREATE VIEW Any AS SELECT * FROM R(RoomTempStr)")
    db.run()
    assert tagged(db, "Ticks") == ["+<1>1", "+<2>2", "+<3>3", "+<4>4"]


def example_9(db, tmp_path, select: str) -> str:
    """Key 1 of both streams changes at every time, so the join shows how far it knows either side."""
    for name, factor in (("A", 1), ("B", 10)):
        Feed(db, tmp_path, name, "ID INTEGER, V INTEGER").send([(1, factor * t, t) for t in range(8)])
    db.execute("CREATE TAGGED STREAM S2 OVER A KEY ID; CREATE TAGGED STREAM S3 OVER B KEY ID")
    for i in (2, 3):
        db.execute(SYNC_I.format(i))
    return db.execute(f"select STREAMED {select} from R(S2, Sync2) R2, R(S3, Sync3) R3 where R2.ID = R3.ID").name


def test_example_9_full_and_partial_synchronization_points(db, tmp_path):
    """2, 3 and 4 are partial (one side is older), 0 and 6 are full; 1, 5 and 7 are no points at all."""
    name = example_9(db, tmp_path, "R2.ID, R2.V AS V2, R3.V AS V3")
    db.run()
    assert tagged(db, name) == ["+<1,0,0>0", "u<1,2,0>2", "u<1,2,30>3", "u<1,4,30>4", "u<1,6,60>6"]


def test_example_9_as_it_is_written(db, tmp_path):
    name = example_9(db, tmp_path, "*")
    db.run()
    assert db.changes(name).column_names == ["TAG", "TS", "ID", "V", "at", "ID_1", "V_1", "at_1", "OLD"]
    assert tagged(db, name)[1:3] == ["u<1,2,2,1,0,0>2", "u<1,2,2,1,30,3>3"]


def test_example_9_equals_definition_2(db, tmp_path):
    """Append-only inputs with several keys against the definition: R[S2(last point)] joined with R[S3(last point)]."""
    left, right = "<1,5>0 <2,5>1 <1,6>2 <3,7>3 <2,8>5 <1,9>6", "<2,1>1 <1,2>2 <1,3>3 <3,4>4 <2,6>6"
    for name, rows in (("A", left), ("B", right)):
        Feed(db, tmp_path, name, "ID INTEGER, V INTEGER").send(rows)
    db.execute("CREATE TAGGED STREAM S2 OVER A; CREATE TAGGED STREAM S3 OVER B")
    for i in (2, 3):
        db.execute(SYNC_I.format(i))
    db.execute("""CREATE STREAMED VIEW O WITH (unbounded_state = true) AS SELECT R2.ID, R2.V AS V2, R3.V AS V3
                  FROM R(S2, Sync2) R2, R(S3, Sync3) R3 WHERE R2.ID = R3.ID""")
    db.run()

    def joined(t: int) -> list[tuple[int, int, int]]:
        known2, known3 = t // 2 * 2, t // 3 * 3
        return sorted(
            (
                (i, v, w)
                for i, v, at in raw(left)
                for j, w, to in raw(right)
                if i == j and at <= known2 and to <= known3
            ),
            key=str,
        )

    history = answers(db, "O")
    shown: list[tuple[int, int, int]] = []
    for t in range(7):
        shown = history.get(t, shown)
        assert shown == joined(t), f"at {t}"
    assert set(history) <= {0, 2, 3, 4, 6}
