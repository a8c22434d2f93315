"""The protocol byte by byte: messages, errors with their places, limits on rows, and what no client should send."""

from __future__ import annotations

import random
import struct

import pytest

from tests.postgres.serving import RawClient, fields_of
from tidemill.serve.postgres.messages import MOST_MESSAGE


@pytest.fixture
def client(server):
    made = RawClient(server.port).start()
    yield made
    made.close()


def kinds(found):
    return "".join(kind for kind, _ in found)


def rows(found):
    """The texts of all DataRow messages."""
    return [tuple(_values(body)) for kind, body in found if kind == "D"]


def _values(body):
    at = 2
    for _ in range(struct.unpack_from(">h", body)[0]):
        (length,) = struct.unpack_from(">i", body, at)
        at += 4
        yield None if length < 0 else body[at : at + length].decode()
        at += max(length, 0)


def tags(found):
    return [body[:-1].decode() for kind, body in found if kind == "C"]


def error(found):
    return next(fields_of(body) for kind, body in found if kind == "E")


def test_several_statements_are_answered_in_order(client):
    found = client.query("SELECT room FROM Hot ORDER BY room; SELECT 'a;b' AS x; SHOW server_version")
    assert kinds(found) == "TDDDCTDCTDCZ"
    assert rows(found)[:4] == [("1",), ("3",), ("5",), ("a;b",)]
    assert tags(found) == ["SELECT 3", "SELECT 1", "SHOW"]


def test_an_empty_text_is_an_empty_query(client):
    assert kinds(client.query(" ; -- nothing")) == "IZ"


def test_transactions_have_the_right_tags_and_states(client):
    assert [client.query(text)[-1][1] for text in ("BEGIN", "SELECT 1", "COMMIT")] == [b"T", b"T", b"I"]
    assert client.query("BEGIN; SELECT nonsense FROM Hot")[-1][1] == b"E"
    failed = client.query("SELECT 1")
    assert error(failed)["C"] == "25P02"
    ended = client.query("COMMIT")
    assert tags(ended) == ["ROLLBACK"] and ended[-1][1] == b"I"


def test_a_rollback_says_that_definitions_stand(client):
    found = client.query("BEGIN; CREATE VIEW Kept AS SELECT room FROM Hot; ROLLBACK; DROP VIEW Kept")
    notices = [fields_of(body)["M"] for kind, body in found if kind == "N"]
    assert any("definitions are not undone" in text for text in notices)
    assert tags(found) == ["BEGIN", "CREATE VIEW", "ROLLBACK", "DROP VIEW"]


@pytest.mark.parametrize(
    ("text", "state", "word"),
    [
        ("SELECT 1; SELEC 2", "42601", "SELEC"),
        ("SELECT room\nFROM Missing", "42P01", "Missing"),
        ("SELECT 1; SELECT room\nFROM\n Missing", "42P01", "Missing"),
        ("INSERT INTO Hot VALUES (1)", "0A000", "INSERT"),
    ],
)
def test_errors_have_a_state_and_point_at_the_place(client, text, state, word):
    found = error(client.query(text))
    assert found["C"] == state
    assert text[int(found["P"]) - 1 :].startswith(word)
    assert found["S"] == "ERROR" and found["H"]


def test_after_an_error_the_rest_of_the_text_is_skipped_and_the_connection_lives(client):
    assert kinds(client.query("SELECT x FROM Nowhere; SELECT 1")) == "EZ"
    assert rows(client.query("SELECT 7 AS n")) == [("7",)]


def parse(name, text, *types):
    return f"{name}\0{text}\0".encode() + struct.pack(f">h{len(types)}i", len(types), *types)


def bind(portal, name, *values, formats=()):
    body = f"{portal}\0{name}\0".encode() + struct.pack(">hh", 0, len(values))
    for value in values:
        body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return body + struct.pack(f">h{len(formats)}h", len(formats), *formats)


def test_portals_give_rows_in_portions(client):
    client.send("Q", b"BEGIN\0")
    client.until("Z")
    client.send("P", parse("s", "SELECT room FROM Hot WHERE room > $1 ORDER BY room", 23))
    client.send("B", bind("p", "s", b"0"))
    client.send("D", b"Pp\0")
    for _ in range(3):
        client.send("E", b"p\0" + struct.pack(">i", 2))
    client.send("S")
    found = client.until("Z")
    assert kinds(found) == "12TDDsDCCZ"
    assert tags(found) == ["SELECT 1", "SELECT 0"]


def test_an_error_skips_messages_up_to_sync(client):
    client.send("P", parse("", "SELECT nonsense("))
    client.send("B", bind("", ""))
    client.send("E", b"\0" + struct.pack(">i", 0))
    client.send("E", b"\0" + struct.pack(">i", 0))
    client.send("S")
    assert kinds(client.until("Z")) == "12EZ"


def test_statements_are_described_before_they_are_bound(client):
    client.send("P", parse("d", "SELECT room, temp FROM Hot WHERE room = $1 AND note = $2", 23, 0))
    client.send("D", b"Sd\0")
    client.send("S")
    found = dict(client.until("Z"))
    assert struct.unpack(">hii", found["t"]) == (2, 23, 25)
    assert found["T"][:2] == struct.pack(">h", 2) and b"room\0" in found["T"]


def test_a_value_is_never_read_as_sql(client):
    client.send("P", parse("", "SELECT $1 AS x", 25))
    client.send("B", bind("", "", b"'; DROP VIEW Hot; --"))
    client.send("E", b"\0" + struct.pack(">i", 0))
    client.send("S")
    assert rows(client.until("Z")) == [("'; DROP VIEW Hot; --",)]


def test_copy_writes_all_formats(client):
    found = client.query("COPY (SELECT room, note FROM Hot ORDER BY room) TO STDOUT")
    assert b"".join(body for kind, body in found if kind == "d").decode() == "1\tit's\n3\tä€\n5\tb\n"
    assert tags(found) == ["COPY 3"]
    found = client.query("COPY Hot (room, note) TO STDOUT WITH (FORMAT csv, HEADER, DELIMITER ';')")
    assert b"".join(body for kind, body in found if kind == "d").startswith(b"room;note\n")
    found = client.query("COPY (SELECT room FROM Hot) TO STDOUT (FORMAT binary)")
    data = b"".join(body for kind, body in found if kind == "d")
    assert data.startswith(b"PGCOPY\n\xff\r\n\0") and data.endswith(b"\xff\xff")
    assert error(client.query("COPY Hot FROM STDIN"))["C"] == "0A000"


def test_definitions_of_one_text_are_one_version_of_the_plan(client, db):
    before = db.catalog.version
    found = client.query("CREATE VIEW A1 AS SELECT room FROM Hot; CREATE VIEW A2 AS SELECT temp FROM Hot;")
    assert tags(found) == ["CREATE VIEW", "CREATE VIEW"] and db.catalog.version == before + 1
    assert tags(client.query("DROP VIEW A1; DROP VIEW A2")) == ["DROP VIEW", "DROP VIEW"]


def test_garbage_before_the_login_ends_in_an_error(server):
    for first in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x08\0\1\0\0", b"\xff" * 64, b"\0\0\0\4"):
        client = RawClient(server.port)
        client.line.sendall(first)
        kind, body = client.message()
        assert kind == "E" and fields_of(body)["S"] == "FATAL"
        assert client.is_closed()


def test_a_message_that_is_too_long_ends_the_connection_with_an_error(server):
    client = RawClient(server.port).start()
    client.line.sendall(b"Q" + struct.pack(">i", MOST_MESSAGE + 5))
    kind, body = client.message()
    assert (kind, fields_of(body)["C"]) == ("E", "08P01")
    assert client.is_closed()


def test_random_messages_never_stop_the_server(server):
    """Messages of all kinds with random bodies, whole or cut off: the connection ends or goes on, others do as well."""
    draw = random.Random(19)
    for _ in range(60):
        client = RawClient(server.port).start()
        for _ in range(draw.randint(1, 5)):
            kind = draw.choice(b"BCDEFHPQSpdcfXZ\0\xff")
            body = draw.randbytes(draw.choice((0, 1, 3, 8, 60)))
            length = draw.choice((len(body) + 4, len(body) + 4, 3, -1, len(body) + 9))
            client.line.sendall(bytes([kind]) + struct.pack(">i", length) + body)
        client.close()
    assert rows(RawClient(server.port).start().query("SELECT 1 AS x")) == [("1",)]


def test_half_open_connections_hold_up_nothing(server):
    waiting = [RawClient(server.port) for _ in range(20)]
    assert rows(RawClient(server.port).start().query("SELECT 1 AS x")) == [("1",)]
    for client in waiting:
        client.close()
