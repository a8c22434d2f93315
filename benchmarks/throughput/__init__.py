"""Files → filter → per-key count refreshed every 10 s of event time: Tidemill against Spark Structured Streaming."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.report import Result


def run(quick: bool, steps: Any) -> Result:
    """Measure both sides."""
    from benchmarks.throughput.comparison import compare

    return compare(quick, steps)


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """One pair of bars for each question."""
    from benchmarks import plots

    figure, (axes,) = plots.panels(1)
    figure.set_size_inches(11, 3.4)
    names = [name for name, _, _ in series["bars"]]
    sides = {
        "Tidemill": [ours for _, ours, _ in series["bars"]],
        "Spark Structured Streaming": [theirs for _, _, theirs in series["bars"]],
    }
    plots.bars(axes, "files → filter → per-key count", "million rows/s", names, sides)
    return [plots.save(figure, folder, "throughput", "rows per second of Tidemill and of Spark Structured Streaming")]
