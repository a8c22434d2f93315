"""Two packet streams whose windows of ten seconds match in a known number of pairs.

Every source address is as likely as any other. With w packets of each stream in a window and s addresses, a packet
finds w/s partners, and a window has about w²/s pairs.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa

from benchmarks import data
from benchmarks.packets import EPOCH_US

NAMES = ("PacketsA", "PacketsB")
SECONDS = 10
_SEED, _HOST = 7, 10 << 24


def addresses(packets: int, windows: int, pairs: int) -> int:
    """How many source addresses make this many pairs, with this many packets of each stream in a window.

    >>> addresses(70_000, 14, 123_000_000)  # 14 · 70,000² / 558
    558
    """
    return round(windows * packets**2 / pairs)


def streams(packets: int, windows: int, sips: int, files: int = 8) -> str:
    """Folder with a folder of Parquet files (sip, len, ts) for each stream, in event-time order.

    Each ends with one packet at the end of the last window, that so is complete; these two have no partner. Fewer
    windows are the beginning of more.
    """

    def write(folder: str) -> None:
        for stream, name in enumerate(NAMES):
            tables = [window(stream, k, packets, sips) for k in range(windows)]
            data.in_files(pa.concat_tables([*tables, closing(stream, windows)]), os.path.join(folder, name), files)

    return data._cached(f"joins-{packets}-{windows}-{sips}-{files}", write)


def window(stream: int, number: int, packets: int, sips: int) -> pa.Table:
    """The packets of one stream in one window."""
    chance = np.random.default_rng((_SEED, stream, number))
    times = np.sort(chance.integers(0, SECONDS * 1_000_000, packets)) + EPOCH_US + number * SECONDS * 1_000_000
    return _table(_HOST + chance.integers(0, sips, packets), chance.integers(40, 1_501, packets), times)


def closing(stream: int, windows: int) -> pa.Table:
    """The packet that ends the last window."""
    time = EPOCH_US + windows * SECONDS * 1_000_000
    return _table(np.array([stream]), np.array([40]), np.array([time]))


def _table(sips: np.ndarray, lengths: np.ndarray, times: np.ndarray) -> pa.Table:
    return pa.table(
        {"sip": sips.astype(np.int32), "len": lengths.astype(np.int32), "ts": pa.array(times).cast(pa.timestamp("us"))}
    )
