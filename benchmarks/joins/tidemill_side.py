"""Tidemill as a user gets it: `tidemill.open`, `warm`, one RSTREAM view, `run`."""

from __future__ import annotations

import os
import time
from typing import Any

from benchmarks import answers, data
from benchmarks.joins.workloads import WORKS, Work
from benchmarks.sides import quiet, sustained

# What the setting early_aggregation may be: no input is aggregated before the join; whatever costs least.
LATE, AUTO = "late", "auto"


def statements(work: Work, folder: str) -> str:
    """Everything that stands, the view under the work's name."""
    made = []
    for name, columns in work.streams.items():
        made.append(
            f"REGISTER SOURCE {name}Source ({_typed(columns)}) FROM FILES '{folder}/{name}/*.parquet'"
            f" WITH (timestamp = 'ts')"
        )
        made.append(f"CREATE TAGGED STREAM {name} OVER {name}Source")
    for name, columns in work.tables.items():
        made.append(f"REGISTER TABLE {name} ({_typed(columns)}) FROM FILES '{folder}/{name}/*.parquet'")
    made.append(f"CREATE RSTREAM VIEW {work.name} AS {work.select}")
    return ";\n".join(made)


def _typed(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


class TidemillSide:
    """One database for each measurement, one Spark session for all."""

    def measure(self, folder: str, work: str, kept: str | None, plan: str | None = None) -> dict[str, Any]:
        """Seconds from the first statement to the end of the run in an engine that is up, and the pace between the
        first and the last micro-batch. The answer is kept in a folder afterwards."""
        import tidemill

        with data.scratch("joins") as place, quiet(), tidemill.open(os.path.join(place, "db")) as db:
            db.warm()
            ends: list[tuple[float, int]] = []
            began = time.perf_counter()
            _prepare(db, folder, work, plan)
            summary = db.run(lambda at: ends.append((time.perf_counter() - began, at["total_rows"])), final=True)
            seconds = time.perf_counter() - began
            _keep(db, work, kept)
        return {
            "seconds": seconds,
            "rows": summary.rows,
            "batches": summary.batches,
            "sustained": sustained(ends, summary.rows, seconds),
        }


class ProcessSide:
    """The same in one process with one shard, without Spark's fixed cost."""

    def measure(self, folder: str, work: str, kept: str | None, plan: str | None = None) -> dict[str, Any]:
        """Seconds of readers and operators."""
        from benchmarks.inprocess import InProcess

        with data.scratch("joins") as place:
            db = InProcess(os.path.join(place, "db"))
            with db:
                _prepare(db, folder, work, plan)
                summary = db.run(final=True)
                _keep(db, work, kept)
            return {"seconds": db.pipeline_seconds, "rows": summary.rows}


def _prepare(db: Any, folder: str, work: str, plan: str | None) -> None:
    if plan:
        db.execute(f"SET early_aggregation = '{plan}'")
    db.execute(statements(WORKS[work], folder))


def _keep(db: Any, work: str, kept: str | None) -> None:
    if kept:
        columns = ", ".join(WORKS[work].columns)
        answers.store(kept, WORKS[work], db.query(f'SELECT "TS", {columns} FROM {work}'))
