"""SELECT … AS OF: several views as of one time, times that are kept, and what is refused."""

from __future__ import annotations

import datetime as dt
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import tidemill
from tests.harness import LocalDatabase
from tidemill.errors import TidemillError
from tidemill.runtime.thresholds import smallest
from tidemill.runtime.views import history
from tidemill.serve.results import print_result
from tidemill.sql.parse.statements import parse_one

ROOMS = """
REGISTER SOURCE Readings (room VARCHAR, temp INTEGER, building VARCHAR, at BIGINT)
FROM FILES '{folder}/rooms/*.csv' WITH (timestamp = 'at', batch_rows = {rows}, lateness = {lateness});
CREATE TAGGED STREAM Rooms OVER Readings KEY room;
CREATE TAGGED STREAM Log OVER Readings;
CREATE VIEW Hot {kept} AS SELECT room, building FROM Rooms WHERE temp > 80;
CREATE VIEW ByBuilding {kept} AS SELECT building, count(*) AS rooms FROM Hot GROUP BY building;
CREATE VIEW BySize {kept} AS SELECT rooms, count(*) AS buildings FROM ByBuilding GROUP BY rooms;
"""
BOTH = "SELECT (SELECT count(*) FROM Hot) AS hot, (SELECT coalesce(sum(rooms), 0) FROM ByBuilding) AS placed"
ALL = f"{BOTH}, (SELECT coalesce(sum(rooms * buildings), 0) FROM BySize) AS sized"
KEPT = "WITH (retain = 1000)"


def write(folder: Path, name: str, rows: list[tuple]) -> None:
    """A csv file; the header is that of its folder."""
    header = {"rooms": "room,temp,building,at", "other": "v,at"}[name.split("/")[0]]
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")


def readings(times, first=0):
    """Rooms that become hot one after the other and cool down again."""
    return [
        (f"r{i % 6}", 90 if i % 4 else 70, "North" if i % 6 < 4 else "South", t) for i, t in enumerate(times, first)
    ]


@pytest.fixture
def make(tmp_path):
    """A database over the readings of some times."""
    opened = []

    def make_(times=range(30), kept="", rows=4, lateness=0, **options):
        write(tmp_path, "rooms/1.csv", readings(times))
        db = LocalDatabase(str(tmp_path / "db"), **options)
        opened.append(db)
        db.execute(ROOMS.format(folder=tmp_path, kept=kept, rows=rows, lateness=lateness))
        return db

    yield make_
    for db in opened:
        db.close()


def truth(times, until):
    """The hot rooms after all readings up to a time."""
    last = {}
    for room, temp, building, at in readings(times):
        if at <= until:
            last[room] = (temp, building)
    return {(room, building) for room, (temp, building) in last.items() if temp > 80}


def look_after_each_batch(db, look):
    db.outlet.listeners.append(lambda summary: look(summary))


def refusal(db, text):
    with pytest.raises(TidemillError) as found:
        db.query(text)
    return found.value


def test_a_loop_does_not_show(make):
    """Hot is two micro-batches ahead of BySize. Each as it is, they do not fit together; as of one time they do."""
    db, together, latest = make(), [], []

    def look(_):
        answer = db.query(ALL)
        together.append((*answer.to_pylist()[0].values(), tidemill.as_of(answer)))
        latest.append(tuple(db.query(f"{ALL} AS OF LATEST").to_pylist()[0].values()))

    look_after_each_batch(db, look)
    db.run()
    for hot, placed, sized, moment in together:
        assert hot == placed == sized == (len(truth(range(30), moment)) if moment is not None else 0)
    assert [moment for *_, moment in together if moment is not None] and together[-1][-1] == 29
    assert any(len(set(counts)) > 1 for counts in latest), "the test shows nothing where nothing lags"


def test_what_virtual_views_read_is_as_of_the_same_time(make):
    """Tables inside virtual views were read as they are, whatever time the answer said."""
    db, together = make(kept=KEPT), []
    db.execute(
        "CREATE VIRTUAL VIEW HotNow AS SELECT room, building FROM Hot; CREATE VIRTUAL VIEW N AS SELECT * FROM HotNow"
    )
    both = "SELECT (SELECT count(*) FROM N) AS hot, (SELECT coalesce(sum(rooms * buildings), 0) FROM BySize) AS sized"
    look_after_each_batch(db, lambda _: together.append(db.query(both)))
    db.run()
    for answer in together:
        moment, [row] = tidemill.as_of(answer), answer.to_pylist()
        assert set(row.values()) == {len(truth(range(30), moment)) if moment is not None else 0}
    for time in (3, 11, 20):
        answer = db.query(f"SELECT * FROM N AS OF {time}")
        assert {tuple(r.values()) for r in answer.to_pylist()} == truth(range(30), time)
    assert tidemill.as_of(db.query("SELECT * FROM N")) == 29
    assert refusal(db, "SELECT * FROM N AS OF 30").code == "TM232"


@pytest.mark.parametrize("small", [False, True])
def test_every_time_that_is_kept_can_be_named(make, small):
    with smallest() if small else nullcontext():
        db = make(kept=KEPT)
        db.execute(
            f"CREATE VIEW Seen {KEPT} AS SELECT room, at FROM Log; CREATE RSTREAM VIEW Again {KEPT} AS "
            "SELECT building, rooms FROM ByBuilding SYNC EVERY 5"
        )
        db.run()
        for time in range(30):
            answer = db.query(f"SELECT room, building FROM Hot AS OF {time}")
            assert {tuple(r.values()) for r in answer.to_pylist()} == truth(range(30), time)
            assert tidemill.as_of(answer) == time
            [counts] = db.query(f"{ALL} AS OF {time}").to_pylist()
            assert set(counts.values()) == {len(truth(range(30), time))}
            [seen] = db.query(f"SELECT count(*) AS n, max(at) AS newest FROM Seen AS OF {time}").to_pylist()
            assert seen == {"n": time + 1, "newest": time}
            points = db.query(f"SELECT DISTINCT TS FROM Again ORDER BY TS AS OF {time}").column("TS").to_pylist()
            assert points == [p for p in range(0, time + 1, 5) if truth(range(30), p)]


def test_the_open_end_has_times_too(make):
    """Within the lateness nothing is closed; the rows shown until the next ones come have times of their own."""
    db = make(kept=KEPT, lateness=20)
    db.run(final=False)
    assert tidemill.as_of(db.query(BOTH)) == 29
    for time in range(30):
        [counts] = db.query(f"{ALL} AS OF {time}").to_pylist()
        assert set(counts.values()) == {len(truth(range(30), time))}, time
    assert refusal(db, f"{BOTH} AS OF 30").code == "TM232"


def test_a_time_that_is_not_kept_is_refused(make):
    db = make(kept="WITH (retain = 10)")
    db.run()
    assert db.query(f"{BOTH} AS OF 25").num_rows == 1
    problem = refusal(db, f"{BOTH}\n  AS OF 3")
    assert (problem.code, problem.line, problem.column) == ("TM233", 2, 3)
    assert problem.detail == "its changes are kept from 19 on" and "retain" in problem.hint


def test_without_retain_the_past_is_not_kept(make):
    db = make()
    db.run()
    assert refusal(db, "SELECT * FROM Hot AS OF 3").code == "TM233"
    assert db.query("SELECT * FROM Hot AS OF 29").num_rows == len(truth(range(30), 29))
    with db.store.reading() as duck:
        tables = [
            n for (n,) in duck.sql("SELECT table_name FROM duckdb_tables()").fetchall() if n.startswith("history")
        ]
        assert tables and all(duck.sql(f'SELECT count(*) FROM "{t}"').fetchall() == [(0,)] for t in tables)


def test_nothing_is_written_where_all_views_are_closed_alike(tmp_path):
    """Without loops, over one source, no change is kept twice."""
    write(tmp_path, "rooms/1.csv", readings(range(30)))
    with LocalDatabase(str(tmp_path / "db")) as db:
        text = ROOMS.format(folder=tmp_path, kept="", rows=4, lateness=0)
        db.execute(text[: text.index("CREATE VIEW ByBuilding")] + "CREATE VIEW Temps AS SELECT room, temp FROM Rooms")
        most = []
        look_after_each_batch(db, lambda _: most.append(max(db.outlet.history.rows.values(), default=0)))
        db.run()
        assert len(most) > 5 and max(most) == 0


def test_a_view_far_behind(make, tmp_path, monkeypatch):
    """A silent source holds a query over both back, as far as changes are kept; then the query is refused."""
    write(tmp_path, "other/1.csv", [(1, 5)])
    db = make(rows=4)
    db.execute(f"""
        REGISTER SOURCE Others (v INTEGER, at BIGINT) FROM FILES '{tmp_path}/other/*.csv' WITH (timestamp = 'at');
        CREATE TAGGED STREAM Other OVER Others;
        CREATE VIEW Slow AS SELECT count(*) AS n FROM Other;
    """)
    query = "SELECT (SELECT count(*) FROM Hot) AS hot, (SELECT count(*) FROM Slow) AS slow"
    told: list[Any] = []

    def look(_):
        try:
            told.append(tidemill.as_of(db.query(query)))
        except TidemillError as error:
            told.append(error.code)
            assert '"Slow" is closed only so far' in error.detail

    look_after_each_batch(db, look)
    db.start()
    while db.step():
        pass
    assert told[-1] == 4 and tidemill.as_of(db.query("SELECT count(*) AS n FROM Hot")) == 28
    monkeypatch.setattr(history, "HISTORY_ROWS", 3)
    write(tmp_path, "rooms/2.csv", readings(range(30, 60)))
    while db.step():
        pass
    assert told[-1] == "TM233"
    assert db.query(f"{query} AS OF LATEST").num_rows == 1
    assert max(db.outlet.history.rows.values()) <= 3
    db.stop()


def test_time_domains(make, tmp_path):
    db = make()
    db.execute(f"""
        REGISTER SOURCE Dated (v INTEGER, at TIMESTAMP) FROM GENERATE (rate = 1, rows = 20, start = 1700000000000000)
        WITH (timestamp = 'at');
        CREATE TAGGED STREAM DatedStr OVER Dated;
        CREATE VIEW Late {KEPT} AS SELECT count(*) AS n FROM DatedStr;
    """)
    db.run(final=False)
    answer = db.query("SELECT n FROM Late")
    assert answer.to_pylist() == [{"n": 20}] and tidemill.as_of(answer) == dt.datetime(2023, 11, 14, 22, 13, 39)
    for text in ("TIMESTAMP '2023-11-14 22:13:24'", "'2023-11-14 22:13:24'", "'2023-11-14T23:13:24+01:00'"):
        assert db.query(f"SELECT n FROM Late AS OF {text}").to_pylist() == [{"n": 5}]
    mixed = "SELECT (SELECT count(*) FROM Hot) AS hot, (SELECT n FROM Late) AS late"
    answer = db.query(mixed)
    assert answer.to_pylist() == [{"hot": len(truth(range(30), 29)), "late": 20}] and tidemill.as_of(answer) is None
    for text in (
        f"{mixed} AS OF 5",
        "SELECT n FROM Late AS OF 5",
        "SELECT * FROM Hot AS OF '2023-11-14'",
        "SELECT n FROM Late AS OF 'noon'",
        "SELECT * FROM Hot AS OF 99999999999999999999",
    ):
        assert refusal(db, text).code == "TM231", text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CREATE VIEW V AS SELECT room FROM Rooms AS OF 5", "TM112"),
        ("SELECT STREAMED room FROM Rooms AS OF 5", "TM112"),
        ("SELECT room FROM Hot AS OF yesterday", "TM101"),
        ("SELECT room FROM Hot AS OF TIMESTAMP 5", "TM101"),
        ("SELECT room FROM Hot AS OF - '5'", "TM101"),
    ],
)
def test_what_is_no_time(text, code):
    with pytest.raises(TidemillError) as found:
        parse_one(text)
    assert found.value.code == code and found.value.line == 1 and found.value.column


def test_of_is_still_a_name(make):
    db = make()
    db.run()
    assert db.query("SELECT count(*) AS of FROM Hot AS of").column_names == ["of"]
    assert db.query("SELECT 7 AS of").to_pylist() == [{"of": 7}]
    assert tidemill.as_of(db.query("SELECT 7 AS of")) is None


def test_a_view_that_is_new(make):
    """Before its first batch, and while it waits for the contents that it begins with, older views do not wait."""
    db, told = make(), []
    db.run(final=False)
    db.execute("CREATE VIEW Later AS SELECT count(*) AS n FROM Hot")
    both = "SELECT (SELECT count(*) FROM ByBuilding) AS old, (SELECT count(*) FROM Later) AS new"
    assert db.query(both).to_pylist() == [{"old": 2, "new": 0}]
    look_after_each_batch(db, lambda _: told.append(db.query(both).to_pylist()[0]))
    db.run(final=False)
    assert all(answer["old"] == 2 for answer in told) and told[-1]["new"] == 1


def test_queries_together(make):
    db, told = make(), []
    texts = {"hot": "SELECT count(*) AS n FROM Hot", "sized": "SELECT sum(rooms * buildings) AS n FROM BySize"}

    def look(_):
        answers = db.query_together(texts)
        told.append([(answer.to_pylist()[0]["n"] or 0) for answer in answers.values()])
        assert len({tidemill.as_of(answer) for answer in answers.values()}) == 1

    look_after_each_batch(db, look)
    db.run()
    assert all(hot == sized for hot, sized in told) and told[-1][0] == len(truth(range(30), 29))
    with pytest.raises(TidemillError, match="TM112"):
        db.query_together({"hot": "SELECT * FROM Hot AS OF 5"})
    assert db.query_together({}) == {}


def test_a_subscription_to_several_views(make):
    db, known, moments = make(), {"Hot": set(), "ByBuilding": set()}, []
    with db.subscribe(["Hot", "ByBuilding"]) as subscription:
        db.run()
        while (moment := subscription.next(timeout=0)) is not None:
            for name, table in moment.changes.items():
                for row in table.to_pylist():
                    tag, ts, old = row.pop("TAG"), row.pop("TS"), row.pop("OLD")
                    assert ts <= moment.as_of
                    gone = row if tag == "-" else old
                    known[name] -= {tuple(gone.values())} if gone else set()
                    known[name] |= {tuple(row.values())} if tag != "-" else set()
            assert known["Hot"] == truth(range(30), moment.as_of)
            assert sum(n for _, n in known["ByBuilding"]) == len(known["Hot"])
            moments.append(moment.as_of)
    assert moments == sorted(moments) and len(moments) > 5 and not db.outlet.together.queues
    later = db.execute("SUBSCRIBE ByBuilding, BySize").next(timeout=0)
    assert later.as_of == 29 and set(later.changes) == {"ByBuilding", "BySize"}
    with pytest.raises(TidemillError, match="TM301"):
        db.subscribe(["Hot", "Cold"])
    with pytest.raises(TidemillError, match="TM214"):
        db.subscribe([])


def test_a_slow_subscriber_to_several_views_is_told(make):
    db = make()
    slow = db.subscribe(["Hot", "BySize"], most_bytes=200)
    db.run()
    with pytest.raises(TidemillError, match="TM518"):
        while slow.next(timeout=0.1) is not None:
            pass
    assert slow.closed and not db.outlet.together.queues


def test_a_database_of_an_older_version(make, tmp_path):
    """It has no history, no times of provisional rows, and does not say what is kept."""
    db = make(kept=KEPT, lateness=20)
    db.run(final=False)
    expected = db.query(ALL).to_pylist()
    duck = db.store.connection
    for (name,) in duck.sql("SELECT table_name FROM duckdb_tables()").fetchall():
        if name.startswith("history"):
            duck.execute(f'DROP TABLE "{name}"')
        if name.startswith("tentative pool"):
            duck.execute(f'ALTER TABLE "{name}" DROP COLUMN __time')
    duck.execute("DELETE FROM __meta WHERE name IN ('kept', 'ends', 'floor')")
    state = db.blobs, db.offset, db.batch
    db.close()
    again = LocalDatabase(str(tmp_path / "db"))
    try:
        assert again.query(ALL).to_pylist() == expected
        assert refusal(again, f"{ALL} AS OF 3").code == "TM233"
        again.blobs, again.offset, again.batch = state
        write(tmp_path, "rooms/2.csv", readings(range(30, 60), 30))
        again.run(final=False)
        for time in range(40, 60):
            assert set(again.query(f"{ALL} AS OF {time}").to_pylist()[0].values()) == {len(truth(range(60), time))}, (
                time
            )
    finally:
        again.close()


def test_the_shell_says_the_time(make):
    db, out = make(), StringIO()
    db.run()
    print_result(Console(file=out, width=100), db.query("SELECT count(*) AS n FROM Hot"))
    assert "as of 29" in out.getvalue()


@pytest.mark.parametrize(
    ("query", "how"),
    [
        ("SELECT room FROM Rooms WHERE temp > 80 AND building = 'North'", "contents"),
        ("SELECT building, count(*) AS n FROM Log GROUP BY building", "read again"),
    ],
)
def test_a_view_that_began_with_its_history_is_not_shown_as_of_a_time_before(make, tmp_path, query, how):
    """It had rows then, of which only those of its beginning are known; one that begins with its creation had none."""
    with make(kept=KEPT) as db:
        db.run(final=False)
        db.execute(f"CREATE VIEW Past WITH (retain = 1000, begin = 'history') AS {query}")
        db.execute("CREATE VIEW Young WITH (retain = 1000) AS SELECT room FROM Hot")
        assert (db.workload.views["past"].entry.moment is not None) == (how == "read again")
        write(tmp_path, "rooms/2.csv", readings(range(30, 60), 30))
        db.run()
        for asked in ("SELECT * FROM Past AS OF 10", "SELECT count(*) FROM Past, Hot AS OF 28"):
            with pytest.raises(TidemillError) as caught:
                db.query(asked)
            assert caught.value.code == "TM233" and "began with its history as of 2" in str(caught.value)
        assert db.query("SELECT count(*) AS n FROM Young AS OF 10").to_pylist() == [{"n": 0}]
        assert db.query("SELECT * FROM Past AS OF 40").num_rows and db.query("SELECT * FROM Past").num_rows
    with LocalDatabase(str(tmp_path / "db")) as db, pytest.raises(TidemillError, match="began with its history"):
        db.query("SELECT * FROM Past AS OF 10")
