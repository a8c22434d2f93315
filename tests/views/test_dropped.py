"""A view that others are answered from may be dropped: its name is free, and its readers go on as before."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.properties.trial import log_of
from tidemill.errors import CatalogProblem

SETUP = """
REGISTER SOURCE Temps (room INTEGER, building INTEGER, temp INTEGER, at BIGINT) FROM FILES '{}/*.csv'
  WITH (timestamp = 'at');
CREATE TAGGED STREAM Rooms OVER Temps KEY room;
SET view_matching = always;
"""
HOT = "CREATE VIEW Hot AS SELECT room, building, temp FROM Rooms SYNC EVERY 2 SECONDS WHERE temp > 80"
HOTTER = "CREATE STREAMED VIEW Hotter AS SELECT room, temp FROM Rooms SYNC EVERY 4 SECONDS WHERE temp > 100"
PLAIN = HOTTER.replace("Hotter", "Plain")


def write(folder, number, times):
    lines = [f"{t % 3},{t % 2},{60 + t * 37 % 60},{t}" for t in times]
    (folder / f"{number}.csv").write_text("room,building,temp,at\n" + "\n".join(lines) + "\n")


@pytest.fixture
def db(tmp_path):
    made = LocalDatabase(str(tmp_path / "db"))
    made.execute(SETUP.format(tmp_path))
    write(tmp_path, 1, range(1, 40))
    yield made
    made.close()


def answered_from(db, name):
    return [part.view.name for part in db.workload.views[name.lower()].answer.parts]


def create_all(db):
    db.execute(HOT)
    db.execute(HOTTER)
    db.execute("SET view_matching = off; " + PLAIN)
    assert answered_from(db, "Hotter") == ["Hot"] and not answered_from(db, "Plain")


def test_readers_go_on_after_the_drop(db, tmp_path):
    create_all(db)
    db.run(final=False)
    db.execute("DROP VIEW Hot")
    write(tmp_path, 2, range(40, 80))
    db.run()
    assert log_of(db, "Hotter") == log_of(db, "Plain") and len(log_of(db, "Plain")) > 5
    assert "hot" not in db.catalog.entries and len(db.catalog.hidden) == 1


def test_the_plan_stays_the_same_when_the_database_is_opened_again(db, tmp_path):
    create_all(db)
    db.execute("CREATE VIEW Over AS SELECT * FROM Hot WHERE temp < 110; DROP VIEW Over; DROP VIEW Hot")
    node = db.workload.views["hotter"].node
    db.execute("CREATE VIEW Hot AS SELECT room FROM Rooms WHERE temp < 0")  # the name is free
    db.close()
    with LocalDatabase(str(tmp_path / "db")) as again:
        assert again.workload.views["hotter"].node is node
        again.run()
        assert log_of(again, "Hotter") == log_of(again, "Plain")


def test_a_hidden_view_keeps_what_it_reads(db, tmp_path):
    db.execute(HOT)
    db.execute("CREATE VIEW Warm AS SELECT building, room, temp FROM Hot WHERE temp > 90")
    db.execute(HOTTER.replace("temp FROM", "temp, building FROM"))
    db.execute("CREATE VIEW Q AS SELECT room FROM Rooms SYNC EVERY 2 SECONDS WHERE temp > 95 AND building = 1")
    assert answered_from(db, "Q") in (["Hot"], ["Warm"])
    db.execute("DROP VIEW Warm")
    db.execute("DROP VIEW Hot")
    db.execute("CREATE VIEW Hot AS SELECT building AS room FROM Rooms")
    node = db.workload.views["q"].node
    db.close()
    with LocalDatabase(str(tmp_path / "db")) as again:
        assert again.workload.views["q"].node is node


def test_hidden_views_go_with_their_last_reader(db):
    create_all(db)
    db.execute("DROP VIEW Hot")
    assert db.catalog.hidden
    db.execute("DROP VIEW Hotter")
    assert not db.catalog.hidden and not db.workload._hidden


def test_a_stream_that_a_hidden_view_reads_is_still_needed(db):
    db.execute("CREATE TAGGED STREAM Same OVER Temps KEY room")
    db.execute(HOT.replace("Rooms", "Same"))
    db.execute(HOTTER)
    assert answered_from(db, "Hotter") == ["Hot"]
    db.execute("DROP VIEW Hot")
    with pytest.raises(CatalogProblem, match="TM306"):
        db.execute("DROP STREAM Same")
    db.execute("DROP STREAM Same CASCADE")
    assert "hotter" not in db.catalog.entries and not db.catalog.hidden


def test_explicit_readers_still_refuse(db):
    db.execute(HOT)
    db.execute("CREATE VIEW Reader AS SELECT room FROM Hot")
    with pytest.raises(CatalogProblem, match="TM306"):
        db.execute("DROP VIEW Hot")


PAST = "CREATE VIEW Past WITH (begin = 'history') AS SELECT room, temp FROM Rooms SYNC EVERY 2 SECONDS WHERE temp > 100"


def names_of_tables(db):
    return {owner for owner in db.store.owners() if not owner.startswith("pool-")}


@pytest.mark.parametrize(
    "text", [f"{PAST}; DROP VIEW Hot", f"{PAST}|DROP VIEW Hot", f"{PAST}|CREATE OR REPLACE {HOT[7:]}"]
)
@pytest.mark.parametrize("opened_again", [False, True])
def test_a_view_begins_with_the_rows_of_one_that_was_dropped_before_the_next_batch(db, tmp_path, text, opened_again):
    """The rows stay until the batch that hands them over, also where the database is closed before it."""
    db.execute(HOT)
    db.run(final=False)
    expected = db.query("SELECT room, temp FROM Hot WHERE temp > 100 ORDER BY room").to_pylist()
    for statement in text.split("|"):
        db.execute(statement)
    assert answered_from(db, "Past") == ["Hot"] and expected
    if opened_again:
        state = db.blobs, db.offset, db.batch
        db.close()
        db = LocalDatabase(str(tmp_path / "db"))
        db.blobs, db.offset, db.batch = state
    db.run(final=False)
    db.execute("SET view_matching = off")  # saves the catalog
    write(tmp_path, 2, [42])
    db.run(final=False)
    seen = db.query("SELECT room, temp FROM Past ORDER BY room").to_pylist()
    assert [row for row in seen if row in expected] == expected
    db.close()
    with LocalDatabase(str(tmp_path / "db")) as again:
        assert names_of_tables(again) <= {view.entry.id for view in again.workload.views.values()}
