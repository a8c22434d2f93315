"""A sink to PostgreSQL while the server ends at each of its steps: the target is the view, each change once."""

from __future__ import annotations

import random

import psycopg
import pytest

from tests.properties.effort import thorough
from tests.targets.rooms import Rooms, apply, draw_changes
from tidemill.runtime.targets.postgres import PostgresTarget
from tidemill.runtime.views import sinks

STEPS = (("_copy", True), ("write", True), ("_open", True), ("_make_table", False), ("write", False))


def kill_once(monkeypatch, server, step, done):
    """The server ends at the next call of a step, before or after it was done: then the client does not hear of it."""
    real, killed = getattr(PostgresTarget, step), []

    def kill(self, *arguments, **named):
        monkeypatch.setattr(PostgresTarget, step, real)
        found = real(self, *arguments, **named) if done else None
        server.crash()
        killed.append(step)
        if done and step == "write":
            raise psycopg.OperationalError("the answer was lost")
        return found if done else real(self, *arguments, **named)

    monkeypatch.setattr(PostgresTarget, step, kill)
    return killed


@pytest.mark.parametrize("mode", ["upsert", "changelog"])
def test_the_target_is_the_view_however_often_its_server_ends(postgres, tmp_path, monkeypatch, mode):
    monkeypatch.setattr(sinks, "_RESTS", 0)
    rooms, draw, known, table = Rooms(tmp_path), random.Random(19), set(), f"killed_{mode}"
    with rooms.open() as db:
        rooms.define(db)
        db.execute(f"CREATE SINK K FROM V TO POSTGRES '{postgres.address}' TABLE '{table}' WITH (mode = '{mode}')")
        for turn in range(20 if thorough() else len(STEPS)):
            step, done = STEPS[turn % len(STEPS)]
            killed = kill_once(monkeypatch, postgres, step, done)
            for _ in range(3):
                rooms.add(draw_changes(draw, known))
                db.run()
            assert killed == [step]
            [sink] = db.status()["sinks"]
            assert (sink["undelivered"], sink["problem"]) == (0, None)
            with psycopg.connect(postgres.address) as connection:
                if mode == "upsert":
                    found = connection.execute(f"SELECT room, temp, note FROM {table} ORDER BY room").fetchall()
                else:
                    text = f'SELECT "TAG", room, temp, note FROM {table} ORDER BY ctid'
                    found = apply(connection.execute(text).fetchall())
            assert found == rooms.rows(db)
