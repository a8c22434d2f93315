"""An ad hoc query over a stream is answered from a view that has seen all of its rows and contains what is asked."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tidemill import as_of
from tidemill.errors import PlanProblem

SETUP = """
REGISTER SOURCE Temps (room INTEGER, building INTEGER, temp INTEGER, at BIGINT) FROM FILES '{}/*.csv'
  WITH (timestamp = 'at');
CREATE TAGGED STREAM Rooms OVER Temps KEY room;
CREATE VIEW Hot AS SELECT room, building, temp, TS FROM Rooms WHERE temp > 80;
CREATE VIEW Hotter AS SELECT room, temp FROM Rooms WHERE temp > 100;
CREATE STREAMED VIEW Everything AS SELECT * FROM Rooms;
"""


@pytest.fixture
def db(tmp_path):
    (tmp_path / "1.csv").write_text("room,building,temp,at\n1,1,90,1\n2,1,101,2\n3,2,110,3\n2,1,70,4\n4,2,85,5\n")
    with LocalDatabase(str(tmp_path / "db")) as made:
        made.execute(SETUP.format(tmp_path))
        made.run()
        yield made


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT room FROM Rooms WHERE temp > 85 ORDER BY room", [(1,), (3,)]),
        ("SELECT room, temp FROM Rooms WHERE temp > 100", [(3, 110)]),
        ("SELECT count(*) AS n, max(temp) AS m FROM Rooms WHERE temp > 80 AND building = 2", [(2, 110)]),
        ("SELECT r.room, r.TS FROM Rooms r WHERE r.temp BETWEEN 84 AND 95 ORDER BY 1 DESC LIMIT 1", [(4, 5)]),
        ("SELECT n FROM (SELECT count(*) AS n FROM Rooms WHERE temp >= 81) WHERE n > 1", [(3,)]),
        ("WITH h AS (SELECT room FROM Rooms WHERE temp = 90) SELECT * FROM h", [(1,)]),
        ("SELECT room FROM Rooms WHERE temp > 80 AND temp = (SELECT max(temp) FROM Hot)", [(3,)]),
        ("SELECT room FROM Hot h WHERE EXISTS (SELECT 1 FROM Rooms r WHERE r.room = h.room AND r.temp > 100)", [(3,)]),
        ("SELECT room FROM Hot WHERE temp >= ALL (SELECT temp FROM Rooms WHERE temp > 80)", [(3,)]),
        ("SELECT room FROM Hot ANTI JOIN (SELECT room AS r FROM Rooms WHERE temp > 84) ON r = room", []),
    ],
)
def test_answers_are_those_of_the_stream(db, query, rows):
    found = db.query(query)
    assert [tuple(row.values()) for row in found.to_pylist()] == rows
    assert as_of(found) == 5


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT room, temp FROM Warm ORDER BY room", [(1, 90), (3, 110)]),
        ("SELECT room FROM Warmer", [(3,)]),
        ("SELECT building, n FROM ByBuilding ORDER BY building", [(1, 1), (2, 2)]),
        ("SELECT w.room, h.building FROM Warmer w JOIN Hot h ON w.room = h.room", [(3, 2)]),
        ("SELECT room FROM Hot h WHERE EXISTS (SELECT 1 FROM Warmer r WHERE r.room = h.room)", [(3,)]),
        ("WITH Rooms AS (SELECT 7 AS room, 99 AS temp) SELECT room FROM Warm ORDER BY room", [(1,), (3,)]),
    ],
)
def test_virtual_views_over_streams_are_answered_as_their_texts_are(db, query, rows):
    """They were refused, whatever views there were."""
    db.execute(
        "CREATE VIRTUAL VIEW Warm AS SELECT room, temp FROM Rooms WHERE temp > 85;"
        "CREATE VIRTUAL VIEW Warmer AS SELECT room FROM Warm WHERE temp > 95;"
        "CREATE VIRTUAL VIEW ByBuilding AS SELECT building, count(*) AS n FROM Rooms WHERE temp > 80 GROUP BY building"
    )
    found = db.query(query)
    assert [tuple(row.values()) for row in found.to_pylist()] == rows
    assert as_of(found) == 5
    db.execute("CREATE VIRTUAL VIEW Cold AS SELECT room FROM Rooms WHERE temp < 9")
    with pytest.raises(PlanProblem, match="TM215") as refused:
        db.query("SELECT room FROM Cold")
    assert 'in virtual view "Cold": Hot: "temp" > 80 is not implied' in refused.value.detail


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT room FROM Rooms WHERE temp > 70", '"temp" > 80 is not implied'),
        ("SELECT at FROM Rooms WHERE temp > 90", 'it does not give "at"'),
        ("SELECT * FROM Rooms", "is not implied"),
        ("SELECT a.room FROM Rooms a, Hot b WHERE a.temp > 100", "reads nothing else"),
        ("SELECT room FROM Rooms WHERE temp > (SELECT max(temp) FROM Hot)", "is not implied"),
    ],
)
def test_what_no_view_contains_is_refused(db, query, why):
    with pytest.raises(PlanProblem, match="TM215") as refused:
        db.query(query)
    assert why in refused.value.detail and refused.value.line == 1


def test_a_view_that_came_later_does_not_answer(db, tmp_path):
    db.execute("CREATE VIEW Late AS SELECT room, temp, at FROM Rooms")
    (tmp_path / "2.csv").write_text("room,building,temp,at\n9,1,50,9\n")
    db.run()
    with pytest.raises(PlanProblem, match="TM215"):
        db.query("SELECT room FROM Rooms WHERE temp < 60")


def test_a_view_that_has_not_caught_up_does_not_answer(tmp_path):
    """It is empty until then: the answer would be that there are no rows."""
    (tmp_path / "1.csv").write_text("room,building,temp,at\n" + "".join(f"{i % 7},1,{i},{i}\n" for i in range(40)))
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path).replace("timestamp = 'at'", "timestamp = 'at', batch_rows = 4"))
        db.run(final=False)
        db.execute("CREATE VIEW Cool WITH (begin = 'history') AS SELECT room, temp FROM Rooms WHERE temp < 90")
        db.runner.publisher.publish(mode="live")
        db.runner.bring_up()
        for _ in range(2):
            with pytest.raises(PlanProblem, match="TM215") as refused:
                db.query("SELECT room FROM Rooms WHERE temp < 35")
            assert "Cool: it has not caught up" in refused.value.detail
            db.step()
        db.run()
        assert sorted(db.query("SELECT room FROM Rooms WHERE temp < 35")["room"].to_pylist()) == [5, 6]


def test_a_view_that_was_just_created_does_not_answer(db):
    query = "SELECT room FROM Rooms WHERE temp > 86 AND building = 1"
    assert db.query(query)["room"].to_pylist() == [1]
    db.execute("CREATE VIEW Small WITH (begin = 'history') AS SELECT room, temp, building FROM Rooms WHERE temp > 86")
    assert db.query(query)["room"].to_pylist() == [1]
    db.execute("DROP VIEW Hot")
    with pytest.raises(PlanProblem, match="TM215") as refused:
        db.query(query)
    assert "Small: it has not caught up" in refused.value.detail
    db.run()
    assert db.query(query)["room"].to_pylist() == [1]


def test_a_column_that_is_called_as_its_stream(db):
    assert db.query("SELECT temp FROM Rooms temp WHERE temp > 100")["temp"].to_pylist() == [110]


def test_a_time_that_is_named_is_shown_by_a_view_that_knows_it(tmp_path):
    """The smallest view answered, also where it had begun after the time: as if there had been no rows."""
    (tmp_path / "1.csv").write_text("room,building,temp,at\n1,1,90,1\n2,1,101,2\n3,2,110,3\n2,1,70,4\n4,2,85,5\n")
    kept = "WITH (retain = 1000, begin = 'history')"
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path))
        db.execute(f"CREATE VIEW Whole {kept} AS SELECT room, temp FROM Rooms")
        db.run(final=False)
        db.execute("DROP VIEW Hot; DROP VIEW Everything")  # they contain the next one, which is to be read again
        db.execute(f"CREATE VIEW Later {kept} AS SELECT room, temp, building FROM Rooms WHERE temp > 82")
        db.execute(f"CREATE VIEW OnView {kept} AS SELECT room, temp FROM Whole WHERE temp > 82")
        (tmp_path / "2.csv").write_text("room,building,temp,at\n9,1,99,9\n")
        db.run(final=False)
        for time, rooms in ((2, [1, 2]), (4, [1, 3]), (9, [1, 3, 4, 9])):
            found = db.query(f"SELECT room FROM Rooms WHERE temp > 84 ORDER BY room AS OF {time}")
            assert (found["room"].to_pylist(), as_of(found)) == (rooms, time)
        db.execute("DROP VIEW OnView; DROP VIEW Whole; DROP VIEW Hotter")
        assert sorted(db.query("SELECT room FROM Rooms WHERE temp > 98 AS OF 9")["room"].to_pylist()) == [3, 9]
        with pytest.raises(PlanProblem, match="TM215") as refused:
            db.query("SELECT room FROM Rooms WHERE temp > 84 AS OF 2")
        assert "Later: it began with what was there at a later time" in refused.value.detail
