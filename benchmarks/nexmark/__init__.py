"""Nexmark: an online auction with persons, auctions and bids, and the queries q0 to q23 over it.

`python -m benchmarks nexmark [--events N]` runs every query over the same files: Tidemill on Spark, Flink where its
environment is there, and Tidemill in one process for what each query costs. All answers are compared with DuckDB's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.report import Result


def run(quick: bool, steps: Any, events: int | None = None) -> Result:
    """All queries, over this many events."""
    from benchmarks.nexmark.comparison import compare

    return compare(quick, steps, events)


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """One group of bars for each query."""
    from benchmarks import plots

    figure, (axes,) = plots.panels(1)
    figure.set_size_inches(14, 3.6)
    plots.rates(axes, "Nexmark", "million events/s", series["names"], series["sides"])
    return [plots.save(figure, folder, "nexmark", "events per second of every query of Nexmark")]
