"""Drivers that ask the server for the types of parameters, or send none: asyncpg, psycopg 2, pg8000."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import struct
from typing import Any

import psycopg
import pytest

from tests.postgres.serving import RawClient
from tests.postgres.test_protocol import bind, parse
from tidemill.serve.postgres import fields as f


def ask_types(client, text):
    """The types that the server finds for the parameters of a statement."""
    client.send("P", parse("", text))
    client.send("D", b"S\0")
    client.send("S")
    body = dict(client.until("Z"))["t"]
    return struct.unpack(f">{(len(body) - 2) // 4}I", body[2:])


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("SELECT room FROM Hot WHERE room = $1 AND temp > $2 AND note LIKE $3", (f.INT4, f.FLOAT8, f.TEXT)),
        ("SELECT n FROM PerRoom WHERE n BETWEEN $1 AND $2 LIMIT $3", (f.INT8, f.INT8, f.INT8)),
        ("SELECT room FROM Hot WHERE room = ANY($1) OR room IN ($2, 3)", (1007, f.INT4)),
        ("SELECT $1::date AS d, $2::oid[] AS o, CAST($3 AS uuid) AS u, $4 AS x", (f.DATE, 1028, f.UUID, f.TEXT)),
        ("SELECT relname FROM pg_class WHERE oid = $1 AND relname = $2", (f.OID, f.TEXT)),
        ("SELECT CASE WHEN $1 THEN $2 ELSE temp END AS t, room + $3 AS r FROM Hot", (f.BOOL, f.FLOAT8, f.INT4)),
        ("SUBSCRIBE Hot AS OF $1", (f.TEXT,)),
        ("SELECT room FROM Hot AS OF $1", (f.TEXT,)),
    ],
)
def test_types_of_parameters_are_found_in_the_text(process, text, types):
    client = RawClient(process.port).start()
    assert ask_types(client, text) == types
    client.close()


def test_an_array_without_a_type_is_one(process):
    client = RawClient(process.port).start()
    client.send("P", parse("", "SELECT count(*) AS n FROM Hot WHERE room = ANY($1)"))
    client.send("B", bind("", "", b"{1,3,77}"))
    client.send("E", b"\0" + struct.pack(">i", 0))
    client.send("S")
    assert dict(client.until("Z"))["D"].endswith(b"\x012")
    client.close()


def test_a_time_of_as_of_is_a_parameter(process):
    with psycopg.connect(process.dsn(), autocommit=True) as connection:
        for moment in (4, "4"):
            assert connection.execute("SELECT count(*) AS n FROM Hot AS OF %s", (moment,)).fetchone() == (2,)
            rows: Any = connection.cursor().stream("SUBSCRIBE Hot AS OF %s", (moment,))
            assert next(rows)[:3] == ("+", 5, 5)
            rows.close()
        for time in (dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)):
            with pytest.raises(psycopg.Error, match="TM231"):  # a time, and these views count units
                connection.execute("SUBSCRIBE Hot AS OF %s", (time,))


def test_asyncpg(process):
    asyncpg = pytest.importorskip("asyncpg")

    async def converse():
        pool = await asyncpg.create_pool(
            host="127.0.0.1", port=process.port, user="t", database="lot", min_size=1, max_size=2
        )
        for _ in range(2):  # a connection is reset when it goes back
            async with pool.acquire() as c:
                assert await c.fetchval("SELECT note FROM Hot WHERE room = $1 AND temp > $2", 3, 84.5) == "ä€"
        async with pool.acquire() as c:
            rows = await c.fetch("SELECT room FROM Hot WHERE room = ANY($1) ORDER BY room LIMIT $2", [5, 1], 7)
            assert [tuple(row) for row in rows] == [(1,), (5,)]
            [row] = await c.fetch("SELECT [1, NULL] AS l, {'a': 1} AS s, 1.5::DECIMAL(9, 2) AS d")
            assert (row["l"], row["s"], str(row["d"])) == ([1, None], '{"a": 1}', "1.50")
            async with c.transaction():
                seen = []
                async for change in c.cursor("SUBSCRIBE Hot", prefetch=1):
                    seen.append(change["room"])
                    if len(seen) == 3:
                        break
            assert sorted(seen) == [1, 3, 5]
            assert [tuple(row) for row in await c.fetch("SELECT room FROM Hot WHERE room < $1 AS OF $2", 3, "4")] == [
                (1,)
            ]
            out = io.BytesIO()
            assert await c.copy_from_query("SELECT room FROM Hot ORDER BY room", output=out, format="csv") == "COPY 3"
            assert out.getvalue() == b"1\n3\n5\n"
        await pool.close()

    asyncio.run(asyncio.wait_for(converse(), 60))


def test_psycopg2(process):
    psycopg2 = pytest.importorskip("psycopg2")
    connection = psycopg2.connect(process.dsn())
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT room FROM Hot WHERE room = ANY(%s) AND temp > %s ORDER BY room", ([1, 3], 80))
        assert cursor.fetchall() == [(1,), (3,)]
        out = io.StringIO()
        cursor.copy_expert("COPY (SELECT room FROM Hot ORDER BY room) TO STDOUT WITH CSV HEADER", out)
        assert out.getvalue() == "room\n1\n3\n5\n"
    with connection, connection.cursor("named") as cursor:
        cursor.execute("SELECT room FROM Hot ORDER BY room")
        assert cursor.fetchmany(2) + cursor.fetchall() == [(1,), (3,), (5,)]
    connection.close()


def test_pg8000(process):
    native = pytest.importorskip("pg8000.native")
    connection = native.Connection("t", host="127.0.0.1", port=process.port, database="lot")
    assert connection.run("SELECT room, note FROM Hot WHERE temp > :least ORDER BY room", least=84.5) == [
        [1, "it's"],
        [3, "ä€"],
    ]
    connection.close()
