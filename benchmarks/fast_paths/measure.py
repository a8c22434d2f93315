"""Processor time of a workload with and without one fast path, in one process."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks import data
from benchmarks.fast_paths.works import PLANNED, Work
from benchmarks.inprocess import InProcess
from benchmarks.neighbours.measure import Sizes
from benchmarks.sides import alternate


@dataclass(frozen=True)
class Cost:
    """Nanoseconds of processor time for a row of input, and a number of rows and a checksum for each view."""

    row_ns: float
    answers: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Comparison:
    """Nanoseconds for a row of input with and without a path, and the rows of all answers, which are the same."""

    on: float
    off: float
    answer_rows: int


def compare(path: str, work: Work, sizes: Sizes) -> Comparison:
    """Run the workload in turns with the path and without it; both must answer the same."""
    cost(path, "", work, sizes)  # kernels are loaded
    runs = alternate(
        {"on": partial(cost, path, "", work, sizes), "off": partial(cost, path, path, work, sizes)}, sizes.rounds
    )
    answers = {run.answers for side in runs.values() for run in side}
    assert len(answers) == 1, f"{path}: the answers differ"
    on, off = (median(run.row_ns for run in runs[side]) for side in ("on", "off"))
    return Comparison(on, off, sum(rows for rows, _ in answers.pop()))


def cost(path: str, off: str, work: Work, sizes: Sizes) -> Cost:
    """What the workload costs with `off` switched off. Planning counts only where the `path` is about it."""
    with data.scratch("fast_paths") as place, InProcess(os.path.join(place, "db"), timer=time.process_time) as db:
        db.execute(f"SET fast_paths_off = '{off}'")
        sources, views = work(sizes.rows, sizes.queries)
        db.execute(sources)
        if path in PLANNED:
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
