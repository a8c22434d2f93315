"""A reader sees the granted views only, over this door too."""

from __future__ import annotations

import base64

import pytest

from tests.http.serving import Client, HttpThread
from tests.live import LiveDatabase


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("users")
    (folder / "in").mkdir()
    (folder / "in" / "1.csv").write_text("a,at\n1,1\n2,2\n3,3\n")
    with LiveDatabase(str(folder / "lot")) as db:
        db.execute(
            f"""
            REGISTER SOURCE Hidden (a INTEGER, at BIGINT) FROM FILES '{folder}/in/*.csv' WITH (timestamp = 'at');
            CREATE TAGGED STREAM T OVER Hidden;
            CREATE VIEW Open AS SELECT a FROM T;
            CREATE VIEW Closed AS SELECT a, at FROM T;
            CREATE USER admin PASSWORD 'one'; CREATE USER reader PASSWORD 'two';
            GRANT SELECT ON Open TO reader
            """
        )
        db.run()
        started = HttpThread(db)
        yield started
        started.stop()


@pytest.fixture(scope="module")
def reader(server):
    client = Client(server.port)
    assert client.post("/api/login", {"user": "reader", "password": "two"})[0] == 200
    return client


@pytest.mark.parametrize("path", "plan explain dead-letters plan-history batches users".split())
def test_what_is_not_granted_is_refused(reader, path):
    status, body = reader.get(f"/api/{path}")
    assert status == 403 and body["error"]["code"] == "TM330"
    assert "Closed" not in str(body) and "Hidden" not in str(body)


def test_listings_have_granted_views_only(reader):
    assert [r["name"] for r in reader.get("/api/views")[1]["relations"]] == ["Open"]
    status = reader.get("/api/status")[1]
    assert [v["name"] for v in status["views"]] == ["Open"] and "Hidden" not in str(status)
    assert "Closed" not in str(reader.events("/api/live").next())
    text = reader.get("/metrics")[1]
    assert 'view="Open"' in text and "Closed" not in text and "Hidden" not in text


def test_statements_are_checked(reader):
    assert reader.post("/api/query", {"sql": "SELECT count(*) AS n FROM Open"})[1]["rows"] == [[3]]
    for sql in ("SELECT a FROM Closed", "DROP VIEW Open", "SHOW USERS", "EXPLAIN VIEW Open", "SUBSCRIBE Closed"):
        assert reader.post("/api/execute", {"sql": sql})[0] == 403, sql
    assert reader.post("/api/check", {"sql": "SELECT a FROM Closed"})[1]["problems"][0]["code"] == "TM330"
    assert reader.events("/api/subscribe?view=Closed").status == 403
    assert reader.events("/api/subscribe?view=Open").next()[0] == "contents"


def test_passwords_with_each_request(server):
    client = Client(server.port)
    assert client.get("/metrics")[0] == 401
    client.headers = {"Authorization": "Basic " + base64.b64encode(b"admin:one").decode()}
    assert 'view="Closed"' in client.get("/metrics")[1]
    assert client.get("/api/users")[1]["total"] == 2
    for wrong in ("Basic " + base64.b64encode(b"admin:two").decode(), "Basic x", "Basic", "Bearer one"):
        client.headers = {"Authorization": wrong}
        assert client.get("/metrics")[0] == 401
