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
    plots.rates(axes, "window aggregates over packets", "million rows/s", series["works"], series["sides"])
    return [plots.save(figure, folder, "peers", "rows per second of Tidemill, DuckDB, Flink and Spark")]
