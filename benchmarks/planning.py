"""How long a thousand queries take to plan: parsed, bound, compared with the views that stand, optimized, placed.

Queries over a keyed stream of which most are contained in one of a hundred views, and window views over one append-only
stream, which share their windows and need no view; without matching (`off`), as usual (`auto`), and with every view
that contains a query (`always`).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import data
from benchmarks.inprocess import InProcess
from benchmarks.report import Check, Result, Table
from benchmarks.sides import alternate, medians

VIEWS, QUERIES = 100, 1_000
TARGET_S, MOST_FOR_WINDOWS = 5.0, 1.2
MODES = ("off", "auto", "always")
SOURCE = """
REGISTER SOURCE Readings (room INTEGER, building INTEGER, temp INTEGER, name VARCHAR, at BIGINT)
FROM FILES '{folder}/*.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM Rooms OVER Readings KEY room;
CREATE TAGGED STREAM Log OVER Readings;
SET view_matching = {mode};
"""
SETUP = (
    f"{QUERIES:,} `CREATE VIEW` statements in one text, nothing running. *Over views*: {VIEWS} views of a keyed stream"
    " by temperature, every 2, 3 or 5 seconds, then the queries, of other temperatures and one building, every 4, 6 or"
    " 10 seconds. *Windows*: aggregates over windows of an append-only stream. `statements` is the time of the"
    " processor until all of them stand in the catalog, matching and rules included, `elapsed` the same by the clock,"
    " which is longer where other work runs beside it; `plan` is the time of the processor to make one physical plan of"
    " everything. `answered` is the number of queries that are read from a view."
)


def queries_over_views() -> list[str]:
    """A hundred views, and a thousand queries that most of them contain."""
    chance = random.Random(2)
    found = [
        f"CREATE VIEW v{i} AS SELECT room, temp, building FROM Rooms SYNC EVERY {chance.choice((2, 3, 5))} SECONDS"
        f" WHERE temp > {i}"
        for i in range(VIEWS)
    ]
    return found + [
        f"CREATE VIEW q{i} AS SELECT room, temp FROM Rooms SYNC EVERY {chance.choice((4, 6, 10))} SECONDS"
        f" WHERE temp > {chance.randint(0, 120)} AND building = {i % 7}"
        for i in range(QUERIES)
    ]


def window_views() -> list[str]:
    """A thousand window aggregates."""
    return [
        f"CREATE VIEW q{i} AS SELECT room, count(*) AS n, sum(temp) AS s"
        f" FROM Log [RANGE {10 + i % 50} SECONDS SLIDE {1 + i % 9} SECONDS] WHERE temp > {i % 100} GROUP BY room"
        for i in range(QUERIES)
    ]


WORKS: dict[str, Callable[[], list[str]]] = {"over views": queries_over_views, "windows": window_views}


def measure(work: str, mode: str) -> dict[str, Any]:
    """Seconds for the statements and for the physical plan, how many are answered from views, how the views look."""
    with data.scratch("planning") as place, InProcess(os.path.join(place, "db")) as db:
        db.execute(SOURCE.format(folder=place, mode=mode))
        text = ";\n".join(WORKS[work]())
        clock, began = time.perf_counter(), time.process_time()
        db.execute(text)
        elapsed, stood = time.perf_counter() - clock, time.process_time()
        db.workload.physical(db.workload.pending, (0, 1))
        planned = time.process_time()
        views = db.workload.views.values()
        return {
            "statements": stood - began,
            "elapsed": elapsed,
            "plan": planned - stood,
            "answered": sum(bool(v.answer.parts) for v in views),
            "answer": [(v.entry.name, v.stored.names, v.stored.keys) for v in views],
        }


def run(quick: bool, steps: Any) -> Result:
    rounds = 1 if quick else 3
    steps.expect(len(WORKS) * len(MODES) * rounds)
    result = Result("Planning a thousand queries", SETUP)
    rows = []
    for work in WORKS:
        sides: dict[str, Callable[[], Any]] = {mode: partial(measure, work, mode) for mode in MODES}
        found = alternate(sides, rounds, partial(steps.done, work))
        assert all(runs[0]["answer"] == found["off"][0]["answer"] for runs in found.values()), "views differ"
        statements, plans, elapsed = (medians(found, of) for of in ("statements", "plan", "elapsed"))
        rows += [
            [work, mode, found[mode][0]["answered"], statements[mode], elapsed[mode], plans[mode]] for mode in MODES
        ]
        result.checks.append(_check(work, statements))
    titles = ["work", "view_matching", "answered", "statements, s", "elapsed, s", "plan, s"]
    result.tables.append(Table("Planning", titles, rows))
    return result


def _check(work: str, seconds: dict[str, float]) -> Check:
    if work == "over views":
        took = seconds["auto"]
        what = f"{QUERIES:,} queries over {VIEWS} views are planned, time of the processor"
        return Check(what, f"< {TARGET_S:g} s", f"{took:.2f} s", took < TARGET_S)
    ratio = seconds["auto"] / seconds["off"]
    what = "window views that share are planned as fast with matching"
    return Check(what, f"≤ {MOST_FOR_WINDOWS} ×", f"{ratio:.2f} ×", ratio <= MOST_FOR_WINDOWS)


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """There is no plot."""
    return []
