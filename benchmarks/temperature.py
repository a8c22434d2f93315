"""The temperature-monitoring pipelines of paper 004, section 10, run in one process and counted."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data
from benchmarks.inprocess import InProcess, Timer, watching
from benchmarks.report import Table
from benchmarks.sides import medians
from tidemill.runtime.operators.tagger import Tagger
from tidemill.runtime.operators.windows import ViewOutput

RATE, ROOMS, MORE_ROOMS = 20_000, 200, 600
RATES = tuple(range(6_000, 20_001, 2_000))
STEEPER = (50_000, 100_000, 200_000, 400_000, 800_000, 1_600_000)
PERIODS = tuple(range(1, 11))  # tenths of a second
SPAN = data.HOTTEST - data.COLDEST + 1
TRIGGER = 4.0  # seconds of arrival that wait for one micro-batch, where the engine is faster than the input
SOURCE = """REGISTER SOURCE TemperatureSource (RoomID INTEGER, Building INTEGER, Temperature INTEGER, ts TIMESTAMP)
            FROM FILES '{files}/*.parquet' WITH (timestamp = 'ts');
            CREATE TAGGED STREAM RoomTempStr OVER TemperatureSource KEY RoomID;
            CREATE TAGGED STREAM Readings OVER TemperatureSource;"""
PIPELINES = {  # name → (stream, rules left out)
    "tagger + select": ("RoomTempStr", ("merge_select_tagger",)),
    "merged select-tagger": ("RoomTempStr", ()),
    "select only (append-only)": ("Readings", ()),
}
TAGGER = "CREATE STREAMED VIEW V AS SELECT R.RoomID, R.Building, R.Temperature FROM R(RoomTempStr) R"
HOT = (
    "SELECT R.Building, Count(R.RoomID) AS cntRooms FROM R(RoomTempStr) R WHERE R.Temperature > 85 GROUP BY R.Building"
)
Run = dict[str, Any]


def measure(
    files: str,
    view: str,
    without: tuple[str, ...] = (),
    *,
    watch_state: bool = False,
    counted: bool = True,
    timer: Timer = time.process_time,
) -> Run:
    """One pipeline over all readings: seconds and where they went, tagged output tuples, state rows, changes.

    Times are of the processor, in all threads. `seconds` is reading and operators; `whole` has also the `outlet`, which
    makes tagged tuples of what the pipeline lets out and stores them. `gated` are the changes that reach the last
    operator, the gate. Two runs gave the same tagged tuples when their `answer` is equal; a run that is not `counted`
    has neither answer nor output.
    """
    tagger, gate = Counter[str](), Counter[str]()
    states: list[int] = []
    with data.scratch("tagger") as place, InProcess(os.path.join(place, "db"), without=without, timer=timer) as db:
        db.execute(SOURCE.format(files=files) + view)
        if watch_state:
            db.after = lambda db: states.append(db.state_rows())
        with watching(Tagger, tagger, timer), watching(ViewOutput, gate, timer):
            db.run(final=True)
        parts = {"reader": db.spent["reader"], "tagger": tagger["seconds"], "gate": gate["seconds"]}
        return {
            "seconds": db.pipeline_seconds,
            "whole": db.pipeline_seconds + db.spent["outlet"],
            **parts,
            "rest": db.pipeline_seconds - sum(parts.values()),
            "outlet": db.spent["outlet"],
            "records": tagger["in"],
            "tagged": tagger["out"],
            "gated": gate["in"],
            "state": states[-1] if states else 0,
            "most": max(states, default=0),
            **(_counted(db.changes("V")) if counted else {}),
        }


def _counted(changes: pa.Table) -> Run:
    answer = duckdb.sql("SELECT count(*), sum(CAST(hash(changes) AS HUGEINT)) FROM changes").fetchall()
    return {"output": changes.num_rows, "answer": answer}


def pipeline(
    files: str, view: str, without: tuple[str, ...] = (), *, watch_state: bool = False, timer: Timer = time.process_time
) -> Callable[[], Run]:
    """Runs of one pipeline: the first also says what came out, the later ones are only timed."""
    runs = count()

    def run() -> Run:
        first = next(runs) == 0
        return measure(files, view, without, watch_state=watch_state and first, counted=first, timer=timer)

    return run


def costs(found: dict[str, list[Run]], tuples: int) -> Table:
    """Where the time of `PIPELINES` goes, and why tagging is seen more than in the paper."""
    parts = {part: medians(found, part) for part in ("reader", "tagger", "gate", "rest", "outlet", "seconds", "whole")}
    counts = {name: [runs[0][what] for what in ("records", "gated", "output")] for name, runs in found.items()}
    merged, plain = list(PIPELINES)[1:]
    with_it, in_it, without_it, stored, bare = (
        f"{parts[part][name] * 1e6 / tuples:.2f}"
        for part, name in (
            ("seconds", merged),
            ("tagger", merged),
            ("seconds", plain),
            ("whole", merged),
            ("whole", plain),
        )
    )
    return Table(
        "Figure 7: where the time goes at the largest size",
        ["pipeline", *(f"{p} s" for p in list(parts)[:5]), "records", "changes into the gate", "output tuples"],
        [[name, *(parts[part][name] for part in list(parts)[:5]), *counts[name]] for name in PIPELINES],
        f"Operators: a tuple costs {with_it} µs with the merged operator, {in_it} of them in the tagger, and"
        f" {without_it} µs without tagging. With output: {stored} and {bare} µs. In the paper it costs 71 and 63 µs;"
        " what tagging does not double there, it says, are communication and the making of output tuples. Here a"
        " tuple's share of communication is small, and what tagging adds is seen: the tagger itself; records that fail"
        " the predicate and still travel, because they end a row; event time, arrival number and deletion mark of every"
        " record; and changes. An update is one tuple of the paper and two changes here, the old row and the new one:"
        f" {counts[merged][1] / counts[plain][1]:.1f} × as many as without tagging reach the gate. The outlet finds the"
        " two again, puts them together to one tuple with its old row, and keeps the current rows of the view.",
    )


def selecting(stream: str, predicate: str) -> str:
    return f"CREATE STREAMED VIEW V AS SELECT R.RoomID, R.Temperature FROM R({stream}) R WHERE {predicate}"


def arriving(tuples: int, rooms: int, rate: int) -> float:
    """Seconds from the first arrival to the last answer when tuples arrive at `rate`.

    The clock of arrivals is simulated, the work is not: a micro-batch takes what has arrived when the one before is
    done (at least `TRIGGER` seconds of arrivals), and the clock moves on by the seconds that it really takes.
    """
    table = data.temperature_source(tuples, rooms, rate)
    arrived = table.column("ts").cast("int64").to_numpy() / 1e6
    with data.scratch("tagger") as place:
        files = os.path.join(place, "in")
        os.makedirs(files)
        with InProcess(os.path.join(place, "db"), stores=False) as db:
            db.execute(SOURCE.format(files=files) + TAGGER)
            db.start()
            db.step()
            now, taken, number = 0.0, 0, 0
            while taken < tuples:
                now = max(now, min(arrived[taken] + TRIGGER, arrived[-1]))
                end = int(np.searchsorted(arrived, now, side="right"))
                pq.write_table(table.slice(taken, end - taken), os.path.join(place, "part"))
                os.rename(os.path.join(place, "part"), os.path.join(files, f"{number:06d}.parquet"))
                taken, number = end, number + 1
                before = db.pipeline_seconds
                while db.step() is not None:
                    pass
                now += db.pipeline_seconds - before
            db.stop()
    return now
