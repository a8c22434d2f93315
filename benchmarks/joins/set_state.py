"""J4: what is stored for a join of sliding windows, against the number of packets in a window.

The packets of one fragment have this many different (dip, sip), all that an aggregation set can hold of them: with more
packets a late plan stores more, an early one does not.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data
from benchmarks.inprocess import InProcess
from benchmarks.packets import EPOCH_US

SIPS, DIPS, FRAGMENT_S, FRAGMENTS, LAST = 50, 20, 10, 6, 10
_SEED = 17
_WINDOW = f"[RANGE {FRAGMENTS * FRAGMENT_S} SECONDS SLIDE {FRAGMENT_S} SECONDS]"
_SETUP = """REGISTER SOURCE {name}Source (sip INT, dip INT, len INT, ts TIMESTAMP)
            FROM FILES '{folder}/{name}/*.parquet' WITH (timestamp = 'ts');
            CREATE TAGGED STREAM {name} OVER {name}Source"""
_QUERY = f"""CREATE RSTREAM VIEW v AS SELECT A.dip, sum(A.len) AS s, sum(B.len) AS t, count(*) AS n
             FROM A {_WINDOW}, B {_WINDOW} WHERE A.sip = B.sip GROUP BY A.dip"""


def packets(count: int) -> str:
    """Folder with a folder for each stream, this many packets in each fragment, (LAST · FRAGMENT_S) seconds of them."""

    def write(folder: str) -> None:
        for stream, name in enumerate("AB"):
            chance = np.random.default_rng((_SEED, stream))
            rows = count * LAST
            times = np.sort(chance.integers(0, LAST * FRAGMENT_S * 1_000_000, rows)) + EPOCH_US
            times[-1] = EPOCH_US + LAST * FRAGMENT_S * 1_000_000
            order = np.resize(chance.permutation(SIPS * DIPS), rows)  # no fragment lacks a pair
            os.makedirs(os.path.join(folder, name))
            pq.write_table(
                pa.table(
                    {
                        "sip": (order % SIPS).astype(np.int32),
                        "dip": (order // SIPS).astype(np.int32),
                        "len": chance.integers(40, 1_501, rows, dtype=np.int32),
                        "ts": pa.array(times).cast(pa.timestamp("us")),
                    }
                ),
                os.path.join(folder, name, "000.parquet"),
            )

    return data._cached(f"sets2-{count}", write)


def pairs() -> int:
    """(group, join key) pairs of a fragment: (dip, sip) of the first stream and sip of the second.

    >>> pairs()
    1050
    """
    return SIPS * DIPS + SIPS


class StateSide:
    """A database in one process for each measurement."""

    def measure(self, count: int, plan: str | None) -> dict[str, Any]:
        """Rows and bytes of all state at the end, and the answer, rows in their order."""
        folder = packets(count)
        with data.scratch("joins") as place, InProcess(os.path.join(place, "db")) as db:
            if plan:
                db.execute(f"SET early_aggregation = '{plan}'")
            for name in "AB":
                db.execute(_SETUP.format(name=name, folder=folder))
            db.execute(_QUERY)
            db.run(final=True)
            answer = db.query('SELECT "TS", dip, s, t, n FROM v ORDER BY "TS", dip')
            assert answer.num_rows, "no window ended"
            return {**db.status()["state"], "answer": answer.to_pylist()}
