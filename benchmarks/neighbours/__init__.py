"""Each workload of the page with one thing changed at a time: how much slower is it?

A cliff beside a benchmark is a fault even where the benchmark is fast. The whole engine runs in one process with one
reader and one shard; what counts is processor time for a row of input, which a busy machine hardly changes. Of every
pair the plain workload and its neighbour take turns.
"""

from __future__ import annotations

from typing import Any

from benchmarks.neighbours.measure import Sizes, slowdowns
from benchmarks.neighbours.reasons import REASONS
from benchmarks.neighbours.works import CHANGES, UNLIKE, UNLIKE_WORK, WORKS
from benchmarks.report import Check, Result, Table

LIMIT = 2.0
_BATCHES = (
    "The difference to the plain workload, divided by the batches that it has more: Tidemill's part, without Spark's."
    " It is an upper bound: a small batch also has fewer rows for each group, so less is added up before it travels."
)
FULL, QUICK = Sizes(rows=4_000_000, queries=1_000, rounds=3), Sizes(rows=200_000, queries=40, rounds=1)


def run(quick: bool, steps: Any) -> Result:
    """A row for each workload, a column for each change."""
    sizes = QUICK if quick else FULL
    steps.expect(len(WORKS) * (1 + len(CHANGES)) + 1 + len(UNLIKE))
    rows: list[list[Any]] = []
    reasons: list[list[Any]] = []
    batches: list[list[Any]] = []
    unexplained = []
    for name, work in WORKS.items():
        plain, found, fixed = slowdowns(work, sizes, steps.done)
        batches += [
            [f"{name}, {change}", round(f.rows_a_batch), f.batch_ms, 100 * f.share] for change, f in fixed.items()
        ]
        rows.append([name, plain, *(found.get(c, "–") for c in CHANGES)])
        for change in (c for c, ratio in found.items() if ratio > LIMIT):
            reason = REASONS.get((name, change))
            shown = [reason.most, reason.text] if reason else ["–", "none"]
            reasons.append([f"{name}, {change}", found[change], *shown])
            if reason is None or found[change] > reason.most:
                unexplained.append(f"{name}, {change}: {found[change]:.2f}")
    result = Result("Neighbours of the benchmarks", _setup(sizes))
    result.tables.append(
        Table("Times the processor time of the plain workload", ["work", "plain, ns a row", *CHANGES], rows)
    )
    result.tables.append(
        Table(f"Above {LIMIT:g}, and why", ["neighbour", "times", "explained up to", "reason"], reasons)
    )
    result.tables.append(
        Table(
            "What a micro-batch costs whatever is in it",
            ["neighbour", "rows a batch", "ms a batch", "% of the time"],
            batches,
            _BATCHES,
        )
    )
    result.tables.append(_one_unlike_query(sizes, steps))
    result.checks.append(
        Check(
            f"no neighbour above {LIMIT:g} times, or above what its reason on the page explains",
            "none",
            "; ".join(unexplained) or "none",
            not unexplained,
        )
    )
    return result


def _one_unlike_query(sizes: Sizes, steps: Any) -> Table:
    """A query that the fast ways do not take, among all that they do."""
    plain, found, _ = slowdowns(UNLIKE_WORK, sizes, steps.done, UNLIKE)
    rows = [
        ["none", plain, 1.0],
        *([change.title, plain * found[name], found[name]] for name, change in UNLIKE.items()),
    ]
    return Table(
        "W5 with one unlike query",
        ["what is unlike", "ns a row", "times plain"],
        rows,
        f"{sizes.queries:,} queries, of which one is replaced; in the last row all are as they are, over rows that are"
        " out of order. Nanoseconds are those of the plain workload times the ratio of the turns.",
    )


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """A table says it all."""
    return []


def _setup(sizes: Sizes) -> str:
    works = "; ".join(f"*{name}*: {work.title}" for name, work in WORKS.items())
    changes = "; ".join(f"*{name}*: {change.title}" for name, change in CHANGES.items())
    return (
        f"Each workload of this page over {sizes.rows:,} rows of input, plain and with one thing changed: {changes}."
        " The engine runs in one process, with one reader and one shard; a figure is processor time of reading,"
        f" operators and storing for a row of input, medians of {sizes.rounds} rounds in turns. {works}."
    )


__all__ = ["draw", "run"]
