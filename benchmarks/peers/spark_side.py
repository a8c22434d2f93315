"""Spark Structured Streaming, in a session set up for it. A work is written in one of three ways:

each query   every query is a streaming query with its own source, as users write it; all run at once
one pass     one streaming query: a row is copied for each group-by (Spark refuses GROUPING SETS on streams)
panes        every query by hand in two steps: tumbling windows of one slide, and sliding windows over those
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import answers, spark
from benchmarks.packets import COLUMNS
from benchmarks.peers.workloads import ONE, PANES, Query


class SparkSide:
    """Code generation, a heap of 4 GB, a shuffle partition for each core."""

    def __init__(self) -> None:
        self.spark = spark.session()

    def measure(
        self, folder: str, queries: Sequence[Query], shape: str, store: str, files: int | None, kept: str | None
    ) -> dict[str, Any]:
        """Seconds from the start of the first streaming query to the end of the last; answers go to the driver."""
        self.spark.conf.set(spark.PROVIDER, spark.STORES[store])
        plans = [self._one_pass(folder, queries, files)] if shape == ONE else []
        plans += [self._plan(folder, q, shape, files) for q in queries] if shape != ONE else []
        run, found = spark.to_the_end(plans)
        if kept:
            for number, query in enumerate(queries):
                mine = _apart(found[0], number, query) if shape == ONE else answers.plain(found[number])
                answers.store(kept, query, mine)
        return run

    def _rows(self, folder: str, files: int | None) -> Any:
        source = self.spark.readStream.schema(COLUMNS)
        if files:
            source = source.option("maxFilesPerTrigger", str(files))
        return source.parquet(folder).withWatermark("ts", "0 seconds")

    def _plan(self, folder: str, query: Query, shape: str, files: int | None) -> Any:
        from pyspark.sql import functions as f

        rows = self._rows(folder, files)
        sums = (f.count("*").alias("n"), f.sum("len").alias("total"))
        if shape == PANES:
            pane = f.window("ts", f"{query.slide} seconds")
            rows = rows.groupBy(pane, *query.keys).agg(*sums)
            rows = rows.select(f.window_time("window").alias("ts"), *query.keys, "n", "total")
            sums = (f.sum("n").alias("n"), f.sum("total").alias("total"))
        window = f.window("ts", f"{query.range} seconds", f"{query.slide} seconds")
        return rows.groupBy(window, *query.keys).agg(*sums).select(_end(), *query.keys, "n", "total")

    def _one_pass(self, folder: str, queries: Sequence[Query], files: int | None) -> Any:
        """Every row once for each query, with the query's number and its two keys."""
        from pyspark.sql import functions as f

        (slide,) = {q.slide for q in queries}
        copies = f.array(
            *(f.struct(f.lit(i).alias("which"), *(f.col(k).alias(n) for k, n in zip(q.keys, "ab", strict=True)))
              for i, q in enumerate(queries))
        )  # fmt: skip
        rows = self._rows(folder, files).select("ts", "len", f.inline(copies))
        grouped = rows.groupBy(f.window("ts", f"{slide} seconds"), "which", "a", "b")
        sums = grouped.agg(f.count("*").alias("n"), f.sum("len").alias("total"))
        return sums.select(_end(), "which", "a", "b", "n", "total")


def _end() -> Any:
    from pyspark.sql import functions as f

    return f.col("window.end").alias("TS")


def _apart(rows: pa.Table, number: int, query: Query) -> pa.Table:
    """The rows of one query of those that ran in one pass."""
    mine = answers.plain(rows).filter(pc.equal(rows.column("which"), number)).drop_columns(["which"])
    return mine.rename_columns(["TS", *query.keys, "n", "total"])
