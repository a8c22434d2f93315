"""Flink SQL: the official texts over the same files, rows dropped (blackhole).

`HEAP` keeps state on the heap without checkpoints; `CHECKPOINTS` is what can be compared: RocksDB with a checkpoint
every 10 seconds, as every micro-batch of Tidemill is durable.
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks import flink
from benchmarks.nexmark.events import COLUMNS, SIDE
from benchmarks.nexmark.questions import question

HEAP: dict[str, str] = {}
CHECKPOINTS = {"state.backend.type": "rocksdb", "execution.checkpointing.interval": "10 s"}


class FlinkSide(flink.Flink):
    """Each question is one statement set."""

    def measure(self, folder: str, name: str, settings: dict[str, str]) -> dict[str, float]:
        """Seconds from the statement to the end of its job."""
        asked = question(name)
        read = [*asked.streams, *(["side_input"] if "side_input" in asked.view else [])]
        found = {
            kind: {**flink.source(os.path.join(folder, kind), columns, readers=_cores()), "time": "dateTime"}
            for kind, columns in {**COLUMNS, "side_input": SIDE}.items()
            if kind in read
        }
        assert asked.flink is not None, name
        return self.run(found, [], [], settings, [asked.flink])


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def sides() -> dict[str, dict[str, Any]]:
    """The settings by their names on the page."""
    return {"heap": HEAP, "RocksDB, checkpoints": CHECKPOINTS}
