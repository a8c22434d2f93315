"""Generated inputs, the same from run to run; kept in a folder of the temporary directory and never committed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HOUR_US = 3_600_000_000
KEYS, PROTOCOLS = 1_000, 6
COLDEST, HOTTEST, BUILDINGS = 73, 100, 20
_BASE = os.path.join(tempfile.gettempdir(), "tidemill-benchmarks")


def packets(rows: int, files: int = 16) -> str:
    """Folder of Parquet files: k, proto, len, ts over one hour, in event-time order, row groups of 250,000.

    The last row is at the full hour, so that the last refresh shows every row.
    """

    def write(folder: str) -> None:
        chance = np.random.default_rng(1)
        edges = np.linspace(0, rows, files + 1, dtype=np.int64)
        for number, (low, high) in enumerate(pairwise(edges)):
            count = int(high - low)
            times = np.sort(chance.integers(low * HOUR_US // rows, high * HOUR_US // rows, count))
            times[-1] = HOUR_US if high == rows else times[-1]
            table = pa.table(
                {
                    "k": chance.integers(0, KEYS, count, dtype=np.int32),
                    "proto": chance.integers(0, PROTOCOLS, count, dtype=np.int32),
                    "len": chance.integers(40, 1500, count, dtype=np.int32),
                    "ts": pa.array(times).cast(pa.timestamp("us")),
                }
            )
            path = os.path.join(folder, f"{number:03d}.parquet")
            pq.write_table(table, path, row_group_size=250_000)
            os.utime(path, (1_700_000_000 + number,) * 2)  # Spark takes files in order of their age

    return _cached(f"packets2-{rows}-{files}", write)


def readings(tuples: int, rooms: int, rate: int, calm: bool = False) -> str:
    """Folder with one Parquet file of TemperatureSource (paper 004, section 10.1.2)."""
    kind = "calm" if calm else "wild"

    def write(folder: str) -> None:
        pq.write_table(temperature_source(tuples, rooms, rate, calm), os.path.join(folder, "readings.parquet"))

    return _cached(f"readings2-{tuples}-{rooms}-{rate}-{kind}", write)


def temperature_source(tuples: int, rooms: int, rate: int, calm: bool = False) -> pa.Table:
    """RoomID, Building, Temperature, ts: exponential times between tuples, every room once in each round.

    In a run of as many rounds as there are temperatures a room reports each of them once: at random in the wild stream,
    rising in the calm one, where a room so enters and leaves every range once in a run. Readings do not repeat, because
    a reading equal to the one before changes nothing and gives no tuple.
    """
    chance = np.random.default_rng(2)
    rounds, run = -(-tuples // rooms), HOTTEST - COLDEST + 1
    order = np.argsort(chance.random((rounds, rooms)), axis=1)
    mixed = np.argsort(chance.random((-(-rounds // run), run, rooms)), axis=1)
    rising = np.broadcast_to(np.arange(run)[None, :, None], mixed.shape)
    heat = COLDEST + (rising if calm else mixed).reshape(-1, rooms)[:rounds]
    taken = np.take_along_axis(heat, order, axis=1)
    room = order.ravel()[:tuples]
    times = np.cumsum(chance.exponential(1e6 / rate, tuples)).astype(np.int64)
    return pa.table(
        {
            "RoomID": room.astype(np.int32),
            "Building": (room % BUILDINGS).astype(np.int32),
            "Temperature": taken.ravel()[:tuples].astype(np.int32),
            "ts": pa.array(times).cast(pa.timestamp("us")),
        }
    )


def groups(count: int) -> str:
    """Folder with Parquet files of `count` rows, each with a key of its own, all at time 0."""

    def write(folder: str) -> None:
        step = 1_000_000
        for start in range(0, count, step):
            keys = np.arange(start, min(count, start + step), dtype=np.int64)
            table = pa.table({"k": keys, "v": keys, "ts": np.zeros(len(keys), np.int64)})
            pq.write_table(table, os.path.join(folder, f"{start // step:04d}.parquet"))

    return _cached(f"groups-{count}", write)


def in_files(rows: pa.Table, folder: str, files: int) -> None:
    """Parquet files with equal shares of the rows, in order, row groups of 250,000."""
    os.makedirs(folder)
    for number, (low, high) in enumerate(pairwise(np.linspace(0, rows.num_rows, files + 1).astype(int))):
        path = os.path.join(folder, f"{number:03d}.parquet")
        pq.write_table(rows.slice(low, high - low), path, row_group_size=250_000)
        os.utime(path, (1_700_000_000 + number,) * 2)  # Spark takes files in order of their age


@contextmanager
def scratch(name: str) -> Iterator[str]:
    """A folder for one database, removed afterwards."""
    os.makedirs(_BASE, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=f"{name}-", dir=_BASE)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cached(name: str, write: Callable[[str], None]) -> str:
    folder = os.path.join(_BASE, "inputs", name)
    if not os.path.isdir(folder):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        part = tempfile.mkdtemp(prefix=".part-", dir=os.path.dirname(folder))
        write(part)
        os.rename(part, folder)
    return folder
