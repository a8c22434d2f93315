"""Processor time of a workload with and without one fast path, in one process."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import sqrt
from statistics import median, quantiles

from benchmarks import data
from benchmarks.fast_paths.entries import watch_entries
from benchmarks.fast_paths.works import PLANNED, Work
from benchmarks.inprocess import InProcess
from benchmarks.neighbours.measure import Sizes
from benchmarks.sides import alternate

KNOWN = 0.03  # to what part of itself a ratio should be known
MOST = 4  # times the least number of rounds, if it is not


@dataclass(frozen=True)
class Cost:
    """Nanoseconds of processor time for a row of input, and a number of rows and a checksum for each view."""

    row_ns: float
    answers: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Comparison:
    """Nanoseconds for a row of input with and without a path, and the rows of all answers, which are the same.

    `ratio` is off / on: the median over the rounds, not the quotient of the medians. The two runs of a round follow
    each other, so what slows the machine for a while slows both. `taken`: whether the workload takes the path at all.
    """

    on: float
    off: float
    answer_rows: int
    ratio: float
    taken: bool


def compare(path: str, work: Work, sizes: Sizes) -> Comparison:
    """Run the workload in turns with the path and without it; both must answer the same."""
    with watch_entries() as taken:  # not measured: kernels are loaded
        cost(path, "", work, sizes)
    cost(path, path, work, sizes)
    sides: dict[str, Callable[[], Cost]] = {
        "on": partial(cost, path, "", work, sizes),
        "off": partial(cost, path, path, work, sizes),
    }
    runs = alternate(sides, sizes.rounds)
    while not _is_settled(_ratios(runs), sizes.rounds):
        more = alternate(sides, 2)
        runs = {side: runs[side] + more[side] for side in sides}
    answers = {run.answers for side in runs.values() for run in side}
    assert len(answers) == 1, f"{path}: the answers differ"
    on, off = (median(run.row_ns for run in runs[side]) for side in ("on", "off"))
    rows = sum(rows for rows, _ in answers.pop())
    return Comparison(on, off, rows, median(_ratios(runs)), path in taken)


def _ratios(runs: dict[str, list[Cost]]) -> list[float]:
    """off / on of each round."""
    return [off.row_ns / on.row_ns for on, off in zip(runs["on"], runs["off"], strict=True)]


def _is_settled(ratios: list[float], rounds: int) -> bool:
    """Whether the median of the ratios is known well enough after `rounds` rounds or more.

    The half-width of its interval of confidence is that of the notch of a box plot, 1.57 · IQR / √n (McGill, Tukey and
    Larsen, 1978).

    >>> _is_settled([1.0, 1.01, 1.02, 1.03], 4), _is_settled([1.0, 1.1, 1.2, 1.3], 4), _is_settled([1.0], 1)
    (True, False, True)
    >>> _is_settled([1.0, 1.5] * 8, 4)
    True
    """
    if len(ratios) + 2 > MOST * rounds or rounds == 1:  # there is no room for two more
        return True
    low, middle, high = quantiles(ratios, method="inclusive")
    return 1.57 * (high - low) / sqrt(len(ratios)) <= KNOWN * middle


def cost(path: str, off: str, work: Work, sizes: Sizes) -> Cost:
    """What the workload costs in an engine that is up, with `off` switched off. Planning counts only where the `path`
    is about it.
    """
    gc.collect()  # what an earlier run left is not counted
    with data.scratch("fast_paths") as place, InProcess(os.path.join(place, "db"), timer=time.process_time) as db:
        db.execute(f"SET fast_paths_off = '{off}'")
        sources, views = work(sizes.rows, sizes.queries)
        db.execute(sources)
        db.warm()
        began = time.process_time()
        db.execute(views)
        rows = db.run(final=True).rows
        assert rows, views
        spent = time.process_time() - began if path in PLANNED else sum(db.spent.values())
        return Cost(spent / rows * 1e9, _summarize_answers(db))


def _summarize_answers(db: InProcess) -> tuple[tuple[int, int], ...]:
    """Rows and checksum of each view; of a STREAMED one its log, without the batch in which a change came."""
    found = []
    with db.store.reading() as duck:
        for view in db.workload.views.values():
            stored = view.stored
            logged = stored.output == "streamed"
            rows = db.store.logged_sql(stored, duck) if logged else db.store.relation_sql(stored, duck)
            chosen = "* EXCLUDE (__batch)" if logged else "*"
            sums = f"SELECT count(*), coalesce(sum(hash(t)), 0) FROM (SELECT {chosen} FROM ({rows})) AS t"
            (row,) = duck.sql(sums).fetchall()
            found.append((int(row[0]), int(row[1])))
    return tuple(found)
