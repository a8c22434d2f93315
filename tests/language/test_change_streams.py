"""ISTREAM and DSTREAM: the rows that come and those that go, as CQL has them."""

from __future__ import annotations

import json

import pytest

from tests.harness import LocalDatabase
from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.paper.notation import Feed, rows_of, tagged
from tidemill.errors import TidemillError

RECORDS = "<1,a,5>1 <2,b,7>2 <1,a,5>3 <1,b,9>4 <2,b,7>6"


@pytest.fixture
def db(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as opened:
        Feed(opened, tmp_path, "Raw", "id INTEGER, g VARCHAR, v INTEGER").send(RECORDS)
        opened.execute("CREATE TAGGED STREAM S OVER Raw; CREATE TAGGED STREAM K OVER Raw KEY id")
        yield opened


def test_an_update_is_its_new_row_and_its_old_row(db):
    db.execute(
        "CREATE ISTREAM VIEW I AS SELECT id, g FROM K; CREATE DSTREAM VIEW D AS SELECT id, g FROM K;"
        "CREATE STREAMED VIEW Both AS SELECT id, g FROM K"
    )
    db.run()
    assert tagged(db, "Both") == ["+<1,a>1", "+<2,b>2", "u<1,b>4"]
    assert rows_of(db, "SELECT * FROM I ORDER BY TS") == [(1, 1, "a"), (2, 2, "b"), (4, 1, "b")]
    assert rows_of(db, "SELECT * FROM D ORDER BY TS") == [(4, 1, "a")]


def test_p4_of_the_paper_in_cql(tmp_path):
    """Section 1.2 of paper 004, cases 3 and 4: vehicles that enter and leave a lot, every 2 minutes."""
    with LocalDatabase(str(tmp_path / "db")) as db:
        Feed(db, tmp_path, "In1", "vid INTEGER, vtype VARCHAR").send("<1,car>1 <2,bus>2 <3,car>3 <4,van>5 <9,van>9")
        Feed(db, tmp_path, "Out1", "vid INTEGER, vtype VARCHAR").send("<2,bus>3 <1,car>6 <4,van>6 <8,van>9")
        db.execute("CREATE TAGGED STREAM S1 OVER In1; CREATE TAGGED STREAM S2 OVER Out1")
        for output in ("ISTREAM", "DSTREAM"):
            query = "R1.vid, R1.vtype FROM S1 SYNC EVERY 2 AS R1 - S2 SYNC EVERY 2 AS R2"
            db.execute(f"CREATE {output} VIEW {output}4 AS SELECT {query}")
        db.run()
        # Vehicle 4 comes and goes between 4 and 6, and is in neither.
        assert rows_of(db, "SELECT * FROM ISTREAM4 ORDER BY TS, vid") == [(2, 1, "car"), (2, 2, "bus"), (4, 3, "car")]
        assert rows_of(db, "SELECT * FROM DSTREAM4 ORDER BY TS, vid") == [(4, 2, "bus"), (6, 1, "car")]


def test_copies_of_a_row_count(db):
    """A multiset: two equal rows that leave a window are two rows of the delete stream."""
    db.execute(
        "CREATE DSTREAM VIEW D AS SELECT g FROM S [RANGE 4]; CREATE ISTREAM VIEW I AS SELECT g FROM S [RANGE 4];"
        "CREATE VIEW Watch AS SELECT count(*) AS n FROM S"
    )
    db.execute("CREATE DSTREAM VIEW W AS SELECT g FROM S WHERE NOW - 3 < TS")
    db.run()
    assert rows_of(db, "SELECT * FROM I ORDER BY TS, g") == [(4, "a"), (4, "a"), (4, "b")]
    assert rows_of(db, "SELECT * FROM D") == []
    assert rows_of(db, "SELECT * FROM W ORDER BY TS, g") == [(4, "a"), (5, "b"), (6, "a")]


def test_their_shape_in_the_catalog(db):
    made = db.execute("SELECT ISTREAM g, count(*) AS n FROM K GROUP BY g")
    db.execute("CREATE DSTREAM VIEW D AS SELECT id FROM K")
    assert [r["detail"] for r in db.execute("SHOW ALL").to_pylist()[-2:]] == ["istream", "dstream"]
    described = [tuple(r.values())[:3] for r in db.execute(f"DESCRIBE {made.name}").to_pylist()]
    assert described == [("TS", "BIGINT", False), ("g", "VARCHAR", False), ("n", "BIGINT", False)]
    assert "ChangeStream[rows: inserted]" in str(db.execute(f"EXPLAIN {made.name}"))
    db.run()
    assert rows_of(db, f"SELECT TS, g, n FROM {made.name} ORDER BY TS, g") == [(1, "a", 1), (2, "b", 1), (4, "b", 2)]


def test_no_column_may_be_called_ts(db):
    with pytest.raises(TidemillError) as caught:
        db.execute("CREATE ISTREAM VIEW I AS SELECT id, K.TS FROM K")
    assert caught.value.code == "TM219"
    db.execute("CREATE ISTREAM VIEW I AS SELECT id, K.TS AS since FROM K")


def test_they_can_be_read_windowed_and_delivered(db, tmp_path):
    """An insert stream only grows, so what needs rows that stay works over it; its sink has + alone."""
    db.execute(
        f"CREATE ISTREAM VIEW I AS SELECT id, v FROM K WHERE v > 4; CREATE DSTREAM VIEW D AS SELECT id, v FROM K;"
        f"CREATE STREAMED VIEW Last AS SELECT id, v FROM I [ROWS 2];"
        f"CREATE VIEW Moves AS SELECT count(*) AS n FROM D;"
        f"CREATE SINK Out FROM D TO FILES '{tmp_path}/out' WITH (format = 'json')"
    )
    db.run()
    assert tagged(db, "Last") == ["+<1,5>1", "+<2,7>2", "-<1,5>4", "+<1,9>4"]
    assert rows_of(db, "SELECT n FROM Moves") == [(1,)]
    lines = [json.loads(t) for f in sorted((tmp_path / "out").iterdir()) for t in f.read_text().splitlines()]
    assert [(r["TAG"], r["id"], r["v"]) for r in lines] == [("+", 1, 5)]


def test_window_bounds_are_part_of_their_rows(db):
    """With window_end every window has rows of its own: all of them come at its end, and go at the next."""
    query = "SELECT {} window_end, count(*) AS n FROM S [RANGE 4 SLIDE 2]"
    db.execute(f"CREATE ISTREAM VIEW I AS {query.format('')}; CREATE DSTREAM VIEW D AS {query.format('')}")
    db.run()
    assert rows_of(db, "SELECT TS, window_end, n FROM I ORDER BY TS") == [(2, 2, 1), (4, 4, 3), (6, 6, 3)]
    assert rows_of(db, "SELECT TS, window_end, n FROM D ORDER BY TS") == [(4, 2, 1), (6, 4, 3)]


def test_they_go_on_after_reopening(tmp_path):
    """Changes whose time was not closed when the database was closed come in the next run, once."""
    with CheckpointedDatabase(str(tmp_path / "db")) as db:
        feed = Feed(db, tmp_path, "Raw", "id INTEGER, g VARCHAR, v INTEGER").send("<1,a,5>1 <2,b,7>2 <1,a,6>3")
        db.execute(
            "CREATE TAGGED STREAM K OVER Raw KEY id; CREATE ISTREAM VIEW I AS SELECT id, v FROM K;"
            "CREATE DSTREAM VIEW D AS SELECT id, v FROM K"
        )
        db.run(final=False)
    with CheckpointedDatabase(str(tmp_path / "db")) as db:
        feed.send("<1,a,5>3 <2,c,8>5")
        db.run()
        assert rows_of(db, "SELECT * FROM I ORDER BY TS, id") == [(1, 1, 5), (2, 2, 7), (5, 2, 8)]
        assert rows_of(db, "SELECT * FROM D ORDER BY TS, id") == [(5, 2, 7)]
