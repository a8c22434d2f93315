"""Sinks to Kafka: one transaction holds the records of a batch and its number in a compacted topic.

After a restart `init_transactions` comes first: it ends what an earlier process left open, and only then is the number
of the last batch certain.
"""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

from tidemill.errors import EngineProblem
from tidemill.plan.python_values import json_text, python_rows
from tidemill.runtime.extras import load
from tidemill.runtime.kafka_client import (
    ANSWER_S,
    check_client_options,
    client_settings,
    kafka,
    kept_client,
    list_topics,
)
from tidemill.runtime.targets.target import DEBEZIUM, DELETED, OLD, STAMP, TAG, UPSERT, SinkSpec, fold

PROGRESS = ".tidemill-progress"  # what follows the name of the topic in that of the topic of batch numbers
COMMIT_S = 60.0  # the time after which brokers end a transaction themselves, if not told otherwise
Record = tuple[str | None, str | None]  # key and value; without a value the key is deleted
_OPERATIONS = {"+": "c", "u": "u", DELETED: "d"}


class KafkaTarget:
    """The topic of one sink."""

    def __init__(self, spec: SinkSpec) -> None:
        kafka()
        self.spec = spec
        self._brokers, self._topic = spec.place["brokers"], spec.place["topic"]
        self._producer: Any = None
        self._last = -1
        self._failure: Any = None

    def check(self) -> None:
        check_client_options(self.spec.options)

    def write(self, log: pa.Table, batch: int) -> None:
        producer = self._open()
        if batch <= self._last:
            return
        self._failure = None
        producer.begin_transaction()
        for key, value in records(log, self.spec):
            self._produce(self._topic, key, value)
        self._produce(self._topic + PROGRESS, self.spec.id, str(batch))
        producer.flush(COMMIT_S)
        if self._failure is not None:
            producer.abort_transaction(COMMIT_S)
            raise EngineProblem("TM550", f'sink "{self.spec.name}" cannot write to its topic', detail=self._failure)
        producer.commit_transaction(COMMIT_S)
        self._last = batch

    def _produce(self, topic: str, key: str | None, value: str | None) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key=key, on_delivery=self._note)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _note(self, error: Any, message: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = error.str()

    def _open(self) -> Any:
        if self._producer is None:
            self._create_topics()
            settings = {
                **client_settings(self._brokers, self.spec.options),
                "transactional.id": f"tidemill-{self.spec.id}",
                "linger.ms": 5,
                "compression.type": "lz4",
            }
            producer = kafka().Producer(settings)
            producer.init_transactions(COMMIT_S)
            self._last = self._read_progress()
            self._producer = producer
        return self._producer

    def _create_topics(self) -> None:
        """Topics that are not there: the one of the sink as the brokers usually make one, and that of batch numbers."""
        library, admin = kafka(), kept_client("admin", self._brokers, self.spec.options)
        new = load("confluent_kafka.admin", "kafka", "Kafka").NewTopic
        progress = self._topic + PROGRESS
        known = list_topics(admin)
        missing = [name for name in (self._topic, progress) if name not in known]
        compact = {"cleanup.policy": "compact"}
        made = [new(n, 1, -1, config=compact) if n == progress else new(n, -1, -1) for n in missing]
        for answer in (admin.create_topics(made) if made else {}).values():
            try:
                answer.result(ANSWER_S)
            except library.KafkaException as error:
                if error.args[0].code() != library.KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def _read_progress(self) -> int:
        """The number of the last batch that is in the topic."""
        library = kafka()
        settings = {
            **client_settings(self._brokers, self.spec.options),
            "group.id": "tidemill",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        consumer, last, until = library.Consumer(settings), -1, time.monotonic() + COMMIT_S
        try:
            consumer.assign([library.TopicPartition(self._topic + PROGRESS, 0, library.OFFSET_BEGINNING)])
            while time.monotonic() < until:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                if message.error() is None:
                    last = int(message.value()) if message.key() == self.spec.id.encode() else last
                elif message.error().code() == library.KafkaError._PARTITION_EOF:
                    return last
        finally:
            consumer.close()
        raise EngineProblem("TM550", f'sink "{self.spec.name}" cannot read how far it has come')

    def close(self) -> None:
        self._producer = None


def records(log: pa.Table, spec: SinkSpec) -> list[Record]:
    """The records of a batch, in order."""
    if spec.mode == UPSERT:
        changes = fold(log, spec)
        gone = [(_key(row, spec), None) for row in python_rows(changes.gone)]
        return [*gone, *((_key(row, spec), json_text(row)) for row in python_rows(changes.rows))]
    rows = python_rows(log)
    if spec.mode == DEBEZIUM:
        return [record for row in rows for record in _envelopes(row, spec)]
    return [(_key(row, spec) if spec.keys else None, json_text(row)) for row in rows]


def _key(row: dict[str, Any], spec: SinkSpec) -> str:
    return json_text({name: row[name] for name in spec.keys or ()})


def _envelopes(row: dict[str, Any], spec: SinkSpec) -> list[Record]:
    """The envelope of a change; a deletion is followed by a record without a value, so that compaction forgets it."""
    tag, old = row[TAG], row[OLD]
    now = {name: row[name] for name in spec.columns}
    gone = tag == DELETED
    envelope = {
        "before": now if gone else old,
        "after": None if gone else now,
        "op": _OPERATIONS[tag],
        "source": {"connector": "tidemill", "name": spec.name, "ts": row.get(STAMP)},
    }
    made: list[Record] = [(_key(row, spec), json_text(envelope))]
    return [*made, (_key(row, spec), None)] if gone else made
