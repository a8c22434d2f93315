"""Shared aggregation on Spark: four group-bys and a sliding window over one stream, with another plan in between."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill
from tests.reference.logs import canonical_row
from tidemill.engine.database import Database
from tidemill.optimize.share.stored_statistics import WindowStatistics

pytestmark = pytest.mark.spark

ROWS, SECONDS = 200_000, 40
EPOCHS = {  # four of the group-bys that paper 002 gives as its running example
    "ab": "a, b",
    "bc": "b, c",
    "bd": "b, d",
    "cd": "c, d",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Packets in files that come in order; the second half has other groups than the first."""
    folder = tmp_path_factory.mktemp("packets")
    rng = np.random.default_rng(4)
    half = ROWS // 2
    columns = {
        "a": np.concatenate([rng.integers(0, 4, half), rng.integers(0, 900, half)]),
        "b": rng.integers(0, 6, ROWS),
        "c": rng.integers(0, 5, ROWS),
        "d": rng.integers(0, 3, ROWS),
        "len": rng.integers(40, 1500, ROWS),
        "at": np.sort(rng.integers(0, SECONDS, ROWS)),
    }
    whole = pa.table({name: pa.array(values.astype(np.int32)) for name, values in columns.items()})
    for i in range(4):
        pq.write_table(whole.slice(i * ROWS // 4, ROWS // 4), folder / f"{i}.parquet")
    return folder


def create(db: Database, data: Path) -> None:
    """Epochs of 5 seconds by four keys, and a sliding window with a condition."""
    db.execute(f"""
        REGISTER SOURCE Raw (a INTEGER, b INTEGER, c INTEGER, d INTEGER, len INTEGER, at INTEGER)
          FROM FILES '{data}/*.parquet' WITH (timestamp = 'at', batch_rows = 60000);
        CREATE TAGGED STREAM S OVER Raw""")
    for name, keys in EPOCHS.items():
        db.execute(
            f"CREATE COMPLETE VIEW {name} WITH (unbounded_state = true) AS SELECT tb, {keys}, count(*) AS n,"
            f" sum(len) AS total, max(len) AS most FROM S GROUP BY at/5 AS tb, {keys}"
        )
    db.execute(
        "CREATE RSTREAM VIEW sliding AS SELECT b, count(*) AS n, avg(len) AS mean"
        " FROM S [RANGE 12 SLIDE 2] WHERE c > 1 GROUP BY b"
    )


def expected(data: Path) -> dict[str, Counter]:
    """The same from the files."""
    end = SECONDS - 1
    with duckdb.connect(":memory:") as duck:
        duck.execute(f"CREATE TABLE s AS SELECT * FROM '{data}/*.parquet'")
        found = {
            name: duck.sql(f"""SELECT "at" // 5 AS tb, {keys}, count(*), sum(len), max(len) FROM s
                               WHERE (tb + 1) * 5 <= {end} GROUP BY tb, {keys}""").fetchall()
            for name, keys in EPOCHS.items()
        }
        found["sliding"] = duck.sql(f"""
            SELECT p, b, count(*), avg(len) FROM s JOIN range(2, {end} + 1, 2) AS w(p) ON p - 12 <= "at" AND "at" < p
            WHERE c > 1 GROUP BY p, b""").fetchall()
    return {name: Counter(map(canonical_row, rows)) for name, rows in found.items()}


def shown(db: Database, name: str) -> Counter:
    return Counter(canonical_row(row.values()) for row in db.query(f"SELECT * FROM {name}").to_pylist())


def test_shared_aggregates_equal_the_files_whatever_the_plan(spark, data, tmp_path):
    wanted = expected(data)
    versions = set()
    with tidemill.open(str(tmp_path / "db"), spark=spark) as db:
        create(db, data)
        groups = {"a\x1fb\x1fc\x1fd": 3.0, "b": 500_000.0}
        lies: WindowStatistics = {"groups": groups, "tuples": 1000.0, "rate": 1.0, "flows": [900.0]}

        def follow(progress):
            versions.add(progress["plan"])
            if len(versions) == 1 and not progress["final"]:
                # Between two batches: little memory, and statistics that have nothing to do with the rows.
                db.workload.sharing.settings.memory = 200
                db.workload.sharing.settings.statistics["Raw"] = lies
                db.runner.publisher.plan_is_stale = True
                db.runner.publisher.publish()

        summary = db.run(progress=follow)
        assert summary.rows == ROWS and summary.batches >= 4
        assert len(versions) > 1, "no batch ran under another plan"
        found = {name: shown(db, name) for name in wanted}
    for name in wanted:
        assert found[name] == wanted[name], name
