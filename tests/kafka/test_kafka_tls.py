"""A broker with TLS: the authority comes from a file, for sources and sinks; another one is refused."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.kafka.test_kafka_sinks import contents, read_topic
from tests.sites.certificates import make_authority
from tidemill.errors import TidemillError


@pytest.fixture
def encrypted(broker):
    """The address that speaks TLS."""
    if not hasattr(broker, "encrypted"):
        pytest.skip("the given broker has no certificate that is known here")
    return broker.encrypted


def test_topics_are_read_and_written_over_tls(broker, topics, encrypted, tmp_path):
    source, sink = topics.create(), topics.create()
    topics.send(source, b'{"room": 1}', b'{"room": 1}')
    tls = f"security = 'ssl', ca = '{broker.authority}'"
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE R (room INTEGER) FROM KAFKA '{encrypted}' TOPIC '{source}' WITH ({tls});"
            " CREATE TAGGED STREAM S OVER R; CREATE VIEW V AS SELECT room, count(*) AS n FROM S GROUP BY room;"
            f" CREATE SINK K FROM V TO KAFKA '{encrypted}' TOPIC '{sink}' WITH (mode = 'upsert', {tls})"
        )
        db.run()
        assert db.query("SELECT room, n FROM V").to_pylist() == [{"room": 1, "n": 2}]
        assert db.status()["sinks"][0]["undelivered"] == 0
    assert contents(read_topic(topics.address, sink)) == [{"room": 1, "n": 2}]


def test_brokers_of_another_authority_are_refused(topics, encrypted, tmp_path):
    make_authority(tmp_path, "other")
    with LocalDatabase(str(tmp_path / "db")) as db, pytest.raises(TidemillError, match="TM420") as found:
        db.execute(
            f"REGISTER SOURCE R (room INTEGER) FROM KAFKA '{encrypted}' TOPIC '{topics.create()}'"
            f" WITH (security = 'ssl', ca = '{tmp_path}/other.pem')"
        )
    assert "certificate verify failed" in str(found.value.detail)
