"""A database that is closed says so."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tidemill.errors import EngineProblem, TidemillError


@pytest.mark.parametrize(
    "ask",
    [
        lambda db: db.query("SELECT 1 AS x"),
        lambda db: db.execute("SHOW ALL"),
        lambda db: db.run(),
        lambda db: db.start(),
        lambda db: db.status(),
        lambda db: db.subscribe("V"),
        lambda db: db.changes("V"),
        lambda db: db.warm(),
        lambda db: db.create_aggregate("f", zero=0, add=max, combine=max),
        lambda db: db.drop_aggregate("f"),
    ],
)
def test_whatever_is_asked_of_it(tmp_path, ask):
    db = LocalDatabase(str(tmp_path / "db"))
    db.close()
    db.close()
    with pytest.raises(EngineProblem, match="TM520"):
        ask(db)


@pytest.mark.parametrize("call", ["max(v, 2, 3)", "min(v, 2, 3)", "sum(v, 3)", "avg(v, v)", "stddev(v, 1)"])
def test_no_argument_of_an_aggregate_is_ignored(tmp_path, call):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"REGISTER SOURCE Raw (v INTEGER) FROM FILES '{tmp_path}/*.csv'; CREATE TAGGED STREAM S OVER Raw")
        with pytest.raises(TidemillError):
            db.execute(f"CREATE VIEW V AS SELECT {call} AS m FROM S")


@pytest.mark.parametrize("place", ["s3://bucket/x.csv", "https://example.com/x.csv", "gs://b/*.parquet"])
def test_files_of_other_places_are_refused_when_they_are_named(tmp_path, place):
    with LocalDatabase(str(tmp_path / "db")) as db, pytest.raises(TidemillError, match="TM407"):
        db.execute(f"REGISTER SOURCE Raw (v INTEGER) FROM FILES '{place}'")
