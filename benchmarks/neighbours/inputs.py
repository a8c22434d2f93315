"""The inputs of the other benchmarks with one thing changed, kept beside them."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import data

DISORDER, LATENESS_S = 0.001, 2
MORE_GROUPS = 10


def varied(folder: str, name: str, change: Callable[[pa.Table, int], pa.Table]) -> str:
    """The files of a folder, each changed; the function gets the number of the file as well."""

    def write(place: str) -> None:
        for number, file in enumerate(sorted(os.listdir(folder))):
            path = os.path.join(place, file)
            pq.write_table(change(pq.read_table(os.path.join(folder, file)), number), path, row_group_size=250_000)
            os.utime(path, (1_700_000_000 + number,) * 2)

    return data._cached(f"{os.path.basename(os.path.dirname(folder))}-{os.path.basename(folder)}-{name}", write)


def with_texts(keys: tuple[str, ...]) -> Callable[[pa.Table, int], pa.Table]:
    """Keys become texts of some ten characters."""

    def change(table: pa.Table, number: int) -> pa.Table:
        for key in keys:
            texts = pc.binary_join_element_wise("h", table.column(key).cast(pa.string()), "-")
            table = table.set_column(table.column_names.index(key), key, texts)
        return table

    return change


def out_of_order(table: pa.Table, number: int) -> pa.Table:
    """One row in a thousand comes up to two seconds late."""
    chance = np.random.default_rng((11, number))
    times = table.column("ts").cast(pa.int64()).to_numpy().copy()
    late = chance.random(len(times)) < DISORDER
    times[late] -= chance.integers(0, LATENESS_S * 1_000_000, int(late.sum()))
    stamps = pa.array(np.maximum(times, int(times[0]))).cast(pa.timestamp("us"))
    return table.set_column(table.column_names.index("ts"), "ts", stamps)


def with_more_groups(key: str) -> Callable[[pa.Table, int], pa.Table]:
    """Ten keys in the place of each."""

    def change(table: pa.Table, number: int) -> pa.Table:
        chance = np.random.default_rng((12, number))
        column = table.column(key).to_numpy().astype(np.int64) * MORE_GROUPS
        more = (column + chance.integers(0, MORE_GROUPS, len(column))) % (1 << 31)
        return table.set_column(table.column_names.index(key), key, pa.array(more.astype(np.int32)))

    return change
