"""Tidemill as a user gets it: `tidemill.open`, `warm`, one RSTREAM view for each query, `run`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import answers, data
from benchmarks.packets import COLUMNS
from benchmarks.peers.mixture import Unlike
from benchmarks.peers.workloads import Query
from benchmarks.sides import quiet, sustained


def statement(query: Query | Unlike) -> str:
    """
    >>> statement(Query("q", ("sip",), 60, 1, "len > 40"))  # doctest: +NORMALIZE_WHITESPACE
    'CREATE RSTREAM VIEW q AS SELECT sip, count(*) AS n, sum(len) AS total FROM S [RANGE 60 SECONDS SLIDE 1 SECONDS]
     WHERE len > 40 GROUP BY sip'
    """
    if isinstance(query, Unlike):
        return query.statement()
    return (
        f"CREATE RSTREAM VIEW {query.name} AS SELECT {query.by}, count(*) AS n, sum(len) AS total"
        f" FROM S [RANGE {query.range} SECONDS SLIDE {query.slide} SECONDS]{query.where} GROUP BY {query.by}"
    )


class TidemillSide:
    """One database for each measurement, one Spark session for all."""

    def measure(
        self, folder: str, queries: Sequence[Query | Unlike], kept: str | None, shown: Sequence[Query | Unlike] = ()
    ) -> Any:
        """Seconds from the first statement to the end of the run in an engine that is up, those of its parts, and the
        pace between the first and the last micro-batch. The answers of `shown`, or of all queries, are kept in a folder
        afterwards."""
        import tidemill

        with data.scratch("peers") as place, quiet(), tidemill.open(os.path.join(place, "db")) as db:
            db.warm()
            began = time.perf_counter()
            db.execute(
                f"REGISTER SOURCE P ({COLUMNS}) FROM FILES '{folder}/*.parquet' WITH (timestamp = 'ts');"
                " CREATE TAGGED STREAM S OVER P;" + ";".join(map(statement, queries))
            )
            created = time.perf_counter()
            ends: list[tuple[float, int]] = []
            summary = db.run(lambda at: ends.append((time.perf_counter() - began, at["total_rows"])), final=True)
            seconds = time.perf_counter() - began
            for query in (shown or queries) if kept else ():
                assert kept is not None
                answers.store(kept, query, db.query(f'SELECT "TS", {", ".join(query.columns)} FROM {query.name}'))
            out = sum(view["rows"] for view in db.status()["views"])
        return {
            "seconds": seconds,
            "creating": created - began,
            "running": seconds - (created - began),
            "rows": summary.rows,
            "batches": summary.batches,
            "out": out,
            "sustained": sustained(ends, summary.rows, seconds),
        }
