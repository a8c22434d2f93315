"""The plan of an aggregation join follows its data: by event time, whatever the clock on the wall says, and soon."""

from __future__ import annotations

import os
import shutil
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness import LocalDatabase
from tests.joins.switching import running_plans
from tidemill.engine.run import runner
from tidemill.optimize.joins.stored_statistics import JoinStatistics

RATE, BATCH = 100, 200  # rows of each stream in a second, rows of a file and batch


def write(folder: str, number: int, keys: int, seed: int) -> None:
    """Two seconds of a stream whose join values are `keys` different ones."""
    chance = np.random.default_rng((number, keys, seed))
    times = (np.arange(BATCH) + number * BATCH) * (1_000_000 // RATE)
    table = pa.table(
        {
            "k": chance.integers(0, keys, BATCH),
            "v": chance.integers(0, 1_000_000, BATCH),
            "at": pa.array(times).cast(pa.timestamp("us")),
        }
    )
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{number:04d}.parquet")
    pq.write_table(table, path)
    os.utime(path, (1_700_000_000 + number,) * 2)


@pytest.fixture
def make(tmp_path):
    """A database over two streams with this many join values in each of their files, and nothing chosen by hand."""
    opened = []

    def database(keys: list[int], select: str = "count(*) AS n, sum(A.v) AS s, sum(B.v) AS t") -> LocalDatabase:
        for seed, name in enumerate("AB"):
            for number, values in enumerate(keys):
                write(str(tmp_path / name), number, values, seed)
        db = LocalDatabase(str(tmp_path / "db"), shards=1, cores=1)
        opened.append(db)
        for name in "AB":
            db.execute(
                f"REGISTER SOURCE Source{name} (k BIGINT, v BIGINT, at TIMESTAMP) FROM FILES"
                f" '{tmp_path}/{name}/*.parquet' WITH (timestamp = 'at', batch_rows = {BATCH});"
                f"CREATE TAGGED STREAM {name} OVER Source{name};"
            )
        db.execute(
            f"CREATE VIEW V AS SELECT {select}"
            " FROM A [RANGE 4 SECONDS SLIDE 2 SECONDS], B [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE A.k = B.k"
        )
        return db

    yield database
    for db in opened:
        db.close()


def statistics(db: LocalDatabase) -> JoinStatistics:
    (found,) = db.workload.join_planning.settings.statistics.values()
    return found


def followed(db: LocalDatabase) -> list[tuple[str, int]]:
    """(plan, pairs) of every batch of a run."""
    seen: list[tuple[str, int]] = []

    def note(summary) -> None:
        for notes in summary["joins"].values():
            if any(n.pairs for n in notes):
                seen.append((running_plans(db)[0], sum(n.pairs for n in notes)))

    db.outlet.listeners.insert(0, note)
    db.run()
    return seen


def test_rates_are_for_a_second_of_event_time(make):
    db = make([50] * 12)
    db.run()
    for known in statistics(db)["inputs"]:
        assert known["rate"] == pytest.approx(RATE, rel=0.25)
    assert statistics(db)["seconds"] == pytest.approx(BATCH / RATE, rel=0.25)


def test_the_clock_on_the_wall_changes_no_statistics(make, monkeypatch):
    """A replay that is 62 times faster, or one on a slow machine, ranks the plans alike."""
    db = make([50] * 8)
    db.run()
    expected = statistics(db)
    db.close()
    shutil.rmtree(db.paths.root)
    real = time.time
    monkeypatch.setattr(runner.time, "time", lambda: 62 * real())  # type: ignore[attr-defined]
    slow = make([50] * 8)
    slow.run()
    assert statistics(slow) == expected


def test_a_late_input_knows_what_it_would_ship(make):
    """A window of 2 seconds replaces the one before: 5 keys change, a change counts half; not 400 rows."""
    db = make([5] * 12)
    db.execute("SET early_aggregation = 'late'")
    db.run()
    for known in statistics(db)["inputs"]:
        assert known["rate"] == pytest.approx(RATE, rel=0.25)
        assert known["shipped"] == pytest.approx(5 / 2 / 2, rel=0.25)


def test_what_is_shipped_is_as_measured_when_it_is_early(make):
    db = make([5] * 12)
    db.execute("SET early_aggregation = 'early'")
    db.run()
    for known in statistics(db)["inputs"]:
        assert known["shipped"] == pytest.approx(5 / 2 / 2, rel=0.25)


def test_a_join_that_drifts_late_has_another_plan_a_few_batches_later(make):
    """Hardly a row meets another for 38 batches, then each meets 40: the late plan makes all of the pairs."""
    db = make([100_000] * 38 + [10] * 12, "count(*) AS n, stddev(A.v) AS s, stddev(B.v) AS t")
    seen = followed(db)
    slow = [i for i, (_, pairs) in enumerate(seen) if pairs > 5_000]
    assert slow
    assert {plan for plan, _ in seen[slow[0] - 10 : slow[0]]} == {"00"}
    assert len(slow) <= 4  # two tell of it, one more is under way
    assert seen[-1][0] == "11"
    change = db.execute("SHOW PLANS").to_pylist()[-1]
    assert (change["reason"], change["after"]) == ("drift", "EAP11")
    assert change["predicted_after"] < 0.8 * change["predicted_before"]
    assert change["measured_after"] < change["measured_before"]
