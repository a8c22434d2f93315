"""From a topic to a topic while the process ends at each step: each change is there once.

With the thorough tests there are 21 ends, and the broker crashes between them.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from tests.harness import LocalDatabase
from tests.kafka.test_kafka_sinks import contents, read_topic, sink
from tests.properties.effort import thorough
from tidemill.runtime.planning.planner import Planner
from tidemill.runtime.sources.kafka.slices import SliceLog
from tidemill.runtime.targets.kafka import KafkaTarget
from tidemill.runtime.views.outlet import Outlet

# Where a process may end: the name of a step, and whether it was done by then.
STEPS = [
    (SliceLog, "append", True),
    (KafkaTarget, "write", True),  # it is committed there, and not here
    (KafkaTarget, "_produce", True),  # a transaction is open
    (Outlet, "apply", True),
    (KafkaTarget, "write", False),
    (Planner, "commit", False),
    (Outlet, "apply", False),
]


class Crash(BaseException):
    """What ends a process in the middle."""


def crash_once(monkeypatch, place, step, done):
    """The next call of a step ends in a crash, before or after it was done."""
    real = getattr(place, step)

    def crash(self, *arguments, **named):
        monkeypatch.setattr(place, step, real)
        if done:
            real(self, *arguments, **named)
        raise Crash

    monkeypatch.setattr(place, step, crash)


def replay(records):
    """What a changelog leads to; each change must fit to the rows before it."""
    rows: dict[int, dict[str, Any]] = {}
    for _, change in records:
        now = {name: change[name] for name in ("room", "n", "total")}
        before = rows.pop(now["room"], None)
        if change["TAG"] == "+":
            assert before is None, "an insertion came twice"
        else:
            assert before == (change["OLD"] if change["TAG"] == "u" else now), "a change is missing or came twice"
        if change["TAG"] != "-":
            rows[now["room"]] = now
    return sorted(rows.values(), key=lambda row: row["room"])


def oracle(sent):
    """The groups of all records."""
    counts, totals = Counter(room for room, _ in sent), Counter[int]()
    for room, temp in sent:
        totals[room] += temp
    return [{"room": room, "n": counts[room], "total": totals[room]} for room in sorted(counts)]


def test_killed_at_every_step_each_change_is_committed_once(topics, broker, tmp_path, monkeypatch):
    source, log, table = topics.create(2), topics.create(), topics.create(2)
    rng, sent = random.Random(19), list[tuple[int, int]]()

    def send():
        for partition in (0, 1):
            rows = [(rng.randint(1, 6), rng.randint(-9, 9)) for _ in range(rng.randint(1, 8))]
            sent.extend(rows)
            records = (json.dumps({"room": room, "temp": temp}) for room, temp in rows)
            topics.send(source, *records, partition=partition)

    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE R (room INTEGER, temp INTEGER) FROM KAFKA '{topics.address}' TOPIC '{source}';"
            " CREATE TAGGED STREAM S OVER R;"
            " CREATE VIEW V AS SELECT room, count(*) AS n, sum(temp) AS total FROM S GROUP BY room;"
            + sink(topics, log)
            + ";"
            + sink(topics, table, mode="upsert").replace("SINK K", "SINK T")
        )
        kills = 21 if thorough() else 2  # the broker needs half a minute after its crash
        for turn in range(kills):
            send()
            if thorough() and turn == kills // 2:
                db.run()
                broker.restart()
                send()
            place, step, done = STEPS[turn % len(STEPS)]
            crash_once(monkeypatch, place, step, done)
            with pytest.raises(Crash):
                db.run()
            if place is Planner:  # the batch was committed
                db.offset, db.logged, db.batch = db.logged, None, db.batch + 1
            db.reopen_outlet()
        db.run()
        assert [s["undelivered"] for s in db.status()["sinks"]] == [0, 0]
        assert db.query("SELECT room, n, total FROM V ORDER BY room").to_pylist() == oracle(sent)
    assert replay(read_topic(topics.address, log)) == oracle(sent)
    assert contents(read_topic(topics.address, table)) == oracle(sent)
