"""Starts, watches and stops the one Spark query of a database. The topology is the same for every plan:

tidemill source → shuffle by shard → transformWithState (one key for each shard) → foreachBatch outlet
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidemill.runtime.checkpoint.progress import first_batch, mark_checkpoint
from tidemill.runtime.checkpoint.relocation import relocate_checkpoint
from tidemill.runtime.paths import Paths
from tidemill.runtime.spark.data_source import MESSAGE_SCHEMA, TidemillSource
from tidemill.runtime.spark.error_text import shorten_failure
from tidemill.runtime.spark.given_session import is_on_this_machine
from tidemill.runtime.spark.shard_processor import STATE_VARIABLE, ShardProcessor
from tidemill.runtime.spark.spread import spread
from tidemill.runtime.views.outlet import Outlet

_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def start(
    spark: SparkSession, root: str, outlet: Outlet, *, cores: int, shards: int, interval: str | None
) -> StreamingQuery:
    """Start, or go on from the checkpoint."""
    paths = Paths(root)
    outlet.sweep()
    if not is_on_this_machine(spark):  # here the libraries of lakes use all cores by themselves
        outlet.sinks.spread = partial(spread, spark)
    mark_checkpoint(paths)
    relocate_checkpoint(paths)
    spark.dataSource.register(TidemillSource)
    messages = spark.readStream.format("tidemill").option("root", paths.root).option("cores", str(cores)).load()
    stage = messages.groupBy("shard").transformWithState(
        statefulProcessor=ShardProcessor(paths.root),
        outputStructType=MESSAGE_SCHEMA,
        outputMode="Append",
        timeMode="None",
    )

    first = first_batch(paths)

    def take(batch: DataFrame, batch_id: int) -> None:
        try:
            rows = batch.collect()
        except Exception as error:
            raise shorten_failure(error) from None
        outlet.apply(first + batch_id, [(r[0], r[1], bytes(r[2])) for r in rows])

    writer = stage.writeStream.outputMode("append").option("checkpointLocation", paths.checkpoint)
    writer = writer.queryName(f"tidemill {paths.root}").foreachBatch(take)
    if interval:
        writer = writer.trigger(processingTime=interval)
    with _settings(spark, shards):
        return writer.start()


def read_state(spark: SparkSession, paths: Paths) -> dict[int, bytes]:
    """The state of every shard after the last batch that Spark has committed."""
    relocate_checkpoint(paths)
    found = spark.read.format("statestore").option("stateVarName", STATE_VARIABLE).load(paths.checkpoint)
    return {row[0]: bytes(row[1]) for row in found.select("key.shard", "value.blob").collect()}


class _settings:
    """Settings of the query, put back afterwards so that the user's session stays as it was."""

    def __init__(self, spark: SparkSession, shards: int) -> None:
        self.spark = spark
        self.wanted = {
            "spark.sql.shuffle.partitions": str(shards),
            "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.streaming.noDataProgressEventInterval": "1000",
            # The planner holds the question back while there is nothing new.
            "spark.sql.streaming.pollingDelay": "10ms",
            # On a local disk Hadoop starts a chmod for every file of the checkpoint and one more for its checksum, some
            # milliseconds each. Spark closes a file before it renames it into place, so a reader never sees half of
            # one.
            "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
        }
        self.before: dict[str, str | None] = {}

    def __enter__(self) -> None:
        for name, value in self.wanted.items():
            self.before[name] = self.spark.conf.get(name, None)
            self.spark.conf.set(name, value)

    def __exit__(self, *_: Any) -> None:
        for name, value in self.before.items():
            if value is None:
                self.spark.conf.unset(name)
            else:
                self.spark.conf.set(name, value)
