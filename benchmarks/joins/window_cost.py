"""J3: the time of a micro-batch of 1,000 changes against the length of the windows that are joined.

Each moment has one row in each stream, so that a window of w moments has w rows, and every row has as many partners
whatever w is: there are w / MATCHES keys. A batch brings 250 moments: 500 rows enter the two windows, 500 leave them.
"""

from __future__ import annotations

import os
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.inprocess import InProcess

MOMENTS, MATCHES = 250, 4
_SEED = 13
_QUERY = """CREATE COMPLETE VIEW v AS SELECT A.k, sum(A.v) AS s, count(*) AS n FROM A [WINDOW {0}], B [WINDOW {0}]
            WHERE A.k = B.k GROUP BY A.k"""


class Windows:
    """One database in one process whose two windows are full, and the files that move them on."""

    def __init__(self, place: str, length: int, plan: str | None) -> None:
        self.length, self.sent, self.place = length, 0, os.path.join(place, f"{plan}-{length}")
        for name in "AB":
            os.makedirs(os.path.join(self.place, name))
        self.db = InProcess(os.path.join(self.place, "db"))
        if plan:
            self.db.execute(f"SET early_aggregation = '{plan}'")
        for name in "AB":
            self.db.execute(
                f"REGISTER SOURCE {name}Source (k BIGINT, v BIGINT, ts BIGINT)"
                f" FROM FILES '{self.place}/{name}/*.parquet' WITH (timestamp = 'ts');"
                f" CREATE TAGGED STREAM {name} OVER {name}Source"
            )
        self.db.execute(_QUERY.format(length))
        self.send(length)
        self.db.run(final=True)

    def send(self, moments: int) -> None:
        """One file for each stream, visible at once or not at all."""
        for stream, name in enumerate("AB"):
            chance = np.random.default_rng((_SEED, stream, self.sent))
            keys = chance.integers(0, self.length // MATCHES, moments)
            times = np.arange(self.sent, self.sent + moments)
            part = os.path.join(self.place, "part")
            pq.write_table(pa.table({"k": keys, "v": chance.integers(0, 1_000, moments), "ts": times}), part)
            os.rename(part, os.path.join(self.place, name, f"{self.sent:012d}.parquet"))
        self.sent += moments

    def batches(self, count: int) -> list[float]:
        """Seconds of readers and operators for each of this many micro-batches, after one to warm up."""
        seconds = []
        with self.db.running():
            while self.db.step() is not None:
                pass
            for _ in range(count + 1):
                self.send(MOMENTS)
                before = self.db.pipeline_seconds
                while self.db.step() is not None:
                    pass
                seconds.append(self.db.pipeline_seconds - before)
        return seconds[1:]

    def check(self) -> int:
        """The number of matches in the windows; an error unless the view is what the files say."""
        self.db.run(final=True)
        now = self.sent - 1
        inside = f"ts >= {now - self.length} AND ts < {now}"
        a, b = (f"(SELECT * FROM read_parquet('{self.place}/{name}/*.parquet') WHERE {inside})" for name in "AB")
        with duckdb.connect() as duck:
            wanted = duck.execute(
                f"SELECT a.k, sum(a.v)::BIGINT, count(*) FROM {a} a JOIN {b} b USING (k) GROUP BY a.k ORDER BY a.k"
            ).fetchall()
        rows = self.db.query("SELECT k, s, n FROM v ORDER BY k").to_pylist()
        found = [(row["k"], int(row["s"]), row["n"]) for row in rows]
        assert found and found == wanted, f"window of {self.length}: {len(found)} groups against {len(wanted)}"
        return sum(n for *_, n in found)


class WindowSide:
    """All lengths and plans in one process."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.made: dict[tuple[int, str | None], Windows] = {}

    def load(self, length: int, plan: str | None) -> int:
        self.made[length, plan] = Windows(self.place, length, plan)
        return int(self.made[length, plan].db.status()["state"]["rows"])

    def batches(self, length: int, plan: str | None, count: int) -> list[float]:
        return self.made[length, plan].batches(count)

    def close(self) -> dict[str, Any]:
        """Matches in each window, by length, after the answers were checked."""
        matches = {str(length): windows.check() for (length, _), windows in self.made.items()}
        for windows in self.made.values():
            windows.db.close()
        return matches
