"""Reads the records of slices from the brokers, slice by slice, whatever order the partitions answer in."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.garbage_collection import seldom_collected
from tidemill.runtime.kafka_client import forget_client, kafka, kept_client, unreachable
from tidemill.runtime.sources.kafka.slices import Slice
from tidemill.runtime.thresholds import sizes

SILENCE_S = 60.0  # seconds without a record or an end of a partition, after which the brokers are given up
_SETTINGS = {
    "group.id": "tidemill",  # the library wants one; no group is joined, and nothing is committed
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 100,
    "queued.min.messages": 200_000,
    "allow.auto.create.topics": False,
    "check.crcs": True,
}


@dataclass
class _Lane:
    """One partition: what was fetched and is in no slice yet, up to which offset all is known, and where to stop."""

    reached: int
    stop: int
    held: deque[tuple[int, Any]]  # offsets and messages
    size: int = 0
    paused: bool = False


def fetch(spec: SourceSpec, slices: Sequence[Slice]) -> Iterator[tuple[Slice, list[Any]]]:
    """Each slice with its messages: those of a partition in their order, partitions merged by the times of records."""
    library, brokers, topic = kafka(), str(spec.origin["brokers"]), str(spec.origin["topic"])
    consumer = kept_client("consumer", brokers, spec.options, _SETTINGS)
    lanes: dict[int, _Lane] = {}
    for piece in slices:
        for partition, start, end in piece.parts:
            lane = lanes.setdefault(partition, _Lane(start, end, deque()))
            lane.stop = end
    try:
        places = [library.TopicPartition(topic, p, lane.reached) for p, lane in lanes.items()]
        consumer.assign(places)
        consumer.resume(places)  # a partition stays paused from one assignment to the next
        pump = _Pump(spec, consumer, lanes, topic)
        for piece in slices:
            while any(lanes[p].reached < end for p, _, end in piece.parts):
                with seldom_collected():  # many new objects, and none of them in a cycle
                    pump.turn()
            yield piece, _in_order(spec, [pump.take(p, end) for p, _, end in piece.parts])
    except BaseException:
        forget_client(consumer)
        consumer.close()
        raise
    consumer.unassign()


def _in_order(spec: SourceSpec, parts: list[list[Any]]) -> list[Any]:
    """The messages of a slice; where event times matter, partitions are merged by the times of records.

    Inside a partition the order stays: a record counts as of the greatest time up to it.
    """
    if len(parts) == 1 or spec.timestamp is None:
        return [message for part in parts for message in part]
    times = [np.maximum.accumulate([m.timestamp()[1] for m in part]) for part in parts if part]
    whole = [message for part in parts for message in part]
    if not whole:
        return []
    return [whole[i] for i in np.argsort(np.concatenate(times), kind="stable").tolist()]


class _Pump:
    """Moves messages from the client into the lanes of their partitions."""

    def __init__(self, spec: SourceSpec, consumer: Any, lanes: dict[int, _Lane], topic: str) -> None:
        self._spec, self._consumer, self._lanes, self._topic = spec, consumer, lanes, topic
        self._library = kafka()
        self._heard = time.monotonic()

    def turn(self) -> None:
        """Take what has come; raise where nothing comes any more."""
        first = self._consumer.poll(1.0)  # `consume` alone would wait until it has as many as it may take
        messages = [] if first is None else [first, *self._consumer.consume(sizes.kafka_messages, timeout=0)]
        if messages:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > SILENCE_S:
            raise unreachable(self._spec.name, str(self._spec.origin["brokers"]), f"no record for {SILENCE_S:.0f} s")
        lanes = self._lanes
        for message in messages:
            if message.error() is not None:
                self._judge(message)
                continue
            lane, offset = lanes[message.partition()], message.offset()
            lane.reached = offset + 1
            if offset < lane.stop:
                lane.held.append((offset, message))
                lane.size += len(message)
        for partition, lane in lanes.items():
            if not lane.paused and (lane.reached >= lane.stop or lane.size > sizes.kafka_ahead_bytes):
                self._consumer.pause([self._library.TopicPartition(self._topic, partition)])
                lane.paused = True

    def _judge(self, message: Any) -> None:
        error, codes = message.error(), self._library.KafkaError
        if error.code() == codes._PARTITION_EOF:
            lane = self._lanes[message.partition()]
            lane.reached = max(lane.reached, message.offset())
        elif error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            raise records_gone(self._spec, message.partition(), self._lanes[message.partition()].reached)
        elif not (error.retriable() or error.code() in (codes._TRANSPORT, codes._ALL_BROKERS_DOWN)):
            raise unreachable(self._spec.name, str(self._spec.origin["brokers"]), error.str())

    def take(self, partition: int, end: int) -> list[Any]:
        """The messages of a partition before `end`."""
        lane, found = self._lanes[partition], []
        while lane.held and lane.held[0][0] < end:
            found.append(lane.held.popleft()[1])
        lane.size -= sum(map(len, found))
        if lane.paused and lane.reached < lane.stop and lane.size <= sizes.kafka_ahead_bytes // 2:
            self._consumer.resume([self._library.TopicPartition(self._topic, partition)])
            lane.paused = False
        return found


def records_gone(spec: SourceSpec, partition: int, offset: int) -> SourceProblem:
    """The error of records that the topic does not keep any more."""
    return SourceProblem(
        "TM421",
        f'records of source "{spec.name}" are gone before they were read',
        detail=f'topic "{spec.origin["topic"]}", partition {partition}, from offset {offset} on',
        hint="keep records longer (retention.ms of the topic); SKIP BATCH OF goes on behind them",
    )
