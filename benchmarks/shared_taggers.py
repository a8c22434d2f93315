"""Twenty aggregates over one keyed stream: a tagger for each, one for all, and one with a finer grouping behind it.

Figure 12 of paper 004, with many queries: predicates, columns and groupings differ, so that no two of them have the
same tagger. All settings give the same logs, which is checked before a number counts. Views do not answer each other
(`SET view_matching = off`), or (a) would not be separate.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from statistics import median
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
WORKS: dict[str, tuple[int, str | None]] = {
    "200 rooms": (200, "1 SECOND"),
    "20,000 rooms": (20_000, "10 SECONDS"),
    "2,000 rooms, not synchronized": (2_000, None),
}
SETUP = (
    f"{QUERIES} aggregates (count and sum by building, temperature or a remainder of one, each of another range of"
    " temperatures) over one keyed stream of {tuples:,} readings, every query synchronized every 1 or 10 seconds, or"
    " not at all over a quarter of them. In one process, one reader and one shard; time of the processor for reading"
    " and operators, without storing the answers. `off` is (a) of figure 12, `tagger` (a′), `phantom` (b);"
    " `view_matching` is off."
)
NOTE = (
    "Without synchronization each record changes a group of every query that selects it, and all these changes are"
    " shown, old and new: groupings let {out:,} rows out in every pipeline. Where groupings by the same key read the"
    " shared tagger together (`joint_group`), what they take is {floor:.0%} of what all operators of (a) do."
)
ABOVE = (
    "finer",
    "partial",
    "group",
    "numbered_rows",
    "joint_group",
    "gate",
)  # operators of each query alone, whichever tagger its rows have


def queries(period: str | None) -> str:
    """The views, no two of which have a tagger in common."""
    found = []
    points = f" SYNC EVERY {period}" if period else ""
    for i in range(QUERIES):
        key = KEYS[i % len(KEYS)]
        found.append(
            f"CREATE STREAMED VIEW V{i} AS SELECT {key}, count(*) AS n, sum({ARGUMENTS[i % 3 > 0]}) AS s"
            f" FROM RoomTempStr{points} WHERE Temperature > {data.COLDEST + i}"
            f" GROUP BY {key.partition(' AS ')[0]}"
        )
    return ";".join(found)


def measure(files: str, period: str | None, mode: str) -> dict[str, Any]:
    """One run: seconds of the pipeline and of kinds of operators, rows out of groupings, a fingerprint of all logs."""
    with data.scratch("taggers") as place, InProcess(os.path.join(place, "db"), timer=time.process_time) as db:
        db.execute(f"SET shared_tagging = {mode}; SET view_matching = off")
        db.execute(SOURCE.format(files=files))
        db.execute(queries(period))
        db.run(final=True)
        logs = [db.changes(f"V{i}") for i in range(QUERIES)]
        answer = [duckdb.sql("SELECT count(*), sum(CAST(hash(log) AS HUGEINT)) FROM log").fetchall() for log in logs]
        found = db.execute("EXPLAIN")
        spent, out = defaultdict[str, float](float), 0.0
        for op in found.physical.stage:
            known = found.operators.get(op.id)
            spent[op.kind] += known.seconds or 0.0 if known else 0.0
            out += known.counted.rows_out or 0 if known and op.kind in ("group", "joint_group") else 0
        taggers = sum(op.kind == "tagger" for op in found.physical.stage)
        parts = {"reader": db.spent["reader"], **spent, "out": out}
        return {"seconds": db.pipeline_seconds, "answer": answer, "taggers": taggers, "parts": parts}


def run(quick: bool, steps: Any) -> Result:
    tuples, rounds = (120_000, 1) if quick else (1_200_000, 3)
    steps.expect(len(WORKS) * len(MODES) * rounds)
    result = Result("Twenty aggregates over one keyed stream", SETUP.format(tuples=tuples))
    rows = []
    for name, (rooms, period) in WORKS.items():
        files = data.readings(tuples if period else tuples // 4, rooms, RATE)
        sides: dict[str, Callable[[], Any]] = {mode: partial(measure, files, period, mode) for mode in MODES}
        found = alternate(sides, rounds, partial(steps.done, name))
        assert all(runs[0]["answer"] == found["off"][0]["answer"] for runs in found.values()), "logs differ"
        seconds = medians(found, "seconds")
        rows.append([name, *(found[m][0]["taggers"] for m in MODES), *(seconds[m] for m in MODES)])
        result.checks += _checks(name, seconds)
        if period is None:
            result.tables.append(_parts_table(name, found))
    titles = ["input", *(f"{m}, taggers" for m in MODES), *(f"{m}, s" for m in MODES)]
    result.tables.insert(0, Table("Figure 12 with twenty queries", titles, rows))
    return result


def _checks(name: str, seconds: dict[str, float]) -> list[Check]:
    share, slowest = seconds["auto"] / seconds["off"], seconds["auto"] / min(seconds.values())
    return [
        Check(f"{name}: 20 aggregates cost at most a quarter", f"≤ {TARGET}", f"{share:.2f}", share <= TARGET),
        Check(f"{name}: `auto` is near the fastest", "≤ 1.1 ×", f"{slowest:.2f} ×", slowest <= 1.1),
    ]


def _parts_table(name: str, found: dict[str, list[dict[str, Any]]]) -> Table:
    """Where the time goes: what is above the taggers is the same work in every pipeline."""
    kinds = ("reader", "tagger", *ABOVE)
    parts = {m: {k: median(run["parts"].get(k, 0.0) for run in found[m]) for k in (*kinds, "out")} for m in MODES}
    above = {m: sum(parts[m][k] for k in ABOVE) for m in MODES}
    floor = min(above.values()) / sum(parts["off"][k] for k in kinds)
    rows = [[m, *(parts[m][k] for k in kinds)] for m in MODES]
    note = NOTE.format(out=round(parts["off"]["out"]), floor=floor).replace("%", " %")
    return Table(f"{name}: seconds by the clock of the reader and of operators", ["", *kinds], rows, note)


def draw(series: dict[str, Any], folder: str) -> list[dict[str, str]]:
    """There is no plot."""
    return []
