"""What the constants of the data path are worth: each at a quarter and at four times its value, in processor time.

`python -m benchmarks.constants` writes docs/benchmarks/constants.md. Runs with the usual value and another one take
turns. Limits on what is accepted and kept are not here: a user chooses them, and they cost nothing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.fast_paths.measure import Cost, cost
from benchmarks.fast_paths.works import PATHS, UNCHANGED, Work
from benchmarks.neighbours.measure import Sizes
from benchmarks.process import DOCS
from benchmarks.sides import alternate
from tidemill.runtime.thresholds import changed, sizes

SIZES = Sizes(rows=300_000, queries=100, rounds=3)
PAGE = DOCS / "constants.md"
WORKS: dict[str, Work] = {
    **UNCHANGED,
    "matching rows": PATHS["joined_pairs"]["matching rows"],
    "a filter": PATHS["answer_files"]["a filter"],
    "the longest of each key": PATHS["narrow_sort"]["the longest of each key"],
    "CSV": PATHS["plain_text"]["CSV, a refreshed count"],
}
_WINDOWS = ("few windows", "many windows")

# (module, name) or ("", the name of a threshold) → the workloads whose way leads past it.
CONSTANTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("share.reader.evictions", "_APART"): _WINDOWS,
    ("share.reader.intercede", "_FULL"): _WINDOWS,
    ("share.stage.fragments", "_APART"): _WINDOWS,
    ("share.stage.fragments", "_SHARED"): _WINDOWS,
    ("share.stage.weave", "_LITTLE"): _WINDOWS,
    ("share.stage.weaved_rows", "_FEW"): _WINDOWS,
    ("share.stage.weaved_rows", "_ASKED"): _WINDOWS,
    ("state.different_rows", "_MOST_ALIKE"): ("matching rows", "a filter"),
    ("views.pools", "FOLD_PART"): ("many windows", "a refreshed count"),
    ("garbage_collection", "MANY"): ("many windows", "a refreshed count"),
    ("sources.files.lined", "_SAMPLE"): ("CSV",),
    ("", "slice_rows"): ("matching rows",),
    ("", "piece_pairs"): ("matching rows",),
    ("", "ranked_rows"): ("the longest of each key",),
    ("", "tagged_rows"): ("the longest of each key",),
    ("", "sorted_rows"): ("a filter", "matching rows"),
    ("", "row_group_rows"): ("a filter",),
    ("", "block_rows"): _WINDOWS,
    ("", "pending_entries"): _WINDOWS,
    ("", "few_entries"): _WINDOWS,
    ("", "large_rows"): _WINDOWS,
    ("", "prune_rows"): _WINDOWS,
    ("", "chunk_rows"): ("few windows", "a filter"),
    ("", "chunk_lines"): ("CSV",),
    ("", "block_bytes"): ("CSV",),
}


@contextmanager
def changed_to(module: str, name: str, value: Any) -> Iterator[None]:
    """A constant or a threshold has another value inside."""
    if not module:
        with changed(**{name: value}):
            yield
    else:
        with patch.object(importlib.import_module(f"tidemill.runtime.{module}"), name, value):
            yield


def usual_value(module: str, name: str) -> Any:
    """The value that a constant has."""
    return getattr(importlib.import_module(f"tidemill.runtime.{module}") if module else sizes, name)


def other_values(usual: float) -> tuple[float, float]:
    """A quarter and four times as much; of a share, nearer to nothing and to the whole.

    >>> other_values(4096), other_values(0.85), other_values(2)
    ((1024, 16384), (0.4, 0.96), (1, 8))
    """
    if isinstance(usual, float):
        return (round(usual / 2, 1) if usual > 0.5 else usual / 4, round(1 - (1 - usual) / 4, 2))
    return max(1, usual // 4), 4 * usual


def compare_values(module: str, name: str, works: tuple[str, ...], size: Sizes = SIZES) -> list[Any]:
    """A row of the page: the constant, and what the others cost in parts of the usual value, over all its workloads."""

    def run(value: Any, work: Work) -> Cost:
        with changed_to(module, name, value):
            return cost("", "", work, size)

    usual = usual_value(module, name)
    values = (usual, *other_values(usual))
    ratios: dict[Any, list[float]] = {value: [] for value in values[1:]}
    for work in works:
        sides: dict[str, Callable[[], Cost]] = {str(v): partial(run, v, WORKS[work]) for v in values}
        run(usual, WORKS[work])  # not measured: kernels and files are loaded
        runs = alternate(sides, size.rounds)
        assert len({r.answers for side in runs.values() for r in side}) == 1, f"{name}: the answers differ"
        for value, found in ratios.items():
            both = zip(runs[str(value)], runs[str(usual)], strict=True)
            found.append(median(other.row_ns / own.row_ns for other, own in both))
    low, high = (", ".join(f"{r:.2f}" for r in found) for found in ratios.values())
    where = f"`{name}`" + (f" in `{module.replace('.', '/')}.py`" if module else ", a threshold")
    return [where, usual, values[1], low, values[2], high, ", ".join(works)]


def render(rows: list[list[Any]], size: Sizes = SIZES) -> str:
    """The page."""
    lines = [
        "# What constants of the data path are worth",
        "",
        "Processor time of a workload with another value of one constant, in parts of the time with the usual value.",
        f"The workloads are those of the [fast paths](README.md#fast-paths-on-and-off), over {size.rows:,} rows;"
        f" medians of {size.rounds} rounds in turns, one figure for each workload.",
        "A program differs from itself by some 5 % here: where a figure is nearer to 1 than that, any value works.",
        "`python -m benchmarks.constants` writes this page; a word chooses constants.",
        "",
        "| constant | usual | less | costs | more | costs | workloads |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)]) + "\n"


def main() -> None:
    """Measure all constants, or those that are named."""
    wanted, rows = sys.argv[1:], []
    for (module, name), works in CONSTANTS.items():
        if not wanted or name in wanted:
            rows.append(compare_values(module, name, works))
            print(*rows[-1], sep=" | ", flush=True)
    if not wanted:
        PAGE.write_text(render(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
