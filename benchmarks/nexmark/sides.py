"""The engines of the comparison: each takes a folder of events and a question, and keeps the answer where it is asked
for."""

from __future__ import annotations

import os
import resource
import time
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data
from benchmarks.nexmark.events import COLUMNS
from benchmarks.nexmark.questions import Question, question, sources
from benchmarks.sides import quiet


class ProcessSide:
    """Tidemill in one process with one shard; each question in a process of its own, for its memory."""

    def measure(self, folder: str, name: str, kept: str | None = None, off: str = "") -> dict[str, Any]:
        """Seconds of processor time of reader, stage and outlet, and the memory of the process at its peak."""
        from benchmarks.inprocess import InProcess

        asked = question(name)
        with data.scratch("nexmark") as place, InProcess(os.path.join(place, "db"), timer=time.process_time) as db:
            db.execute(f"SET fast_paths_off = '{off}'")
            db.execute(sources(folder, asked.streams))
            db.execute(asked.view)
            db.warm()
            rows = db.run(final=True).rows
            if kept:
                _keep(db, asked, kept)
            seconds = sum(db.spent.values())
        return {"rows": rows, "seconds": seconds, **db.spent, "megabytes": _peak()}


class TidemillSide:
    """Tidemill as a user gets it, on Spark: one database for each measurement, one session for all."""

    def measure(self, folder: str, names: list[str], kept: str | None = None) -> dict[str, Any]:
        """Seconds from the first statement to the end of the run, in an engine that is up; all questions stand in one
        database."""
        import tidemill

        asked = [question(name) for name in names]
        streams = tuple(s for s in COLUMNS if any(s in q.streams for q in asked))
        with data.scratch("nexmark") as place, quiet(), tidemill.open(os.path.join(place, "db")) as db:
            db.warm()
            began = time.perf_counter()
            db.execute(sources(folder, streams))
            db.execute(";\n".join(q.view.rstrip().rstrip(";") for q in asked))
            summary = db.run(final=True)
            seconds = time.perf_counter() - began
            for q in asked if kept else ():
                _keep(db, q, str(kept))
        return {"rows": summary.rows, "seconds": seconds, "batches": summary.batches}


class DuckDBSide:
    """DuckDB over all events at once: what the answers are."""

    def answer(self, folder: str, name: str) -> pa.Table:
        with duckdb.connect() as db:
            for kind in (*COLUMNS, "side_input"):
                db.execute(f"CREATE VIEW {kind} AS FROM read_parquet('{folder}/{kind}/*.parquet')")
            return db.sql(question(name).answer).to_arrow_table()


def differences(mine: pa.Table, wanted: pa.Table) -> tuple[int, int]:
    """How many rows of each of two multisets have no equal in the other; columns are compared in their order. Numbers
    that are not whole are compared to nine digits, because they are rounded in different orders.
    """
    assert len(mine.column_names) == len(wanted.column_names), (mine.column_names, wanted.column_names)
    with duckdb.connect() as db:
        for name, rows in (("a", mine), ("b", wanted)):
            db.register(f"rows_{name}", rows.rename_columns([f"c{i}" for i in range(rows.num_columns)]))
            items = ", ".join(
                f"printf('%.9g', c{i}) AS c{i}" if pa.types.is_floating(field.type) else f"c{i}::VARCHAR AS c{i}"
                for i, field in enumerate(rows.schema)
            )
            db.execute(f"CREATE TABLE {name} AS SELECT {items} FROM rows_{name}")
        lost, more = (
            db.execute(f"SELECT count(*) FROM (FROM {x} EXCEPT ALL FROM {y})").fetchall()[0][0]
            for x, y in (("b", "a"), ("a", "b"))
        )
    return int(lost), int(more)


def check(folder: str, name: str, kept: str) -> int:
    """The rows of an answer; an error where it is not DuckDB's."""
    mine = pq.read_table(os.path.join(kept, f"{name}.parquet"))
    wanted = DuckDBSide().answer(folder, name)
    lost, more = differences(mine, wanted)
    if lost or more:
        raise AssertionError(f"{name}: {lost} of {wanted.num_rows} rows are missing, {more} are too many")
    return mine.num_rows


def _keep(db: Any, asked: Question, kept: str) -> None:
    os.makedirs(kept, exist_ok=True)
    rows = db.query(f"SELECT * FROM {asked.name}")
    pq.write_table(rows if isinstance(rows, pa.Table) else rows.to_arrow(), os.path.join(kept, f"{asked.name}.parquet"))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
