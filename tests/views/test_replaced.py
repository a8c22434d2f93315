"""CREATE OR REPLACE VIEW: what reads the view goes on over the new definition, as if all of it were created now."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.properties.trial import log_of
from tidemill.errors import CatalogProblem, EngineProblem

SETUP = """
REGISTER SOURCE Temps (room INTEGER, building INTEGER, temp INTEGER, at BIGINT) FROM FILES '{}/*.csv'
  WITH (timestamp = 'at');
CREATE TAGGED STREAM Rooms OVER Temps KEY room;
CREATE TAGGED STREAM Log OVER Temps;
"""
HOT = "VIEW Hot AS SELECT room, building, temp FROM {} WHERE temp > 80"
READERS = """
CREATE STREAMED VIEW Counted AS SELECT building, count(*) AS n FROM Hot GROUP BY building;
CREATE VIRTUAL VIEW Hottest AS SELECT building, max(temp) AS most FROM Hot GROUP BY building;
CREATE VIEW Both AS SELECT h.building, h.most, c.n FROM Hottest h, Counted c WHERE h.building = c.building;
CREATE STREAMED VIEW Beside AS SELECT room FROM Log WHERE temp > 110
"""
NEW = "VIEW Hot{} AS SELECT building, room, temp, temp - 60 AS above FROM {} WHERE temp > 70"
HISTORY = " WITH (begin = 'history')"
JOINED = "SELECT r.temp, h.room FROM Rooms r, Hot h WHERE r.room = h.room"
CAPTURED = (
    "CREATE VIEW V AS SELECT room FROM Rooms r WHERE EXISTS (SELECT 1 FROM Hot h WHERE h.room = r.room AND at > 3)"
)
NAMES = ("Counted", "Beside")


def write(folder, number, times):
    lines = [f"{t % 5},{t % 2},{60 + t * 37 % 60},{t}" for t in times]
    (folder / f"{number}.csv").write_text("room,building,temp,at\n" + "\n".join(lines) + "\n")


def make(folder, name="db"):
    made = LocalDatabase(str(folder / name))
    made.execute(SETUP.format(folder))
    return made


def opened_again(db):
    """What a process finds that comes after one that has ended at this moment."""
    path, state = db.paths.root, (db.blobs, db.offset, db.batch, db.logged)
    db.close()
    made = LocalDatabase(path)
    made.blobs, made.offset, made.batch, made.logged = state
    return made


def seen(db):
    contents = [sorted(db.query(f"SELECT * FROM {name}").to_pylist(), key=str) for name in ("Hot", "Both", "Hottest")]
    return contents, {name: log_of(db, name) for name in NAMES}


def refused(db, text):
    before = {name: view.entry.id for name, view in db.workload.views.items()}
    with pytest.raises(CatalogProblem) as caught:
        db.execute(text)
    assert {name: view.entry.id for name, view in db.workload.views.items()} == before
    assert caught.value.code == "TM306"
    return f"{caught.value.message}: {caught.value.detail}"


@pytest.mark.parametrize(
    ("stream", "begin", "first"),
    [("Rooms", "", "run"), ("Rooms", HISTORY, "run"), ("Log", HISTORY, "run"), ("Log", "", "statement")],
)
def test_it_is_as_if_the_views_had_been_dropped_and_created_at_that_moment(tmp_path, stream, begin, first):
    write(tmp_path, 1, range(1, 30))
    answers = []
    for name, replaces in (("one", True), ("other", False)):
        with make(tmp_path, name) as db:
            db.execute(f"CREATE {HOT.format(stream)}; {READERS}")
            if first == "run":
                db.run(final=False)
            if replaces:
                db.execute(f"CREATE OR REPLACE {NEW.format(begin, stream)}")
            else:
                kept = READERS[: READERS.index("CREATE STREAMED VIEW Beside")]
                db.execute(f"DROP VIEW Hot CASCADE; CREATE {NEW.format(begin, stream)}; {kept}")
            assert db.workload.views["counted"].entry.birth == db.workload.pending
            write(tmp_path, 2, range(30, 60))
            db.run()
            answers.append(seen(db))
        (tmp_path / "2.csv").unlink()
    assert answers[0] == answers[1]
    assert all(answers[0][0]) and all(answers[0][1].values())


@pytest.mark.parametrize("crash", ["before the batch", "when it is logged", "when it is computed", "in the outlet"])
def test_a_crash_after_the_statement_changes_nothing(tmp_path, crash):
    answers = []
    for name in ("one", "other"):
        write(tmp_path, 1, range(1, 30))
        db = make(tmp_path, name)
        db.execute(f"CREATE {HOT.format('Rooms')}; {READERS}")
        db.run(final=False)
        db.execute(f"CREATE OR REPLACE {NEW.format('', 'Rooms')}")
        write(tmp_path, 2, range(30, 60))
        if name == "one":
            if crash != "before the batch":
                db.start()
                db.open_planner()
                db.logged = db.plan()
                assert db.logged is not None
                if crash != "when it is logged":
                    _, out = db.compute(db.logged)
                    if crash == "in the outlet":
                        db.outlet.apply(db.batch, out)
                db.stop()
            db = opened_again(db)
        db.run()
        answers.append(seen(db))
        db.close()
        (tmp_path / "2.csv").unlink()
    assert answers[0] == answers[1] and all(answers[0][0])


def test_it_is_one_plan_version_and_readers_have_their_names(tmp_path):
    with make(tmp_path) as db:
        db.execute(f"CREATE {HOT.format('Rooms')}; {READERS}")
        query = db.execute("SELECT STREAMED room FROM Hot").name
        write(tmp_path, 1, range(1, 30))
        db.start()
        while db.step():
            pass
        version = db.catalog.version
        told = db.execute(f"CREATE OR REPLACE {NEW.format('', 'Rooms')}").message
        assert db.catalog.version == version + 1
        assert told.endswith(f"begun anew over it: Counted, Hottest, Both, {query}")
        db.stop()


@pytest.mark.parametrize(
    ("new", "readers", "reason"),
    [
        ("SELECT room, temp FROM Rooms", "CREATE VIEW V AS SELECT building FROM Hot", "building would be gone"),
        ("SELECT room, building, temp / 2.5 AS temp FROM Rooms", "", "temp was INTEGER and would be"),
        ("SELECT room, building, temp, 1 AS one FROM Rooms", "CREATE VIEW V AS SELECT * FROM Hot", "one would be new"),
        ("SELECT building, room, temp FROM Rooms", "CREATE VIEW V AS SELECT * FROM Hot", "their order would change"),
        ("SELECT room, building, temp FROM Below", "CREATE VIEW Below AS SELECT * FROM Hot", 'through "Below"'),
        ("SELECT room, building, temp FROM Hot", "CREATE VIEW V AS SELECT room FROM Hot", "query that reads it"),
        ("SELECT room, building, temp, 1 AS at FROM Rooms", CAPTURED, "at would be new"),
        ("SELECT room, temp, building FROM Rooms", "CREATE SINK V FROM Hot TO CONSOLE", "their order would change"),
    ],
)
def test_a_reader_that_cannot_go_on_refuses_it(tmp_path, new, readers, reason):
    """Nothing changes then, also for readers that could."""
    with make(tmp_path) as db:
        db.execute(f"CREATE {HOT.format('Rooms')}; CREATE VIEW Usual AS SELECT max(temp) AS most FROM Hot")
        db.execute(readers or "CREATE VIEW V AS SELECT building FROM Hot")
        assert reason in refused(db, f"CREATE OR REPLACE VIEW Hot AS {new}")


def test_readers_go_on_that_do_not_read_what_changes(tmp_path):
    write(tmp_path, 1, range(1, 30))
    with make(tmp_path) as db:
        db.execute(
            f"CREATE {HOT.format('Rooms')}; CREATE VIEW Some AS SELECT building, count(*) AS n FROM Hot GROUP BY 1"
        )
        db.execute(f"CREATE VIEW Joined AS {JOINED}; CREATE SINK Out FROM Some TO FILES '{tmp_path}/out'")
        db.execute("CREATE OR REPLACE VIEW Hot AS SELECT room, CAST(building AS INTEGER) AS building FROM Rooms")
        db.run()
        assert db.query("SELECT sum(n) AS n FROM Some").to_pylist() == [{"n": 5}]
        assert db.query("SELECT * FROM Joined").num_rows and any((tmp_path / "out").iterdir())


def test_what_was_granted_stays(tmp_path):
    with make(tmp_path) as db:
        db.execute(f"CREATE {HOT.format('Rooms')}; {READERS}; CREATE USER admin PASSWORD 'a long word'")
        db.execute("GRANT ALL TO admin; CREATE USER reader PASSWORD 'another word'; GRANT SELECT ON Hot TO reader")
        db.execute("GRANT SELECT ON Counted TO reader")
        db.execute(f"CREATE OR REPLACE {NEW.format('', 'Rooms')}")
        assert sorted(db.catalog.users["reader"].reads) == ["counted", "hot"]


def test_other_sites_may_read_what_they_might(tmp_path):
    with make(tmp_path) as db:
        db.execute("CREATE SITE other AT '127.0.0.1:1' WITH (plaintext = true)")
        db.execute(f"CREATE {HOT.format('Rooms')}; {READERS}")
        db.execute("EXPORT VIEW Hot TO SITE other; EXPORT VIEW Counted TO SITE other")
        db.execute(f"CREATE OR REPLACE {NEW.format('', 'Rooms')}")
        assert sorted(db.catalog.find("other").options["exports"]) == ["counted", "hot"]


def test_a_subscription_ends_after_what_was_shown(tmp_path):
    write(tmp_path, 1, range(1, 30))
    with make(tmp_path) as db:
        db.execute(f"CREATE {HOT.format('Rooms')}; {READERS}")
        followed = db.subscribe("Counted")
        db.run(final=False)
        db.execute(f"CREATE OR REPLACE {NEW.format('', 'Rooms')}")
        assert followed.next(timeout=1).num_rows
        with pytest.raises(EngineProblem, match="TM523"):
            while followed.next(timeout=1) is not None:
                pass
