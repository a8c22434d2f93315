"""REGISTER SOURCE … FROM KAFKA: views over topics, refusals, and secrets that stay outside."""

from __future__ import annotations

import json
import sys

import pytest

from tests.harness import LocalDatabase
from tidemill.errors import TidemillError
from tidemill.runtime.thresholds import changed


def register(topics, topic, columns="id INTEGER, n INTEGER, at BIGINT", **options):
    given = ", ".join(f"{name} = '{value}'" for name, value in options.items())
    return f"REGISTER SOURCE K ({columns}) FROM KAFKA '{topics.address}' TOPIC '{topic}' WITH ({given})"


def test_a_view_over_a_topic_follows_it(topics, tmp_path):
    topic = topics.create(2)
    with changed(kafka_slice=7), LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(register(topics, topic, timestamp="at", lateness="5 seconds"))
        db.execute("CREATE TAGGED STREAM S OVER K; CREATE VIEW Total AS SELECT id, sum(n) AS n FROM S GROUP BY id")
        for turn in range(3):
            for i in range(30):
                text = json.dumps({"id": i % 3, "n": 1, "at": 30 * turn + i}) if i != 7 else "poison"
                topics.send(topic, text, partition=i % 2, timestamp=1_700_000_000_000 + 30 * turn + i)
            db.run()
            found = db.query("SELECT id, n FROM Total ORDER BY id").to_pylist()
            assert found == [{"id": i, "n": (10 - (i == 1)) * (turn + 1)} for i in range(3)]
        letters = db.query("SELECT source, reason FROM dead_letters").to_pylist()
        assert len(letters) == 3 and letters[0]["source"] == "K"


def test_changes_of_debezium_are_those_of_a_keyed_stream(topics, tmp_path):
    topic = topics.create()
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(register(topics, topic, "id INTEGER, n INTEGER, op VARCHAR", format="debezium", operation="op"))
        db.execute("CREATE TAGGED STREAM S OVER K KEY id; CREATE VIEW All_ AS SELECT id, n FROM S")
        rows: dict[int, int] = {}
        for i in range(40):
            key, op = i % 5, "d" if i % 7 == 3 else "u" if i % 5 in rows else "c"
            before = {"id": key, "n": rows.get(key)}
            if op == "d":
                rows.pop(key, None)
            else:
                rows[key] = i
            after = None if op == "d" else {"id": key, "n": i}
            topics.send(topic, json.dumps({"op": op, "before": before, "after": after}), key=str(key))
            if op == "d":
                topics.send(topic, None, key=str(key))
            if i % 13 == 0:
                db.run()
        db.run()
        assert {r["id"]: r["n"] for r in db.query("SELECT id, n FROM All_").to_pylist()} == rows
        assert db.query("SELECT count(*) AS n FROM dead_letters").to_pylist() == [{"n": 0}]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"password": "swordfish"}, "password is a secret"),
        ({"security": "telnet"}, "security cannot be"),
        ({"start": "yesterday"}, "not a place to begin"),
        ({"key_column": "k"}, 'no column "k"'),
        ({"format": "avro"}, "avro needs a schema"),
        ({"format": "debezium"}, "operation = 'op'"),
        ({"client_settings": "/nowhere"}, "no file"),
    ],
)
def test_what_cannot_be_read_is_refused(topics, tmp_path, options, said):
    with LocalDatabase(str(tmp_path / "db")) as db, pytest.raises(TidemillError, match=said):
        db.execute(register(topics, "any", **options))


def test_a_topic_that_is_not_there_is_refused(topics, tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db, pytest.raises(TidemillError, match=r"TM420 there is no topic"):
        db.execute(register(topics, "nobody-made-it"))


def test_options_of_topics_are_refused_elsewhere(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db, pytest.raises(TidemillError, match="username is an option of"):
        db.execute(f"REGISTER SOURCE F (i INTEGER) FROM FILES '{tmp_path}/*.csv' WITH (username = 'ann')")


def test_secrets_are_read_where_they_are_and_stored_nowhere(topics, tmp_path, monkeypatch):
    topic = topics.create()
    options = {"password": "env:TIDEMILL_TEST_SECRET", "username": "ann"}
    with LocalDatabase(str(tmp_path / "db")) as db:
        with pytest.raises(TidemillError, match="TM541"):
            db.execute(register(topics, topic, **options))
        monkeypatch.setenv("TIDEMILL_TEST_SECRET", "swordfish")
        db.execute(register(topics, topic, **options))
        db.execute("CREATE TAGGED STREAM S OVER K; CREATE VIEW V AS SELECT id FROM S")
        topics.send(topic, '{"id": 1}')
        db.run()
        assert db.query("SELECT id FROM V").to_pylist() == [{"id": 1}]
    texts = [path.read_bytes() for path in (tmp_path / "db").rglob("*") if path.is_file()]
    assert any(b"env:TIDEMILL_TEST_SECRET" in text for text in texts)
    assert not any(b"swordfish" in text for text in texts)


def test_a_missing_package_is_named(topics, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with LocalDatabase(str(tmp_path / "db")) as db, pytest.raises(TidemillError, match=r"tidemill\[kafka\]"):
        db.execute(register(topics, "any"))
