"""CREATE SINK … TO KAFKA: what is committed in the topic is the view, whatever was killed."""

from __future__ import annotations

import json
import time

import pytest

from tests.harness import LocalDatabase
from tidemill.errors import TidemillError
from tidemill.runtime.targets import kafka as target


def settle(address, topic):
    """Wait until the ends of all transactions are marked: brokers do that a moment after they have promised it."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions
    asked = {TopicPartition(topic, p): OffsetSpec.latest() for p in partitions}
    until = time.monotonic() + 60
    while True:
        ends = [
            [answer.result().offset for answer in admin.list_offsets(asked, isolation_level=level).values()]
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        ]
        if ends[0] == ends[1]:
            return
        assert time.monotonic() < until


def read_topic(address, topic):
    """All committed records: (key, value) as Python values."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settle(address, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    partitions = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    found, ended = [], set()
    while len(ended) < len(partitions):
        message = consumer.poll(30)
        if message.error() is not None:
            ended.add(message.partition())
            continue
        found.append(tuple(None if part is None else json.loads(part) for part in (message.key(), message.value())))
    consumer.close()
    return found


def contents(records):
    """What an upsert topic holds."""
    rows = {}
    for key, value in records:
        rows[json.dumps(key)] = value
    return sorted((row for row in rows.values() if row is not None), key=lambda row: row["room"])


class Rooms:
    """A database with a grouped view over files, which a test fills."""

    def __init__(self, path):
        self.files = path / "in"
        self.files.mkdir(exist_ok=True)
        self.path = str(path / "db")
        self.count = 0

    def open(self):
        return LocalDatabase(self.path)

    def define(self, db):
        db.execute(
            f"REGISTER SOURCE R (room INTEGER, temp INTEGER, op VARCHAR) FROM FILES '{self.files}/*.csv'"
            " WITH (operation = 'op'); CREATE TAGGED STREAM S OVER R KEY room;"
            " CREATE VIEW V AS SELECT room, temp FROM S"
        )

    def add(self, *rows):
        self.count += 1
        lines = "".join(f"{room},{temp},{op}\n" for room, temp, op in rows)
        (self.files / f"{self.count:03}.csv").write_text("room,temp,op\n" + lines)

    def rows(self, db):
        return db.query("SELECT room, temp FROM V ORDER BY room").to_pylist()


def sink(topics, topic, **options):
    given = ", ".join(f"{name} = '{value}'" for name, value in options.items())
    return f"CREATE SINK K FROM V TO KAFKA '{topics.address}' TOPIC '{topic}'" + (f" WITH ({given})" if given else "")


def test_an_upsert_topic_holds_the_view_and_begins_with_it(topics, tmp_path):
    topic, rooms = topics.create(2), Rooms(tmp_path)
    with rooms.open() as db:
        rooms.define(db)
        rooms.add((1, 10, "i"), (2, 20, "i"))
        db.run()
        db.execute(sink(topics, topic, mode="upsert"))
        rooms.add((2, 21, "u"), (3, 30, "i"))
        db.run()
        rooms.add((1, 0, "d"), (3, 31, "u"))
        db.run()
        assert (
            contents(read_topic(topics.address, topic))
            == rooms.rows(db)
            == [{"room": 2, "temp": 21}, {"room": 3, "temp": 31}]
        )
        assert ({"room": 1}, None) in read_topic(topics.address, topic)


def test_a_changelog_has_tags_and_old_values_and_no_snapshot(topics, tmp_path):
    topic, rooms = topics.create(), Rooms(tmp_path)
    with rooms.open() as db:
        rooms.define(db)
        rooms.add((1, 10, "i"))
        db.run()
        db.execute(sink(topics, topic))
        rooms.add((1, 11, "u"), (2, 20, "i"))
        db.run()
    values = [value for _, value in read_topic(topics.address, topic)]
    assert sorted((v["TAG"], v["room"], v["temp"], (v["OLD"] or {}).get("temp")) for v in values) == [
        ("+", 2, 20, None),
        ("u", 1, 11, 10),
    ]


def test_envelopes_can_be_read_back_as_a_source(topics, tmp_path):
    topic, rooms = topics.create(), Rooms(tmp_path)
    with rooms.open() as db:
        rooms.define(db)
        db.execute(sink(topics, topic, mode="debezium"))
        for change in ([(1, 10, "i"), (2, 20, "i")], [(1, 11, "u")], [(2, 0, "d"), (3, 3, "i")]):
            rooms.add(*change)
            db.run()
        settle(topics.address, topic)
        db.execute(
            f"REGISTER SOURCE Back (room INTEGER, temp INTEGER, op VARCHAR) FROM KAFKA '{topics.address}'"
            f" TOPIC '{topic}' WITH (format = 'debezium', operation = 'op');"
            " CREATE TAGGED STREAM B OVER Back KEY room; CREATE VIEW W AS SELECT room, temp FROM B"
        )
        db.run()
        assert db.query("SELECT room, temp FROM W ORDER BY room").to_pylist() == rooms.rows(db)
        assert db.query("SELECT count(*) AS n FROM dead_letters").to_pylist() == [{"n": 0}]


class Crash(BaseException):
    """What ends a process in the middle."""


@pytest.mark.parametrize("place", ["before the commit", "after the commit"])
def test_a_crash_around_the_commit_leaves_each_change_once(topics, tmp_path, monkeypatch, place):
    topic, rooms = topics.create(), Rooms(tmp_path)
    with rooms.open() as db:
        rooms.define(db)
        db.execute(sink(topics, topic))
        rooms.add((1, 10, "i"))
        db.run()
        rooms.add((1, 11, "u"), (2, 20, "i"))
        write = target.KafkaTarget.write

        def crash(self, log, batch):
            if place == "after the commit":
                write(self, log, batch)
            else:
                self._open().begin_transaction()
                self._produce(self._topic, None, json.dumps({"TAG": "torn"}))
                self._producer.flush(30)
            raise Crash

        monkeypatch.setattr(target.KafkaTarget, "write", crash)
        with pytest.raises(Crash):
            db.run()
        monkeypatch.undo()
        db.reopen_outlet()
        db.run()
        values = [value for _, value in read_topic(topics.address, topic)]
    assert sorted((v["TAG"], v["room"], v["temp"]) for v in values) == [("+", 1, 10), ("+", 2, 20), ("u", 1, 11)]


def test_changes_wait_while_the_brokers_do_not_answer(topics, tmp_path, monkeypatch):
    topic, rooms = topics.create(), Rooms(tmp_path)
    with rooms.open() as db:
        rooms.define(db)
        db.execute(sink(topics, topic, mode="upsert"))
        write = target.KafkaTarget.write

        def fail(self, log, batch):
            raise RuntimeError("no broker")

        monkeypatch.setattr(target.KafkaTarget, "write", fail)
        rooms.add((1, 10, "i"), (2, 20, "i"))
        db.run()
        rooms.add((1, 11, "u"))
        db.run()
        (shown,) = db.status()["sinks"]
        assert shown["undelivered"] == 2 and "no broker" in shown["problem"]
        monkeypatch.setattr(target.KafkaTarget, "write", write)
        rooms.add((2, 0, "d"))
        db.run()
        assert contents(read_topic(topics.address, topic)) == rooms.rows(db) == [{"room": 1, "temp": 11}]
        assert db.status()["sinks"][0]["undelivered"] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "mixed"}, "mode"),
        ({"format": "json"}, 'no option "format"'),
        ({"password": "swordfish"}, "password is a secret"),
    ],
)
def test_sinks_that_cannot_be_are_refused(topics, tmp_path, options, said):
    rooms = Rooms(tmp_path)
    with rooms.open() as db:
        rooms.define(db)
        with pytest.raises(TidemillError, match=said):
            db.execute(sink(topics, "t", **options))
        db.execute("CREATE VIEW NoKey AS SELECT temp FROM S")
        with pytest.raises(TidemillError, match="TM250"):
            db.execute(sink(topics, "t", mode="upsert").replace("FROM V", "FROM NoKey"))
