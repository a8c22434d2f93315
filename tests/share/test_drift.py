"""The plan of shared windows follows its data through the engine: soon, however late, and SHOW PLANS tells of it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness import LocalDatabase
from tidemill.engine.adapt.sharing import Pace

ROWS, SECONDS = 4_000, 10  # of a file, which is a batch
LATE = 36  # the batch from which on the data are others: far from 32 and 64, when plans are looked at anyway
FEW, MANY = 6, 120  # groups of each attribute


def write(folder: Path, number: int, groups: int) -> None:
    """One file of four attributes with this many values each."""
    chance = np.random.default_rng((number, groups))
    times = (np.arange(ROWS) + number * ROWS) * (SECONDS * 1_000_000 // ROWS)
    table = pa.table(
        {name: pa.array(chance.integers(0, groups, ROWS), pa.int32()) for name in "abc"}
        | {"at": pa.array(times).cast(pa.timestamp("us"))}
    )
    path = folder / f"{number:04d}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_700_000_000 + number,) * 2)


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A database over files with this many groups each, with three queries that may share a phantom."""
    opened = []
    # A search in 0.1 s is followed by 2 s of rest, which is ten batches of a test.
    monkeypatch.setattr(Pace, "has_rested", True)

    def database(groups: list[int]) -> LocalDatabase:
        (tmp_path / "in").mkdir()
        for number, count in enumerate(groups):
            write(tmp_path / "in", number, count)
        db = LocalDatabase(str(tmp_path / "db"), shards=1, cores=1)
        opened.append(db)
        db.execute(
            f"REGISTER SOURCE S (a INTEGER, b INTEGER, c INTEGER, at TIMESTAMP) FROM FILES"
            f" '{tmp_path}/in/*.parquet' WITH (timestamp = 'at', batch_rows = {ROWS});"
            "CREATE TAGGED STREAM A OVER S; SET lfta_memory = 60000; SET eviction_cost = 10"
        )
        for i, keys in enumerate(("a, b", "b, c", "c")):
            db.execute(
                f"CREATE VIEW q{i} AS SELECT {keys}, count(*) AS n FROM A"
                f" [RANGE {2 * SECONDS} SECONDS SLIDE {SECONDS} SECONDS] GROUP BY {keys}"
            )
        return db

    yield database
    for db in opened:
        db.close()


def changes(db: LocalDatabase) -> list[dict]:
    return [c for c in db.execute("SHOW PLANS").to_pylist() if c["kind"] == "windows"]


def test_groups_that_become_many_late_have_another_plan_within_three_batches(make):
    """20 times as many values of each attribute: the phantom that saved probes evicts all that it is fed with."""
    db = make([FEW] * LATE + [MANY] * 6)
    db.run()
    change = changes(db)[-1]
    assert LATE < change["batch"] + 1 <= LATE + 3
    assert all(c["batch"] < LATE - 5 for c in changes(db)[:-1]), "the plan had settled"
    assert change["name"] == "S" and change["reason"].startswith("statistics")
    assert change["before"].startswith("a·b·c(") and not change["after"].startswith("a·b·c(")
    assert change["predicted_after"] < 0.95 * change["predicted_before"]
    assert change["measured_after"] < 0.95 * change["measured_before"]
    assert change["measured_after"] == pytest.approx(change["predicted_after"], rel=0.25)


def test_groups_that_become_few_late_have_a_phantom_within_three_batches(make):
    db = make([MANY] * LATE + [FEW] * 6)
    db.run()
    change = changes(db)[-1]
    assert LATE < change["batch"] + 1 <= LATE + 3
    assert change["reason"].startswith("statistics: cost ") and ", predicted " in change["reason"]
    assert change["after"].startswith("a·b·c(") and not change["before"].startswith("a·b·c(")
    assert change["measured_after"] == pytest.approx(change["predicted_after"], rel=0.25)


def test_data_that_stay_as_they_are_keep_their_plan(make):
    db = make([FEW] * 20)
    db.run()
    assert all(change["batch"] < 5 for change in changes(db))


def test_a_peak_load_that_breaks_late_has_another_plan_within_three_batches(make):
    """The limit is kept as long as there are few groups; then the end of a share costs more, whatever a row costs."""
    db = make([FEW] * LATE + [3 * FEW] * 6)
    db.execute("SET peak_load = 3000")
    db.run()
    late = [c for c in changes(db) if c["batch"] >= LATE - 5]
    assert late and LATE < late[0]["batch"] + 1 <= LATE + 3
    assert late[0]["reason"].startswith("peak load ") and "at most 3,000" in late[0]["reason"]
    (shown,) = db.explain().to_dict()["sharing"]
    assert shown["peak_load"] <= 1.25 * 3_000
