"""What counts rows and what counts values share a place in the hash tables until a value is missing."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness import LocalDatabase

SECOND = 1_000_000
MIXED = ([5, 7, 9, 11], [None, 2, None, 4], [1, 1, 1, 1], [None, None, None, None], [3, 8, 2, 6])


def write(folder, columns) -> None:
    for number, column in enumerate(columns):
        times = [(len(column) * number + i) * SECOND for i in range(len(column))]
        table = pa.table(
            {
                "k": pa.array([i % 2 for i in range(len(column))], pa.int32()),
                "len": pa.array(column, pa.int32()),
                "ts": pa.array(times, pa.timestamp("us")),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet")


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (1, 0, 3, 2, 4), (3, 0, 1, 4, 2), (0, 2, 4, 3, 1)])
def test_counts_of_rows_and_of_values(tmp_path, order):
    write(tmp_path, [MIXED[i] for i in order])
    with LocalDatabase(str(tmp_path / "db"), cores=1) as db:
        db.execute(
            f"REGISTER SOURCE P (k INT, len INT, ts TIMESTAMP) FROM FILES '{tmp_path}/*.parquet'"
            " WITH (timestamp = 'ts'); CREATE TAGGED STREAM S OVER P;"
            "CREATE RSTREAM VIEW v AS SELECT k, count(*) AS n, count(len) AS c, sum(len) AS total"
            " FROM S [RANGE 19 SECONDS SLIDE 19 SECONDS] GROUP BY k"
        )
        db.run()
        found = db.query("SELECT k, n, c, total FROM v ORDER BY k").to_pylist()
    expected = (
        duckdb.sql(
            f"SELECT k, count(*) AS n, count(len) AS c, sum(len)::BIGINT AS total FROM '{tmp_path}/*.parquet'"
            " WHERE epoch_us(ts) < 19000000 GROUP BY k ORDER BY k"
        )
        .to_arrow_table()
        .to_pylist()
    )
    assert len(expected) == 2
    assert [[int(v) for v in row.values()] for row in found] == [[int(v) for v in row.values()] for row in expected]
