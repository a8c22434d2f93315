"""The questions, in Tidemill's language, and what an answer looks like on both sides.

*Refreshed* is the question of the benchmark: at every 10 s of event time, the running count of each key that has got
rows since the point before. The other two are asked beside it, because Spark has a short form for them: the *running
count*, of which Spark shows only what holds at the end of each micro-batch, and *windows*, the counts of each 10 s by
themselves.
"""

from __future__ import annotations

import os
from datetime import datetime

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

FILES, FILES_A_BATCH = 16, 4
EVERY = 10
KEPT = "proto = 1 OR proto = 2 OR proto = 3"
_COUNT = f"SELECT k, count(*) AS n FROM S SYNC EVERY {EVERY} SECONDS WHERE {KEPT} GROUP BY k"
VIEWS = {
    "refreshed": f"CREATE STREAMED VIEW v AS {_COUNT}",
    "count": f"CREATE COMPLETE VIEW v AS {_COUNT}",
    "windows": f"CREATE RSTREAM VIEW v AS SELECT k, count(*) AS n FROM S [RANGE {EVERY} SECONDS SLIDE {EVERY} SECONDS]"
    f" WHERE {KEPT} GROUP BY k",
}
NAMES = {
    "refreshed": f"count refreshed every {EVERY} s",
    "count": "running count",
    "windows": f"tumbling windows of {EVERY} s",
}
_TYPES = {"TS": pa.timestamp("us"), "k": pa.int64(), "n": pa.int64()}


def in_order(table: pa.Table) -> pa.Table:
    """Rows sorted by all columns, with the types of both sides made the same.

    >>> in_order(pa.table({"k": pa.array([2, 1], pa.int32()), "n": [5, 6]})).to_pylist()
    [{'k': 1, 'n': 6}, {'k': 2, 'n': 5}]
    """
    plain = pa.table({name: table.column(name).cast(_TYPES[name]) for name in table.column_names})
    return plain.sort_by([(name, "ascending") for name in plain.column_names]).combine_chunks()


def last_kept(folder: str) -> datetime:
    """The time of the last row that passes the filter: as far as Spark's watermark comes."""
    with duckdb.connect() as db:
        source = os.path.join(folder, "*.parquet")
        found = db.execute(f"SELECT max(ts) FROM read_parquet(?) WHERE {KEPT}", [source]).fetchone()
    assert found is not None
    return found[0]


def closed(work: str, answer: pa.Table, end: datetime) -> pa.Table:
    """What both sides must have said of a stream whose last row that passes the filter is at `end`.

    A point is closed for Spark when a later row was there, a window when a row at its end was: nothing of the window
    [end - 10 s, end) is missing, but more rows may come at the very time `end`.
    """
    if work == "count":
        return answer
    last = pa.scalar(end, pa.timestamp("us"))
    before = pc.less if work == "refreshed" else pc.less_equal
    return answer.filter(before(answer.column("TS"), last))


def check_equal(work: str, ours: pa.Table, theirs: pa.Table, end: datetime) -> int:
    """Both sides said the same at every closed point: the number of points; an error when they differ."""
    ours, theirs = (closed(work, answer, end) for answer in (ours, theirs))
    if ours.num_rows == 0 or not ours.equals(theirs):
        raise AssertionError(f"{work}: {ours.num_rows} rows against {theirs.num_rows} of Spark, or other values")
    return 1 if work == "count" else pc.count_distinct(ours.column("TS")).as_py()
