"""Questions about a topic: its partitions, how far each reaches, and where a time begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.extras import load
from tidemill.runtime.kafka_client import ANSWER_S, kafka, kept_client, list_topics, reason, unreachable

TRIES = 5  # a partition without a leader gets one within moments


class Topic:
    """The topic of a source. Ends are of committed records: nothing of an open transaction is before them."""

    def __init__(self, spec: SourceSpec) -> None:
        self.name, self.brokers, self.topic = spec.name, str(spec.origin["brokers"]), str(spec.origin["topic"])
        self._options = spec.options

    @property
    def _admin(self) -> Any:
        return kept_client("admin", self.brokers, self._options)

    def partitions(self) -> list[int]:
        """The numbers of the partitions, at this moment."""
        library = kafka()
        try:
            found = list_topics(self._admin, self.topic)[self.topic]
        except library.KafkaException as error:
            raise unreachable(self.name, self.brokers, reason(error)) from None
        if found.error is not None and not found.error.retriable():
            raise SourceProblem(
                "TM420",
                f'there is no topic "{self.topic}" to read',
                detail=f"{self.brokers}: {found.error.str()}",
                hint="correct the name, or create the topic first: it may be empty",
            )
        return sorted(found.partitions)

    def ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """The offset behind the last committed record of each partition."""
        return self._offsets(dict.fromkeys(partitions, "latest"))

    def starts(self, partitions: Iterable[int]) -> dict[int, int]:
        """The offset of the first record that is still there."""
        return self._offsets(dict.fromkeys(partitions, "earliest"))

    def at_time(self, ends: dict[int, int], millis: int) -> dict[int, int]:
        """The offset of the first record of a time or later; the end, where there is none."""
        found = self._offsets(dict.fromkeys(ends, millis))
        return {p: ends[p] if found[p] < 0 else min(found[p], ends[p]) for p in ends}

    def _offsets(self, wanted: dict[int, str | int]) -> dict[int, int]:
        library, admin = kafka(), load("confluent_kafka.admin", "kafka", "Kafka")
        asked = {
            library.TopicPartition(self.topic, p): getattr(admin.OffsetSpec, what)()
            if isinstance(what, str)
            else admin.OffsetSpec.for_timestamp(what)
            for p, what in wanted.items()
        }
        for rest in reversed(range(TRIES)):
            try:
                futures = self._admin.list_offsets(
                    asked, isolation_level=library.IsolationLevel.READ_COMMITTED, request_timeout=ANSWER_S
                )
                return {at.partition: int(answer.result().offset) for at, answer in futures.items()}
            except library.KafkaException as error:
                if not rest or not error.args[0].retriable():
                    raise unreachable(self.name, self.brokers, reason(error)) from None
        raise AssertionError
