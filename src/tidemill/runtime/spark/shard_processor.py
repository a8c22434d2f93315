"""What Spark calls for each shard.

It is apart because Spark also loads it in a process that only asks which state there is. That process starts with every
query and must not load what only a working shard needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

STATE_VARIABLE = "shelf"  # the name in the checkpoints of Spark: never changes


class ShardProcessor(StatefulProcessor):
    """One shard: its whole state is one blob, read and written once for each micro-batch."""

    def __init__(self, root: str) -> None:
        self.root = root

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.blob = handle.getValueState(STATE_VARIABLE, "blob BINARY")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        from tidemill.runtime.spark.tasks import begin_task

        begin_task()
        from tidemill.runtime.stage.stage import Stage

        found = self.blob.get()
        stage = Stage(self.root, key[0], bytes(found[0]) if found else None)
        blob, messages = stage.step((row[1], row[2]) for row in rows)
        self.blob.update((bytearray(blob),))
        for shard, port, payload in messages:
            yield Row(shard=shard, port=port, payload=bytearray(payload))

    def close(self) -> None:
        """Nothing is held open."""
