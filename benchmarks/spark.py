"""Streaming queries of Spark from their start to their end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from benchmarks import data
from benchmarks.sides import quiet


def to_the_end(plans: Sequence[Any]) -> tuple[dict[str, Any], list[pa.Table]]:
    """Run plans at once over what is there; answers go to the driver. Seconds from the start of the first to the end of
    the last, rows of input of the first, the largest number of micro-batches; and the answer of each plan."""
    seen: list[list[pa.Table]] = [[] for _ in plans]
    with data.scratch("spark") as place, quiet():
        began = time.perf_counter()
        running = [
            plan.writeStream.outputMode("append")
            .trigger(availableNow=True)
            .option("checkpointLocation", f"{place}/{number}")
            .foreachBatch(_into(seen[number]))
            .start()
            for number, plan in enumerate(plans)
        ]
        for query in running:
            query.awaitTermination()
        seconds = time.perf_counter() - began
        rows = sum(p["numInputRows"] for p in running[0].recentProgress)
        batches = max(sum(p["numInputRows"] > 0 for p in query.recentProgress) for query in running)
    return {"seconds": seconds, "rows": rows, "batches": batches}, [pa.concat_tables(tables) for tables in seen]


def _into(tables: list[pa.Table]) -> Callable[[Any, int], None]:
    def take(batch: Any, _: int) -> None:
        tables.append(batch.toArrow())

    return take
