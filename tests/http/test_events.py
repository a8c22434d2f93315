"""Live events: contents, then changes within a second of the commit; a client that comes back misses nothing."""

from __future__ import annotations

import random
import socket
import time
from collections import Counter

import pytest

from tests.http.serving import HttpThread
from tests.postgres.serving import wait_until


def rows_of(changes):
    return [dict(zip([c["name"] for c in changes["columns"]], row, strict=True)) for row in changes["rows"]]


class Mirror:
    """The contents of a view, kept from its events."""

    def __init__(self, columns):
        self.columns, self.rows, self.last, self.time = columns, Counter(), None, None

    def take(self, event):
        name, data, number = event
        assert name in ("contents", "changes"), event
        if name == "contents":
            self.rows.clear()
        for row in rows_of(data["changes"]) if "changes" in data else []:
            new = tuple(row[c] for c in self.columns)
            if row["TAG"] == "u":
                self.rows[tuple(row["OLD"][c] for c in self.columns)] -= 1
            self.rows[new] += -1 if row["TAG"] == "-" else 1
        assert number == f"batch-{data['batch']}"
        self.last, self.time = number, data["as_of"]

    def contents(self):
        assert min(self.rows.values(), default=1) >= 0
        return sorted(self.rows.elements())


def test_contents_come_first_then_changes_within_a_second(client, feed, server):
    events = client.events("/api/subscribe?view=Hot")
    stream = iter(events)
    name, data, number = next(stream)
    assert name == "contents" and number is not None
    assert {row["TAG"] for row in rows_of(data["changes"])} == {"+"}
    mirror = Mirror(["room", "temp", "note"])
    mirror.take((name, data, number))
    feed.write((6, 99, "new"), (9, 1, "later"))
    wait_until(lambda: (6,) in _hot_rooms(server.db))
    began = time.monotonic()
    while (6, 99.0, "new") not in mirror.contents():
        mirror.take(next(stream))
    assert time.monotonic() - began < 1.0
    events.close()


def _hot_rooms(db):
    return [tuple(row.values()) for row in db.query("SELECT room FROM Hot").to_pylist()]


def test_a_client_cut_off_many_times_misses_and_doubles_nothing(client, feed, server):
    chance, mirror = random.Random(7), Mirror(["room", "temp", "note"])
    for _ in range(12):
        headers = {} if mirror.last is None else {"Last-Event-ID": mirror.last}
        events = client.events("/api/subscribe?view=Hot", **headers)
        stream = iter(events)
        for _ in range(chance.randint(1, 3)):
            feed.write(*[(chance.randint(1, 9), chance.randint(60, 100), "r") for _ in range(chance.randint(1, 5))])
            mirror.take(next(stream))
        events.close()
    end = feed.time
    feed.write((9, 0, "end"), (9, 0, "end"), step=5)
    events = client.events("/api/subscribe?view=Hot", **{"Last-Event-ID": mirror.last})
    stream = iter(events)
    while int(mirror.time) < end + 1:
        mirror.take(next(stream))
    events.close()
    answer = server.db.query(f"SELECT room, temp, note FROM Hot AS OF {mirror.time}")
    assert mirror.contents() == sorted(tuple(row.values()) for row in answer.to_pylist())


@pytest.mark.parametrize("last", ["1", "batch-0", "batch-99999999"])
def test_a_time_or_batch_that_is_not_kept_begins_anew(client, feed, last):
    events = client.events("/api/subscribe?view=PerRoom", **{"Last-Event-ID": last})
    stream = iter(events)
    assert next(stream)[0] == "reset"
    assert next(stream)[0] == "contents"
    events.close()


def test_a_client_may_come_back_with_a_time_too(client, feed):
    feed.write((3, 97, "x"), (9, 0, "later"), step=5)
    mirror = Mirror(["room", "temp", "note"])
    stream = iter(events := client.events("/api/subscribe?view=Hot"))
    mirror.take(next(stream))
    events.close()
    stream = iter(events := client.events(f"/api/subscribe?view=Hot&as_of={mirror.time}"))
    name, data, number = next(stream)
    assert name == "changes" and number == f"batch-{data['batch']}" and int(data["as_of"]) >= int(mirror.time)
    events.close()


def test_a_view_that_is_dropped_ends_its_events(client):
    client.post("/api/execute", {"sql": "CREATE VIEW Gone AS SELECT room FROM Hot"})
    events = client.events("/api/subscribe?view=Gone")
    stream = iter(events)
    assert next(stream)[0] in ("contents", "changes")
    client.post("/api/execute", {"sql": "DROP VIEW Gone"})
    rest = [name for name, _, _ in stream]
    assert rest[-1] == "failed"
    events.close()


def test_the_status_comes_after_each_batch(client, feed):
    events = client.events("/api/live")
    stream = iter(events)
    name, data, number = next(stream)
    assert name == "status" and number == str(data["status"]["batch"])
    feed.write((1, 95, "x"))
    began = time.monotonic()
    while next(stream)[1]["status"]["batch"] <= int(number):
        assert time.monotonic() - began < 10
    events.close()


def test_a_subscriber_that_takes_nothing_holds_up_nobody_and_is_let_go(db, feed):
    db.execute("CREATE STREAMED VIEW Wide AS SELECT room, note FROM Log")
    server = HttpThread(db, subscription_bytes=20_000, stuck_seconds=0.5)
    try:
        client = server.client()
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", server.port))
        head = f"GET /api/subscribe?view=Wide HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {client.cookie}\r\n\r\n"
        slow.sendall(head.encode())
        wait_until(lambda: server.server.api.streams == 1)
        for _ in range(40):
            feed.write(*[(room, 70, "y" * 500) for room in range(500)])
        wait_until(lambda: server.server.api.streams == 0)
        assert client.post("/api/query", {"sql": "SELECT 1 AS x"})[0] == 200
        slow.close()
    finally:
        server.stop()
        db.execute("DROP VIEW Wide")
