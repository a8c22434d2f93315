"""SET TIME ZONE: ad hoc queries are computed and answer in the zone, as DuckDB does with its TimeZone; views stay."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.harness import LocalDatabase
from tidemill.errors import TidemillError

SETUP = """
REGISTER SOURCE S (k INTEGER, z TIMESTAMPTZ, t TIMESTAMP, d DATE, at BIGINT)
FROM FILES '{folder}/*.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM A OVER S;
CREATE VIEW V AS SELECT k, z, t, d FROM A;
CREATE VIEW Days AS SELECT k, z::DATE AS day, date_trunc('day', z) AS begin FROM A;
CREATE VIRTUAL VIEW Clock AS SELECT k, hour(z) AS h FROM V;
"""
# Around both changes of the clock in Europe and New York, an hour that comes twice, and a time with half an hour.
TIMES = (
    *("2024-03-31 00:59:59+00", "2024-03-31 01:00:00+00", "2024-10-27 00:30:00+00", "2024-10-27 01:30:00+00"),
    *("2024-03-10 06:59:59+00", "2024-11-03 05:30:00+00", "2023-12-31 23:30:00+00", "2024-02-29 18:15:00.5+00"),
)
ROWS = [(k, z, z[:19], z[:10], k) for k, z in enumerate(TIMES)]
COMPUTED = (
    "z::TIMESTAMP, z::DATE, z::VARCHAR, t::TIMESTAMPTZ, d::TIMESTAMPTZ, ('2024-06-01 12:00:00')::TIMESTAMPTZ",
    "year(z), month(z), day(z), hour(z), minute(z), extract(dow FROM z), date_part('epoch', z), timezone_hour(z)",
    "date_trunc('hour', z), date_trunc('day', z), date_trunc('week', z), date_trunc('year', z), date_trunc('day', t)",
    "z + INTERVAL 1 DAY, z - INTERVAL 1 MONTH, date_diff('day', TIMESTAMPTZ '2024-01-01 00:00:00+00', z)",
    "strftime(z, '%Y-%m-%d %H:%M'), dayname(z), last_day(z), z = t, z > d, coalesce(z, t), z || ''",
    "time_bucket(INTERVAL 1 DAY, z), make_timestamptz(2024, 7, k, 1, 2, 3.0), [z], {'z': z}::VARCHAR",
    "z AT TIME ZONE 'Asia/Tokyo', t AT TIME ZONE 'UTC'",
)
GROUPED = "SELECT z::DATE AS g, count(*) AS n, min(z) AS m FROM V WHERE z < '2024-11-03' GROUP BY ALL ORDER BY ALL"
ZONES = ("UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata")


def write(folder: Path) -> None:
    lines = "".join(",".join(map(str, row)) + "\n" for row in ROWS)
    (folder / "rows.csv").write_text("k,z,t,d,at\n" + lines)


@pytest.fixture
def db(tmp_path):
    write(tmp_path)
    with LocalDatabase(str(tmp_path / "db")) as made:
        made.execute(SETUP.format(folder=tmp_path))
        made.run()
        yield made


def in_duckdb(zone: str, sql: str) -> pa.Table:
    """The answer of DuckDB over the same rows."""
    with duckdb.connect() as duck:
        duck.execute(f"SET TimeZone = '{zone}'")
        duck.execute("CREATE TABLE V (k INTEGER, z TIMESTAMPTZ, t TIMESTAMP, d DATE)")
        duck.executemany("INSERT INTO V VALUES (?, ?::VARCHAR, ?::VARCHAR, ?::VARCHAR)", [row[:4] for row in ROWS])
        return duck.sql(sql).to_arrow_table()


@pytest.mark.parametrize("zone", ZONES)
def test_ad_hoc_queries_are_computed_in_the_zone(db, zone):
    db.execute(f"SET TIME ZONE '{zone}'")
    for sql in (*(f"SELECT {items} FROM V ORDER BY k" for items in COMPUTED), GROUPED):
        found, wanted = db.query(sql), in_duckdb(zone, sql)
        assert found.schema.types == wanted.schema.types, sql  # with the zone in which times are shown
        assert [list(row.values()) for row in found.to_pylist()] == [list(r.values()) for r in wanted.to_pylist()], sql


def test_standing_views_stay_and_virtual_ones_follow(db):
    before = db.query("SELECT k, day, begin::VARCHAR AS b FROM Days WHERE k = 6").to_pylist()
    db.execute("SET TIME ZONE 'Europe/Paris'")
    [row] = db.query("SELECT day, begin FROM Days WHERE k = 6").to_pylist()
    assert [before[0]["day"], before[0]["b"]] == [row["day"], "2023-12-31 00:00:00+00"]
    assert row["begin"].isoformat() == "2023-12-31T01:00:00+01:00"
    assert db.query("SELECT h FROM Clock WHERE k = 6").to_pylist() == [{"h": 0}]


def test_views_that_are_created_in_a_zone_are_in_utc(tmp_path):
    write(tmp_path)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute("SET TIME ZONE 'Europe/Paris'")
        db.execute(SETUP.format(folder=tmp_path))
        db.run()
        [row] = db.query("SELECT day, begin FROM Days WHERE k = 6").to_pylist()
    assert str(row["day"]) == "2023-12-31" and row["begin"].isoformat() == "2023-12-31T01:00:00+01:00"


@pytest.mark.parametrize("condition", ["z >= '2024-10-27 02:30:00'", "hour(z) = 2 AND k > 0", "t::TIMESTAMPTZ < z"])
def test_streams_read_from_views_are_computed_in_the_zone(db, condition):
    db.execute("SET TIME ZONE 'Europe/Paris'")
    found = db.query(f"SELECT k FROM A WHERE {condition} ORDER BY k")
    assert found.to_pylist() == in_duckdb("Europe/Paris", f"SELECT k FROM V WHERE {condition} ORDER BY k").to_pylist()
    assert found.num_rows


def test_a_view_that_lacks_rows_in_the_zone_does_not_answer_for_its_stream(db, tmp_path):
    """The view begins at 00:00 in UTC; the same words mean an earlier time in Paris."""
    source = SETUP.format(folder=tmp_path).split("CREATE")[0].replace("SOURCE S", "SOURCE T")
    db.execute(f"{source} CREATE TAGGED STREAM B OVER T")
    db.execute("CREATE VIEW Late AS SELECT k, z FROM B WHERE z >= '2024-10-27 00:00:00'")
    db.run()
    sql = "SELECT k FROM B WHERE z >= '2024-10-27 00:00:00' ORDER BY k"
    assert db.query(sql).to_pylist() == in_duckdb("UTC", sql.replace("FROM B", "FROM V")).to_pylist()
    db.execute("SET TIME ZONE 'Europe/Paris'")
    with pytest.raises(TidemillError, match="TM215"):
        db.query(sql)


def test_the_setting_is_kept_shown_and_reset(tmp_path):
    write(tmp_path)
    with LocalDatabase(str(tmp_path / "db")) as db:
        assert db.execute("SHOW TIME ZONE").to_pylist() == [{"TimeZone": "UTC"}]
        db.execute("SET timezone = 'europe/paris'")
    with LocalDatabase(str(tmp_path / "db")) as db:
        assert db.execute("SHOW TIMEZONE").to_pylist() == [{"TimeZone": "Europe/Paris"}]
        assert {"name": "time_zone", "value": "Europe/Paris"} in db.execute("SHOW SETTINGS").to_pylist()
        assert db.query("SELECT '2024-07-01 00:00:00+00'::TIMESTAMPTZ::VARCHAR AS v").to_pylist() == [
            {"v": "2024-07-01 02:00:00+02"}
        ]
        db.execute("SET TIME ZONE DEFAULT")
        assert db.execute("SHOW TIME ZONE").to_pylist() == [{"TimeZone": "UTC"}]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SET TIME ZONE 'Paris'", "did you mean 'Europe/Paris'?"),
        ("SET TIME ZONE 'Europe/Pariss'", "did you mean 'Europe/Paris'?"),
        ("SET time_zone = '+02:00'", "Etc/GMT-2"),
        ("SET TIME ZONE 'x''; DROP'", "for example"),
        ("SET TIME ZONE 7", "for example"),
    ],
)
def test_unknown_zones_are_refused(tmp_path, text, hint):
    with LocalDatabase(str(tmp_path / "db")) as db, pytest.raises(TidemillError, match="TM217") as caught:
        db.execute(text)
    assert hint in caught.value.hint and caught.value.line == 1 and caught.value.column > 1
