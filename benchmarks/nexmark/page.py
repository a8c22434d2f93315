"""What was measured as tables and promises."""

from __future__ import annotations

from math import exp, log
from statistics import median
from typing import Any

from benchmarks.nexmark.flink_side import sides
from benchmarks.nexmark.measured import Measured
from benchmarks.report import Check, Result, Table
from benchmarks.sides import IN_AN_ENGINE_THAT_IS_UP

LEAST_RATE, MOST_MEGABYTES, EACH, MEAN, TOGETHER = 500_000, 1_536, 2.0, 5.0, 3.0
COMPARABLE = "RocksDB, checkpoints"
_NONE = "–"


def page(found: Measured) -> Result:
    """Everything that was measured."""
    result = Result("Nexmark", _setup(found))
    result.tables += [_rates_table(found), _costs_table(found)]
    result.checks += _checks(found)
    shown = {"Tidemill": "tidemill"} | {f"Flink, {label}": label for label in sides()}
    result.series["names"] = list(found.runs)
    result.series["sides"] = {
        title: [(rate(found, name, side) or 0.0) / 1e6 for name in found.runs]
        for title, side in shown.items()
        if any(side in runs for runs in found.runs.values())
    }
    return result


def rate(found: Measured, name: str, side: str) -> float | None:
    """Events a second of one query on one side, by the median of its runs; None where it was not run."""
    runs = found.runs[name].get(side)
    return found.sizes.events / median(r["seconds"] for r in runs) if runs else None


def _setup(found: Measured) -> str:
    return (
        f"{found.sizes.events:,} events with the distributions of the official generator: of 50 events one is a new"
        " person, three are auctions, 46 are bids. The rate of a query is that of all events, whichever it reads. Every"
        " answer was equal to DuckDB's over the same files before anything was measured. The memory is that of the"
        " largest Python process, sampled. Flink writes to nowhere, Tidemill stores its answers and every micro-batch."
        " What differs from the official texts is on [a page of its own](nexmark.md)." + IN_AN_ENGINE_THAT_IS_UP
    )


def _rates_table(found: Measured) -> Table:
    columns = ["query", "Tidemill, events/s", *(f"Flink, {s}, events/s" for s in sides()), f"Tidemill / {COMPARABLE}"]
    rows: list[list[Any]] = []
    for name in found.runs:
        rates = [rate(found, name, side) for side in ("tidemill", *sides())]
        peak = max(r["megabytes"] for r in found.runs[name]["tidemill"])
        ratio = _ratio(found, name)
        row = [name, *rates, ratio, peak, found.answers[name]]
        rows.append([_NONE if value is None else value for value in row])
    return Table("Rates, and the largest Python process", [*columns, "MB", "rows of the answer"], rows)


def _costs_table(found: Measured) -> Table:
    rows: list[list[Any]] = []
    for name, runs in found.costs.items():
        seconds = median(r["seconds"] for r in runs)
        parts = [median(r[part] for r in runs) for part in ("reader", "stage", "outlet")]
        rows.append([name, found.sizes.few / seconds, *parts, max(r["megabytes"] for r in runs), runs[0]["answer"]])
    title = f"Processor time in one process with one shard, {found.sizes.few:,} events"
    columns = ["query", "events / s of a core", "reader, s", "stage, s", "outlet, s", "MB", "rows of the answer"]
    return Table(title, columns, rows)


def _checks(found: Measured) -> list[Check]:
    rates = {name: rate(found, name, "tidemill") or 0.0 for name in found.runs}
    slowest = min(rates, key=rates.__getitem__)
    sizes = {name: max(r["megabytes"] for r in runs["tidemill"]) for name, runs in found.runs.items()}
    largest = max(sizes, key=sizes.__getitem__)
    alone = sum(found.sizes.events / r for r in rates.values())
    gain = alone / median(r["seconds"] for r in found.together)
    checks = [
        Check(
            "events/s of every query",
            f"{LEAST_RATE:,}",
            f"{rates[slowest]:,.0f} ({slowest})",
            rates[slowest] >= LEAST_RATE,
        ),
        Check(
            "the largest Python process",
            f"{MOST_MEGABYTES:,} MB",
            f"{sizes[largest]:,.0f} MB ({largest})",
            sizes[largest] <= MOST_MEGABYTES,
        ),
        Check(
            "all in one database, against one after the other",
            f"{TOGETHER:g} times",
            f"{gain:.2g} times",
            gain >= TOGETHER,
        ),
    ]
    return [*checks, *_against_flink(found)]


def _against_flink(found: Measured) -> list[Check]:
    ratios = {name: ratio for name in found.runs if (ratio := _ratio(found, name)) is not None}
    if not ratios:
        return []
    worst = min(ratios, key=ratios.__getitem__)
    mean = exp(sum(map(log, ratios.values())) / len(ratios))
    return [
        Check(
            "every query against Flink with checkpoints",
            f"{EACH:g} times",
            f"{ratios[worst]:.2g} times ({worst})",
            ratios[worst] >= EACH,
        ),
        Check("the geometric mean of them", f"{MEAN:g} times", f"{mean:.2g} times", mean >= MEAN),
    ]


def _ratio(found: Measured, name: str) -> float | None:
    ours, theirs = rate(found, name, "tidemill"), rate(found, name, COMPARABLE)
    return ours / theirs if ours and theirs else None
