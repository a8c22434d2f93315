"""Runs pipelines in one process and reads what their operators counted."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import duckdb

from benchmarks import data
from benchmarks.experiments.pipelines.settings import METERS, UNITS, Setting, write_rooms
from benchmarks.inprocess import InProcess
from tidemill.optimize.views.figure12 import Counts
from tidemill.plan.operator_rows import OperatorRows
from tidemill.plan.show.plans import Explanation

SOURCE = f"""REGISTER SOURCE Readings
            (room INTEGER, building INTEGER, degrees INTEGER, {" INTEGER, ".join(METERS)} INTEGER, at TIMESTAMP)
            FROM FILES '{{files}}/*.parquet' WITH (timestamp = 'at');
            CREATE TAGGED STREAM Rooms OVER Readings KEY room;"""
SYNCHRONIZERS, GROUPINGS = ("synchronize", "synchronize_periods"), ("partial", "finer")
LATEST = ("latest",)  # synchronizes and keeps the latest record of each key, in one statement


def run_setting(setting: Setting, mode: str, dear: bool = False) -> dict[str, Any]:
    """One run with `SET shared_tagging`: NS and NG as counted, those that EXPLAIN then predicts of every pipeline,
    seconds of the processor, what a row costs a grouping to what it costs a synchronizer, a fingerprint of the logs.
    """
    with data.scratch("pipelines") as place:
        files = os.path.join(place, "in")
        os.makedirs(files)
        write_rooms(setting, files)
        with InProcess(os.path.join(place, "db"), timer=time.process_time) as db:
            db.execute(f"SET shared_tagging = {mode}")
            db.execute(SOURCE.format(files=files) + setting.views(dear))
            db.run(final=True)
            logs = [db.changes(view) for view in ("BuildingGroups", "TemperatureGroups")]
            sums = [duckdb.sql("SELECT count(*), sum(CAST(hash(log) AS HUGEINT)) FROM log").fetchall() for log in logs]
            found = db.execute("EXPLAIN")
            return {
                "counts": counts_of(found),
                "prices": prices_of(found),
                "seconds": db.pipeline_seconds,
                "ratio": _row_seconds(found, GROUPINGS, ("partial", "finer", "group")) / _row_seconds(found, LATEST),
                "answer": sums,
            }


def counts_of(found: Explanation) -> Counts:
    """Rows that reached synchronizers and groupings."""
    return Counts(*(sum(op.counted.rows_in or 0 for op in _operators(found, k)) for k in (SYNCHRONIZERS, GROUPINGS)))


def prices_of(found: Explanation) -> dict[str, Counts]:
    """NS and NG as EXPLAIN predicts them from what was counted, by the setting that asks for the pipeline."""
    (report,) = found.tagging
    assert report["statistics"] == "measured"
    names = {"separate": "off"}
    return {names.get(p["name"], p["name"]): Counts(p["NS"] * UNITS, p["NG"] * UNITS) for p in report["plans"]}


def _row_seconds(found: Explanation, reached: Sequence[str], spent: Sequence[str] = ()) -> float:
    """Seconds of operators for each row that reaches the first of them."""
    rows = sum(op.counted.rows_in or 0 for op in _operators(found, reached))
    return sum(op.seconds or 0.0 for op in _operators(found, spent or reached)) / rows


def _operators(found: Explanation, kinds: Sequence[str]) -> list[OperatorRows]:
    assert found.physical is not None
    ops = (*found.physical.reader, *found.physical.stage)
    return [found.operators[op.id] for op in ops if op.kind in kinds and op.id in found.operators]


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
