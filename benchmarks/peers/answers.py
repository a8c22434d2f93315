"""Answers as files, and whether two engines answered the same.

An answer is a folder with one folder for each query, in it Parquet files with the columns TS (the end of the window),
the query's keys, n and total. Engines differ in what they do with the windows that are still open when the input ends:
Flink shows them, Spark and Tidemill do not. So what is compared are all windows that ended before the last packet.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peers.workloads import Query


def last_time(folder: str) -> datetime:
    """The time of the last packet of a trace."""
    with duckdb.connect() as db:
        found = db.execute("SELECT max(ts) FROM read_parquet(?)", [os.path.join(folder, "*.parquet")]).fetchone()
    assert found is not None
    return found[0]


def store(folder: str, query: Query, rows: pa.Table) -> None:
    """Keep the answer of one query."""
    place = os.path.join(folder, query.name)
    os.makedirs(place, exist_ok=True)
    pq.write_table(rows, os.path.join(place, "rows.parquet"))


def check_equal(queries: Iterable[Query], ours: str, theirs: str, until: datetime) -> int:
    """The number of rows that both folders hold for windows that end by `until`; an error when they differ.

    Two bags are equal when they have as many rows, and none of one is missing in the other.
    """
    total = 0
    with duckdb.connect() as db:
        for query in queries:
            for side, folder in (("a", ours), ("b", theirs)):
                db.execute(
                    f"CREATE OR REPLACE TABLE {side} AS SELECT TS::TIMESTAMP AS ts, {query.by}, n::BIGINT AS n,"
                    " total::BIGINT AS total FROM read_parquet(?) WHERE ts <= ?",
                    [os.path.join(folder, query.name, "*"), until],
                )
            mine, other, lost = db.execute(
                "SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b),"
                " (SELECT count(*) FROM (FROM a EXCEPT ALL FROM b))"
            ).fetchall()[0]
            if mine != other or lost:
                raise AssertionError(f"{query.name}: {mine} rows against {other}, {lost} of them have no equal")
            total += mine
    return total
