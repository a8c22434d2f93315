"""Time in both domains: integers are clock units, timestamps are timestamps, and both come out typed."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from tests.harness import LocalDatabase
from tests.language.tables import declared, parquet
from tests.paper.notation import Feed, rows_of, tagged

T0 = dt.datetime(2024, 5, 1, 12, 0, 0)


def at(seconds: float) -> dt.datetime:
    return T0 + dt.timedelta(seconds=seconds)


@pytest.fixture
def moments(db, tmp_path):
    columns = {"x": "VARCHAR", "moment": "TIMESTAMP"}
    parquet(tmp_path / "m.parquet", columns, [("a", at(0)), ("b", at(0.5)), ("c", at(61)), ("d", at(125))])
    db.execute(
        f"REGISTER SOURCE Raw ({declared(columns)}) FROM FILES '{tmp_path}/m.parquet' WITH (timestamp = 'moment')"
    )
    db.execute("CREATE TAGGED STREAM S OVER Raw")


def changes(db, name):
    return [(c["TAG"], c["x"], c["TS"]) for c in db.changes(name).to_pylist()]


def test_timestamps_stay_timestamps(db, moments):
    db.execute("CREATE STREAMED VIEW V AS SELECT x FROM S")
    db.execute("CREATE STREAMED VIEW W AS SELECT x, S.TS AS since FROM S")
    db.run()
    table = db.changes("W")
    assert table.schema.field("TS").type == table.schema.field("since").type == pa.timestamp("us")
    assert changes(db, "V") == [("+", "a", at(0)), ("+", "b", at(0.5)), ("+", "c", at(61)), ("+", "d", at(125))]


def test_windows_over_timestamps(db, moments):
    """Strict and inclusive bounds differ by one microsecond."""
    us = 1e-6
    db.execute("CREATE STREAMED VIEW V AS SELECT x FROM S WHERE NOW - INTERVAL '1' MINUTE < TS <= NOW")
    db.execute("CREATE STREAMED VIEW U AS SELECT x FROM S WHERE NOW - INTERVAL '1' MINUTE <= TS")
    db.execute("CREATE STREAMED VIEW W AS SELECT x FROM S [WINDOW 1 MINUTE]")
    db.execute("CREATE STREAMED VIEW R AS SELECT x FROM S [RANGE 1 MINUTE]")
    db.run()
    assert changes(db, "V") == [
        ("+", "a", at(0)),
        ("+", "b", at(0.5)),
        ("-", "a", at(60)),
        ("-", "b", at(60.5)),
        ("+", "c", at(61)),
        ("-", "c", at(121)),
        ("+", "d", at(125)),
    ]
    assert changes(db, "U")[2:4] == [("-", "a", at(60 + us)), ("-", "b", at(60.5 + us))]
    assert changes(db, "W")[:4] == [
        ("+", "a", at(us)),
        ("+", "b", at(0.5 + us)),
        ("-", "a", at(60 + us)),
        ("-", "b", at(60.5 + us)),
    ]
    assert changes(db, "R") == [
        ("+", "a", at(60)),
        ("+", "b", at(60)),
        ("-", "a", at(120)),
        ("-", "b", at(120)),
        ("+", "c", at(120)),
    ]


def test_synchronization_of_timestamps_is_aligned_to_the_epoch(db, moments):
    db.execute("CREATE STREAMED VIEW V AS SELECT x FROM S SYNC EVERY 1 MINUTE")
    db.run()
    assert changes(db, "V") == [("+", "a", at(0)), ("+", "b", at(60)), ("+", "c", at(120))]


@pytest.mark.parametrize(
    "length",
    [
        "90",
        "90 SECONDS",
        "INTERVAL '90' SECOND",
        "INTERVAL '90 seconds'",
        "INTERVAL 90 SECONDS",
        "INTERVAL '1.5' MINUTE",
        "90000 MILLISECONDS",
    ],
)
def test_a_duration_in_every_spelling(db, moments, length):
    db.execute(f"CREATE STREAMED VIEW V AS SELECT x FROM S SYNC EVERY {length}")
    db.run()
    first = at(0)  # 12:00 is a multiple of 90 seconds of the day
    assert changes(db, "V") == [("+", "a", first), ("+", "b", at(90)), ("+", "c", at(90))]


def test_points_of_a_data_view_over_timestamps(db, moments):
    db.execute("CREATE STREAMED VIEW P AS SELECT S.TS FROM S WHERE x = 'c'")
    db.execute("CREATE STREAMED VIEW V AS SELECT x FROM R(S, P)")
    db.run()
    assert changes(db, "V") == [("+", "a", at(61)), ("+", "b", at(61)), ("+", "c", at(61))]


def test_arithmetic_with_ts(db, moments):
    db.execute(
        "CREATE VIEW V AS SELECT x, S.TS + INTERVAL '1' HOUR AS later, S.TS - 5 AS before, "
        "date_trunc('minute', S.TS) AS m, hour(S.TS) AS h FROM S WHERE S.TS > TIMESTAMP '2024-05-01 12:01:00'"
    )
    db.run()
    assert rows_of(db, "SELECT * FROM V ORDER BY x") == [
        ("c", at(3661), at(56), at(60), 12),
        ("d", at(3725), at(120), at(120), 12),
    ]


def test_ts_may_be_the_name_of_the_event_time_column(db, tmp_path):
    """A column called ts, declared as the event time, is TS in windows, shifts and band joins."""
    columns = {"x": "VARCHAR", "ts": "TIMESTAMP"}
    parquet(tmp_path / "m.parquet", columns, [("a", at(0)), ("b", at(4)), ("c", at(20))])
    db.execute(f"REGISTER SOURCE Raw ({declared(columns)}) FROM FILES '{tmp_path}/m.parquet' WITH (timestamp = 'ts')")
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    db.execute("CREATE STREAMED VIEW W AS SELECT x FROM S WHERE NOW - 5 < ts <= NOW")
    db.execute("CREATE STREAMED VIEW J AS SELECT A.x, B.x AS y FROM S A, S B WHERE A.ts < B.ts AND B.ts < A.ts + 5")
    db.execute("CREATE VIEW V AS SELECT x, ts + 5 AS later FROM S WHERE x = 'a'")
    db.run()
    assert changes(db, "W") == [
        ("+", "a", at(0)),
        ("+", "b", at(4)),
        ("-", "a", at(5)),
        ("-", "b", at(9)),
        ("+", "c", at(20)),
    ]
    assert [(c["x"], c["y"]) for c in db.changes("J").to_pylist()] == [("a", "b")]
    assert rows_of(db, "SELECT * FROM V") == [("a", at(5))]


def test_integer_time_in_another_clock_unit(tmp_path):
    db = LocalDatabase(str(tmp_path / "db"), clock="1 minute")
    Feed(db, tmp_path, "Raw", "x VARCHAR").send("<a>1 <b>2 <c>9")
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    db.execute("CREATE STREAMED VIEW W AS SELECT x FROM S WHERE NOW - 5 < TS <= NOW")
    db.execute("CREATE STREAMED VIEW V AS SELECT x FROM S SYNC EVERY 120 SECONDS")
    db.execute("CREATE STREAMED VIEW C AS SELECT TimePoint FROM clockStr")
    db.run()
    assert tagged(db, "W") == ["+<a>1", "+<b>2", "-<a>6", "-<b>7", "+<c>9"]
    assert tagged(db, "V") == ["+<a>2", "+<b>2"]
    assert tagged(db, "C") == [f"+<{i}>{i}" for i in range(1, 10)]
    db.close()


def test_units_and_timestamps_together_are_timestamps(db, moments, tmp_path):
    seconds = int((T0 - dt.datetime(1970, 1, 1)).total_seconds())
    Feed(db, tmp_path, "Ints", "x VARCHAR").send([("i", seconds + 30)])
    db.execute("CREATE TAGGED STREAM I OVER Ints")
    db.execute("CREATE STREAMED VIEW V AS SELECT x FROM S UNION ALL SELECT x FROM I")
    db.run()
    assert changes(db, "V")[2] == ("+", "i", at(30))


def test_a_date_is_an_event_time_too(db, tmp_path):
    columns = {"x": "VARCHAR", "day": "DATE"}
    parquet(tmp_path / "d.parquet", columns, [("a", dt.date(2024, 5, 1)), ("b", dt.date(2024, 5, 3))])
    db.execute(f"REGISTER SOURCE D ({declared(columns)}) FROM FILES '{tmp_path}/d.parquet' WITH (timestamp = 'day')")
    db.execute(
        "CREATE TAGGED STREAM S OVER D; CREATE STREAMED VIEW V AS SELECT x FROM S WHERE NOW - INTERVAL '1' DAY < TS"
    )
    db.run()
    assert changes(db, "V") == [
        (tag, x, dt.datetime(2024, 5, day)) for tag, x, day in (("+", "a", 1), ("-", "a", 2), ("+", "b", 3))
    ]
