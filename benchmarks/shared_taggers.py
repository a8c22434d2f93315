"""Twenty aggregates over one keyed stream: a tagger for each, one for all, and one with a finer grouping behind it.

Figure 12 of paper 004, with many queries: predicates, columns and groupings differ, so that no two of them have the
same tagger. All settings give the same logs, which is checked before a number counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import duckdb

from benchmarks import data
from benchmarks.inprocess import InProcess
from benchmarks.report import Check, Result, Table
from benchmarks.sides import alternate, medians
from benchmarks.temperature import SOURCE

QUERIES, RATE, TARGET = 20, 20_000, 0.25
KEYS = ("Building", "Temperature", "Building % 5 AS part", "Temperature % 7 AS part")
ARGUMENTS = ("RoomID", "Temperature")
MODES = ("off", "tagger", "phantom", "auto")
SETUP = (
    f"{QUERIES} aggregates (count and sum by building, temperature or a remainder of one, each of another range of"
    " temperatures) over one keyed stream of {tuples:,} readings, every query synchronized every {period}. In one"
    " process, one reader and one shard; time of the processor for reading and operators, without storing the"
    " answers. `off` is (a) of figure 12, `tagger` (a′), `phantom` (b)."
)


def queries(period: str) -> str:
    """The views, no two of which have a tagger in common."""
    found = []
    for i in range(QUERIES):
        key = KEYS[i % len(KEYS)]
        found.append(
            f"CREATE STREAMED VIEW V{i} AS SELECT {key}, count(*) AS n, sum({ARGUMENTS[i % 3 > 0]}) AS s"
            f" FROM RoomTempStr SYNC EVERY {period} WHERE Temperature > {data.COLDEST + i}"
            f" GROUP BY {key.partition(' AS ')[0]}"
        )
    return ";".join(found)


def measure(files: str, period: str, mode: str) -> dict[str, Any]:
    """One run: seconds of the pipeline, and a fingerprint of all logs."""
    with data.scratch("taggers") as place, InProcess(os.path.join(place, "db"), timer=time.process_time) as db:
        db.execute(f"SET shared_tagging = {mode}")
        db.execute(SOURCE.format(files=files))
        db.execute(queries(period))
        db.run(final=True)
        logs = [db.changes(f"V{i}") for i in range(QUERIES)]
        answer = [duckdb.sql("SELECT count(*), sum(CAST(hash(log) AS HUGEINT)) FROM log").fetchall() for log in logs]
        kinds = [op.kind for op in db.execute("EXPLAIN").physical.stage]
        return {"seconds": db.pipeline_seconds, "answer": answer, "taggers": kinds.count("tagger")}


def run(quick: bool, steps: Any) -> Result:
    tuples, rounds = (120_000, 1) if quick else (1_200_000, 3)
    works = {"200 rooms": (200, "1 SECOND"), "20,000 rooms": (20_000, "10 SECONDS")}
    steps.expect(len(works) * len(MODES) * rounds)
    result = Result("Twenty aggregates over one keyed stream", SETUP.format(tuples=tuples, period="1 or 10 seconds"))
    rows = []
    for name, (rooms, period) in works.items():
        files = data.readings(tuples, rooms, RATE)
        sides: dict[str, Callable[[], Any]] = {mode: partial(measure, files, period, mode) for mode in MODES}
        found = alternate(sides, rounds, partial(steps.done, name))
        assert all(runs[0]["answer"] == found["off"][0]["answer"] for runs in found.values()), "logs differ"
        seconds = medians(found, "seconds")
        rows.append([name, *(found[m][0]["taggers"] for m in MODES), *(seconds[m] for m in MODES)])
        share = seconds["auto"] / seconds["off"]
        result.checks.append(
            Check(f"{name}: 20 aggregates cost at most a quarter", f"≤ {TARGET}", f"{share:.2f}", share <= TARGET)
        )
        slowest = seconds["auto"] / min(seconds.values())
        result.checks.append(
            Check(f"{name}: `auto` is near the fastest", "≤ 1.1 ×", f"{slowest:.2f} ×", slowest <= 1.1)
        )
    titles = ["input", *(f"{m}, taggers" for m in MODES), *(f"{m}, s" for m in MODES)]
    result.tables.append(Table("Figure 12 with twenty queries", titles, rows))
    return result


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """There is no plot."""
    return []
