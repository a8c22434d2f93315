"""A running database: what is created, dropped, read and sent while the Spark query goes on."""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

import tidemill
from tests.harness import LocalDatabase
from tests.network import free_port
from tests.spark import scenario

pytestmark = pytest.mark.spark
STANDING = ("Hot", "Levels", "Sizes", "Occupied")


def until(reached: Callable[[], bool], seconds: float = 90) -> None:
    """Wait for something that a micro-batch brings."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def running(spark) -> list[str]:
    """The runs of all active queries of the session; a restarted query has another."""
    return [str(query.runId) for query in spark.streams.active]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    scenario.write_input(folder, files=6, rows=20)
    return folder


@pytest.fixture
def inbox(data, tmp_path):
    """Files arrive when a test says so."""
    for source in ("readings", "guests", "sales"):
        (tmp_path / "inbox" / source).mkdir(parents=True)

    def deliver(numbers: Iterable[int]) -> Path:
        for number in numbers:
            for path in data.glob(f"*/{number:04d}.json"):
                part = tmp_path / "inbox" / path.parent.name / f".{path.name}"
                shutil.copy(path, part)
                part.rename(part.with_name(path.name))
        return tmp_path / "inbox"

    return deliver


def rows_seen(db, source: str) -> int:
    return next(s["rows"] for s in db.status()["sources"] if s["name"] == source)


def test_changes_of_the_workload_leave_every_other_log_alone(spark, data, inbox, tmp_path):
    with LocalDatabase(str(tmp_path / "wanted")) as db:
        scenario.create(db, data, views=STANDING)
        db.run(final=True)
        wanted = {name: db.changes(name).to_pylist() for name in STANDING}
    with tidemill.open(str(tmp_path / "db"), spark=spark) as db:
        scenario.create(db, inbox([0]), tmp_path / "out", views=STANDING)
        with db.running():
            until(lambda: rows_seen(db, "Readings") == 20)
            before = running(spark)
            assert len(before) == 1
            db.execute("CREATE VIEW Again AS SELECT L.level, L.rooms FROM R(Levels) L")
            # A view of a view begins with its contents; no file has come since.
            until(lambda: db.query("SELECT * FROM Again").num_rows > 0)
            db.execute("CREATE VIEW Fresh AS SELECT R.level, count(*) AS n FROM R(Rooms) R GROUP BY R.level")
            inbox([1, 2])
            until(lambda: rows_seen(db, "Readings") == 60)
            db.execute("DROP VIEW Again")
            db.execute(f"""REGISTER SOURCE Later (shop VARCHAR, amount INTEGER, at BIGINT)
                           FROM FILES '{tmp_path}/inbox/sales/*.json' WITH (timestamp = 'at', lateness = '9 seconds');
                           CREATE TAGGED STREAM LaterStr OVER Later;
                           CREATE VIEW Shops AS SELECT L.shop, count(*) AS n FROM R(LaterStr) L GROUP BY L.shop""")
            inbox([3, 4, 5])
            until(lambda: rows_seen(db, "Readings") == 120 and rows_seen(db, "Later") == 120)
            db.execute("DROP VIEW Shops; DROP SOURCE Later CASCADE")
            assert running(spark) == before, "the query was restarted"
        assert running(spark) == []
        db.run(final=True)
        found = {name: db.changes(name).to_pylist() for name in STANDING}
        assert scenario.differences(found, wanted) == ""
        assert scenario.sink_rows(tmp_path / "out") == wanted["Levels"]
        # `Fresh` has seen only the rooms that reported after it was created.
        assert 0 < db.query("SELECT sum(n) AS n FROM Fresh").column("n")[0].as_py() < scenario.ROOMS


def test_a_subscription_is_the_contents_and_then_every_change(spark, inbox, tmp_path):
    with tidemill.open(str(tmp_path / "db"), spark=spark) as db:
        scenario.create(db, inbox([0, 1]), views=("Levels",))
        db.execute("CREATE VIEW LevelsNow AS SELECT L.level, L.rooms FROM R(Levels) L")
        db.run(final=True)
        with db.running(), db.subscribe("LevelsNow") as changes:
            first = changes.next(timeout=5)
            assert first is not None and set(first.column("TAG").to_pylist()) == {"+"}
            inbox([2, 3])
            until(lambda: rows_seen(db, "Readings") == 80)
            db.execute("CREATE VIEW Marker AS SELECT L.level FROM R(Levels) L")
            tables = [first]

            def is_up_to_date() -> bool:
                if (table := changes.next(timeout=1)) is not None:
                    tables.append(table)
                # A query may also see what is still open; a subscription never does.
                with db.store.reading() as duck:
                    now = db.store.contents(db.workload.views["levelsnow"].stored, duck).to_pylist()
                wanted = Counter({(row["level"], row["rooms"]): row["__diff"] for row in now})
                return len(tables) > 1 and replayed(tables) == wanted

            until(is_up_to_date)


def replayed(tables: list[pa.Table]) -> Counter[tuple[int, int]]:
    """The contents of LevelsNow after these changes."""
    found: Counter[tuple[int, int]] = Counter()
    for row in (row for table in tables for row in table.to_pylist()):
        found[row["level"], row["rooms"]] += -1 if row["TAG"] == "-" else 1
        if row["TAG"] == "u":
            found[row["OLD"]["level"], row["OLD"]["rooms"]] -= 1
    return +found


def test_stopped_at_any_moment_it_goes_on_exactly(spark, data, tmp_path):
    """stop() comes where it comes: in the planning, in a task, in the outlet."""
    with LocalDatabase(str(tmp_path / "wanted")) as db:
        scenario.create(db, data, tmp_path / "wanted out", views=("Levels", "Sizes"))
        db.run(final=True)
        wanted = scenario.everything(db, tmp_path / "wanted out")
    with tidemill.open(str(tmp_path / "db"), spark=spark) as db:
        scenario.create(db, data, tmp_path / "out", batch_rows=30, views=("Levels", "Sizes"))
        for seconds in (0.3, 2.5):
            with db.running():
                time.sleep(seconds)
        db.run(final=True)
        assert scenario.differences(scenario.everything(db, tmp_path / "out"), wanted) == ""


def test_two_databases_share_a_session(spark, inbox, tmp_path):
    folder = inbox([0])
    paths = [str(tmp_path / name) for name in ("one", "two")]
    with tidemill.open(paths[0], spark=spark) as one, tidemill.open(paths[1], spark=spark, shards=1) as two:
        for db in (one, two):
            scenario.create(db, folder, views=("Hot",))
        with one.running(), two.running():
            for db in (one, two):
                until(lambda db=db: rows_seen(db, "Readings") == 20)  # type: ignore[misc]
            assert len(running(spark)) == 2
            # The newest rows are seen after a quiet moment, which comes to one of them before the other.
            until(lambda: one.changes("Hot").to_pylist() == two.changes("Hot").to_pylist() != [])


def send(port: int, numbers: Iterable[int]) -> None:
    """One JSON record a line."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sender:
        sender.sendall(b"".join(json.dumps({"n": n, "even": n % 2 == 0}).encode() + b"\n" for n in numbers))


def test_a_port_is_read_live_and_goes_on_after_stop_and_reopening(spark, tmp_path):
    port = free_port()

    def total(db) -> list[tuple[bool, int, int]]:
        found = db.query("SELECT even, n, s FROM Totals ORDER BY even").to_pylist()
        return [(row["even"], row["n"], int(row["s"])) for row in found]

    def wanted(upto: int) -> list[tuple[bool, int, int]]:
        halves = [range(1, upto, 2), range(0, upto, 2)]
        return [(bool(i), len(half), sum(half)) for i, half in enumerate(halves)]

    with tidemill.open(str(tmp_path / "db"), spark=spark) as db:
        db.execute(f"REGISTER SOURCE Wire (n INTEGER, even BOOLEAN) FROM PORT {port} WITH (format = 'json')")
        db.execute("CREATE TAGGED STREAM WireStr OVER Wire")
        db.execute("""CREATE VIEW Totals AS SELECT W.even, count(*) AS n, sum(W.n) AS s
                      FROM R(WireStr) W GROUP BY W.even""")
        with db.running():
            send(port, range(100))
            until(lambda: total(db) == wanted(100))
            send(port, range(100, 200))
            until(lambda: total(db) == wanted(200))
        send(port, range(200, 300))
        with db.running():
            until(lambda: total(db) == wanted(300))
    with tidemill.open(str(tmp_path / "db"), spark=spark) as db, db.running():
        send(port, range(300, 400))
        until(lambda: total(db) == wanted(400))


def test_the_session_keeps_its_own_settings(spark, inbox, tmp_path):
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    try:
        before = dict(spark.conf.getAll)
        with tidemill.open(str(tmp_path / "db"), spark=spark) as db:
            scenario.create(db, inbox([0]), views=("Hot",))
            with db.running():
                assert dict(spark.conf.getAll) == before
                until(lambda: rows_seen(db, "Readings") == 20)
        assert dict(spark.conf.getAll) == before
        assert spark.range(5).count() == 5, "closing a database does not stop the user's session"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
