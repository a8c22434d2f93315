"""REGISTER SOURCE … FROM POSTGRES: a view over the changes of a table is the query over the table."""

from __future__ import annotations

import random
import re
import time

import psycopg
import pytest

from tests.harness import LocalDatabase
from tests.properties.effort import thorough
from tidemill.engine.users.session import Session
from tidemill.errors import TidemillError
from tidemill.runtime.planning.planner import Planner
from tidemill.runtime.sources.kafka.slices import SliceLog
from tidemill.runtime.sources.postgres import pgoutput
from tidemill.runtime.sources.postgres.connector import Postgres
from tidemill.runtime.sources.postgres.keys import KeyFiles
from tidemill.runtime.sources.postgres.slot import Slot
from tidemill.runtime.thresholds import changed
from tidemill.runtime.views.outlet import Outlet
from tidemill.serve.http.metrics import metrics_text


@pytest.fixture
def table(postgres, request):
    with psycopg.connect(postgres.address, autocommit=True) as connection:
        name = f"cdc_{abs(hash(request.node.name)) % 10**9}"
        connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, n bigint, note text, raw bytea, at timestamptz)")
        connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL")
        yield connection, name


def define(db, postgres, name, options=""):
    db.execute(
        "REGISTER SOURCE T (id INTEGER, n BIGINT, note VARCHAR, raw BLOB, at TIMESTAMP, op VARCHAR)"
        f" FROM POSTGRES '{postgres.address}' TABLE '{name}' WITH ({options}operation = 'op');"
        " CREATE TAGGED STREAM S OVER T KEY id; CREATE VIEW V AS SELECT id, n, note, raw FROM S;"
        " CREATE VIEW G AS SELECT n % 3 AS g, count(*) AS c, sum(n) AS s FROM S GROUP BY n % 3"
    )


def check(db, connection, name):
    ours = [tuple(row.values()) for row in db.query("SELECT id, n, note, raw FROM V ORDER BY id").to_pylist()]
    assert ours == connection.execute(f"SELECT id, n, note, raw FROM {name} ORDER BY id").fetchall()
    groups = [tuple(row.values()) for row in db.query("SELECT g, c, s FROM G ORDER BY g").to_pylist()]
    theirs = connection.execute(f"SELECT n % 3, count(*), sum(n)::bigint FROM {name} GROUP BY 1 ORDER BY 1").fetchall()
    assert groups == theirs
    assert db.query("SELECT count(*) AS n FROM dead_letters").to_pylist() == [{"n": 0}]


def long_text(rng):
    """A text that cannot be compressed: it is stored apart, and not sent with updates of other columns."""
    return rng.randbytes(6000).hex()


def change(connection, name, rng):
    """A transaction of a few changes: inserts, updates, of keys too and of other columns of long rows, deletes."""
    with connection.transaction():
        if rng.random() < 0.05:
            connection.execute(f"TRUNCATE {name}")
        for _ in range(rng.randint(1, 8)):
            key, n = rng.randint(1, 30), rng.randint(0, 99)
            text = long_text(rng) if rng.random() < 0.2 else f"note {n}"
            what = rng.random()
            if what < 0.4:
                connection.execute(
                    f"INSERT INTO {name} VALUES (%s, %s, %s, %s, now()) ON CONFLICT (id) DO UPDATE SET n = excluded.n",
                    (key, n, text, bytes([n, 0, 255])),
                )
            elif what < 0.7:
                connection.execute(f"UPDATE {name} SET n = %s WHERE id = %s", (n, key))
            elif what < 0.85:
                connection.execute(f"DELETE FROM {name} WHERE id = %s", (key,))
            else:
                taken = connection.execute(f"SELECT 1 FROM {name} WHERE id = %s", (key + 30,)).fetchone()
                if not taken:
                    connection.execute(f"UPDATE {name} SET id = id + 30 WHERE id = %s", (key,))


class Crash(BaseException):
    """What ends a process in the middle."""


def test_the_view_is_the_table_after_any_changes_and_crashes(postgres, table, tmp_path, monkeypatch):
    connection, name = table
    rng = random.Random(7)
    for _ in range(10):
        change(connection, name, rng)
    acknowledge = Slot.acknowledge
    with changed(cdc_changes=60, cdc_idle_bytes=0), LocalDatabase(str(tmp_path / "db")) as db:
        define(db, postgres, name)
        for turn in range(4):
            for _ in range(8):
                change(connection, name, rng)
            if turn == 3:
                postgres.crash()
                connection = psycopg.connect(postgres.address, autocommit=True)
            if turn % 2:  # on disk, and not acknowledged: PostgreSQL gives the same changes again

                def crash(self, lsn, least=0):
                    raise Crash

                monkeypatch.setattr(Slot, "acknowledge", crash)
                with pytest.raises(Crash):
                    db.run()
                monkeypatch.setattr(Slot, "acknowledge", acknowledge)
                db.open_planner()
            db.run()
            check(db, connection, name)


# Where a process may end: the name of a step, and whether it was done by then.
STEPS = [
    (Postgres, "_write", True),
    (SliceLog, "append", True),
    (Slot, "acknowledge", False),
    (KeyFiles, "_write", False),
    (KeyFiles, "_write", True),
    (Outlet, "apply", False),
    (Outlet, "apply", True),
    (Planner, "commit", False),
]
BENCH = """
\\set id random(1, 40)
\\set what random(1, 100)
\\if :what <= 45
INSERT INTO {0} VALUES (:id, :what, 'n' || :what, NULL, now()) ON CONFLICT (id) DO UPDATE SET n = excluded.n;
\\elif :what <= 75
UPDATE {0} SET n = n + 1 WHERE id = :id;
\\elif :what <= 90
UPDATE {0} SET id = nextval('{0}_ids') WHERE id = :id;
\\elif :what <= 99
DELETE FROM {0} WHERE id = (SELECT min(id) FROM {0});
\\else
TRUNCATE {0};
\\endif
"""


def crash_once(monkeypatch, place, step, done):
    """The next call of a step ends in a crash, before or after it was done."""
    real = getattr(place, step)

    def crash(self, *arguments, **named):
        monkeypatch.setattr(place, step, real)
        if done:
            real(self, *arguments, **named)
        raise Crash

    monkeypatch.setattr(place, step, crash)


def test_pgbench_with_either_side_killed(postgres, table, tmp_path, monkeypatch):
    """Keys change, rows go, the table is truncated, while this side ends at each step and the server crashes."""
    connection, name = table
    connection.execute(f"CREATE SEQUENCE {name}_ids START 1000")
    script = tmp_path / "bench.sql"
    script.write_text(BENCH.format(name))
    with changed(cdc_changes=200, cdc_idle_bytes=0), LocalDatabase(str(tmp_path / "db")) as db:
        define(db, postgres, name)
        for turn in range(40 if thorough() else 8):
            if turn % 4 == 2:
                bench = postgres.pgbench("-n", "-f", str(script), "-c", "3", "-t", "100000")
                time.sleep(0.2)
                postgres.crash()
                assert bench.wait() != 0, "the crash came too late"
                connection = psycopg.connect(postgres.address, autocommit=True)
            bench = postgres.pgbench("-n", "-f", str(script), "-c", "3", "-t", "40")
            place, step, done = STEPS[turn % len(STEPS)]
            crash_once(monkeypatch, place, step, done)
            with pytest.raises(Crash):
                while True:
                    is_over = bench.poll() is not None
                    db.run()
                    assert not is_over, f"{step} was never reached"
            if place in (KeyFiles, Planner):  # the batch was committed
                db.offset, db.logged, db.batch = db.logged, None, db.batch + 1
            db.reopen_outlet()
            assert bench.wait() == 0
            db.open_planner()
            db.run()
            check(db, connection, name)


def test_a_long_value_that_is_not_sent_is_taken_from_the_row_before(postgres, table, tmp_path, monkeypatch):
    connection, name = table
    rng, unsent = random.Random(3), []
    real = pgoutput._Body._value

    def count(body):
        value = real(body)
        unsent.extend([1] if value is pgoutput.UNCHANGED else [])
        return value

    monkeypatch.setattr(pgoutput._Body, "_value", count)
    with LocalDatabase(str(tmp_path / "db")) as db:
        define(db, postgres, name)
        connection.execute(f"INSERT INTO {name} VALUES (1, 1, %s, %s)", (long_text(rng), rng.randbytes(9000)))
        db.run()
        connection.execute(f"UPDATE {name} SET n = 2; UPDATE {name} SET id = 5, note = 'short'")
        db.run()
        check(db, connection, name)
        assert len(unsent) == 3  # note and raw, then raw
        connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT; UPDATE {name} SET n = 3")
        db.run()
        assert [d["reason"] for d in db.query("SELECT reason FROM dead_letters").to_pylist()] == [
            'column "raw" is long and was not sent'
        ]


def test_changes_while_the_table_is_copied_count_once(postgres, table, tmp_path, monkeypatch):
    connection, name = table
    connection.execute(f"INSERT INTO {name} SELECT i, i, 'old' FROM generate_series(1, 20) AS i")
    create = Slot.create

    def create_and_change(self):
        create(self)  # between the slot and the snapshot: both have these changes
        connection.execute(f"UPDATE {name} SET n = 100 WHERE id = 1")
        connection.execute(f"DELETE FROM {name} WHERE id = 2")

    monkeypatch.setattr(Slot, "create", create_and_change)
    with changed(cdc_changes=7), LocalDatabase(str(tmp_path / "db")) as db:
        define(db, postgres, name)
        db.execute("CREATE STREAMED VIEW L AS SELECT id, n FROM S")
        db.run()
        check(db, connection, name)
        connection.execute(f"UPDATE {name} SET n = n + 1 WHERE id = 3")
        db.run()
        check(db, connection, name)
        assert [row["TAG"] for row in db.changes("L").to_pylist()] == ["+"] * 19 + ["u"]


def test_a_truncation_deletes_the_rows_that_were_there(postgres, table, tmp_path):
    """Of the snapshot, of batches that were read for good, and of the same transaction; each once."""
    connection, name = table
    connection.execute(f"INSERT INTO {name} SELECT i, i, 'a' FROM generate_series(1, 5) AS i")
    with LocalDatabase(str(tmp_path / "db")) as db:
        define(db, postgres, name)
        db.execute("CREATE STREAMED VIEW L AS SELECT id, n FROM S")
        db.run()
        connection.execute(f"DELETE FROM {name} WHERE id = 2; UPDATE {name} SET id = 9 WHERE id = 3")
        db.run()
        connection.execute(
            f"BEGIN; INSERT INTO {name} VALUES (6, 6); TRUNCATE {name};"
            f" INSERT INTO {name} VALUES (1, 7), (8, 8); COMMIT"
        )
        db.run()
        check(db, connection, name)
        connection.execute(f"TRUNCATE {name}")
        db.run()
        check(db, connection, name)
        changes = [(row["TAG"], row["id"]) for row in db.changes("L").to_pylist()]
        assert sum(tag == "+" for tag, _ in changes) == sum(tag == "-" for tag, _ in changes)


def test_a_truncation_without_times_stops_the_source_and_a_restart_reads_it_again(postgres, table, tmp_path):
    """The rows that a truncation deletes have no times of their own."""
    connection, name = table
    connection.execute(f"INSERT INTO {name} VALUES (1, 1, 'a', NULL, now())")
    with LocalDatabase(str(tmp_path / "db")) as db:
        define(db, postgres, name, "timestamp = 'at', ")
        db.run()
        connection.execute(f"TRUNCATE {name}; INSERT INTO {name} VALUES (2, 2, 'b', NULL, now())")
        with pytest.raises(TidemillError, match="truncated"):
            db.run()
        db.execute("RESTART SOURCE T")
        db.run()
        check(db, connection, name)
        count = "SELECT count(*) FROM pg_replication_slots s JOIN pg_publication_tables t ON t.pubname = s.slot_name"
        assert connection.execute(f"{count} WHERE tablename = '{name}'").fetchone() == (1,)
        db.execute("DROP SOURCE T CASCADE")
        assert connection.execute(f"{count} WHERE tablename = '{name}'").fetchone() == (0,)


def test_names_of_any_kind_and_values_as_they_are_written(postgres, table, tmp_path):
    """Columns "op" and "time" of a table are its own, as is a % in its name; values are as changes have them."""
    connection, name = table[0], f"{table[1]}%s"
    connection.execute(f'CREATE TABLE "{name}" (op char(4), time boolean, n int, PRIMARY KEY (op, time))')
    connection.execute(f"INSERT INTO \"{name}\" VALUES ('a', true, 1), ('b', false, 2)")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            "REGISTER SOURCE T (op VARCHAR, time BOOLEAN, n INTEGER, what VARCHAR)"
            f" FROM POSTGRES '{postgres.address}' TABLE '{name}' WITH (operation = 'what');"
            " CREATE TAGGED STREAM S OVER T KEY (op, time); CREATE VIEW V AS SELECT trim(op) AS op, time, n FROM S"
        )
        db.run()
        connection.execute(f'UPDATE "{name}" SET n = n + 10; DELETE FROM "{name}" WHERE op = \'b\'')
        db.run()
        assert db.query("SELECT op, time, n FROM V").to_pylist() == [{"op": "a", "time": True, "n": 11}]


def test_the_lag_of_the_slot_is_in_the_status_and_in_the_metrics(postgres, table, tmp_path):
    """It is that of PostgreSQL, grows while nothing is read, and is unknown while PostgreSQL does not answer."""
    connection, name = table
    theirs = "SELECT max(pg_current_wal_lsn() - confirmed_flush_lsn) FROM pg_replication_slots"

    def ours(db):
        db.state.slots.ask({"t": db.catalog.find("T").spec})
        [source] = db.status()["sources"]
        return source["slot_lag_bytes"]

    with changed(cdc_idle_bytes=0), LocalDatabase(str(tmp_path / "db")) as db:
        define(db, postgres, name)
        db.run()
        before = ours(db)
        connection.execute(f"INSERT INTO {name} SELECT i, i, repeat('a', 100) FROM generate_series(1, 5000) AS i")
        assert ours(db) > before + 500_000
        assert ours(db) <= connection.execute(theirs).fetchone()[0]
        assert f'tidemill_source_slot_lag_bytes{{source="T"}} {ours(db):.0f}' in plain_metrics(db)
        db.run()
        assert ours(db) < 500_000
        postgres.stop()
        assert ours(db) is None
        assert "slot_lag_bytes{" not in plain_metrics(db)
        postgres.start()


def plain_metrics(db):
    """The metrics, with numbers as they are written out."""
    text = metrics_text(db, Session(db), dict).decode()
    return re.sub(r"\b\d[\d.]*e\+\d+$", lambda found: f"{float(found[0]):.0f}", text, flags=re.MULTILINE)


def test_tables_that_cannot_be_followed_are_refused(postgres, table, tmp_path):
    connection, name = table
    connection.execute(f"CREATE TABLE IF NOT EXISTS {name}_plain (id int PRIMARY KEY, note text)")
    connection.execute(f"CREATE TABLE IF NOT EXISTS {name}_keyless (id int)")
    with LocalDatabase(str(tmp_path / "db")) as db:
        for columns, which, options, said in (
            ("id INTEGER, op VARCHAR", "nowhere", "operation = 'op'", "no table"),
            ("nix INTEGER, op VARCHAR", name, "operation = 'op'", 'no column "nix"'),
            ("id INTEGER, op VARCHAR", f"{name}_keyless", "operation = 'op'", "no primary key"),
            ("id INTEGER, note VARCHAR, op VARCHAR", f"{name}_plain", "operation = 'op'", "REPLICA IDENTITY FULL"),
            ("id INTEGER", name, "on_error = 'fail'", "operation = 'op'"),
            ("n BIGINT, op VARCHAR", name, "operation = 'op'", "part of the primary key"),
        ):
            text = f"REGISTER SOURCE X ({columns}) FROM POSTGRES '{postgres.address}' TABLE '{which}' WITH ({options})"
            with pytest.raises(TidemillError, match=said):
                db.execute(text)
        with pytest.raises(TidemillError, match="TM420"):
            db.execute(
                "REGISTER SOURCE X (id INTEGER, op VARCHAR) FROM POSTGRES 'host=127.0.0.1 port=1' TABLE 't'"
                " WITH (operation = 'op')"
            )
