"""CREATE OR REPLACE VIEW: ad hoc readers see what was shown until the new definitions have begun, all at once."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.views.test_replaced import HISTORY, HOT, NEW, READERS, SETUP, make, opened_again, write
from tidemill.errors import TidemillError

READ = "SELECT h.room, h.temp, c.n FROM Hot h, Counted c WHERE h.building = c.building"
COUNTED = "CREATE VIEW Counted AS SELECT building, count(*) AS n FROM Hot GROUP BY building"


def read(db, text=READ):
    return sorted(db.query(text).to_pylist(), key=str)


def start(folder, stream="Rooms", batch_rows=7):
    write(folder, 1, range(1, 60))
    db = LocalDatabase(str(folder / "db"))
    db.execute(SETUP.format(folder).replace("timestamp = 'at'", f"timestamp = 'at', batch_rows = {batch_rows}"))
    db.execute(f"CREATE {HOT.format(stream)}; {COUNTED}; CREATE VIEW Both WITH (unbounded_state = true) AS {READ}")
    db.run(final=False)
    return db


@pytest.mark.parametrize(("stream", "begin"), [("Rooms", ""), ("Rooms", HISTORY), ("Log", ""), ("Log", HISTORY)])
def test_what_was_shown_is_read_until_all_of_them_have_begun(tmp_path, stream, begin):
    """Rows are read again in many batches, and the readers of a view begin a batch after it."""
    with start(tmp_path, stream) as db:
        old = read(db)
        assert old
        db.execute(f"CREATE OR REPLACE {NEW.format(begin, stream)}")
        assert read(db) == old and read(db, "FROM Both") == old
        write(tmp_path, 2, range(60, 75))
        db.start()
        seen = []
        while db.step():
            seen.append(read(db))
            has_taken_over = "above" in db.query("SELECT * FROM Hot").column_names
            assert has_taken_over == (seen[-1] != old)
            if has_taken_over and begin:
                late = [r for r in db.query("SELECT room, temp FROM Hot").to_pylist() if r["temp"] > 70]
                assert late, "the backfill is there with the first new answer"
        db.stop()
        assert seen[0] == old or not begin, "the backfill takes several batches"
        assert seen[-1] != old and not [t for t in tables(db) if "stand-in" in t]


def test_what_is_shown_meanwhile_is_of_one_time(tmp_path):
    """A reader is closed a batch later than the view that it reads."""
    write(tmp_path, 1, range(1, 60))
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path).replace("timestamp = 'at'", "timestamp = 'at', batch_rows = 7"))
        db.execute(f"CREATE {HOT.format('Rooms')}; {COUNTED}")
        db.start()
        for _ in range(3):
            db.step()
        text = f"SELECT h.n AS k, c.n FROM ({COUNTED.partition(' AS ')[2]}) h, Counted c WHERE h.building = c.building"
        old = read(db, text)
        db.execute(f"CREATE OR REPLACE {NEW.format('', 'Rooms')}")
        assert read(db, text) == old != [] and all(row["k"] == row["n"] for row in old)
        db.stop()


def tables(db):
    return [name for (name,) in db.state.store.connection.sql("SELECT table_name FROM duckdb_tables()").fetchall()]


def test_the_answer_is_that_of_views_that_were_created_anew_once_they_have_begun(tmp_path):
    with start(tmp_path) as db:
        db.execute(f"CREATE OR REPLACE {NEW.format(HISTORY, 'Rooms')}")
        db.execute(f"CREATE {NEW.format(HISTORY, 'Rooms').replace('Hot', 'Anew')}")
        db.run()
        assert read(db, "FROM Hot") == read(db, "FROM Anew") != []


def test_it_stays_over_a_crash_and_a_second_replacement(tmp_path):
    db = start(tmp_path)
    old = read(db)
    db.execute(f"CREATE OR REPLACE {NEW.format(HISTORY, 'Rooms')}")
    db = opened_again(db)
    assert read(db) == old
    db.execute(f"CREATE OR REPLACE {NEW.format('', 'Rooms')}; CREATE OR REPLACE {NEW.format(HISTORY, 'Rooms')}")
    assert read(db) == old
    db = opened_again(db)
    assert read(db) == old
    db.run()
    assert "above" in db.query("FROM Hot").column_names and not [t for t in tables(db) if "stand-in" in t]
    db.close()


def test_a_view_that_was_never_shown_has_nothing_to_show(tmp_path):
    with make(tmp_path) as db:
        db.execute(f"CREATE {HOT.format('Rooms')}; {READERS}; CREATE OR REPLACE {NEW.format('', 'Rooms')}")
        assert read(db, "FROM Both") == [] and db.query("FROM Hot").column_names[-1] == "above"


def test_a_view_that_is_dropped_meanwhile_holds_nothing_back(tmp_path):
    with start(tmp_path) as db:
        db.execute("CREATE OR REPLACE VIEW Hot AS SELECT building, room, temp FROM Rooms WHERE temp > 70")
        db.execute("DROP VIEW Both; DROP VIEW Counted")
        db.run()
        assert not [t for t in tables(db) if "stand-in" in t] and "stand_ins" in db.state.store.metas()


def test_a_query_over_the_stream_is_not_answered_from_what_was_shown(tmp_path):
    """The rows are those of another definition."""
    with start(tmp_path) as db:
        new = f"VIEW Hot{HISTORY} AS SELECT room, building, temp FROM Rooms WHERE temp > 61"
        db.execute(f"CREATE OR REPLACE {new}")
        with pytest.raises(TidemillError, match="TM215"):
            db.query("SELECT room FROM Rooms WHERE temp > 70")
        db.run()
        assert db.query("SELECT room FROM Rooms WHERE temp > 70").num_rows


def test_a_time_that_is_named_is_one_of_the_new_view(tmp_path):
    with start(tmp_path) as db:
        assert db.query("SELECT * FROM Hot AS OF LATEST").num_rows
        db.execute(f"CREATE OR REPLACE {NEW.format('', 'Rooms')}")
        assert db.query("SELECT * FROM Hot AS OF LATEST").num_rows
        assert db.query("SELECT * FROM Hot AS OF 59").num_rows == 0
