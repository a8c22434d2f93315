"""Runs pipelines in one process and reads what their operators counted."""

from __future__ import annotations

import os
import time
from typing import Any

import duckdb

from benchmarks import data
from benchmarks.experiments.pipelines.settings import Setting, write_rooms
from benchmarks.inprocess import InProcess
from tidemill.optimize.views.figure12 import Counts
from tidemill.plan.show.plans import Explanation

SOURCE = """REGISTER SOURCE Readings (room INTEGER, building INTEGER, degrees INTEGER, at TIMESTAMP)
            FROM FILES '{files}/*.parquet' WITH (timestamp = 'at');
            CREATE TAGGED STREAM Rooms OVER Readings KEY room;"""
SYNCHRONIZERS, GROUPINGS = ("synchronize", "synchronize_periods"), ("partial", "finer")


def run_setting(setting: Setting, mode: str) -> dict[str, Any]:
    """One run with `SET shared_tagging`: NS and NG as counted, seconds of the processor, a fingerprint of the logs."""
    with data.scratch("pipelines") as place:
        files = os.path.join(place, "in")
        os.makedirs(files)
        write_rooms(setting, files)
        with InProcess(os.path.join(place, "db"), timer=time.process_time) as db:
            db.execute(f"SET shared_tagging = {mode}")
            db.execute(SOURCE.format(files=files) + setting.views())
            db.run(final=True)
            logs = [db.changes(view) for view in ("BuildingGroups", "TemperatureGroups")]
            sums = [duckdb.sql("SELECT count(*), sum(CAST(hash(log) AS HUGEINT)) FROM log").fetchall() for log in logs]
            return {"counts": counts_of(db.execute("EXPLAIN")), "seconds": db.pipeline_seconds, "answer": sums}


def counts_of(found: Explanation) -> Counts:
    """Rows that reached synchronizers and groupings."""
    assert found.physical is not None
    totals = {kinds: 0.0 for kinds in (SYNCHRONIZERS, GROUPINGS)}
    for op in (*found.physical.reader, *found.physical.stage):
        for kinds in totals:
            if op.kind in kinds and op.id in found.operators:
                totals[kinds] += found.operators[op.id].counted.rows_in or 0
    return Counts(totals[SYNCHRONIZERS], totals[GROUPINGS])


def synchronized(tuples: int, rooms: int, rate: int, tenths: int) -> float:
    """Tuples that a synchronizer lets out (figure 10); its period is in tenths of a second."""
    source = """REGISTER SOURCE T (RoomID INTEGER, Building INTEGER, Temperature INTEGER, ts TIMESTAMP)
                FROM FILES '{files}/*.parquet' WITH (timestamp = 'ts'); CREATE TAGGED STREAM R OVER T KEY RoomID;"""
    view = f"CREATE STREAMED VIEW V AS SELECT RoomID, Temperature FROM R SYNC EVERY {100 * tenths} MILLISECONDS"
    with data.scratch("pipelines") as place, InProcess(os.path.join(place, "db")) as db:
        db.execute(source.format(files=data.readings(tuples, rooms, rate)) + view)
        db.run(final=True)
        found = db.execute("EXPLAIN")
        (latest,) = (op.id for op in found.physical.reader if op.kind == "latest")
        return float(found.operators[latest].counted.rows_out or 0)
