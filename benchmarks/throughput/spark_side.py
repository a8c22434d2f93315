"""Spark Structured Streaming: its own parquet source and state; answers go to the driver as Arrow tables.

Each question is written in every way that a user of Spark from Python has, and the fastest counts. `BY_HAND` is set
apart: it keeps the totals outside of Spark, in files that the user names by micro-batch in `foreachBatch`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa

from benchmarks import data, spark
from benchmarks.sides import quiet
from benchmarks.throughput.questions import EVERY, KEPT, in_order

BY_KEY = "windows, then a sum for each key (transformWithStateInPandas)"
BY_ROW = "windows, then a sum for each key, by row (transformWithState)"
BUCKETS = "windows, then the sums of 64 buckets of keys (transformWithStateInPandas)"
CORES = "windows, then the sums of a bucket for each core (transformWithStateInPandas)"
ROWS = "rows, a bucket for each core (applyInPandasWithState)"
BY_HAND = "windows, then sums by hand in foreachBatch, totals in files"
APPEND, UPDATE, SHORT = "watermark and append", "update", "groupBy, update"
# How a question is written, and where the state is. transformWithState needs RocksDB.
WAYS: dict[str, list[tuple[str, str]]] = {
    "refreshed": [
        (BY_KEY, "RocksDB"), (BY_ROW, "RocksDB"), (BUCKETS, "RocksDB"), (CORES, "RocksDB"), (ROWS, "in memory"),
    ],
    "count": [(SHORT, "in memory"), (SHORT, "RocksDB")],
    "windows": [(APPEND, "in memory"), (APPEND, "RocksDB"), (UPDATE, "in memory")],
}  # fmt: skip
HAND = (BY_HAND, "in memory")


class SparkSide:
    """One session for all measurements."""

    def __init__(self) -> None:
        self.spark = spark.session()

    def measure(self, folder: str, work: str, files: int | None, way: str, store: str) -> dict[str, Any]:
        """Seconds of the streaming query from its start to its end, and when each micro-batch ended."""
        self.spark.conf.set(spark.PROVIDER, spark.STORES[store])
        source = self.spark.readStream.schema("k INT, proto INT, len INT, ts TIMESTAMP")
        if files:
            source = source.option("maxFilesPerTrigger", str(files))
        plan = _plan(source.parquet(folder).where(KEPT), work, way)
        seen: list[pa.Table] = []
        ends: list[float] = []
        with data.scratch("throughput") as place, quiet():
            answered = _by_hand(os.path.join(place, "totals")) if way == BY_HAND else _as_it_is

            def take(batch: Any, number: int) -> None:
                seen.append(answered(batch, number))
                ends.append(time.perf_counter() - began)

            writer = plan.writeStream.outputMode("update" if way in (UPDATE, SHORT) else "append")
            writer = writer.trigger(availableNow=True).foreachBatch(take)
            writer = writer.option("checkpointLocation", os.path.join(place, "checkpoint"))
            began = time.perf_counter()
            query = writer.start()
            query.awaitTermination()
            seconds = time.perf_counter() - began
            sizes = [p["numInputRows"] for p in query.recentProgress]
        batches = len([size for size in sizes if size])
        answer = in_order(_latest(seen) if way in (UPDATE, SHORT) else pa.concat_tables(seen))
        return {"seconds": seconds, "ends": ends[:batches], "rows": sum(sizes), "batches": batches, "answer": answer}


def _plan(rows: Any, work: str, way: str) -> Any:
    from pyspark.sql import functions as f

    if work == "count":
        return rows.groupBy("k").agg(f.count("*").alias("n"))
    rows = rows if way == UPDATE else rows.withWatermark("ts", "0 seconds")
    if work == "windows":
        return _windows(rows, f.window("ts", f"{EVERY} seconds"), f.col("window.end"))
    return _refreshed(rows, way)


def _windows(rows: Any, window: Any, time: Any) -> Any:
    from pyspark.sql import functions as f

    return rows.groupBy(window, "k").agg(f.count("*").alias("n")).select(time.alias("TS"), "k", "n")


def _refreshed(rows: Any, way: str) -> Any:
    from pyspark.sql import functions as f

    from benchmarks.throughput import totals

    cores = len(os.sched_getaffinity(0))
    if way == ROWS:
        buckets = rows.select("ts", "k", f.expr(f"k % {cores}").alias("bucket")).groupBy("bucket")
        return buckets.applyInPandasWithState(totals.refresh, totals.ANSWER, totals.STATE, "append", "EventTimeTimeout")
    # A row at a point belongs to it: windows begin a microsecond after a point and end a microsecond after the next.
    window = f.window("ts", f"{EVERY} seconds", startTime="1 microsecond")
    counts = _windows(rows, window, f.col("window.end") - f.expr("INTERVAL 0.000001 SECOND"))
    if way == BY_KEY:
        return counts.groupBy("k").transformWithStateInPandas(totals.SumsByKey(), totals.ANSWER, "append", "none")
    if way == BY_ROW:
        return counts.groupBy("k").transformWithState(totals.SumsByRow(), totals.ANSWER, "append", "none")
    if way in (BUCKETS, CORES):
        bucket = f.expr(f"k % {64 if way == BUCKETS else cores}").alias("bucket")
        grouped = counts.select("*", bucket).groupBy("bucket")
        return grouped.transformWithStateInPandas(totals.SumsOfBucket(), totals.ANSWER, "append", "none")
    return counts


def _as_it_is(batch: Any, _: int) -> pa.Table:
    return batch.toArrow()


def _by_hand(folder: str) -> Callable[[Any, int], pa.Table]:
    """Running counts from the totals of the batch before; those after a batch are in a file of its number, so that a
    batch that is repeated gives the same."""
    from benchmarks.throughput.totals import add_up

    os.makedirs(folder)

    def answered(batch: Any, number: int) -> pa.Table:
        rows, before = batch.toArrow(), None
        if number:
            with open(os.path.join(folder, str(number - 1)), "rb") as file:
                before = file.read()
        answer, after = add_up(rows.to_pandas(), before)
        part = os.path.join(folder, f".{number}")
        with open(part, "wb") as file:
            file.write(after)
        os.replace(part, os.path.join(folder, str(number)))
        return pa.Table.from_pandas(pd.DataFrame(answer), schema=rows.schema, preserve_index=False)

    return answered


def _latest(seen: list[pa.Table]) -> pa.Table:
    """The last count of each key: later batches replace earlier ones."""
    names = seen[0].column_names[:-1]
    numbered = [t.append_column("batch", pa.array([i] * t.num_rows, pa.int64())) for i, t in enumerate(seen)]
    whole = pa.concat_tables(numbered)
    last = whole.group_by(names).aggregate([("batch", "max")]).rename_columns([*names, "batch"])
    return whole.join(last, [*names, "batch"], join_type="inner").select([*names, "n"])
