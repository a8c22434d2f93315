"""Tidemill as a user gets it: `tidemill.open`, `warm`, statements, `run`."""

from __future__ import annotations

import os
import time
from typing import Any

import pyarrow as pa

from benchmarks import data
from benchmarks.sides import quiet
from benchmarks.throughput.questions import VIEWS, in_order


class TidemillSide:
    """One database for each measurement, one Spark session for all."""

    def measure(self, folder: str, work: str, batch_rows: int | None) -> dict[str, Any]:
        """Seconds from the first statement to the end of the run in an engine that is up; when each micro-batch ended;
        and how long it took to bring the engine up."""
        import tidemill

        limit = f", batch_rows = {batch_rows}" if batch_rows else ""
        with data.scratch("throughput") as place, quiet(), tidemill.open(os.path.join(place, "db")) as db:
            opened = time.perf_counter()
            db.warm()
            ends: list[float] = []
            began = time.perf_counter()
            db.execute(f"""REGISTER SOURCE P (k INT, proto INT, len INT, ts TIMESTAMP) FROM FILES '{folder}/*.parquet'
                           WITH (timestamp = 'ts'{limit}); CREATE TAGGED STREAM S OVER P; {VIEWS[work]}""")
            summary = db.run(lambda _: ends.append(time.perf_counter() - began), final=True)
            seconds = time.perf_counter() - began
            return {
                "seconds": seconds,
                "warm": began - opened,
                "ends": ends,
                "rows": summary.rows,
                "batches": summary.batches,
                "answer": in_order(said(db, work)),
            }


def said(db: Any, work: str) -> pa.Table:
    """Everything that the view has said, as Spark would say it."""
    if work == "refreshed":
        changes = db.changes("v")
        assert set(changes.column("TAG").unique().to_pylist()) <= {"+", "u"}, "a count went away"
        return changes.select(["TS", "k", "n"])
    return db.query("SELECT k, n FROM v" if work == "count" else 'SELECT "TS", k, n FROM v')
