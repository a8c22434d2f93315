"""Aggregates over joins of streams: Tidemill against Spark Structured Streaming, Flink SQL and DuckDB in batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.report import Result


def run(quick: bool, steps: Any) -> Result:
    """Measure all sides."""
    from benchmarks.joins.comparison import compare

    return compare(quick, steps)


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """One bar for each input and side; the state of both plans against the packets in a fragment."""
    from benchmarks import plots

    figure, (axes,) = plots.panels(1)
    figure.set_size_inches(11, 4)
    plots.rates(axes, "aggregates over joins", "million rows/s", series["works"], series["sides"])
    drawn = [plots.save(figure, folder, "joins", "rows per second of Tidemill, DuckDB, Flink and Spark over joins")]
    figure, (axes,) = plots.panels(1)
    plots.lines(
        axes,
        "state of a join of sliding windows",
        "packets of a stream in a fragment",
        "rows",
        [(f"plan {plan}", series["packets"], rows) for plan, rows in series["state"].items()],
    )
    return [*drawn, plots.save(figure, folder, "joins_state", "rows of state against packets, late and early")]
