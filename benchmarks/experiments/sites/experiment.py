"""Section 5 of paper 001: figures 7 to 10, tables 2 and 3, with the slow twins over a network that counts."""

from __future__ import annotations

from typing import Any

from benchmarks.experiments import figures
from benchmarks.experiments.sites.one_way import Figure7, byte_targets
from benchmarks.experiments.sites.plans import compare_identical, compare_logs, compare_topologies
from benchmarks.report import Result

SETUP = (
    "Defaults of the paper: 300 tuples a second of 1,250 bytes, partial tuples of 5, selectivity factor 0.1, windows of"
    " 3 s, latency 25 ms, 1,024 Kbps, an interval of 100 ms and δ = 80 ms. *Counted* is what the paper's algorithms,"
    " executed line by line over a simulated network, send and do: S(x) = latency + x / bandwidth for each message, and"
    " the operations of nested loops with constants of our own, since the paper prints none. At the default setting a"
    " simple join has 375 kB/s for a link of 128 kB/s, so execution times above 1 s a second are usual: the paper's"
    " plans could not have kept up with their streams."
)


def run(quick: bool, steps: Any) -> Result:
    windows = 2 if quick else 7
    steps.expect(7 + 1 + 4 + 4 + windows)
    seven = Figure7(quick, steps)
    result = Result("Joins between sites (paper 001)", SETUP)
    drawn = seven.figures()
    table, checks = byte_targets(seven.seconds)
    steps.done("bytes that cross")
    result.tables.append(table)
    result.checks += [*seven.checks(), *checks]
    tables, more, found = compare_topologies(quick, steps)
    result.tables += tables
    drawn += more
    result.checks += found
    for compare in (compare_identical, compare_logs):
        figure, found = compare(quick, steps)
        drawn.append(figure)
        result.checks += found
    result.series = {"figures": [f.to_dict() for f in drawn]}
    return result


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """All figures."""
    return figures.draw(series["figures"], folder)
