"""Lines on a TCP port into four views at once: rows/s and latency, beside Spark Structured Streaming."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.report import Result


def run(quick: bool, steps: Any) -> Result:
    """Measure both sides."""
    from benchmarks.live.comparison import compare

    return compare(quick, steps)


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """Rows/s of both sides, and how the latencies are distributed."""
    from benchmarks import plots

    figure, (left, right) = plots.panels(2)
    sides: dict[str, Any] = {
        name: [rates[form] / 1e3 for form in ("csv", "json")] for name, rates in series["rate"].items()
    }
    plots.bars(left, "a port into four views", "thousand rows/s", ["CSV", "JSON"], sides)
    share = [100 * i / 100 for i in range(1, 101)]
    curves = [(name, found, share) for name, found in series["latency"].items()]
    plots.lines(right, f"latency at {series['paced']:,} rows/s", "seconds", "% of the rows", curves, marks=False)
    return [plots.save(figure, folder, "live", "rows per second from a port, and latencies")]
