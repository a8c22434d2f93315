"""The TimeZone of a connection: how queries are computed, how moments are written, and what the client is told."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import psycopg
import pytest

MOMENT = "CAST('2024-07-01 10:30:00.5+00' AS TIMESTAMPTZ)"


@pytest.fixture
def connection(server):
    with psycopg.connect(server.dsn(), autocommit=True) as made:
        yield made


def text(connection, sql):
    """The first value, as the server wrote it."""
    return connection.execute(sql).pgresult.get_value(0, 0).decode()


@pytest.mark.parametrize(
    ("zone", "written", "day"),
    [
        ("UTC", "2024-07-01 10:30:00.5+00", "2024-07-01 00:00:00+00"),
        ("Europe/Paris", "2024-07-01 12:30:00.5+02", "2024-07-01 00:00:00+02"),
        ("Asia/Kolkata", "2024-07-01 16:00:00.5+05:30", "2024-07-01 00:00:00+05:30"),
        ("Pacific/Honolulu", "2024-07-01 00:30:00.5-10", "2024-07-01 00:00:00-10"),
    ],
)
def test_moments_are_computed_and_written_in_the_zone(connection, zone, written, day):
    connection.execute(f"SET TIME ZONE '{zone}'")
    assert connection.info.parameter_status("TimeZone") == zone
    assert text(connection, "SHOW TIME ZONE") == text(connection, "SHOW timezone") == zone
    assert text(connection, f"SELECT {MOMENT}") == written
    assert text(connection, f"SELECT date_trunc('day', {MOMENT})") == day
    assert text(connection, f"SELECT [{MOMENT}]") == '{"' + written + '"}'
    assert text(connection, f"SELECT CAST({MOMENT} AS DATE)") == day[:10]
    with connection.cursor(binary=True) as cursor:
        [(found,)] = cursor.execute(f"SELECT {MOMENT}").fetchall()
    assert found == dt.datetime(2024, 7, 1, 10, 30, 0, 500_000, ZoneInfo("UTC"))
    with connection.cursor().copy(f"COPY (SELECT {MOMENT}) TO STDOUT") as copy:
        assert b"".join(copy) == written.encode() + b"\n"


def test_times_before_standard_time_have_seconds(connection):
    connection.execute("SET timezone TO 'Europe/Paris'")
    assert text(connection, "SELECT CAST('1850-01-01 00:00:00+00' AS TIMESTAMPTZ)") == "1850-01-01 00:09:21+00:09:21"


def test_the_zone_is_of_one_connection(connection, server):
    connection.execute("SET TimeZone = 'asia/tokyo'")
    with psycopg.connect(server.dsn(), autocommit=True) as other:
        assert text(other, f"SELECT {MOMENT}").endswith("+00")
    assert text(connection, f"SELECT {MOMENT}").endswith("+09")


def test_the_zone_of_the_database_is_the_default(db, server):
    db.execute("SET TIME ZONE 'Europe/Paris'")
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            assert connection.info.parameter_status("TimeZone") == "Europe/Paris"
            assert text(connection, f"SELECT {MOMENT}").endswith("+02")
            connection.execute("SET TIME ZONE 'Asia/Tokyo'")
            connection.execute("RESET ALL")
            assert connection.info.parameter_status("TimeZone") == "Europe/Paris"
    finally:
        db.execute("SET TIME ZONE DEFAULT")


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
def test_set_config_sets(connection, prepare):
    sql = "SELECT pg_catalog.set_config('TimeZone', 'Asia/Tokyo', false) AS zone"
    cursor = connection.execute(sql, prepare=True) if prepare else connection.execute(sql)
    assert cursor.fetchall() == [("Asia/Tokyo",)] and cursor.description[0].name == "zone"
    assert connection.info.parameter_status("TimeZone") == "Asia/Tokyo"
    assert text(connection, "SELECT current_setting('TimeZone')") == "Asia/Tokyo"
    assert text(connection, f"SELECT {MOMENT}").endswith("+09")


def test_zones_that_do_not_exist_are_refused(connection, server):
    for sql in ("SET TIME ZONE 'Paris'", "SELECT set_config('timezone', 'Paris', false)"):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="Europe/Paris"):
            connection.execute(sql)
    assert text(connection, "SHOW TimeZone") == "UTC"
    with pytest.raises(psycopg.OperationalError, match="TimeZone"):
        psycopg.connect(server.dsn(), options="-c TimeZone=Nowhere")


def test_parameters_are_read_in_the_zone(connection):
    with psycopg.Connection.connect(connection.info.dsn, autocommit=True, options="-c TimeZone=Europe/Paris") as own:
        assert text(own, "SELECT 1") == "1"
        [(moment,)] = own.execute("SELECT %s::timestamptz", ["2024-07-01 12:30:00"]).fetchall()
        assert moment.isoformat() == "2024-07-01T12:30:00+02:00"
        given = dt.datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Asia/Tokyo"))
        assert own.execute("SELECT %s", [given]).fetchall() == [(given,)]
