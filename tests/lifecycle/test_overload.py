"""A sender that is faster than the engine: a batch takes all that is there, and little is let in that has to wait.

The engine is slowed down to a known speed and the backlog to a fraction of its seconds. What has arrived then waits for
the batch under way and its own one, and both are short, however long the sender goes on.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager, suppress
from unittest.mock import patch

from tests.harness import LocalDatabase
from tests.lifecycle.pace import step_until
from tests.network import free_port
from tidemill.runtime.sources.port import backlog, spool

SPEED, SECONDS, LEAST = 400_000, 0.3, 16 << 10  # bytes a second of the engine; seconds and bytes of the backlog
WIDTH, BATCHES = 100, 12
BLOCK = b"".join(b"%d,%s\n" % (i % 7, b"x" * (WIDTH - 3)) for i in range(200))


class Slow(LocalDatabase):
    """An engine that takes in no more than SPEED, as its commits say; it notes what each batch did."""

    noted: list[tuple[int, float]]

    def compute(self, end):
        begin, began = self.offset, time.monotonic()
        found = super().compute(end)
        taken = _byte(end) - _byte(begin)
        time.sleep(max(0.0, taken / SPEED - (time.monotonic() - began)))
        if taken:
            self.noted.append((taken, time.monotonic() - began))
        return found


def _byte(offset):
    return next((p["byte"] for p in _positions(offset) if "byte" in p), 0)


def _positions(value):
    """All JSON objects in an offset."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _positions(inner)


@contextmanager
def flooded(port):
    """A sender that always has more, until the end of the block; yields (rows that were sent, the thread)."""
    stop, sent = threading.Event(), [0]

    def send():
        with socket.create_connection(("127.0.0.1", port)) as sender, suppress(ConnectionError):
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
            while not stop.is_set():
                sender.sendall(BLOCK)
                sent[0] += 200

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    yield sent, thread
    stop.set()


def test_what_arrives_at_an_engine_that_falls_behind_waits_a_bounded_time(tmp_path):
    small = patch.multiple(backlog, SECONDS=SECONDS, LEAST_BYTES=LEAST)
    with small, patch.object(spool, "_RECEIVE", LEAST), Slow(str(tmp_path / "db"), shards=1, cores=1) as db:
        port, db.noted = free_port(), []
        db.execute(
            f"REGISTER SOURCE P (k INTEGER, v VARCHAR) FROM PORT {port}; CREATE TAGGED STREAM S OVER P;"
            "CREATE STREAMED VIEW V AS SELECT k FROM S"
        )
        db.quiet_s = 0.05
        db.start()
        (head,) = (tmp_path / "db").rglob("head")
        left, waiting, waits = [], [], []
        with flooded(port) as (sent, thread):
            done = 0
            while len(db.noted) < BATCHES:
                there = json.loads(head.read_text())["byte"]
                if not db.step():
                    time.sleep(0.01)
                    continue
                arrived = db.changes("V").column("TS")
                if len(arrived) == done:
                    continue
                left.append(max(0, there - _byte(db.offset)))
                waiting.append(json.loads(head.read_text())["byte"] - _byte(db.offset))
                waits.append(time.time() - arrived[done].as_py().timestamp())
                done = len(arrived)
        # The sender comes to its end when it is let in again.
        step_until(db, lambda: not thread.is_alive() and len(db.changes("V")) == sent[0], 30)
    took = [bytes_ for bytes_, _ in db.noted]
    assert left == [0] * BATCHES, "a batch takes all that was there when it began"
    assert max(took) > 2 * LEAST, "batches grow with what is there"
    # An interval between two commits may be measured a little short, and what a socket had is taken as a whole.
    assert max(waiting + took) < 2 * SECONDS * SPEED + 2 * LEAST
    spent = [seconds for _, seconds in db.noted]
    for i in range(1, BATCHES):
        assert waits[i] < spent[i - 1] + spent[i] + 2, (i, waits, spent)
