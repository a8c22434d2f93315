"""JSON records of a Kafka topic into a grouped view, beside Spark's own Kafka source on the same topic.

`python -m benchmarks.topics [rows]` prints the table of docs/benchmarks/kafka.md. It starts a broker of its own, on
the same cores, unless TIDEMILL_KAFKA names one. Both sides read everything that is there, in an engine that is up,
three times; the answers must be equal.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import data
from benchmarks.sides import Side, alternate, quiet

ROWS, PARTITIONS, GROUPS, ROUNDS = 2_000_000, 4, 1000, 3
CONNECTOR = "4.2.0"  # of Spark's Kafka source
_CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tidemill" / f"spark-kafka-{CONNECTOR}"
# Each without what it needs: Spark has the rest, and its list of repositories is not needed.
_JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", CONNECTOR),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),  # a later one could not be fetched
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_POM = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>benchmarks</groupId>'
    "<artifactId>topics</artifactId><version>1</version><packaging>pom</packaging><dependencies>"
    + "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>{_ALONE}"
        "</dependency>"
        for group, name, version in _JARS
    )
    + "</dependencies></project>"
)
_SCHEMA = "sensor INT, value DOUBLE, kind STRING, at BIGINT"
Answer = list[tuple[Any, ...]]


def main() -> None:
    """Fill a topic, measure both sides, print a page."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as folder:
        broker, address = _broker(Path(folder))
        try:
            topic = _fill(address, rows)
            print(f"{rows:,} records in {PARTITIONS} partitions", flush=True)
            found = _measure(address, topic)
        finally:
            if broker is not None:
                broker.stop()
    answers = [answer for runs in found.values() for _, answer in runs]
    assert all(answer == answers[0] for answer in answers), "the sides differ"
    assert sum(row[1] for row in answers[0]) == rows
    print("| side | rows/s | all runs |\n|---|--:|--:|")
    for name, runs in found.items():
        rates = sorted(round(rows / seconds) for seconds, _ in runs)
        print(f"| {name} | {median(rates):,.0f} | {' '.join(f'{rate:,}' for rate in rates)} |")


class Asked:
    """One of the sides, in a process of its own: a JVM takes its jars when it starts."""

    def spark(self, address: str, topic: str) -> tuple[float, Answer]:
        return spark_side(address, topic)

    def tidemill(self, address: str, topic: str) -> tuple[float, Answer]:
        return tidemill_side(address, topic)


def _measure(address: str, topic: str) -> dict[str, list[tuple[float, Answer]]]:
    """Name of the side → seconds and answer of each round; the sides take turns."""
    names = _sides()
    with Side(Asked) as ours, Side(Asked) as theirs:
        calls: dict[str, Callable[[], Any]] = {
            name: partial((ours if method == "tidemill" else theirs).ask, method, address, topic)
            for name, method in names.items()
        }
        return alternate(calls, ROUNDS)


def _broker(folder: Path) -> tuple[Any, str]:
    if "TIDEMILL_KAFKA" in os.environ:
        return None, os.environ["TIDEMILL_KAFKA"]
    from tests.kafka.broker import Broker, find_jars

    made = Broker(find_jars(), folder)
    return made, made.address


def _fill(address: str, rows: int) -> str:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = f"benchmark-{os.getpid()}"
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "batch.size": 1 << 20})
    for i in range(rows):
        record = {"sensor": i * 7919 % GROUPS, "value": (i % 1000) / 4, "kind": "abcd"[i % 4], "at": 1_700_000_000 + i}
        while True:
            try:
                producer.produce(topic, json.dumps(record), partition=i % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0
    return topic


def tidemill_side(address: str, topic: str) -> tuple[float, Answer]:
    """Seconds from the first statement to the end of the run, and the answer."""
    import tidemill

    with data.scratch("topics") as place, quiet(), tidemill.open(os.path.join(place, "db")) as db:
        db.warm()
        began = time.perf_counter()
        db.execute(f"""
            REGISTER SOURCE T (sensor INTEGER, value DOUBLE, kind VARCHAR, at BIGINT)
            FROM KAFKA '{address}' TOPIC '{topic}';
            CREATE TAGGED STREAM S OVER T;
            CREATE VIEW V AS SELECT sensor, count(*) AS n, sum(value) AS total FROM S GROUP BY sensor""")
        db.run()
        seconds = time.perf_counter() - began
        found = db.query("SELECT sensor, n, total FROM V ORDER BY sensor").to_pylist()
        return seconds, [tuple(row.values()) for row in found]


def spark_side(address: str, topic: str) -> tuple[float, Answer]:
    """Seconds from the start of the query to its end, in a session that has read the topic before, and the answer."""
    jars = ",".join(str(path) for path in _connector())
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {jars} pyspark-shell"
    from pyspark.sql import functions as f

    from benchmarks.spark import session

    spark = session()
    text = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .select(f.from_json(f.col("value").cast("string"), _SCHEMA).alias("r"))
        .select("r.*")
    )
    plan = text.groupBy("sensor").agg(f.count("*").alias("n"), f.sum("value").alias("total"))
    answer: list[Any] = []
    with data.scratch("topics") as place, quiet():
        began = time.perf_counter()
        query = (
            plan.writeStream.outputMode("complete")
            .trigger(availableNow=True)
            .option("checkpointLocation", place)
            .foreachBatch(lambda batch, _: answer.__setitem__(slice(None), batch.orderBy("sensor").collect()))
            .start()
        )
        query.awaitTermination()
        return time.perf_counter() - began, [tuple(row) for row in answer]


def _connector() -> list[Path]:
    """The jars of Spark's Kafka source, fetched by Maven into a cache."""
    if not _CACHE.exists():
        _CACHE.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE.parent) as folder:
            Path(folder, "pom.xml").write_text(_POM)
            command = ["mvn", "-q", "-B", "-U", "dependency:copy-dependencies", f"-DoutputDirectory={folder}/jars"]
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
            shutil.move(f"{folder}/jars", _CACHE)
    return sorted(_CACHE.glob("*.jar"))


def _sides() -> dict[str, str]:
    """Name of the side → method of `Asked`. Spark's is left out, with a word about it, where it cannot be fetched."""
    try:
        _connector()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"SPARK'S SIDE IS SKIPPED: its Kafka source {CONNECTOR} cannot be fetched ({error})", flush=True)
        return {"Tidemill": "tidemill"}
    return {"Tidemill": "tidemill", f"Spark, Kafka source {CONNECTOR}": "spark"}


if __name__ == "__main__":
    main()
