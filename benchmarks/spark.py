"""A session set up for Spark's own engine, and streaming queries from their start to their end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from benchmarks import data
from benchmarks.sides import quiet

STORES = {
    "in memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "RocksDB": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def session() -> Any:
    """Code generation, a heap of 4 GB, one shuffle partition for each core."""
    from pyspark.sql import SparkSession

    from tidemill.runtime.spark.session import java_home

    os.environ["JAVA_HOME"] = java_home() or os.environ.get("JAVA_HOME", "")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    cores = len(os.sched_getaffinity(0))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.pollingDelay": "10ms",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("spark side")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with quiet():
        return builder.getOrCreate()


def to_the_end(plans: Sequence[Any]) -> tuple[dict[str, Any], list[pa.Table]]:
    """Run plans at once over what is there; answers go to the driver. Seconds from the start of the first to the end of
    the last, rows of input of the first, the largest number of micro-batches; and the answer of each plan."""
    seen: list[list[pa.Table]] = [[] for _ in plans]
    with data.scratch("spark") as place, quiet():
        began = time.perf_counter()
        running = [
            plan.writeStream.outputMode("append")
            .trigger(availableNow=True)
            .option("checkpointLocation", f"{place}/{number}")
            .foreachBatch(_into(seen[number]))
            .start()
            for number, plan in enumerate(plans)
        ]
        for query in running:
            query.awaitTermination()
        seconds = time.perf_counter() - began
        rows = sum(p["numInputRows"] for p in running[0].recentProgress)
        batches = max(sum(p["numInputRows"] > 0 for p in query.recentProgress) for query in running)
    return {"seconds": seconds, "rows": rows, "batches": batches}, [pa.concat_tables(tables) for tables in seen]


def _into(tables: list[pa.Table]) -> Callable[[Any, int], None]:
    def take(batch: Any, _: int) -> None:
        tables.append(batch.toArrow())

    return take
