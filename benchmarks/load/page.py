"""The page of the load, with the figures that other systems have published."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.load.workload import VIEWS
from benchmarks.process import DOCS

PAGE = DOCS / "load.md"


@dataclass
class Measured:
    """What was measured between two moments."""

    began: float
    ended: float
    rows: float
    python: float  # bytes, greatest
    python_first: float
    jvm: float
    answers: list[float] = field(default_factory=list)  # seconds, in order
    ages: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    rate: int = 0
    readers: int = 0
    subscribers: int = 0


def share(ordered: Sequence[float], part: float) -> float:
    """The value below which a part of the values is.

    >>> share([1.0, 2.0, 3.0, 4.0], 0.5), share([], 0.5)
    (3.0, nan)
    """
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else float("nan")


def render(found: Measured) -> str:
    """The whole page."""
    seconds = found.ended - found.began
    answers, ages = found.answers, found.ages
    rows = [
        ("rows/s taken in", f"{found.rows / seconds:,.0f}", f"{found.rate:,} are generated"),
        ("queries/s", f"{len(answers) / seconds:,.1f}", f"{found.readers * 10} are wanted"),
        ("answer time, median", f"{share(answers, 0.5) * 1e3:,.0f} ms", "with the way through psql"),
        ("answer time, 95 %", f"{share(answers, 0.95) * 1e3:,.0f} ms", ""),
        ("answer time, 99 %", f"{share(answers, 0.99) * 1e3:,.0f} ms", ""),
        ("freshness, median", f"{share(ages, 0.5):,.2f} s", "now minus the time that a subscriber has complete"),
        ("freshness, 95 %", f"{share(ages, 0.95):,.2f} s", ""),
        ("memory of Python, at most", f"{found.python / 2**30:,.2f} GB", f"{found.python_first / 2**30:,.2f} at first"),
        ("memory of the JVM, at most", f"{found.jvm / 2**30:,.2f} GB", "resident"),
        ("errors", f"{len(found.failures)}", "; ".join(sorted(set(found.failures))[:3])),
    ]
    table = "\n".join(f"| {what} | {value} | {note} |" for what, value, note in rows)
    date = time.strftime("%Y-%m-%d", time.gmtime(found.ended))
    command = f"python -m benchmarks.load --seconds {round(seconds)} --rate {found.rate}"
    return f"""# The server under load

Written by `{command}`, on {date}, on {os.cpu_count()} cores.

One `tidemill serve`, a generated stream, {VIEWS} views (windows, running groups, views over views), \
{found.readers} psql processes that each ask ten times a second, \
{found.subscribers} psql processes that subscribe; all on the same cores.

| | measured | |
|---|--:|---|
{table}

## What others have published

These figures are of other work on other machines, and stand here for orientation only.

| system | published | where |
|---|---|---|
| RisingWave | point queries 4.96 ms on average and up to 25,814 queries/s, range queries 13.8 to 16.4 ms, \
from tables that do not change; 8 cores for streaming, 8 for serving, 8 for the clients | \
[query serving benchmarks](https://docs.risingwave.com/get-started/rw-benchmarks-query.md) |
| Materialize | freshness "typically within milliseconds to a few seconds" | \
[reaction time](https://materialize.com/docs/concepts/reaction-time) |
"""
