"""One broker for all tests of the folder."""

from __future__ import annotations

import itertools
import os
import uuid
from typing import Any

import pytest

from tests.kafka.broker import Broker, GivenBroker, find_jars

_numbers = itertools.count()


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """A broker of its own, or the one at TIDEMILL_KAFKA, which tests then leave running and never restart."""
    if "TIDEMILL_KAFKA" in os.environ:
        yield GivenBroker(os.environ["TIDEMILL_KAFKA"])
        return
    made = Broker(find_jars(), tmp_path_factory.mktemp("kafka"))
    yield made
    made.stop()


class Topics:
    """Makes topics and fills them."""

    def __init__(self, broker: Broker) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self.broker, self.address = broker, broker.address
        self.admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        self.producer = Producer({"bootstrap.servers": broker.address, "log_level": 0, "linger.ms": 0})

    def create(self, partitions: int = 1, **config: Any) -> str:
        from confluent_kafka.admin import NewTopic

        name = f"topic-{next(_numbers)}-{uuid.uuid4().hex[:8]}"
        self.admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(30)
        return name

    def send(self, topic: str, *records: Any, partition: int = 0, key: Any = None, **more: Any) -> None:
        for record in records:
            self.producer.produce(topic, record, key=key, partition=partition, **more)
        assert self.producer.flush(30) == 0


@pytest.fixture
def topics(broker):
    return Topics(broker)
