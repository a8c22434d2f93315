"""Window aggregates over a packet trace: Tidemill against Spark Structured Streaming, Flink SQL and DuckDB in batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.report import Result


def run(quick: bool, steps: Any) -> Result:
    """Measure all sides."""
    from benchmarks.peers.comparison import compare

    return compare(quick, steps)


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """One bar for each work and side."""
    from benchmarks import plots

    figure, (axes,) = plots.panels(1)
    figure.set_size_inches(11, 4)
    sides = {name: rates for name, rates in series["sides"].items() if any(rates)}
    plots.bars(axes, "window aggregates over packets", "million rows/s", series["works"], sides)
    axes.set_yscale("log")
    for text in list(axes.texts):  # one digit after the point says nothing of the slowest
        text.remove()
    for bars in axes.containers:
        axes.bar_label(bars, fmt="%.2g", fontsize=7)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return [plots.save(figure, folder, "peers", "rows per second of Tidemill, DuckDB, Flink and Spark")]
