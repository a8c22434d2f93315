"""Flink SQL: window table functions, event time, state on the heap."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from benchmarks import flink
from benchmarks.peers.workloads import Query

SETTINGS: dict[str, dict[str, str]] = {
    "two phases": {},
    "one phase": {"table.optimizer.agg-phase-strategy": "ONE_PHASE"},
    "two phases, mini-batches": flink.MINI_BATCHES,
}


class FlinkSide(flink.Flink):
    """All queries of a work are one statement set."""

    def measure(self, folder: str, queries: Sequence[Query], setting: str, kept: str) -> dict[str, Any]:
        """Seconds from the statement set to its end; the answers are Parquet files in a folder."""
        used = {"len"}.union(*(q.keys for q in queries))
        columns: dict[str, str] = {n: "INT" for n in ("sip", "dip", "sp", "dp", "len") if n in used}
        return self.run(
            {"P": flink.source(folder, {**columns, "ts": "TIMESTAMP"}, readers=len(os.sched_getaffinity(0)))},
            [
                flink.sink(q.name, {**dict.fromkeys(q.keys, "INT"), "n": "BIGINT", "total": "BIGINT"}, kept)
                for q in queries
            ],
            [insert(q) for q in queries],
            SETTINGS[setting],
        )


def insert(query: Query) -> str:
    """
    >>> print(insert(Query("q", ("sip",), 600, 60)))
    INSERT INTO q SELECT window_end, sip, count(*), sum(CAST(len AS BIGINT)) FROM TABLE(HOP(TABLE P, DESCRIPTOR(ts),\
 INTERVAL '60' SECOND(6), INTERVAL '600' SECOND(6))) GROUP BY window_start, window_end, sip
    """
    slide, length = (f"INTERVAL '{n}' SECOND(6)" for n in (query.slide, query.range))
    kind, sizes = ("TUMBLE", slide) if query.slide == query.range else ("HOP", f"{slide}, {length}")
    window = f"{kind}(TABLE P, DESCRIPTOR(ts), {sizes})"
    return (
        f"INSERT INTO {query.name} SELECT window_end, {query.by}, count(*), sum(CAST(len AS BIGINT))"
        f" FROM TABLE({window}){query.where} GROUP BY window_start, window_end, {query.by}"
    )
