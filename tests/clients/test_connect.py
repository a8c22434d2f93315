"""`tidemill.connect`: the same answers, errors and changes as in the process that has the database."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest

import tidemill
from tests.postgres.serving import wait_until
from tidemill.errors import TidemillError


@pytest.fixture(scope="module")
def remote(server):
    with tidemill.connect(server.url()) as connected:
        yield connected


def test_answers_equal_those_of_the_process_itself(remote, db):
    for text in (
        "SELECT room, temp, note FROM Hot ORDER BY room",
        "SELECT count(*) AS n, sum(total) AS t FROM PerRoom",
        "SELECT room FROM Hot WHERE room > 1000",
        "SELECT TIMESTAMP '2026-01-02 03:04:05' AS a, DATE '2026-01-02' AS b, true AS c, NULL AS e",
    ):
        far, near = remote.query(text), db.query(text)
        assert far.column_names == near.column_names
        assert [tuple(map(str, r.values())) for r in far.to_pylist()] == [
            tuple(map(str, r.values())) for r in near.to_pylist()
        ]


def test_statements_say_what_was_done(remote, db):
    assert "Made" in remote.execute("CREATE VIEW Made AS SELECT room FROM Hot")
    assert "Made" in remote.execute("SHOW VIEWS").column("name").to_pylist()
    assert "placement" in str(remote.execute("EXPLAIN VIEW Made").column("plan").to_pylist())
    remote.execute("DROP VIEW Made; SHOW VIEWS")
    assert "made" not in db.catalog.entries


def test_errors_have_code_and_hint(remote):
    with pytest.raises(TidemillError) as found:
        remote.execute("DROP VIEW Nothing")
    assert found.value.code == "TM301"
    with pytest.raises(TidemillError) as found:
        remote.query("CREATE VIEW Q AS SELECT room FROM Hot")
    with pytest.raises(TidemillError) as found:
        tidemill.connect("postgresql://nobody@127.0.0.1:1/lot")
    assert found.value.code == "TM533"
    remote.execute("DROP VIEW Q")


@pytest.mark.parametrize("by", ["time", "batch"])
def test_a_subscription_goes_on_where_it_stopped(remote, db, feed, by):
    rows: Counter = Counter()

    def take(moment):
        for row in moment.changes["Hot"].to_pylist() if moment.changes else []:
            key = (row["room"], row["temp"])
            if row["TAG"] == "u":
                old = row["OLD"]
                rows[(old["room"], old["temp"])] -= 1
            rows[key] += -1 if row["TAG"] == "-" else 1

    last = batch = None
    for number in range(8):
        begin = {"as_of": last} if by == "time" else {"as_of_batch": batch, "by_batch": True}
        with remote.subscribe("Hot", **begin) as changes:
            feed.write((number % 4, 81 + number, "s"), (9, 0, "later"))
            while (moment := changes.next(10)) is not None:
                take(moment)
                last, batch = moment.as_of, moment.batch
                if last >= feed.time - 1:
                    break
        assert (changes.as_of, changes.batch) == (last, batch) and (batch is None) == (by == "time")
    answer = db.query(f"SELECT room, temp FROM Hot AS OF {last}").to_pylist()
    assert +rows == Counter((row["room"], row["temp"]) for row in answer) and min(rows.values()) >= 0
    with remote.subscribe("Hot", as_of=last) as changes:
        assert changes.next(0.2) is None or not changes._rows
    assert changes.next() is None


def test_times_of_the_wall_clock(tmp_path):
    from tests.live import LiveDatabase
    from tests.postgres.serving import ServerThread

    with LiveDatabase(str(tmp_path / "lot")) as db:
        db.execute(
            """REGISTER SOURCE C (n INTEGER) FROM GENERATE (rate = 50, start = 'now', n = 'uniform(1,3)');
            CREATE TAGGED STREAM S OVER C;
            CREATE VIEW V WITH (retain = '1 hour') AS SELECT n, count(*) AS c FROM S SYNC EVERY 1 SECOND GROUP BY n"""
        )
        db.start()
        server = ServerThread(db)
        wait_until(lambda: db.query("SELECT count(*) AS n FROM V").column("n")[0].as_py() == 3)
        with tidemill.connect(server.url()) as remote, remote.subscribe("V") as changes:
            first = changes.next(30)
            assert isinstance(first.as_of, dt.datetime)
            before: dt.datetime = first.as_of
            with remote.subscribe("V", as_of=first.as_of) as again:
                moment = again.next(30)
                assert isinstance(moment.as_of, dt.datetime) and moment.as_of >= before
        server.stop()
