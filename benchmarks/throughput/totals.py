"""Running counts for Spark, in pandas: what its streaming SQL cannot say, kept as state by functions of the user.

Spark has no running sum over a stream. Its user counts windows first and adds them up in a second stateful operator
(`SumsByKey`, `SumsByRow`, `SumsOfBucket`), or takes the rows themselves (`refresh`). A state for each key costs calls
for each key; totals of many keys in one state are added up in whole columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor  # type: ignore[attr-defined]

from benchmarks.throughput.questions import EVERY

ANSWER = "TS timestamp, k int, n long"
STATE = "waiting binary, totals binary, said_until long"
_STEP = EVERY * 1_000_000


def add_up(rows: pd.DataFrame, packed: bytes | None) -> tuple[pd.DataFrame, bytes]:
    """Counts (TS, k, n) of a batch as running counts, in order of TS; the totals of all keys before and after it.

    >>> first, totals = add_up(pd.DataFrame({"TS": [20, 10, 10], "k": [1, 1, 2], "n": [5, 3, 4]}), None)
    >>> first.values.tolist()
    [[10, 1, 3], [10, 2, 4], [20, 1, 8]]
    >>> add_up(pd.DataFrame({"TS": [30], "k": [1], "n": [1]}), totals)[0].values.tolist()
    [[30, 1, 9]]
    """
    rows = rows.sort_values(["TS", "k"], ignore_index=True)
    before = _series(packed)
    sums = rows.groupby("k")["n"].cumsum() + rows["k"].map(before).fillna(0).astype("int64")
    last = sums.groupby(rows["k"]).last()
    after = last.combine_first(before).astype("int64")
    return rows[["TS", "k"]].assign(n=sums), pack(after.index, after)


def pack(*columns: Any) -> bytes:
    """Columns of whole numbers as one value."""
    return np.stack([np.asarray(column, np.int64) for column in columns]).tobytes()


def unpack(packed: bytes | None, columns: int) -> np.ndarray:
    """The columns of `pack`; empty ones of nothing."""
    return np.frombuffer(packed or b"", np.int64).reshape(columns, -1)


def _series(packed: bytes | None) -> pd.Series:
    keys, totals = unpack(packed, 2)
    return pd.Series(totals, keys)


class SumsByKey(StatefulProcessor):
    """A state for each key, its windows as a column."""

    def init(self, handle: Any) -> None:
        self.total = handle.getValueState("total", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        counts = pd.concat(list(rows), ignore_index=True).sort_values("TS")
        known = self.total.get()
        sums = counts["n"].cumsum() + (known[0] if known else 0)
        self.total.update((int(sums.iloc[-1]),))
        yield counts[["TS", "k"]].assign(n=sums)

    def close(self) -> None:
        pass


class SumsByRow(StatefulProcessor):
    """A state for each key, one row after another."""

    def init(self, handle: Any) -> None:
        self.total = handle.getValueState("total", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        known = self.total.get()
        total = known[0] if known else 0
        for row in sorted(rows, key=lambda row: row.TS):
            total += row.n
            yield Row(TS=row.TS, k=row.k, n=total)
        self.total.update((total,))

    def close(self) -> None:
        pass


class SumsOfBucket(StatefulProcessor):
    """A state for many keys, their totals as packed columns."""

    def init(self, handle: Any) -> None:
        self.totals = handle.getValueState("totals", "packed binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        known = self.totals.get()
        answer, packed = add_up(pd.concat(list(rows), ignore_index=True), known[0] if known else None)
        self.totals.update((packed,))
        yield answer

    def close(self) -> None:
        pass


def refresh(key: Any, frames: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Rows (ts, k) of many keys: counted by point at once, said when the watermark has passed the point.

    Rows of points that were said before are late and dropped, as by Spark's own windows. A timeout at the first open
    point brings the call that says it when no more rows come.
    """
    passed = state.getCurrentWatermarkMs() * 1_000
    waiting, totals, said_until = state.getOption or (None, None, 0)
    fresh = [counts[counts["TS"] >= said_until] for counts in map(_counted, frames)]
    kept = pd.DataFrame(unpack(waiting, 3).T, columns=["TS", "k", "n"])
    counts = pd.concat([kept, *fresh]).groupby(["TS", "k"], as_index=False)["n"].sum()
    still = counts[counts["TS"] >= passed]
    answer, totals = add_up(counts[counts["TS"] < passed], totals)
    state.update((pack(still["TS"], still["k"], still["n"]), totals, passed))
    if len(still):
        state.setTimeoutTimestamp(max(int(still["TS"].min()), passed) // 1_000 + 1)
    yield answer.assign(TS=pd.to_datetime(answer["TS"].to_numpy(), unit="us"), k=answer["k"].astype("int32"))


def _counted(rows: pd.DataFrame) -> pd.DataFrame:
    """How many rows each key has for each point; a row at a point belongs to it."""
    times = rows["ts"].astype("datetime64[us]").astype("int64").to_numpy()
    points = pd.DataFrame({"TS": -(-times // _STEP) * _STEP, "k": rows["k"].to_numpy(np.int64)})
    return points.groupby(["TS", "k"], sort=False).size().rename("n").reset_index()
