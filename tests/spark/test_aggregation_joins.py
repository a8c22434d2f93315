"""Aggregation joins on Spark: every plan, and another plan between two runs, against the files."""

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

pytestmark = pytest.mark.spark

ROWS, SECONDS, FILES = 20_000, 40, 4
KEYS = ("north", "south", "east", "west", None)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Two streams with a hot key and NULL keys, in files that come in order."""
    folder = tmp_path_factory.mktemp("joined")
    rng = np.random.default_rng(6)
    for name in ("a", "b"):
        (folder / name).mkdir()
        keys = rng.choice(len(KEYS), ROWS, p=[0.5, 0.2, 0.15, 0.1, 0.05])
        whole = pa.table(
            {
                "k": pa.array([KEYS[i] for i in keys]),
                "g": rng.integers(0, 3, ROWS).astype(np.int32),
                "len": rng.integers(-40, 1500, ROWS).astype(np.int32),
                "at": np.sort(rng.integers(0, SECONDS, ROWS)).astype(np.int32),
            }
        )
        for i in range(FILES):
            pq.write_table(whole.slice(i * ROWS // FILES, ROWS // FILES), folder / name / f"{i}.parquet")
    return folder


def expected(data: Path) -> Counter:
    """The same from the files: windows of 10 s that end at every multiple of 5 s, with those of 5 s."""
    with duckdb.connect(":memory:") as duck:
        rows = duck.sql(f"""
            SELECT p AS TS, a.g, a.k, count(*), sum(a.len), sum(b.len), max(b.len)
            FROM '{data}/a/*.parquet' a JOIN '{data}/b/*.parquet' b USING (k),
                 range(5, {SECONDS}, 5) AS w(p)
            WHERE p - 10 <= a.at AND a.at < p AND p - 5 <= b.at AND b.at < p AND p <= {SECONDS - 1}
            GROUP BY ALL""").fetchall()
    return Counter(map(canonical_row, rows))


def test_every_plan_equals_the_files_also_when_it_changes_on_the_way(spark, data, tmp_path):
    wanted = expected(data)
    with tidemill.open(str(tmp_path / "db"), spark=spark) as db:
        for name in ("a", "b"):
            db.execute(f"""REGISTER SOURCE {name}_raw (k VARCHAR, g INTEGER, len INTEGER, at INTEGER)
                FROM FILES '{data}/{name}/*.parquet' WITH (timestamp = 'at', batch_rows = 4000);
                CREATE TAGGED STREAM {name} OVER {name}_raw""")
        db.execute("""CREATE RSTREAM VIEW joined AS
            SELECT A.g, A.k, count(*) AS n, sum(A.len) AS x, sum(B.len) AS y, max(B.len) AS most
            FROM a AS A [RANGE 10 SLIDE 5], b AS B [RANGE 5 SLIDE 5] WHERE A.k = B.k GROUP BY A.g, A.k""")
        plans, versions = iter(("00", "11", "01", "10") * 20), set()

        def follow(progress):
            versions.add(progress["plan"])
            if not progress["final"]:
                db.workload.join_planning.set("early_aggregation", next(plans))
                db.runner.publisher.plan_is_stale = True
                db.runner.publisher.publish()

        summary = db.run(progress=follow)
        assert summary.rows == 2 * ROWS
        assert len(versions) >= 4, "too few batches ran under another plan"
        found = Counter(canonical_row(row.values()) for row in db.query("SELECT * FROM joined").to_pylist())
        assert found == wanted
        assert "statistics measured" in str(db.explain("EXPLAIN VIEW joined"))
