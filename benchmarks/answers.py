"""Answers as files, and whether two engines answered the same.

An answer is a folder with one folder for each question, in it Parquet files with the columns TS (the time it is for,
mostly the end of a window) and those of the question. Engines differ in what they do with the windows that are still
open when the input ends: Flink shows them, Spark and Tidemill do not. So what is compared are all windows that ended
before the last row.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq


class Question(Protocol):
    """Something that engines answer; its columns, TS aside, are whole numbers."""

    @property
    def name(self) -> str: ...

    @property
    def columns(self) -> tuple[str, ...]: ...


def last_time(folder: str) -> datetime:
    """The time of the last row of a stream."""
    with duckdb.connect() as db:
        found = db.execute("SELECT max(ts) FROM read_parquet(?)", [os.path.join(folder, "*.parquet")]).fetchone()
    assert found is not None
    return found[0]


def store(folder: str, question: Question, rows: pa.Table) -> None:
    """Keep the answer to one question."""
    place = os.path.join(folder, question.name)
    os.makedirs(place, exist_ok=True)
    pq.write_table(rows, os.path.join(place, "rows.parquet"))


def plain(rows: pa.Table) -> pa.Table:
    """Times without a zone: Spark's have one."""
    return rows.set_column(0, "TS", rows.column("TS").cast(pa.timestamp("us")))


def check_equal(questions: Iterable[Question], ours: str, theirs: str, until: datetime) -> int:
    """The number of rows that both folders hold for windows that end by `until`; an error when they differ.

    Two bags are equal when they have as many rows, and none of one is missing in the other.
    """
    total = 0
    with duckdb.connect() as db:
        for question in questions:
            columns = ", ".join(f"{name}::BIGINT AS {name}" for name in question.columns)
            for side, folder in (("a", ours), ("b", theirs)):
                db.execute(
                    f"CREATE OR REPLACE TABLE {side} AS SELECT TS::TIMESTAMP AS ts, {columns} FROM read_parquet(?)"
                    " WHERE ts <= ?",
                    [os.path.join(folder, question.name, "*"), until],
                )
            mine, other, lost = db.execute(
                "SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b),"
                " (SELECT count(*) FROM (FROM a EXCEPT ALL FROM b))"
            ).fetchall()[0]
            if mine != other or lost:
                raise AssertionError(f"{question.name}: {mine} rows against {other}, {lost} of them have no equal")
            total += mine
    return total
