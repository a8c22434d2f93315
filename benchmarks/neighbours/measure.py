"""Processor time of a workload and of its neighbours, in one process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
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


@dataclass(frozen=True)
class Cost:
    """Nanoseconds of processor time for a row of input, rows of input, micro-batches."""

    row_ns: float
    rows: int
    batches: int


@dataclass(frozen=True)
class Fixed:
    """What small batches cost whatever is in them: rows of a batch, milliseconds, share of the whole time."""

    rows_a_batch: float
    batch_ms: float
    share: float


def fixed_cost(plain: Cost, small: Cost) -> Fixed:
    """The cost of a batch if a row costs the same in both: total = rows · a + batches · b for two numbers of batches.

    >>> fixed_cost(Cost(10.0, 1_000_000, 1), Cost(20.0, 1_000_000, 101))
    Fixed(rows_a_batch=9900.990099009901, batch_ms=0.1, share=0.505)
    """
    more = max(small.batches - plain.batches, 1)
    batch_ns = max(small.row_ns - plain.row_ns, 0.0) * small.rows / more
    return Fixed(small.rows / small.batches, batch_ns / 1e6, batch_ns * small.batches / (small.row_ns * small.rows))


def slowdowns(
    work: Work, sizes: Sizes, done: Callable[[str], None], changes: Mapping[str, Change] = CHANGES
) -> tuple[float, dict[str, float], dict[str, Fixed]]:
    """Nanoseconds of the plain workload for a row, how many times that each neighbour takes, and what a batch costs in
    those that have more of them.
    """
    cost(work, _PLAIN, sizes)  # kernels are loaded
    plain: list[float] = []
    found, fixed = {}, {}
    for name, change in changes.items():
        if name == "MAX" and not work.maximum:
            continue
        runs = alternate(
            {"plain": partial(cost, work, _PLAIN, sizes), name: partial(cost, work, change, sizes)}, sizes.rounds
        )
        plain += [run.row_ns for run in runs["plain"]]
        usual, changed = (_middle(runs[side]) for side in ("plain", name))
        found[name] = changed.row_ns / usual.row_ns
        if changed.batches > 2 * usual.batches:
            fixed[name] = fixed_cost(usual, changed)
        done(f"{work.title}: {name}")
    done(work.title)
    return median(plain), found, fixed


def _middle(runs: list[Cost]) -> Cost:
    return sorted(runs, key=lambda run: run.row_ns)[len(runs) // 2]


def cost(work: Work, change: Change, sizes: Sizes) -> Cost:
    """What the workload costs; the statements and their planning are not in it."""
    with data.scratch("neighbours") as place, InProcess(os.path.join(place, "db"), timer=time.process_time) as db:
        db.execute(statements(work, change, sizes))
        rows = db.run(final=True).rows
        assert rows, work.title
        return Cost(sum(db.spent.values()) / rows * 1e9, rows, db.batch)


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
    return ";\n".join([*made, *change.views(work.views(change.asked(work), sizes.queries))])
