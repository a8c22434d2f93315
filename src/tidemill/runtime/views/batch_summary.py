"""One summary of a micro-batch, from the ticks of all its shards: for listeners, the planner and the status."""

from __future__ import annotations

import time
from collections import Counter
from typing import TypedDict, cast

from tidemill.plan.measured.joins import JoinCounts
from tidemill.plan.measured.sources import Sources
from tidemill.plan.measured.windows import SourceCounts
from tidemill.plan.physical import BEGINNING, FOREVER
from tidemill.runtime.messages.batch_progress import SourceProgress
from tidemill.runtime.messages.operator_counts import Counts, add_counts
from tidemill.runtime.messages.source_counts import Tally, TallyCounts
from tidemill.runtime.messages.ticks import ShardTick
from tidemill.runtime.sites.join_values import Measure, merge_measures
from tidemill.runtime.views.stopped_views import StoppedNote


class BatchReport(TypedDict, total=False):
    """What is known of a micro-batch when it ends; the same as JSON. Frontiers are the least of all shards."""

    batch: int
    offset: int | None
    plan: int
    final: int  # the finite run that ends with it; 0: none
    at: float  # seconds since 1970
    # Of sources
    sources: Sources
    tallies: dict[str, TallyCounts]
    measures: dict[str, Measure]
    # Of time
    clock: int
    loops: dict[str, int]
    outputs: list[int]
    waits: dict[str, int]  # operator → the first time for which something waits
    peek: int
    peeks: dict[str, dict[str, int]]
    ends: dict[str, int]  # output → the greatest time of its inputs, where everything up to it is shown
    # Of operators
    operators: Counts
    lfta: dict[str, SourceCounts]  # what the tables of each source have counted
    joins: dict[str, list[JoinCounts]]  # the same of aggregation joins, one for each shard; none where it failed in one
    failed: dict[str, str]
    state_files: int
    state_rows: int
    state_bytes: int
    stage_seconds: float
    # Added by the outlet
    content: bool  # whether rows came round
    stopped: dict[str, StoppedNote]
    outlet_seconds: float
    # Added by the engine
    batch_seconds: float  # since the batch before


def summarize(batch: int, ticks: list[ShardTick]) -> BatchReport:
    """Frontiers are the least of all shards; counts of readers are equal in all."""
    first = ticks[0]
    tallies = {source: tally.counts() for source, tally in first.tallies.items()}
    for source, rows in _shed_rows(ticks).items():
        tallies.setdefault(source, Tally().counts())["shed"] = rows
    return {
        "batch": batch,
        "offset": first.offset,
        "plan": first.plan,
        "final": first.final,
        "sources": first.sources,
        "tallies": tallies,
        "clock": first.clock,
        "loops": {port: min(t.loops.get(port, BEGINNING) for t in ticks) for port in first.loops},
        "outputs": [min(frontiers) for frontiers in zip(*(t.outputs for t in ticks), strict=True)],
        "state_files": sum(t.state_files for t in ticks),
        "state_rows": sum(t.state_rows for t in ticks),
        "state_bytes": sum(t.state_bytes for t in ticks),
        "stage_seconds": max(t.seconds for t in ticks),
        "at": time.time(),
        "waits": _least_waits(ticks),
        "lfta": {source: note for t in ticks for source, note in t.lfta.items()},
        "failed": {op: reason for t in ticks for op, reason in t.failed.items()},
        "stopped": {},
        "joins": {op: [t.joins[op] for t in ticks] for op in first.joins if all(op in t.joins for t in ticks)},
        "peek": first.peek,
        "peeks": _least_peeks(ticks),
        "operators": add_counts(*(t.operators for t in ticks)),
        "ends": _reached_ends(ticks),
        "measures": merge_measures(t.measures for t in ticks),
    }


def _shed_rows(ticks: list[ShardTick]) -> dict[str, int]:
    """Source → updates that were dropped from the streams over it. Views of several generations drop them each for
    themselves; the oldest has seen all of them.
    """
    by_operator: Counter[tuple[str, tuple[str, ...], str]] = Counter()
    for tick in ticks:
        for op, count in tick.shed.items():
            by_operator[count.source, count.keys, op] += count.rows
    by_stream: dict[tuple[str, tuple[str, ...]], int] = {}
    for (source, keys, _), rows in by_operator.items():
        by_stream[source, keys] = max(rows, by_stream.get((source, keys), 0))
    totals: Counter[str] = Counter()
    for (source, _), rows in by_stream.items():
        totals[source] += rows
    return {source: rows for source, rows in totals.items() if rows}


def source_progress(summary: BatchReport) -> dict[str, SourceProgress]:
    """What the planner reads of each source: how far it is closed, what was read of it and what that sent."""
    found: dict[str, SourceProgress] = {}
    for name, entry in summary["sources"].items():
        tally = summary["tallies"].get(name, Tally().counts())
        read = cast(SourceProgress, dict(entry))
        read |= {"batch": summary["batch"], "plan": summary["plan"], "rows": tally["rows"], "sent": tally["sent"]}
        found[name] = read
    return found


def _least_waits(ticks: list[ShardTick]) -> dict[str, int]:
    """Operator → the first time for which something waits in any shard."""
    operators = sorted({op for t in ticks for op in t.waits})
    return {op: min(t.waits.get(op, FOREVER) for t in ticks) for op in operators}


def _least_peeks(ticks: list[ShardTick]) -> dict[str, dict[str, int]]:
    """Group → port → how far the loops of its provisional end are closed in all shards."""
    return {
        name: {port: min(t.peeks.get(name, {}).get(port, BEGINNING) for t in ticks) for port in ports}
        for name, ports in ticks[0].peeks.items()
    }


def _reached_ends(ticks: list[ShardTick]) -> dict[str, int]:
    """Output → the greatest time of its inputs, where all shards have shown everything up to it."""
    return {
        output: end - 1
        for output, (_, end) in ticks[0].ends.items()
        if all(t.ends[output][0] >= end for t in ticks if output in t.ends)
    }
