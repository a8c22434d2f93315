"""Spark Structured Streaming, in a session set up for it.

as asked   J1: inner join of two streams on (window, sip), then groupBy. J2: auctions of sellers from Vermont (a static
           table, broadcast) join bids that are not earlier, then groupBy over a window of 1 hour every minute
by hand    J1: both streams are grouped by (window, sip) first, then joined: the early aggregation plan 11 of paper 000,
           which a user may write who knows that it is the same
"""

from __future__ import annotations

from typing import Any

from benchmarks import answers, spark
from benchmarks.joins.streams import SECONDS
from benchmarks.joins.workloads import ASKED, BY_HAND, WORKS

# Where the state is, the version of the format in which a join keeps it (the third needs RocksDB), files a batch.
SETTINGS: dict[str, tuple[str, int, int | None]] = {
    "state in memory, everything in one batch": ("in memory", 2, None),
    "state in memory, 2 files a batch": ("in memory", 2, 2),
    "state in RocksDB, everything in one batch": ("RocksDB", 2, None),
    "state in RocksDB, join format 3, everything in one batch": ("RocksDB", 3, None),
}
WAYS = {"J1": (ASKED, BY_HAND), "J2": (ASKED,)}


class SparkSide:
    """Code generation, a heap of 4 GB, a shuffle partition for each core."""

    def __init__(self) -> None:
        self.spark = spark.session()

    def measure(self, folder: str, work: str, way: str, setting: str, kept: str | None) -> dict[str, Any]:
        """Seconds from the start of the streaming query to its end; answers go to the driver."""
        store, version, files = SETTINGS[setting]
        self.spark.conf.set(spark.PROVIDER, spark.STORES[store])
        self.spark.conf.set("spark.sql.streaming.join.stateFormatVersion", str(version))
        plan = {"J1": self._packets, "J2": self._auctions}[work](folder, way, files)
        run, (found,) = spark.to_the_end([plan])
        if kept:
            answers.store(kept, WORKS[work], answers.plain(found))
        return run

    def _rows(self, folder: str, work: str, name: str, files: int | None) -> Any:
        source = self.spark.readStream.schema(_ddl(WORKS[work].streams[name]))
        if files:
            source = source.option("maxFilesPerTrigger", str(files))
        return source.parquet(f"{folder}/{name}").withWatermark("ts", "0 seconds")

    def _packets(self, folder: str, way: str, files: int | None) -> Any:
        from pyspark.sql import functions as f

        window = f.window("ts", f"{SECONDS} seconds").alias("w")
        a, b = (self._rows(folder, "J1", name, files) for name in WORKS["J1"].streams)
        end = f.col("w.end").alias("TS")
        if way == BY_HAND:
            a = a.groupBy(window, "sip").agg(f.sum("len").alias("s"), f.count("*").alias("n"))
            b = b.groupBy(window, "sip").agg(f.count("*").alias("m"))
            return a.join(b, ["w", "sip"]).select(
                end, "sip", (f.col("s") * f.col("m")).alias("s"), (f.col("n") * f.col("m")).alias("n")
            )
        joined = a.select(window, "sip", "len").join(b.select(window, "sip"), ["w", "sip"])
        sums = joined.groupBy("w", "sip").agg(f.sum("len").alias("s"), f.count("*").alias("n"))
        return sums.select(end, "sip", "s", "n")

    def _auctions(self, folder: str, _: str, files: int | None) -> Any:
        from pyspark.sql import functions as f

        persons = self.spark.read.schema(_ddl(WORKS["J2"].tables["Person"])).parquet(f"{folder}/Person")
        sellers = f.broadcast(persons.where("state = 'VT'").selectExpr("personID AS sellerID"))
        auctions = self._rows(folder, "J2", "Auction", files).join(sellers, "sellerID")
        auctions = auctions.selectExpr("auctionID AS a", "ts AS created")
        bids = self._rows(folder, "J2", "Bid", files).select("auctionID", "ts")
        joined = bids.join(auctions, f.expr("auctionID = a AND ts >= created")).select("ts", "auctionID")
        window = f.window("ts", "1 hour", "1 minute").alias("w")
        counted = joined.groupBy(window, "auctionID").agg(f.count("*").alias("n"))
        return counted.select(f.col("w.end").alias("TS"), "auctionID", "n")


def _ddl(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {'STRING' if kind == 'VARCHAR' else kind}" for name, kind in columns.items())
