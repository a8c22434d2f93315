"""Each fast path on and off over different workloads: does it earn its place?

A fast path computes what a general way computes too (`docs/language.md`, Fast paths). One that is faster on a single
workload only would be code for a benchmark, so each has at least two. The whole engine runs in one process with one
reader and one shard; what counts is processor time for a row of input. Runs with and without the path take turns.
"""

from __future__ import annotations

from typing import Any

from benchmarks.fast_paths.measure import KNOWN, MOST, compare
from benchmarks.fast_paths.works import PATHS, UNCHANGED
from benchmarks.neighbours.measure import Sizes
from benchmarks.report import Check, Result, Table

NOISE = 0.05  # by which the ratio of a program to itself may differ from 1
WINS = 1.03  # times; the table begins with the same program on both sides, which shows what chance does
FULL, QUICK = Sizes(rows=2_000_000, queries=300, rounds=7), Sizes(rows=200_000, queries=24, rounds=1)


def run(quick: bool, steps: Any) -> Result:
    """A row for each path and workload."""
    sizes = QUICK if quick else FULL
    steps.expect(len(UNCHANGED) + sum(map(len, PATHS.values())))
    rows: list[list[Any]] = []
    once, unused, uneven = [], [], []
    for name, work in UNCHANGED.items():
        same = compare("", work, sizes)
        rows.append(["none: the same twice", name, same.on, same.off, same.answer_rows, same.ratio])
        uneven += [name] if abs(same.ratio - 1) > NOISE else []
        steps.done(f"the same twice: {name}")
    for path, works in PATHS.items():
        ratios = []
        for name, work in works.items():
            found = compare(path, work, sizes)
            ratios.append(found.ratio)
            rows.append([path, name, found.on, found.off, found.answer_rows, ratios[-1]])
            unused += [] if found.taken else [f"{path} over {name}"]
            steps.done(f"{path}: {name}")
        wins = sum(ratio >= WINS for ratio in ratios)
        once += [f"{path} ({wins} of {len(ratios)})"] if wins < 2 else []
    result = Result("Fast paths, on and off", _setup(sizes))
    columns = ["fast path", "workload", "on, ns a row", "off, ns a row", "rows of answers", "off / on"]
    result.tables.append(Table("Processor time for a row of input", columns, rows))
    promise = f"every fast path saves at least {WINS - 1:.0%} on two workloads"
    result.checks.append(Check(promise, "all", _all_but(once), not once))
    result.checks.append(Check("every workload takes the path that it measures", "all", _all_but(unused), not unused))
    result.checks.append(
        Check(f"the same program twice differs by at most {NOISE:.0%}", "all", _all_but(uneven), not uneven)
    )
    return result


def _all_but(exceptions: list[str]) -> str:
    return "all but " + ", ".join(exceptions) if exceptions else "all"


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """No plots: the table is the result."""
    return []


def _setup(sizes: Sizes) -> str:
    return (
        f"Each path over {sizes.rows:,} rows of input, as usual and with `SET fast_paths_off` for this path alone. The"
        " engine is up and runs in one process, with one reader and one shard; a figure is processor time of reading,"
        " operators and storing, for `gc_control` and `preview` of planning too. Medians of"
        f" {sizes.rounds} rounds in turns, or up to {MOST * sizes.rounds} where the ratio is not known to {KNOWN:.0%}"
        " yet; the last column is the median of the ratios of each round."
    )


__all__ = ["draw", "run"]
