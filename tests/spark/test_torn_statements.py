"""A process that dies between two of the files that a statement writes: it happened or it did not. No Spark here."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from tests.harness import LocalDatabase
from tests.spark import scenario
from tidemill.engine import state
from tidemill.engine.run import publisher


@pytest.fixture
def data(tmp_path):
    scenario.write_input(tmp_path / "data", files=2, rows=10)
    return tmp_path / "data"


@pytest.fixture
def opened(tmp_path, data):
    """Opens one database again and again, with the checkpoint of the last time; it has run once."""
    kept = {}

    @contextmanager
    def again():
        with LocalDatabase(str(tmp_path / "db")) as db:
            vars(db).update(kept)
            yield db
            kept.update({name: vars(db)[name] for name in ("offset", "batch", "blobs")})

    with again() as db:
        scenario.create(db, data, views=("Hot", "Levels"))
        db.run(final=True)
    return again


class Died(Exception):
    """The process is gone at this point."""


def dies_before_writing(monkeypatch, name):
    """The file `name` can no longer be written; closing the database afterwards writes nothing that matters."""
    write = state.write_json  # type: ignore[attr-defined]

    def torn(path, data):
        if path.endswith(name):
            raise Died
        write(path, data)

    for module in (state, publisher):
        monkeypatch.setattr(module, "write_json", torn)


def tear(opened, monkeypatch, name, statement):
    with opened() as db, monkeypatch.context() as patch:
        dies_before_writing(patch, name)
        with pytest.raises(Died):
            db.execute(statement)
            db.run(final=True)


def test_a_view_that_was_never_run_is_in_the_next_run(opened):
    with opened() as db:
        db.execute("CREATE STREAMED VIEW Cold AS SELECT L.level FROM R(Levels) L WHERE L.hottest < 1000")
    with opened() as db:
        db.run(final=True)
        assert len(db.changes("Cold")) > 0


def test_a_plan_that_was_written_but_not_pointed_at_is_published_again(opened, monkeypatch):
    tear(opened, monkeypatch, "control.json", "CREATE STREAMED VIEW Cold AS SELECT L.level FROM R(Levels) L")
    with opened() as db:
        db.run(final=True)
        assert len(db.changes("Cold")) > 0


def test_a_drop_that_did_not_reach_the_catalog_left_the_view_whole(opened, monkeypatch):
    with opened() as db:
        before = db.changes("Levels").to_pylist()
    tear(opened, monkeypatch, "catalog.json", "DROP VIEW Levels")
    with opened() as db:
        assert before and db.changes("Levels").to_pylist() == before
        db.run(final=True)


def test_a_replacement_that_did_not_reach_the_catalog_left_the_old_view_whole(opened, monkeypatch):
    with opened() as db:
        before = db.changes("Hot").to_pylist()
    tear(opened, monkeypatch, "catalog.json", "CREATE OR REPLACE STREAMED VIEW Hot AS SELECT R.level FROM R(Rooms) R")
    with opened() as db:
        assert before and db.changes("Hot").to_pylist() == before


def test_a_creation_that_did_not_reach_the_catalog_leaves_nothing_behind(opened, monkeypatch):
    """The next view gets the same number, and its tables have other columns."""
    tear(opened, monkeypatch, "catalog.json", "CREATE STREAMED VIEW Cold AS SELECT L.level FROM R(Levels) L")
    with opened() as db:
        db.execute("CREATE STREAMED VIEW Warm AS SELECT L.heat, L.rooms FROM R(Levels) L")
        db.run(final=True)
        assert db.changes("Warm").column_names == ["TAG", "TS", "heat", "rooms", "OLD"]
        assert len(db.changes("Warm")) > 0
