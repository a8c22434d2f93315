"""REGISTER SOURCE … FROM POSTGRES: a view over the changes of a table is the query over the table."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import psycopg
import pytest

from tests.harness import LocalDatabase
from tidemill.errors import TidemillError
from tidemill.runtime.sources.postgres.slot import Slot
from tidemill.runtime.thresholds import changed

sys.path.insert(0, str(Path(__file__).parents[1] / "sources"))


@pytest.fixture
def table(postgres, request):
    with psycopg.connect(postgres.address, autocommit=True) as connection:
        name = f"cdc_{abs(hash(request.node.name)) % 10**9}"
        connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, n bigint, note text, raw bytea, at timestamptz)")
        connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL")
        yield connection, name


def define(db, postgres, name):
    db.execute(
        "REGISTER SOURCE T (id INTEGER, n BIGINT, note VARCHAR, raw BLOB, at TIMESTAMP, op VARCHAR)"
        f" FROM POSTGRES '{postgres.address}' TABLE '{name}' WITH (operation = 'op');"
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


def change(connection, name, rng):
    """A transaction of a few changes: inserts, updates, of keys too and of other columns of long rows, deletes."""
    with connection.transaction():
        for _ in range(rng.randint(1, 8)):
            key, n = rng.randint(1, 30), rng.randint(0, 99)
            text = "x" * 3000 + str(rng.random()) if rng.random() < 0.2 else f"note {n}"
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


def test_a_truncation_stops_the_source_and_a_restart_reads_it_again(postgres, table, tmp_path):
    connection, name = table
    connection.execute(f"INSERT INTO {name} VALUES (1, 1, 'a')")
    with LocalDatabase(str(tmp_path / "db")) as db:
        define(db, postgres, name)
        db.run()
        connection.execute(f"TRUNCATE {name}; INSERT INTO {name} VALUES (2, 2, 'b')")
        with pytest.raises(TidemillError, match="truncated"):
            db.run()
        db.execute("RESTART SOURCE T")
        db.run()
        check(db, connection, name)
        count = "SELECT count(*) FROM pg_replication_slots s JOIN pg_publication_tables t ON t.pubname = s.slot_name"
        assert connection.execute(f"{count} WHERE tablename = '{name}'").fetchone() == (1,)
        db.execute("DROP SOURCE T CASCADE")
        assert connection.execute(f"{count} WHERE tablename = '{name}'").fetchone() == (0,)


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
