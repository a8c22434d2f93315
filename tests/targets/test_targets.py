"""Sinks to PostgreSQL, Delta and Iceberg: the target is the view, after every batch and any crash around a commit."""

from __future__ import annotations

import random
from types import SimpleNamespace

import duckdb
import pytest

from tests.kafka.test_kafka_kills import Crash, crash_once
from tests.properties.effort import thorough
from tests.targets.rooms import CHANGES, Rooms, apply, draw_changes
from tidemill.errors import TidemillError
from tidemill.runtime.targets.delta import DeltaTarget
from tidemill.runtime.targets.iceberg import IcebergTarget
from tidemill.runtime.targets.postgres import PostgresTarget
from tidemill.runtime.views import sinks
from tidemill.runtime.views.feedback import Feedback
from tidemill.runtime.views.outlet import Outlet
from tidemill.runtime.views.shipping import Shipping
from tidemill.runtime.views.sinks import Sinks
from tidemill.runtime.views.undelivered import Undelivered


def sorted_rows(found):
    return duckdb.from_arrow(found).order("room").project("room, temp, note").fetchall()


class Postgres:
    """A table that is named by the test."""

    target = PostgresTarget

    def __init__(self, path, request):
        import psycopg

        self.address = request.getfixturevalue("postgres").address
        self.table = f"t_{abs(hash(str(path)))}"
        self.connection = psycopg.connect(self.address, autocommit=True)

    def sink(self, mode):
        return f"CREATE SINK K FROM V TO POSTGRES '{self.address}' TABLE 'public.{self.table}' WITH (mode = '{mode}')"

    def rows(self):
        return self.connection.execute(f"SELECT room, temp, note FROM {self.table} ORDER BY room").fetchall()

    def all_rows(self):
        return self.connection.execute(f"SELECT * FROM {self.table}").fetchall()

    def changes(self):
        text = f'SELECT "TAG", room, temp, note, "OLD" FROM {self.table} ORDER BY ctid'
        return self.connection.execute(text).fetchall()


class Delta:
    target = DeltaTarget

    def __init__(self, path, request):
        self.path = str(path / "delta")

    def sink(self, mode):
        return f"CREATE SINK K FROM V TO DELTA '{self.path}' WITH (mode = '{mode}')"

    def _table(self):
        import deltalake

        return deltalake.DeltaTable(self.path)

    def rows(self):
        return sorted_rows(self._table().to_pyarrow_table())

    def all_rows(self):
        return [tuple(row.values()) for row in self._table().to_pyarrow_table().to_pylist()]

    def files(self):
        return self._table().file_uris()

    def changes(self):
        parts = []
        for version in range(self._table().version() + 1):
            table = self._table()
            table.load_as_version(version)
            parts.append(table.to_pyarrow_table())
        seen, found = 0, []
        for part in parts:  # what a version added: order inside a file is kept
            new = part.num_rows - seen
            rows = part.slice(0, new) if new else part.slice(0, 0)
            found += [tuple(row[name] for name in ("TAG", "room", "temp", "note", "OLD")) for row in rows.to_pylist()]
            seen = part.num_rows
        return found


class Iceberg:
    target = IcebergTarget

    def __init__(self, path, request):
        self.path = path / "lake"
        self.path.mkdir()

    def sink(self, mode):
        return (
            f"CREATE SINK K FROM V TO ICEBERG 'shop.rooms' WITH (mode = '{mode}',"
            f" catalog = 'sqlite:///{self.path}/catalog.db', warehouse = 'file://{self.path}')"
        )

    def _table(self):
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("default", uri=f"sqlite:///{self.path}/catalog.db", warehouse=f"file://{self.path}")
        return catalog.load_table("shop.rooms")

    def rows(self):
        return sorted_rows(self._table().scan().to_arrow())

    def all_rows(self):
        return [tuple(row.values()) for row in self._table().scan().to_arrow().to_pylist()]

    def files(self):
        return [task.file.file_path.removeprefix("file://") for task in self._table().scan().plan_files()]

    def changes(self):
        found = []
        table = self._table()
        seen = 0
        for snapshot in table.metadata.snapshots:
            rows = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
            new = rows.slice(0, rows.num_rows - seen)
            found += [tuple(row[name] for name in ("TAG", "room", "temp", "note", "OLD")) for row in new.to_pylist()]
            seen = rows.num_rows
        return found


@pytest.fixture(params=[Postgres, Delta, Iceberg], ids=lambda made: made.__name__.lower())
def place(request, tmp_path):
    return request.param(tmp_path, request)


def test_an_upsert_sink_holds_the_view_after_every_batch(place, tmp_path):
    rooms = Rooms(tmp_path)
    with rooms.open() as db:
        rooms.define(db)
        rooms.add(CHANGES[0])
        db.run()
        db.execute(place.sink("upsert"))
        for change in CHANGES[1:]:
            rooms.add(change)
            db.run()
            assert db.status()["sinks"][0]["problem"] is None
            assert place.rows() == rooms.rows(db)
        assert [row[0] for row in place.rows()] == [1, 2, 3, 5]


def test_a_changelog_leads_to_the_view(place, tmp_path):
    rooms = Rooms(tmp_path)
    with rooms.open() as db:
        rooms.define(db)
        db.execute(place.sink("changelog"))
        for change in CHANGES:
            rooms.add(change)
            db.run()
        assert db.status()["sinks"][0]["problem"] is None
        found = place.changes()
        assert apply(row[:4] for row in found) == rooms.rows(db)
        assert {(row[1], row[4]["temp"]) for row in found if row[0] == "u"} == {(2, 20.0), (3, 30.0)}


@pytest.mark.parametrize(("mode", "when"), [("upsert", "after"), ("changelog", "after"), ("upsert", "before")])
def test_a_crash_around_the_commit_writes_a_batch_once(place, tmp_path, monkeypatch, mode, when):
    rooms = Rooms(tmp_path)
    with rooms.open() as db:
        rooms.define(db)
        db.execute(place.sink(mode))
        for change in CHANGES[:3]:
            rooms.add(change)
            write = place.target.write

            def crash(self, log, batch, write=write):
                if when == "after":
                    write(self, log, batch)
                raise Crash

            monkeypatch.setattr(place.target, "write", crash)
            with pytest.raises(Crash):
                db.run()
            monkeypatch.setattr(place.target, "write", write)
            db.reopen_outlet()
            db.run()
        found = place.rows() if mode == "upsert" else apply(row[:4] for row in place.changes())
        assert found == rooms.rows(db)


# What the outlet does with a batch, in its order, and whether the process ends before it or after it.
OUTLET_STEPS = [
    (Outlet, "apply", False),
    (Sinks, "deliver", False),
    (Sinks, "write", False),
    (Sinks, "write", True),
    (Feedback, "write", True),
    (Shipping, "write", True),
    (Outlet, "_commit", False),
    (Outlet, "_commit", True),
    (Undelivered, "settle", False),
    (Outlet, "apply", True),
]


@pytest.mark.parametrize("mode", ["upsert", "changelog"] if thorough() else ["upsert"])
def test_killed_at_each_step_of_the_outlet_the_rows_are_those_of_the_view(place, tmp_path, monkeypatch, mode):
    rooms, draw, known = Rooms(tmp_path), random.Random(19), set[int]()
    with rooms.open() as db:
        rooms.define(db)
        db.execute(place.sink(mode))
        for owner, step, done in OUTLET_STEPS:
            rooms.add(draw_changes(draw, known))
            crash_once(monkeypatch, owner, step, done)
            with pytest.raises(Crash):
                db.run()
            db.reopen_outlet()
            db.run()
            assert db.status()["sinks"][0]["problem"] is None
            found = place.rows() if mode == "upsert" else apply(row[:4] for row in place.changes())
            assert found == rooms.rows(db), (owner, step, done)


def test_keys_may_be_null(place, tmp_path):
    rooms = Rooms(tmp_path)
    with rooms.open() as db:
        rooms.define(db)
        db.execute(
            "CREATE VIEW G AS SELECT nullif(note, 'x') AS room, count(*) AS temp, 'n' AS note FROM S GROUP BY 1, 3"
        )
        db.execute(place.sink("upsert").replace("FROM V", "FROM G"))
        for change in ([(1, 1.0, "x", "i"), (2, 1.0, "y", "i")], [(3, 1.0, "x", "i")], [(2, 1.0, "x", "u")]):
            rooms.add(change)
            db.run()
            assert db.status()["sinks"][0]["problem"] is None
        assert place.rows() == [(None, 3, "n")]


def test_names_of_columns_are_never_read_as_sql(place, tmp_path):
    rooms = Rooms(tmp_path)
    with rooms.open() as db:
        rooms.define(db)
        db.execute(
            'CREATE VIEW N AS SELECT room AS "a"" OR 1=1 --", count(*) AS "b\'c.d", max(temp) AS "ü %s/", note AS "{x}"'
            " FROM S GROUP BY room, note"
        )
        db.execute(place.sink("upsert").replace("FROM V", "FROM N"))
        for change in CHANGES:
            rooms.add(change)
            db.run()
            assert db.status()["sinks"][0]["problem"] is None
        wanted = [tuple(row.values()) for row in db.query("SELECT * FROM N").to_pylist()]
        assert sorted(place.all_rows()) == sorted(wanted)


def test_what_is_missing_or_wrong_is_refused(tmp_path, monkeypatch):
    import sys

    rooms = Rooms(tmp_path)
    with rooms.open() as db:
        rooms.define(db)
        for text, said in (
            ("POSTGRES 'host=db password=swordfish' TABLE 't'", "password is a secret"),
            ("POSTGRES 'nonsense' TABLE 't'", "cannot be read"),
            ("ICEBERG 'shop.t'", "needs a catalog"),
            ("DELTA 'x' WITH (mode = 'debezium')", "mode"),
            ("DELTA 'x' WITH (username = 'ann')", "no option"),
        ):
            with pytest.raises(TidemillError, match=said):
                db.execute(f"CREATE SINK K FROM V TO {text}")
        for module, extra in (("psycopg", "postgres"), ("deltalake", "delta"), ("pyiceberg", "iceberg")):
            monkeypatch.setitem(sys.modules, module, None)
            monkeypatch.setitem(sys.modules, f"{module}.sql", None)
            places = {"postgres": "POSTGRES 'host=db' TABLE 't'", "delta": "DELTA 'x'", "iceberg": "ICEBERG 'a.b'"}
            with pytest.raises(TidemillError, match=rf"tidemill\[{extra}\]"):
                db.execute(f"CREATE SINK K FROM V TO {places[extra]}")


@pytest.mark.parametrize("lake", [Delta, Iceberg])
def test_duckdb_reads_what_lakes_hold(tmp_path, lake):
    """The files of a table are plain Parquet: those of its last version hold the view."""
    place, rooms = lake(tmp_path, None), Rooms(tmp_path)
    with rooms.open() as db:
        rooms.define(db)
        db.execute(place.sink("upsert"))
        for change in CHANGES:
            rooms.add(change)
            db.run()
        files = place.files()
        found = duckdb.sql(f"SELECT room, temp, note FROM read_parquet({files}) ORDER BY room").fetchall()
        assert found == rooms.rows(db)


def test_a_target_that_lets_tries_wait_is_left_alone_for_a_while(tmp_path, monkeypatch):
    """Batches do not wait with it each time; what waits is delivered in its order afterwards."""
    place, rooms, tries, now = Delta(tmp_path, None), Rooms(tmp_path), list[int](), [0.0]
    write = DeltaTarget.write
    monkeypatch.setattr(sinks, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def wait(self, log, batch):
        tries.append(batch)
        now[0] += 5
        raise TimeoutError("no answer")

    with rooms.open() as db:
        rooms.define(db)
        db.execute(place.sink("upsert"))
        monkeypatch.setattr(DeltaTarget, "write", wait)
        for change in CHANGES[:3]:
            rooms.add(change)
            db.run()
        [sink] = db.status()["sinks"]
        assert len(tries) == 1 and sink["undelivered"] == 3 and "no answer" in sink["problem"]
        monkeypatch.setattr(DeltaTarget, "write", write)
        now[0] += 46
        rooms.add(CHANGES[3])
        db.run()
        assert db.status()["sinks"][0]["undelivered"] == 0
        assert place.rows() == rooms.rows(db)
