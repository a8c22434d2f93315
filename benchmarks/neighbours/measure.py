"""Processor time of a workload and of its neighbours, in one process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from benchmarks import data
from benchmarks.inprocess import InProcess
from benchmarks.neighbours.works import CHANGES, Change, Work
from benchmarks.sides import alternate

_PLAIN = Change("nothing")


@dataclass(frozen=True)
class Sizes:
    """Rows of input, queries of the workloads that have many, rounds."""

    rows: int
    queries: int
    rounds: int


def slowdowns(work: Work, sizes: Sizes, done: Callable[[str], None]) -> tuple[float, dict[str, float]]:
    """Nanoseconds of the plain workload for a row, and how many times that each neighbour takes."""
    cost(work, _PLAIN, sizes)  # kernels are loaded
    plain: list[float] = []
    found = {}
    for name, change in CHANGES.items():
        if name == "MAX" and not work.maximum:
            continue
        runs = alternate(
            {"plain": lambda: cost(work, _PLAIN, sizes), name: lambda c=change: cost(work, c, sizes)}, sizes.rounds
        )
        plain += runs["plain"]
        found[name] = median(runs[name]) / median(runs["plain"])
        done(f"{work.title}: {name}")
    done(work.title)
    return median(plain), found


def cost(work: Work, change: Change, sizes: Sizes) -> float:
    """Nanoseconds of processor time for a row of input; the statements and their planning are not in it."""
    with data.scratch("neighbours") as place, InProcess(os.path.join(place, "db"), timer=time.process_time) as db:
        db.execute(statements(work, change, sizes))
        rows = db.run().rows
        assert rows, work.title
        return sum(db.spent.values()) / rows * 1e9


def statements(work: Work, change: Change, sizes: Sizes) -> str:
    """Everything that stands."""
    columns = ", ".join(
        f"{name} {'VARCHAR' if change.texts and name in work.texts else kind}" for name, kind in work.columns.items()
    )
    made = []
    for name, folder in work.folders(sizes.rows).items():
        files = os.path.join(change.input(work, folder), "*.parquet")
        made.append(
            f"REGISTER SOURCE {name}Source ({columns}) FROM FILES '{files}' WITH (timestamp = 'ts'"
            f"{change.options}); CREATE TAGGED STREAM {name} OVER {name}Source{work.stream_key}"
        )
    return ";\n".join([*made, *work.views(change.asked(work), sizes.queries)])
