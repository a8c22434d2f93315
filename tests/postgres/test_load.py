"""Many connections: 200 that are idle and 20 that ask, all answered; and what comes beyond the limit is told so."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from tests.postgres.serving import RawClient, ServerThread, fields_of


def test_200_idle_and_20_busy_connections(process):
    idle = [RawClient(process.port).start() for _ in range(200)]
    answers: list[int] = []
    errors: list[Exception] = []

    def ask() -> None:
        try:
            with psycopg.connect(process.dsn(), autocommit=True) as connection:
                for _ in range(5):
                    [(count,)] = connection.execute("SELECT count(*) AS n FROM Hot").fetchall()
                    answers.append(count)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(20)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and answers == [3] * 100
    assert time.monotonic() - began < 60
    for client in (idle[0], idle[-1]):
        assert [kind for kind, _ in client.query("SELECT 1 AS x")] == ["T", "D", "C", "Z"]
    for client in idle:
        client.close()


def test_connections_beyond_the_limit_are_refused_with_a_reason(db):
    server = ServerThread(db, connections=2)
    try:
        held = [RawClient(server.port).start() for _ in range(2)]
        third = RawClient(server.port)
        body = b"\0\3\0\0user\0late\0\0"
        third.line.sendall((len(body) + 4).to_bytes(4, "big") + body)
        kind, found = third.message()
        assert (kind, fields_of(found)["C"]) == ("E", "53300")
        held[0].close()
        deadline = time.monotonic() + 10
        while True:
            try:
                RawClient(server.port).start().close()
                break
            except EOFError:
                assert time.monotonic() < deadline
    finally:
        server.stop()


def test_a_server_that_stops_tells_its_clients(db):
    server = ServerThread(db)
    client = RawClient(server.port).start()
    waiting = RawClient(server.port).start()
    waiting.send("Q", b"SUBSCRIBE Hot\0")
    waiting.until("D")
    server.stop()
    for each in (client, waiting):
        assert fields_of(each.until("E")[-1][1])["C"] in ("57P01", "57014")
    with pytest.raises(OSError):
        RawClient(server.port)
