"""Subscriptions: cursors, progress, resuming exactly where a client stopped, and subscribers that do not read."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

import psycopg
import pytest

from tests.places import ROOT
from tests.postgres.conftest import Feed
from tests.postgres.serving import RawClient, ServerProcess, fields_of, wait_until

SETUP = """
REGISTER SOURCE Measured (room INTEGER, temp DOUBLE, note VARCHAR, at BIGINT)
FROM FILES '{folder}/*.csv' WITH (timestamp = 'at', settle_seconds = 0);
CREATE TAGGED STREAM Rooms OVER Measured KEY room;
CREATE VIEW Latest WITH (retain = 1000000) AS SELECT room, temp FROM Rooms;
CREATE VIEW Forgets AS SELECT room FROM Rooms;
CREATE STREAMED VIEW Flow WITH (retain = 1000000) AS SELECT room, temp, note FROM Rooms;
"""


@pytest.fixture
def own_feed(tmp_path):
    (tmp_path / "in").mkdir()
    return Feed(tmp_path / "in")


def start(tmp_path, feed, **limits):
    return ServerProcess(tmp_path, SETUP.format(folder=feed.folder), **limits)


@pytest.fixture
def live(tmp_path, own_feed):
    made = start(tmp_path, own_feed)
    yield made
    made.stop()


def apply(contents, row):
    """Add a change (TAG, TS, room, temp, OLD) to what a view holds."""
    tag, _, room, temp, old = row
    if tag == "+":
        contents[room, temp] += 1
    elif tag == "-":
        contents[room, temp] -= 1
    elif tag == "u":
        contents[room, temp] += 1
        contents[old["room"], old["temp"]] -= 1


def held(contents):
    return sorted(row for row, count in contents.items() for _ in range(count))


def test_a_cursor_of_a_subscription_is_fetched_from_time_to_time(live, own_feed):
    own_feed.write((1, 10, ""), (2, 20, ""))
    with psycopg.connect(live.dsn(), autocommit=True) as connection:
        connection.execute("DECLARE c CURSOR FOR SUBSCRIBE Latest")
        assert [row[2] for row in connection.execute("FETCH ALL c WITH (timeout = '10s')").fetchall()] == [1]
        began = time.monotonic()
        assert connection.execute("FETCH 10 FROM c WITH (timeout = '500ms')").fetchall() == []
        assert 0.4 < time.monotonic() - began < 5
        own_feed.write((3, 30, ""), (4, 40, ""), (5, 50, ""))
        assert [row[2] for row in connection.execute("FETCH 2 FROM c").fetchall()] == [2, 3]
        assert [row[2] for row in connection.execute("FETCH 2 FROM c WITH (timeout = '5s')").fetchall()] == [4]
        connection.execute("CLOSE c")
        with pytest.raises(psycopg.errors.InvalidCursorName):
            connection.execute("FETCH 1 FROM c")


def test_progress_says_up_to_which_time_all_changes_came(live, own_feed):
    own_feed.write((1, 10, ""), (2, 20, ""), (3, 30, ""))
    with psycopg.connect(live.dsn(), autocommit=True) as connection:
        rows: Any = connection.cursor().stream("SUBSCRIBE Latest WITH (progress = true)")
        seen = [next(rows) for _ in range(3)]
        while seen[-1][:2] != ("p", 2):
            seen.append(next(rows))
        assert [row[2] for row in seen if row[0] == "+"] == [1, 2]
        assert seen[-1] == ("p", 2, None, None, None)
        rows.close()
    with psycopg.connect(live.dsn(), autocommit=True) as connection:
        own_feed.write((1, 11, ""), (9, 1, ""))
        rows = connection.cursor().stream("SUBSCRIBE Latest AS OF 2")
        found = [next(rows)]
        while found[-1][:2] != ("p", 4):
            found.append(next(rows))
        rows.close()
        changes = [(row[0], row[1], row[2], row[3]) for row in found if row[0] != "p"]
        assert changes == [("+", 3, 3, 30.0), ("u", 4, 1, 11.0)]


def test_batches_are_told_and_resumed(live, own_feed):
    own_feed.write((1, 10, ""), (2, 20, ""), (3, 30, ""))
    with psycopg.connect(live.dsn(), autocommit=True) as connection:
        rows: Any = connection.cursor().stream("SUBSCRIBE Latest WITH (progress = 'batch')")
        seen = [next(rows)]
        while seen[-1][:2] != ("p", 2):
            seen.append(next(rows))
        rows.close()
    assert [row[2] for row in seen if row[0] == "+"] == [1, 2] and len(seen[-1]) == 6
    assert all(row[5] is None for row in seen if row[0] != "p")
    batch = seen[-1][5]
    own_feed.write((1, 11, ""), (9, 1, ""))
    for text, values in ((f"SUBSCRIBE Latest AS OF BATCH {batch}", None), ("SUBSCRIBE Latest AS OF BATCH %s", [batch])):
        with psycopg.connect(live.dsn(), autocommit=True) as connection:
            rows = connection.cursor().stream(text, values)
            found = [next(rows)]
            while found[-1][:2] != ("p", 4):
                found.append(next(rows))
            rows.close()
        assert [row[:4] for row in found if row[0] != "p"] == [("+", 3, 3, 30.0), ("u", 4, 1, 11.0)]
        assert found[-1][5] > batch


def test_what_is_not_kept_or_not_known_is_refused(live, own_feed):
    own_feed.write((1, 10, ""), (2, 20, ""), (3, 30, ""))
    with psycopg.connect(live.dsn(), autocommit=True) as connection:
        wait_until(lambda: connection.execute("SELECT count(*) AS n FROM Forgets").fetchone() == (2,))
        for text, code in (
            ("SUBSCRIBE Forgets AS OF 1", "TM233"),
            ("SUBSCRIBE Latest AS OF 99", "TM232"),
            ("SUBSCRIBE Latest AS OF TIMESTAMP '2024-01-01'", "TM231"),
            ("SUBSCRIBE Latest AS OF LATEST", "TM112"),
            ("SUBSCRIBE Forgets AS OF BATCH 0", "TM233"),
            ("SUBSCRIBE Latest AS OF BATCH 99999", "TM232"),
            ("SUBSCRIBE Latest, Flow WITH (progress = true)", "TM112"),
            ("SUBSCRIBE Latest, Flow", "one view"),
        ):
            with pytest.raises(psycopg.Error, match=code):
                connection.execute(text)


CLIENT = """
import json, sys, psycopg
dsn, path, view = sys.argv[1:]
connection = psycopg.connect(dsn, autocommit=True)
lines = open(path).read().splitlines()
told = [json.loads(line)[1] for line in lines if json.loads(line)[0] == "p"]
text = f"SUBSCRIBE {view} AS OF {told[-1]}" if told else f"SUBSCRIBE {view} WITH (progress = true)"
waiting = []
with open(path, "a") as file:
    for row in connection.cursor().stream(text):
        waiting.append(json.dumps(row))
        if row[0] == "p":  # everything up to here is kept at once
            file.write("".join(line + chr(10) for line in waiting))
            file.flush()
            waiting.clear()
"""


@pytest.mark.crash
@pytest.mark.parametrize(
    ("view", "kills"), [("Latest", 20), ("Flow", 20 if os.environ.get("TIDEMILL_THOROUGH") else 5)]
)
def test_a_client_killed_and_resumed_loses_and_doubles_no_change(live, own_feed, tmp_path, view, kills):
    """Killed at any moment, while rooms change."""
    draw, path = random.Random(7), tmp_path / "kept.jsonl"
    path.touch()
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            own_feed.write(*((draw.randint(1, 8), draw.randint(0, 99), "") for _ in range(draw.randint(1, 6))))
            time.sleep(0.1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(kills):
            client = subprocess.Popen([sys.executable, "-c", CLIENT, live.dsn(), str(path), view], cwd=ROOT)
            before = path.stat().st_size
            wait_until(lambda before=before: path.stat().st_size > before)  # type: ignore[misc]
            time.sleep(draw.random() * 0.2)
            client.send_signal(signal.SIGKILL)
            client.wait()
    finally:
        stop.set()
        writer.join()
    own_feed.write((1, 0, ""), (2, 0, ""))
    last = own_feed.time - 1
    client = subprocess.Popen([sys.executable, "-c", CLIENT, live.dsn(), str(path), view], cwd=ROOT)
    wait_until(lambda: f'["p", {last},' in path.read_text(), 60)
    client.kill()
    client.wait()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    changes = [(row[0], row[1], row[2], row[3], row[-1]) for row in rows if row[0] != "p"]
    assert len({(row[1], row[2], row[0]) for row in changes}) == len(changes), "a change came twice"
    contents: Counter = Counter()
    for row in changes:
        apply(contents, row)
    assert held(contents) == sorted(_newest(own_feed, last).items())


def _newest(feed, last):
    """The newest temperature of each room up to a time, from the files themselves."""
    found = {}
    for path in sorted(feed.folder.glob("*.csv")):
        for line in path.read_text().splitlines()[1:]:
            room, temp, _, at = line.split(",")
            if int(at) <= last:
                found[int(room)] = float(temp)
    return found


def test_a_slow_subscriber_holds_up_no_other_and_is_cut_off_with_an_error(tmp_path, own_feed):
    live = start(tmp_path, own_feed, subscription_bytes=200_000, stuck_seconds=60.0)
    try:
        slow = RawClient(live.port).start()
        slow.line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        slow.send("Q", b"SUBSCRIBE Flow\0")
        with psycopg.connect(live.dsn(), autocommit=True) as connection:
            fast: Any = connection.cursor().stream("SUBSCRIBE Flow")
            note = "x" * 60_000
            for part in range(8):
                own_feed.write(*((room, part, note) for room in range(30)))
                wanted = 30 if part else 29
                for _ in range(wanted):
                    next(fast)
            fast.close()
        kind, body = slow.until("E", "Z")[-1]
        assert kind == "E"
        assert fields_of(body)["C"] == "53400" and "TM518 the subscriber fell behind" in fields_of(body)["M"]
        assert slow.until("Z") and slow.query("SELECT 1 AS x")
    finally:
        live.stop()


def test_a_subscriber_that_never_reads_is_let_go(tmp_path, own_feed):
    live = start(tmp_path, own_feed, subscription_bytes=100_000, stuck_seconds=0.5)
    try:
        stuck = RawClient(live.port).start()
        stuck.send("Q", b"SUBSCRIBE Flow\0")
        with psycopg.connect(live.dsn(), autocommit=True) as connection:
            with pytest.raises((EOFError, ConnectionError)):
                for part in range(100):
                    own_feed.write(*((room, part, "x" * 60_000) for room in range(30)))
                    time.sleep(0.5)
                    stuck.send("H")
            assert connection.execute("SELECT 1 AS x").fetchone() == (1,)
    finally:
        live.stop()
