"""psycopg 3: parameters, types in text and binary, named cursors, COPY, streams, cancelling, prepared statements."""

from __future__ import annotations

import datetime as dt
import threading
import time
import uuid
from decimal import Decimal

import psycopg
import pytest

VALUES = [
    ("CAST(7 AS SMALLINT)", 7),
    ("CAST(-7 AS INTEGER)", -7),
    ("CAST(9000000000 AS BIGINT)", 9_000_000_000),
    ("CAST(1.5 AS DOUBLE)", 1.5),
    ("CAST('nan' AS DOUBLE)", None),
    ("CAST('-inf' AS DOUBLE)", float("-inf")),
    ("CAST(0.25 AS FLOAT)", 0.25),
    ("CAST(123.450 AS DECIMAL(10,3))", Decimal("123.450")),
    ("CAST(-0.0001 AS DECIMAL(10,4))", Decimal("-0.0001")),
    ("CAST(0 AS DECIMAL(10,2))", Decimal("0.00")),
    ("'it''s ä€ '", "it's ä€ "),
    ("TRUE", True),
    ("FALSE", False),
    ("CAST(NULL AS INTEGER)", None),
    ("DATE '1999-12-31'", dt.date(1999, 12, 31)),
    ("TIMESTAMP '2024-03-01 12:30:01.25'", dt.datetime(2024, 3, 1, 12, 30, 1, 250_000)),
    ("CAST('2024-03-01 12:30:01+00' AS TIMESTAMPTZ)", dt.datetime(2024, 3, 1, 12, 30, 1, tzinfo=dt.UTC)),
    ("TIME '23:59:59.5'", dt.time(23, 59, 59, 500_000)),
    ("INTERVAL '3 days 4 hours'", dt.timedelta(days=3, hours=4)),
    ("CAST('12345678-1234-5678-1234-567812345678' AS UUID)", "12345678-1234-5678-1234-567812345678"),
    ("CAST('ab' AS BLOB)", b"ab"),
]


@pytest.fixture
def connection(process):
    with psycopg.connect(process.dsn(), autocommit=True) as made:
        yield made


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize(("expression", "value"), VALUES)
def test_values_arrive_as_they_are(connection, expression, value, binary):
    with connection.cursor(binary=binary) as cursor:
        [(found,)] = cursor.execute(f"SELECT {expression} AS v").fetchall()
    if expression == "CAST('nan' AS DOUBLE)":
        assert found != found
    else:
        assert found == value and type(found) is type(value)


@pytest.mark.parametrize("placeholder", ["%s", "%b", "%t"])
@pytest.mark.parametrize(
    "value",
    [
        0,
        -5,
        70_000,
        9_000_000_000,
        1.25,
        "o'clock; --",
        True,
        None,
        Decimal("12.50"),
        dt.date(2024, 2, 29),
        dt.datetime(2024, 2, 29, 1, 2, 3, 4),
        dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.UTC),
        dt.time(1, 2, 3),
        uuid.UUID(int=5),
        b"\x00\xff'",
    ],
    ids=repr,
)
def test_parameters_come_back_as_they_were_given(connection, placeholder, value):
    if value is None and placeholder != "%s":
        pytest.skip("NULL has no format")
    [(found,)] = connection.execute(f"SELECT {placeholder} AS v", (value,)).fetchall()
    assert found == (str(value) if isinstance(value, uuid.UUID) else value)  # a UUID is a text in answers


def test_parameters_in_a_query(connection):
    rows = connection.execute(
        "SELECT room FROM Hot WHERE temp > %s AND note <> %s ORDER BY room LIMIT %s", (80, "b", 5)
    )
    assert rows.fetchall() == [(1,), (3,)]


def test_a_statement_that_is_prepared_is_executed_many_times(connection):
    for room, there in ((1, 1), (2, 0), (3, 1)):
        found = connection.execute("SELECT count(*) AS n FROM Hot WHERE room = %s", (room,), prepare=True).fetchone()
        assert found == (there,)


def test_named_cursors_fetch_in_portions(process):
    with psycopg.connect(process.dsn()) as connection, connection.cursor(name="c") as cursor:
        cursor.execute("SELECT room FROM Hot ORDER BY room")
        assert cursor.fetchone() == (1,)
        assert cursor.fetchmany(1) == [(3,)]
        assert cursor.fetchall() == [(5,)]


def test_copy_reads_rows(connection):
    with (
        connection.cursor() as cursor,
        cursor.copy("COPY (SELECT room, note FROM Hot ORDER BY room) TO STDOUT") as copy,
    ):
        assert list(copy.rows()) == [("1", "it's"), ("3", "ä€"), ("5", "b")]
    with (
        connection.cursor() as cursor,
        cursor.copy("COPY (SELECT room, note FROM Hot ORDER BY room) TO STDOUT (FORMAT binary)") as copy,
    ):
        copy.set_types(["int4", "text"])
        assert list(copy.rows()) == [(1, "it's"), (3, "ä€"), (5, "b")]


def test_stream_yields_changes_as_they_come(process, feed):
    with psycopg.connect(process.dsn(), autocommit=True) as connection:
        changes = connection.cursor().stream("SUBSCRIBE PerRoom")
        seen = [next(changes)[:3] for _ in range(5)]
        assert sorted((tag, room) for tag, _, room in seen) == [("+", room) for room in (1, 2, 3, 4, 5)]
        feed.write((4, 1, ""), (77, 1, ""))
        assert next(changes)[2:5] == (9, 1, Decimal(9))
        found = next(changes)
        assert (found[0], found[2], found[3], found[5]) == ("u", 4, 2, {"room": 4, "n": 1, "total": 4})
        connection.cancel()
        with pytest.raises(psycopg.errors.QueryCanceled):
            next(changes)


def test_errors_have_the_class_of_their_state(connection):
    with pytest.raises(psycopg.errors.UndefinedTable) as found:
        connection.execute("SELECT 1 FROM Nothing")
    assert found.value.diag.message_hint and found.value.diag.statement_position
    with pytest.raises(psycopg.errors.SyntaxError):
        connection.execute("SELEC 1")
    with pytest.raises(psycopg.errors.DuplicateTable):
        connection.execute("CREATE VIEW Hot AS SELECT room FROM Log")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        connection.execute("DELETE FROM Hot")


def test_transactions_are_accepted(process):
    with psycopg.connect(process.dsn()) as connection:
        with connection.transaction():
            connection.execute("SELECT 1")
            with pytest.raises(psycopg.errors.UndefinedTable), connection.transaction():
                connection.execute("SELECT 1 FROM Nothing")
            assert connection.execute("SELECT 2 AS x").fetchone() == (2,)
        connection.rollback()


def test_a_slow_query_is_cancelled_within_a_second(connection):
    text = "SELECT count(*) AS n FROM " + ", ".join(f"Hot h{i}" for i in range(20))
    timer = threading.Timer(1.0, connection.cancel)
    timer.start()
    began = time.monotonic()
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute(text)
    assert time.monotonic() - began < 2.0
    assert connection.execute("SELECT 1 AS x").fetchone() == (1,)


def test_statement_timeout_ends_a_slow_query(connection):
    connection.execute("SET statement_timeout = '500ms'")
    with pytest.raises(psycopg.errors.QueryCanceled, match="TM517"):
        connection.execute("SELECT count(*) AS n FROM " + ", ".join(f"Hot h{i}" for i in range(20)))


def test_pipelines_are_executed_in_order(connection):
    with connection.pipeline():
        found = [connection.execute("SELECT %s AS x", (n,)) for n in range(5)]
    assert [cursor.fetchone() for cursor in found] == [(n,) for n in range(5)]
