"""A broker that asks for a password: from a file or the environment, for sources and sinks, and in no file of ours."""

from __future__ import annotations

import os

import pytest

from tests.harness import LocalDatabase
from tests.kafka.test_kafka_sinks import contents, read_topic
from tidemill.errors import TidemillError

LOGIN = "security = 'sasl_plaintext', mechanism = 'PLAIN', username = 'ann'"


@pytest.fixture
def guarded(broker):
    """The address that asks for a password."""
    if not hasattr(broker, "guarded"):
        pytest.skip("the given broker has no password that is known here")
    return broker.guarded


def test_a_password_opens_topics_and_is_stored_nowhere(topics, guarded, tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_SECRET", "swordfish")
    (tmp_path / "secret").write_text("swordfish\n")
    source, sink = topics.create(), topics.create()
    topics.send(source, b'{"room": 1}', b'{"room": 1}')
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE R (room INTEGER) FROM KAFKA '{guarded}' TOPIC '{source}'"
            f" WITH ({LOGIN}, password = 'env:KAFKA_SECRET'); CREATE TAGGED STREAM S OVER R;"
            " CREATE VIEW V AS SELECT room, count(*) AS n FROM S GROUP BY room;"
            f" CREATE SINK K FROM V TO KAFKA '{guarded}' TOPIC '{sink}'"
            f" WITH (mode = 'upsert', {LOGIN}, password = 'file:{tmp_path}/secret')"
        )
        db.run()
        assert db.query("SELECT room, n FROM V").to_pylist() == [{"room": 1, "n": 2}]
        assert db.status()["sinks"][0]["undelivered"] == 0
    assert contents(read_topic(topics.address, sink)) == [{"room": 1, "n": 2}]
    for folder, _, files in os.walk(tmp_path / "db"):
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                assert b"swordfish" not in file.read(), name


def test_a_wrong_password_is_told(topics, guarded, tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_OTHER", "wrong")
    with LocalDatabase(str(tmp_path / "db")) as db, pytest.raises(TidemillError, match="TM420") as found:
        db.execute(
            f"REGISTER SOURCE R (room INTEGER) FROM KAFKA '{guarded}' TOPIC '{topics.create()}'"
            f" WITH ({LOGIN}, password = 'env:KAFKA_OTHER')"
        )
    assert "Authentication failed" in str(found.value.detail)
    assert "wrong" not in f"{found.value} {found.value.detail}"
