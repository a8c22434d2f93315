"""The temperature-monitoring pipelines of paper 004, section 10, run in one process and counted."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq

from benchmarks import data
from benchmarks.inprocess import InProcess, counting
from tidemill.runtime.operators.tagger import Tagger

RATE, ROOMS, MORE_ROOMS = 20_000, 200, 600
RATES = tuple(range(6_000, 20_001, 2_000))
STEEPER = (50_000, 100_000, 200_000, 400_000, 800_000, 1_600_000)
PERIODS = tuple(range(1, 11))  # tenths of a second
SPAN = data.HOTTEST - data.COLDEST + 1
TRIGGER = 2.0  # seconds of arrival that wait for one micro-batch, where the engine is faster than the input
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


def measure(files: str, view: str, without: tuple[str, ...] = (), *, watch_state: bool = False) -> Run:
    """One pipeline over all readings: seconds, tagged output tuples, state rows, tuples out of the tagger.

    Two runs gave the same tagged tuples when their `answer` is equal.
    """
    counts: Counter[str] = Counter()
    states: list[int] = []
    with data.scratch("tagger") as place, InProcess(os.path.join(place, "db"), without=without) as db:
        db.execute(SOURCE.format(files=files) + view)
        if watch_state:
            db.after = lambda db: states.append(db.state_rows())
        with counting(Tagger, counts):
            summary = db.run()
        changes = db.changes("V")
        return {
            "seconds": db.pipeline_seconds,
            "whole": db.pipeline_seconds + db.spent["outlet"],
            "rows": summary.rows,
            "output": changes.num_rows,
            "tagged": counts["out"],
            "state": states[-1] if states else 0,
            "most": max(states, default=0),
            "answer": duckdb.sql("SELECT count(*), sum(CAST(hash(changes) AS HUGEINT)) FROM changes").fetchall(),
        }


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
        with InProcess(os.path.join(place, "db")) as db:
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
