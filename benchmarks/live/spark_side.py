"""The same questions in Spark Structured Streaming: one query each, since a query has one sink."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from benchmarks import spark
from benchmarks.live import sender
from benchmarks.sides import quiet

QUERIES = ("High", "ByKind", "Sliding", "ByRoom")


class SparkSide:
    """Four streaming queries, each with a socket of its own."""

    def __init__(self) -> None:
        self.session = spark.session()
        # Four queries share two cores: a broadcast may have to wait for the batches of the others.
        self.session.conf.set("spark.sql.broadcastTimeout", "3600")
        self.session.conf.set("spark.sql.streaming.stopTimeout", "5s")

    def open(self, port: int, form: str) -> int:
        """Start the queries; how many connect to the port."""
        self.place = tempfile.mkdtemp(prefix="tidemill-live-spark-")
        self.latencies: list[tuple[float, float]] = []
        rooms = self.session.read.csv(sender.table(self.place), header=True, schema="sensor INT, room STRING")
        with quiet():
            self.running = [
                frame.writeStream.outputMode(mode)
                .option("checkpointLocation", f"{self.place}/{name}")
                .foreachBatch(self._taker(name))
                .start()
                for name, (frame, mode) in self._frames(port, form, rooms).items()
            ]
        return len(self.running)

    def _frames(self, port: int, form: str, rooms: Any) -> dict[str, tuple[Any, str]]:
        from pyspark.sql import functions as F

        def rows() -> Any:
            text = self.session.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
            schema = sender.COLUMNS.replace("VARCHAR", "STRING").replace("INTEGER", "INT")
            read = F.from_csv("value", schema) if form == "csv" else F.from_json("value", schema)
            return text.select(read.alias("r")).select("r.*").withWatermark("at", "0 seconds")

        sliding = F.window("at", "10 seconds", "1 second")
        return {
            "High": (rows().where(f"value > {sender.HIGH}").select("sensor", "value", "at"), "append"),
            "ByKind": (rows().groupBy("kind").agg(F.count("*"), F.sum("n")), "update"),
            "Sliding": (rows().groupBy(sliding, "sensor").agg(F.count("*"), F.max("value")), "append"),
            "ByRoom": (rows().join(rooms, "sensor").groupBy("room").agg(F.count("*"), F.sum("value")), "update"),
        }

    def _taker(self, name: str) -> Callable[[Any, int], None]:
        def take(batch: Any, _: int) -> None:
            table = batch.toArrow()
            if name == "High" and table.num_rows:
                now = time.time()
                self.latencies += [(now, now - at / 1e6) for at in table.column("at").cast("int64").to_pylist()]

        return take

    def take(self, rows: int) -> dict[str, Any]:
        """Wait until every query has taken in this many rows."""
        while any(sum(p["numInputRows"] for p in q.recentProgress) < rows for q in self.running):
            failed = [q.exception() for q in self.running if not q.isActive]
            assert not failed, failed
            time.sleep(0.05)
        return {"end": time.time(), "batches": max(len(q.recentProgress) for q in self.running)}

    def follow(self, seconds: float, settle: float) -> list[float]:
        """Latencies of the rows that pass the filter, from the sending to foreachBatch."""
        began = time.time()
        time.sleep(seconds)
        return [latency for at, latency in self.latencies if at - began > settle]

    def close(self) -> None:
        with quiet():
            for query in self.running:
                with suppress(Exception):  # one that has fallen behind does not stop in time
                    query.stop()
        shutil.rmtree(self.place)
