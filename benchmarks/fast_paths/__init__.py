"""Each fast path on and off over different workloads: does it earn its place?

A fast path computes what a general way computes too (`docs/language.md`, Fast paths). One that is faster on a single
workload only would be code for a benchmark, so each has at least two. The whole engine runs in one process with one
reader and one shard; what counts is processor time for a row of input. Runs with and without the path take turns.
"""

from __future__ import annotations

from typing import Any

from benchmarks.fast_paths.measure import compare
from benchmarks.fast_paths.works import PATHS, UNCHANGED
from benchmarks.neighbours.measure import Sizes
from benchmarks.report import Check, Result, Table

WINS = 1.03  # times; the table begins with the same program on both sides, which shows what chance does
FULL, QUICK = Sizes(rows=2_000_000, queries=300, rounds=3), Sizes(rows=200_000, queries=24, rounds=1)


def run(quick: bool, steps: Any) -> Result:
    """A row for each path and workload."""
    sizes = QUICK if quick else FULL
    steps.expect(len(UNCHANGED) + sum(map(len, PATHS.values())))
    rows: list[list[Any]] = []
    once = []
    for name, work in UNCHANGED.items():
        same = compare("", work, sizes)
        rows.append(["none: the same twice", name, same.on, same.off, same.answer_rows, same.off / same.on])
        steps.done(f"the same twice: {name}")
    for path, works in PATHS.items():
        ratios = []
        for name, work in works.items():
            found = compare(path, work, sizes)
            ratios.append(found.off / found.on)
            rows.append([path, name, found.on, found.off, found.answer_rows, ratios[-1]])
            steps.done(f"{path}: {name}")
        wins = sum(ratio >= WINS for ratio in ratios)
        once += [f"{path} ({wins} of {len(ratios)})"] if wins < 2 else []
    result = Result("Fast paths, on and off", _setup(sizes))
    columns = ["fast path", "workload", "on, ns a row", "off, ns a row", "rows of answers", "off / on"]
    result.tables.append(Table("Processor time for a row of input", columns, rows))
    promise = f"every fast path saves at least {WINS - 1:.0%} on two workloads"
    result.checks.append(Check(promise, "all", "all but " + ", ".join(once) if once else "all", not once))
    return result


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """No plots: the table is the result."""
    return []


def _setup(sizes: Sizes) -> str:
    return (
        f"Each path over {sizes.rows:,} rows of input, as usual and with `SET fast_paths_off` for this path alone. The"
        " engine runs in one process, with one reader and one shard; a figure is processor time of reading, operators"
        f" and storing, for `gc_control` and `preview` of planning too, medians of {sizes.rounds} rounds in turns."
    )


__all__ = ["draw", "run"]
