"""What a client may try: rights that are taken away, statements inside of others, floods, and messages that lie."""

from __future__ import annotations

import itertools
import logging
import random
import struct
import threading
from contextlib import contextmanager

import psycopg
import pytest

from tests.live import LiveDatabase
from tests.postgres.serving import RawClient, ServerThread, fields_of, wait_until
from tidemill.serve.logs import begin_log
from tidemill.serve.postgres import connection
from tidemill.serve.postgres.catalog.shadow import ShadowCatalog
from tidemill.serve.postgres.inference import infer_types
from tidemill.serve.postgres.lexical import split_statements

LAST = 1_000_000  # a value, and its time, after all others


@pytest.fixture
def guarded(tmp_path):
    """A database with a reader of one view, and what writes its input."""
    (tmp_path / "in").mkdir()

    def write(value):
        (tmp_path / "in" / f"{value}.csv").write_text(f"a,at\n{value},{value}\n")

    with LiveDatabase(str(tmp_path / "lot")) as db:
        db.execute(
            f"""
            REGISTER SOURCE S (a INTEGER, at BIGINT) FROM FILES '{tmp_path}/in/*.csv'
            WITH (timestamp = 'at', settle_seconds = 0);
            CREATE TAGGED STREAM T OVER S; CREATE VIEW Open AS SELECT a FROM T; CREATE VIEW Other AS SELECT a FROM T;
            CREATE USER admin PASSWORD 'one'; CREATE USER reader PASSWORD 'two'; GRANT SELECT ON Open TO reader
            """
        )
        db.start()
        write(1)
        started = ServerThread(db)
        yield started, write
        started.stop()


def connect(server, user):
    word = {"admin": "one", "reader": "two"}[user]
    return psycopg.connect(server.dsn(user, password=word), autocommit=True)


@contextmanager
def feed(write):
    """Rows keep coming: a subscription shows nothing of what was there before it began, however long that takes."""
    over = threading.Event()

    def go_on():
        for value in itertools.count(2):
            if over.wait(0.1):
                return
            write(value)

    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


@pytest.mark.parametrize("end", ["REVOKE SELECT ON Open FROM reader", "DROP USER reader"])
def test_a_subscription_ends_with_the_right_to_read(guarded, end):
    server, write = guarded
    with connect(server, "reader") as one, connect(server, "reader") as two:
        changes = one.cursor().stream("SUBSCRIBE Open WITH (progress = true)")
        with feed(write):
            assert next(changes)[0] in "+p"
        two.execute("DECLARE c CURSOR FOR SUBSCRIBE Open")
        server.db.execute(end)
        write(LAST)
        with pytest.raises(psycopg.Error, match=r"TM33[01]"):
            assert LAST not in [row[2] for row in changes]
        with pytest.raises(psycopg.Error, match=r"TM33[01]"):
            two.execute("FETCH 10 FROM c WITH (timeout = '2s')")


@pytest.mark.parametrize("text", ["COPY ({}) TO STDOUT", "DECLARE c CURSOR FOR {}"])
def test_what_is_no_query_is_refused_before_it_is_executed(guarded, text):
    server, _ = guarded
    with connect(server, "admin") as connection:
        for statement in ("DROP VIEW Other", "CREATE VIEW More AS SELECT a FROM T", "SET begin = 'history'", "BEGIN"):
            with pytest.raises(psycopg.errors.SyntaxError, match="a query or SUBSCRIBE is wanted"):
                connection.execute(text.format(statement))
    assert "other" in server.db.catalog.entries and "more" not in server.db.catalog.entries


def test_nobody_is_shown_as_somebody_else(guarded):
    server, _ = guarded
    with connect(server, "reader") as connection:
        with pytest.raises(psycopg.errors.CantChangeRuntimeParam):
            connection.execute("SET session_authorization = 'admin'")
        connection.execute("SET session_authorization TO DEFAULT")
        connection.execute("SET session_authorization = 'reader'")
        assert connection.execute("SELECT current_user").fetchone() == ("reader",)
    with pytest.raises(psycopg.OperationalError, match="session_authorization"):
        connect_as = server.dsn("reader", password="two", options="'-c session_authorization=admin'")
        psycopg.connect(connect_as)


def test_a_wait_in_the_catalog_takes_no_threads(server, monkeypatch):
    """Queries of one user over the catalog wait for each other in the loop: others need the threads."""
    working, most, go_on = [], [], threading.Event()
    query = ShadowCatalog.query

    def wait(self, *arguments):
        working.append(1)
        most.append(len(working))
        assert go_on.wait(30)
        working.pop()
        return query(self, *arguments)

    monkeypatch.setattr(ShadowCatalog, "query", wait)
    clients = [RawClient(server.port).start() for _ in range(5)]
    for client in clients:
        client.send("Q", b"SELECT relname FROM pg_class\0")
    wait_until(lambda: len(working) == 1)
    assert RawClient(server.port).start().query("SELECT 1 AS x")[-1][0] == "Z"
    go_on.set()
    assert [client.until("Z")[-1][1] for client in clients] == [b"I"] * 5
    assert max(most) == 1


def test_lines_that_say_nothing_keep_nobody_out(db):
    server = ServerThread(db, logins=3)
    try:
        lines = [RawClient(server.port) for _ in range(12)]
        assert RawClient(server.port).start().query("SELECT 1 AS x")[-1][0] == "Z"
        assert all(line.is_closed() for line in lines[:9])
        assert len(server.server._strangers) <= 3
    finally:
        server.stop()


def test_what_waits_for_a_statement_is_bounded(server):
    """A client that sends many megabytes behind a statement waits; they are not read into memory."""
    client = RawClient(server.port).start()
    client.send("Q", b"SUBSCRIBE Hot\0")
    client.until("T")
    [(_, found)] = [pair for pair in server.server.connections.values() if pair[1]._sender.context[0]][-1:]
    client.line.settimeout(0.3)
    with pytest.raises(TimeoutError):
        for _ in range(20):
            client.send("Q", b"SELECT 1 AS x -- " + b"x" * (3 << 20) + b"\0")
    assert found._waiting <= connection._AHEAD_BYTES + (4 << 20)
    client.close()


TEXTS = (
    "SELECT $1 AS a",
    "SELECT room FROM Hot WHERE temp > $1 LIMIT $2",
    "SELECT $1::timestamp AS t, $2::bytea AS b, $3::numeric(10, 2) AS n",
    "SELECT 7 -$1 AS a, '$1', $$x$$",
    "SELECT room = ANY($1) FROM Hot",
    "SELECT relname FROM pg_class WHERE oid = $1 OR relname = $2",
    "SELECT set_config('TimeZone', $1, false)",
    "SUBSCRIBE Hot AS OF $1",
    "FETCH 2 FROM c",
    "COPY (SELECT room FROM Hot WHERE room = $1) TO STDOUT",
    "SELECT $65535",
    "",
)
TYPES = (0, 16, 17, 20, 23, 25, 26, 701, 1007, 1082, 1083, 1114, 1184, 1186, 1700, 2950, 99_999, -1, 2**31 - 1)
VALUES = (
    *(None, b"", b"1", b"-5", b"t", b'{1,NULL,"a"}', b"{", b"2024-01-01", b"infinity", b"1e400", b"\xff\xfe", b"a\0b"),
    *(b"'; DROP VIEW Hot; --", b"\0" * 8, b"\x7f" * 8, b"\xff" * 16, b"9" * 400, b"24:00:00", b"\\xZZ"),
    struct.pack(">iiIii", 1, 0, 23, 2**31 - 1, 1),
)


def draw_messages(draw):
    """A statement with parameters that do not fit, in the messages of the extended protocol."""
    text = draw.choice(TEXTS)
    count = sum(f"${number}" in text for number in (1, 2, 3))
    types = [draw.choice(TYPES) for _ in range(draw.choice((0, count)))]
    head = b"\0" + text.encode() + b"\0" + struct.pack(">h", len(types))
    yield "P", head + b"".join(struct.pack(">i", oid) for oid in types)
    if draw.random() < 0.5:
        yield "D", b"S\0"
    given = [draw.choice(VALUES) for _ in range(count)]
    body = b"\0\0" + struct.pack(">hhh", 1, draw.choice((0, 0, 1)), count)
    body += b"".join(struct.pack(">i", -1) if v is None else struct.pack(">i", len(v)) + v for v in given)
    yield "B", body + struct.pack(">hh", 1, draw.choice((0, 1)))
    if draw.random() < 0.5:
        yield "D", b"P\0"
    yield "E", b"\0" + struct.pack(">i", draw.choice((0, 1, -1, 2**31 - 1)))
    yield "S", b""


def test_values_that_do_not_fit_never_fail_in_the_server(server, caplog):
    draw, states = random.Random(19), set()
    with caplog.at_level(logging.ERROR, "tidemill.serve"):
        for _ in range(120):
            client = RawClient(server.port).start()
            client.line.settimeout(5)
            for kind, body in draw_messages(draw):
                client.send(kind, body)
            found = []
            while not found or (found[-1][0] != "Z" and len(found) < 40):  # a subscription has no end
                try:
                    found.append(client.message())
                except TimeoutError:
                    break
            states |= {fields_of(body)["C"] for kind, body in found if kind == "E"}
            client.close()
    assert {"22P02", "54023"} <= states and not [state for state in states if state.startswith("XX")]
    assert not caplog.records and "hot" in server.db.catalog.entries


def test_a_password_in_a_statement_that_cannot_be_read_is_not_logged(capfd):
    begin_log()
    [piece] = split_statements("ALTER USER ann PASSWORD 'hush-hush' VALID UNTIL $1")
    infer_types(piece, [0], [])
    assert "hush" not in "".join(capfd.readouterr())
