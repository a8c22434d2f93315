"""Calls a function in Spark's Python workers: those that read and compute between the batches of the job."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession


def spread(session: SparkSession, function: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
    """What the function returns for each part, in the order of the parts; each call is a task.

    By mapInArrow, as the job itself: Spark keeps workers of other kinds apart, and would start new ones.
    """
    given = list(parts)
    if not given:
        return []

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            done = pa.array([pickle.dumps(function(given[number])) for number in numbers], pa.binary())
            yield pa.RecordBatch.from_arrays([batch.column(0), done], names=["part", "done"])

    tasks = session.range(0, len(given), 1, len(given)).mapInArrow(work, "part BIGINT, done BINARY")
    return [pickle.loads(bytes(row[1])) for row in sorted(tasks.collect())]
