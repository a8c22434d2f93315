"""`kill -9` of a driver that reads a topic and writes two: what is committed there equals a batch over all records.

Records keep coming while processes die, and the broker crashes once. Thorough runs only: each life starts a Spark.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tests.kafka.broker import Broker, find_jars
from tests.kafka.conftest import Topics
from tests.kafka.test_kafka_kills import oracle, replay
from tests.kafka.test_kafka_sinks import contents, read_topic, sink
from tests.properties.effort import thorough
from tests.spark.processes import until
from tests.spark.test_crash import Lives

KILLS = int(os.environ.get("TIDEMILL_KILLS", "20"))
FOR_EVER = str(10**9)
START = 600.0

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not thorough(), reason="several minutes, one Spark after the other: TIDEMILL_THOROUGH=1"),
]


@pytest.fixture
def broker(tmp_path) -> Iterator[Broker]:
    folder = tmp_path / "broker"
    folder.mkdir()
    made = Broker(find_jars(), folder)
    yield made
    made.stop()


class Sender(threading.Thread):
    """Sends records until it is stopped; each one is in the topic once, also when the broker crashes meanwhile."""

    def __init__(self, address: str, topic: str, seed: int) -> None:
        super().__init__(daemon=True)
        from confluent_kafka import Producer

        self.producer = Producer(
            {"bootstrap.servers": address, "log_level": 0, "enable.idempotence": True, "delivery.timeout.ms": 600_000}
        )
        self.topic, self.chance = topic, random.Random(seed)
        self.sent: list[tuple[int, int]] = []
        self.problems: list[str] = []
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.05):
            for _ in range(self.chance.randint(1, 20)):
                self.send()
            self.producer.poll(0)

    def send(self) -> None:
        row = self.chance.randint(1, 40), self.chance.randint(-9, 9)
        self.sent.append(row)
        value = json.dumps({"room": row[0], "temp": row[1]})
        self.producer.produce(self.topic, value, partition=self.chance.randrange(2), on_delivery=self._note)

    def _note(self, error, message) -> None:
        if error is not None:
            self.problems.append(error.str())

    def finish(self) -> None:
        self.ended.set()
        self.join()
        assert self.producer.flush(120) == 0 and not self.problems


def create_pipeline(path: Path, topics: Topics, source: str, log: str, table: str) -> None:
    """A view of sums over a topic, as a changelog in one topic and by its key in another."""
    with tidemill.open(str(path), shards=2) as db:
        db.execute(
            f"REGISTER SOURCE R (room INTEGER, temp INTEGER) FROM KAFKA '{topics.address}' TOPIC '{source}';"
            " CREATE TAGGED STREAM S OVER R;"
            " CREATE VIEW V AS SELECT room, count(*) AS n, sum(temp) AS total FROM S GROUP BY room;"
            " CREATE VIEW Totals AS SELECT count(*) AS n FROM S;"
            + sink(topics, log)
            + ";"
            + sink(topics, table, mode="upsert").replace("SINK K", "SINK T")
        )


def kill_in_a_batch(lives: Lives, number: int, chance: random.Random) -> bool:
    """Kill the driver, alone or with its JVM, some batches from now; True when one was under way."""
    child = lives.alive()
    wanted = max(lives.seen, default=-1) + chance.randint(1, 3)
    until(lambda: max(lives.numbers("offsets"), default=-1) >= wanted or not child.is_alive, START, f"batch {wanted}")
    assert child.is_alive, child.tail()
    time.sleep(chance.uniform(0, 0.4))
    child.kill_group() if number % 2 else child.kill_driver()
    return lives.in_progress()


def test_what_is_committed_in_topics_equals_a_batch_over_all_records(broker, tmp_path):
    topics, lives, seed = Topics(broker), Lives(tmp_path, FOR_EVER), time.time_ns()
    source, log, table = topics.create(2), topics.create(), topics.create(2)
    create_pipeline(lives.path, topics, source, log, table)
    sender, chance, landed = Sender(topics.address, source, seed), random.Random(seed), 0
    sender.start()
    try:
        for number in range(KILLS):
            if number == KILLS // 2:
                lives.alive()
                broker.restart()
            landed += kill_in_a_batch(lives, number, chance)
        sender.finish()
        lives.arguments = (str(len(sender.sent)),)
        last = lives.alive()
        until(lambda: not last.is_alive, START, "all records in the view")
        assert last.process.returncode == 0, last.tail()
    finally:
        lives.bury()
    sender.send()  # what a sink could not deliver goes with the next batch
    assert sender.producer.flush(60) == 0
    with tidemill.open(str(lives.path)) as db:
        db.run(final=True)
        assert [s["undelivered"] for s in db.status()["sinks"]] == [0, 0]
        rows = db.query("SELECT room, n, total FROM V ORDER BY room").to_pylist()
    wanted = oracle(sender.sent)
    assert [{**row, "total": int(row["total"])} for row in rows] == wanted, f"seed {seed}"
    assert replay(read_topic(topics.address, log)) == wanted, f"seed {seed}"
    assert contents(read_topic(topics.address, table)) == wanted, f"seed {seed}"
    assert landed, f"no kill landed in a running batch, seed {seed}"
