"""Rows that are taken as they lie in memory are late, and move the frontier, as all others are and do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness import LocalDatabase
from tidemill.runtime.kernels.share.edges import STRETCH, ascending

SECOND = 1_000_000


def late_rows(folder, groups, batch_rows) -> list[str]:
    """Times (in seconds) of one file, a row group each, read this many rows at a time with 10 seconds of lateness; the
    positions of those that were put aside."""
    schema = pa.schema([("k", pa.int32()), ("ts", pa.timestamp("us"))])
    with pq.ParquetWriter(folder / "rows.parquet", schema) as file:
        for times in groups:
            stamps = pa.array([t * SECOND for t in times], pa.timestamp("us"))
            file.write_table(pa.table({"k": pa.array([1] * len(times), pa.int32()), "ts": stamps}, schema=schema))
    with LocalDatabase(str(folder / "db"), cores=1) as db:
        db.execute(
            f"REGISTER SOURCE P (k INT, ts TIMESTAMP) FROM FILES '{folder}/*.parquet'"
            f" WITH (timestamp = 'ts', lateness = '10 seconds', batch_rows = {batch_rows});"
            "CREATE TAGGED STREAM S OVER P;"
            "CREATE RSTREAM VIEW v AS SELECT k, count(*) AS n FROM S [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k"
        )
        db.run()
        return [row["position"] for row in db.query("SELECT position FROM dead_letters ORDER BY position").to_pylist()]


@pytest.mark.parametrize("batch_rows", [2, 4, 5, 100])
@pytest.mark.parametrize(
    "groups, late",
    [
        ([[0, 100], [95, 97], [89]], ["4"]),
        ([[0, 100], [95, 97], [90]], []),
        ([[0, 100], [50, 101], [91]], ["2"]),
        ([[0, 100], [110, 105], [101], [99]], ["5"]),
    ],
)
def test_late_rows_do_not_depend_on_the_cut(tmp_path, groups, late, batch_rows):
    assert late_rows(tmp_path, groups, batch_rows) == late


@pytest.mark.parametrize("size", [0, 1, 2, STRETCH, STRETCH + 1, 2 * STRETCH + 1])
def test_a_step_back_is_seen_wherever_it_is(size):
    times = np.repeat(np.arange(size), 2)[:size]
    assert ascending(times)
    for place in {1, 2, STRETCH - 1, STRETCH, STRETCH + 1, size - 1}:
        if 0 < place < size:
            bent = times.copy()
            bent[place:] -= 5
            assert not ascending(bent)
