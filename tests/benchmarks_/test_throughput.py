"""The running count for Spark says what Tidemill says: the definition, for any cut of the rows into batches."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.throughput import totals
from benchmarks.throughput.comparison import Measured
from benchmarks.throughput.page import page
from benchmarks.throughput.questions import EVERY, VIEWS, check_equal, in_order, last_kept
from benchmarks.throughput.tidemill_side import said
from tests.harness import LocalDatabase
from tests.properties.effort import effort

START = datetime(1970, 1, 1)
Rows = list[tuple[float, int]]  # seconds, key
TIMES = st.integers(0, 90).map(lambda tenths: tenths * 0.5)  # many lie at points


def definition(rows: Rows, before: float) -> list[tuple[datetime, int, int]]:
    """(point, key, rows of the key so far) for each key that got rows since the point before it."""
    points = sorted({-(-second // EVERY) * EVERY for second, _ in rows})
    found = []
    for point in (p for p in points if p < before):
        for key in sorted({k for _, k in rows}):
            so_far = sum(k == key and second <= point for second, k in rows)
            if any(k == key and point - EVERY < second <= point for second, k in rows):
                found.append((START + timedelta(seconds=point), key, so_far))
    return found


def listed(answer: pa.Table) -> list[tuple[datetime, int, int]]:
    return [(row["TS"], row["k"], row["n"]) for row in in_order(answer).to_pylist()]


class State:
    """What Spark gives to `refresh`: a value, a watermark, a timeout."""

    def __init__(self) -> None:
        self.getOption: tuple[Any, ...] | None = None
        self.watermark, self.timeout = 0, None

    def getCurrentWatermarkMs(self) -> int:
        return self.watermark

    def update(self, value: tuple[Any, ...]) -> None:
        self.getOption, self.timeout = value, None

    def setTimeoutTimestamp(self, when: int) -> None:
        assert when > self.watermark, "Spark refuses a timeout that has passed"
        self.timeout = when  # type: ignore[assignment]


def batches(rows: Rows, cuts: list[int]) -> Iterator[pd.DataFrame]:
    edges = [0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]
    for low, high in pairwise(edges):
        times = [START + timedelta(seconds=second) for second, _ in rows[low:high]]
        yield pd.DataFrame({"ts": pd.to_datetime(times), "k": [k for _, k in rows[low:high]]})


@effort(150)
@example(rows=[(0.0, 1), (0.5, 1), (10.5, 1)], cuts=[2])
@given(rows=st.lists(st.tuples(TIMES, st.integers(1, 3)), min_size=1), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_rows_refreshed_by_hand_say_the_running_count_at_every_point(rows, cuts):
    rows.sort(key=lambda row: row[0])
    state, seen, last = State(), [], 0
    for batch in batches(rows, cuts):
        if len(batch):  # Spark calls with rows, or after the timeout
            seen += totals.refresh((0,), [batch[:1], batch[1:]], state)
            last = int((batch["ts"].max() - START) / timedelta(milliseconds=1))
        elif state.timeout is not None and state.timeout <= state.watermark:
            seen += totals.refresh((0,), [], state)
        state.watermark = last
    if state.timeout is not None and state.timeout <= state.watermark:
        seen += totals.refresh((0,), [], state)
    assert listed(pa.Table.from_pandas(pd.concat(seen), preserve_index=False)) == definition(rows, before=rows[-1][0])


def test_a_row_of_a_point_that_was_said_is_dropped():
    state = State()
    first = pd.DataFrame({"ts": pd.to_datetime([START + timedelta(seconds=s) for s in (1, 25)]), "k": [1, 1]})
    assert [len(said) for said in totals.refresh((0,), [first], state)] == [0]
    state.watermark = 25_000
    (answer,) = totals.refresh((0,), [first[:0]], state)
    assert answer["n"].tolist() == [1]
    late = pd.DataFrame({"ts": pd.to_datetime([START + timedelta(seconds=2)]), "k": [1]})
    state.watermark = 31_000
    (answer,) = totals.refresh((0,), [late], state)
    assert answer["n"].tolist() == [2]


@effort(100)
@given(counts=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3), st.integers(1, 5)), unique_by=lambda c: c[:2]),
       cut=st.integers(0, 9))  # fmt: skip
def test_totals_go_on_where_the_batch_before_ended(counts, cut):
    whole = pd.DataFrame(counts, columns=["TS", "k", "n"], dtype="int64")
    first, packed = totals.add_up(whole[whole["TS"] < cut], None)
    second, last = totals.add_up(whole[whole["TS"] >= cut], packed)
    at_once, packed_at_once = totals.add_up(whole, None)
    assert pd.concat([first, second]).values.tolist() == at_once.values.tolist()
    assert last == packed_at_once
    for time, key, n in at_once.values.tolist():
        assert n == sum(c[2] for c in counts if c[1] == key and c[0] <= time)


def test_tidemill_says_the_same_and_a_row_at_a_point_belongs_to_it(tmp_path):
    rows = [(0, 1), (1, 1), (9.5, 2), (10, 1), (10, 2), (10.5, 2), (30, 1), (55, 3), (61, 1)]
    times = [START + timedelta(seconds=second) for second, _ in rows]
    ones = pa.array([1] * len(rows), pa.int32())
    keys = pa.array([k for _, k in rows], pa.int32())
    table = pa.table({"k": keys, "proto": ones, "len": ones, "ts": pa.array(times, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "000.parquet")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"""REGISTER SOURCE P (k INT, proto INT, len INT, ts TIMESTAMP) FROM FILES '{tmp_path}/*.parquet'
                       WITH (timestamp = 'ts', batch_rows = 2);
                       CREATE TAGGED STREAM S OVER P; {VIEWS["refreshed"]}""")
        db.run()
        answer = in_order(said(db, "refreshed"))
    wanted = definition(rows, before=61)
    assert len(wanted) == 6 and [row for row in listed(answer) if row[0] < times[-1]] == wanted


def rows_of(*values: tuple[int, int, int]) -> pa.Table:
    times, keys, counts = zip(*values, strict=True)
    return pa.table({"TS": pa.array(times, pa.int64()).cast(pa.timestamp("us")), "k": keys, "n": counts})


@pytest.mark.parametrize(
    ("work", "theirs", "points"),
    [
        ("refreshed", rows_of((10, 1, 1), (20, 1, 3)), 2),
        ("refreshed", rows_of((10, 1, 1), (20, 1, 3), (30, 1, 9)), 2),
        ("refreshed", rows_of((10, 1, 2), (20, 1, 3)), None),
        ("refreshed", rows_of((20, 1, 3)), None),
        ("windows", rows_of((10, 1, 1), (20, 1, 3)), None),
    ],
    ids=["same", "the point of the last row is open", "another count on the way", "a point less", "a window ended"],
)
def test_equal_means_at_every_closed_point(work, theirs, points):
    ours, end = rows_of((10, 1, 1), (20, 1, 3), (30, 1, 4)), datetime(1970, 1, 1, microsecond=30)
    if points:
        assert check_equal(work, ours, theirs, end) == points
    else:
        with pytest.raises(AssertionError, match="against"):
            check_equal(work, ours, theirs, end)


def test_the_stream_ends_for_spark_with_the_last_row_that_is_kept(tmp_path):
    times = pa.array([1_000_000, 5_000_000, 9_000_000], pa.int64()).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"proto": [1, 3, 4], "ts": times}), tmp_path / "000.parquet")
    assert last_kept(str(tmp_path)) == START + timedelta(seconds=5)


def test_only_the_question_as_asked_has_a_target():
    found = Measured(1_000, 250)
    for work, spark in (("refreshed", 8.0), ("count", 1.0), ("windows", 2.0)):
        sides = {"tidemill": 2.0, "spark": spark, **({"by hand": 3.0} if work == "refreshed" else {})}
        runs = {s: [{"seconds": t, "ends": [t / 2, t], "batches": 2, "warm": 1.0}] for s, t in sides.items()}
        found.runs[work], found.tried[work] = {"same": runs}, {("way", "in memory"): spark}
    result = page(found)
    assert [(c.measured, c.met) for c in result.checks] == [("4.00 ×", True), ("4.00 ×", True)]
    assert [row[-1] for row in result.tables[0].rows] == [4.0, 1.5, 0.5, 1.0]
    assert "less work" in result.tables[0].rows[2][0]
