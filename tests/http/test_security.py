"""Who gets in: tokens once, cookies of this server only, pages of other sites and other names never."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import stat
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.http.serving import Client, HttpThread
from tests.live import LiveDatabase
from tests.postgres.serving import wait_until
from tidemill.serve.http import guard
from tidemill.serve.postgres import login
from tidemill.serve.postgres.tls import is_loopback

PATHS = "session status views plan explain dead-letters plan-history batches users live subscribe?view=Hot".split()


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_told_without_a_token(server, path):
    status, body = server.client(logged_in=False).get(f"/api/{path}")
    assert status == 401 and body["error"]["message"] == "not logged in"


@pytest.mark.parametrize("path", ["query", "execute", "check"])
def test_nothing_is_done_without_a_token(server, path):
    assert server.client(logged_in=False).post(f"/api/{path}", {"sql": "DROP VIEW Hot"})[0] == 401
    assert "hot" in server.db.catalog.entries


def test_a_token_works_once_and_its_cookie_is_for_this_site_only(server):
    token, client = server.server.sessions.token, server.client(logged_in=False)
    status, _, headers = client.request("POST", "/api/login", {"token": token})
    cookie = headers["Set-Cookie"]
    assert status == 200 and "HttpOnly" in cookie and "SameSite=strict" in cookie
    assert client.get("/api/session")[0] == 200
    assert server.client(logged_in=False).post("/api/login", {"token": token})[0] == 401
    assert client.get("/api/session")[0] == 200
    assert server.server.sessions.token != token


@pytest.mark.parametrize("cookie", ["", "x", "9999999999..00", "9999999999.YQ.00", "1..", "ä.b.c", "....", "x..y"])
def test_cookies_that_were_not_given_out_are_not_believed(server, cookie):
    client = server.client(logged_in=False)
    client.cookie = f"tidemill_{server.port}={cookie}".encode().decode("latin-1")
    assert client.get("/api/status")[0] == 401


def test_a_changed_cookie_is_not_believed(server, client):
    name, _, value = client.cookie.partition("=")
    until, user, signature = value.split(".")
    for changed in (f"{int(until) + 1}.{user}.{signature}", f"{until}.YWRtaW4.{signature}", value[:-1]):
        other = Client(server.port)
        other.cookie = f"{name}={changed}"
        assert other.get("/api/status")[0] == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8380", "127.0.0.1.evil.example", "", "10.0.0.1"])
def test_other_names_for_this_machine_are_refused(server, client, host):
    assert client.get("/api/status", Host=host)[0] == 421
    assert client.get("/metrics", Host=host)[0] == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1"])
def test_pages_of_other_sites_are_refused(server, client, origin):
    origin = origin.format(port=server.port)
    assert client.post("/api/execute", {"sql": "DROP VIEW Hot"}, Origin=origin)[0] == 403
    assert client.get("/api/status", Origin=origin)[0] == 403
    assert client.get("/api/status", Origin=f"http://127.0.0.1:{server.port}")[0] == 200
    assert "hot" in server.db.catalog.entries


def test_a_form_of_another_site_is_refused(client, server):
    sent = {"Content-Type": "text/plain", "Sec-Fetch-Site": "cross-site"}
    assert client.request("POST", "/api/execute", '{"sql": "DROP VIEW Hot"}', **sent)[0] == 403
    assert client.request("POST", "/api/execute", '{"sql": "DROP VIEW Hot"}', Content_Type="text/plain")[0] == 415
    assert "hot" in server.db.catalog.entries


@pytest.mark.parametrize("path", ["query", "execute", "check", "login", "logout"])
def test_get_changes_nothing(client, path):
    assert client.get(f"/api/{path}?sql=DROP+VIEW+Hot")[0] == 405


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/api/status", "/nowhere", "/static/nothing"])
def test_every_answer_has_a_strict_policy(client, path):
    _, _, headers = client.request("GET", path)
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("path", ["/static/../api.py", "/static/%2e%2e/api.py", "/static/..%2fapi.py"])
def test_files_outside_are_not_served(client, path):
    assert client.get(path)[0] == 404


def test_what_is_too_long_or_no_json_is_refused(client):
    assert client.post("/api/execute", b"{" * (5 << 20))[0] == 413
    for body in (b"", b"[1]", b"{", b"[" * 100_000, b"\xff\xfe", b'{"sql": 5}'):
        status, found = client.post("/api/execute", body)
        assert status == 400 and found["error"]["code"] == "TM101"


def test_cookies_live_through_a_restart_and_end_with_the_first_user(tmp_path):
    with LiveDatabase(str(tmp_path / "lot")) as db:
        db.start()
        first = HttpThread(db)
        client = first.client()
        first.stop()
        again = HttpThread(db, first.port)
        try:
            assert client.get("/api/session")[1]["user"] is None
            mode = os.stat(tmp_path / "lot" / "console.key").st_mode
            assert stat.S_IMODE(mode) == 0o600
            assert client.post("/api/execute", {"sql": "CREATE USER admin PASSWORD 'open sesame'"})[0] == 200
            assert client.get("/api/session")[0] == 401
            assert client.post("/api/login", {"token": again.server.sessions.token})[0] == 401
            assert "#token" not in again.server.address
            assert client.post("/api/login", {"user": "admin", "password": "barley"})[0] == 401
            assert client.post("/api/login", {"user": "admin", "password": "open sesame"})[0] == 200
            assert client.get("/api/session")[1]["user"] == "admin"
            assert client.post("/api/execute", {"sql": "ALTER USER admin PASSWORD 'another'"})[0] == 200
            assert client.get("/api/session")[0] == 401
        finally:
            again.stop()


def test_streams_end_when_the_server_stops(db):
    server = HttpThread(db)
    client = server.client()
    events = client.events("/api/live")
    events.next()
    wait_until(lambda: server.server.api.streams == 1)
    server.stop()
    list(events)
    events.close()
    assert server.server.api.streams == 0


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    noise=st.binary(max_size=400), path=st.sampled_from(["", "GET / HTTP/1.1\r\n", "POST /api/execute HTTP/1.1\r\n"])
)
def test_garbage_on_the_port_harms_nobody(server, noise, path):
    with socket.create_connection(("127.0.0.1", server.port), 10) as line:
        line.sendall(path.encode() + noise + b"\r\n\r\n")
        line.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while line.recv(65_536):
                pass
    assert "hot" in server.db.catalog.entries


def test_half_open_connections_keep_nobody_out(server, client):
    lines = [socket.create_connection(("127.0.0.1", server.port), 10) for _ in range(50)]
    for line in lines[::2]:
        line.sendall(b"POST /api/execute HTTP/1.1\r\nContent-Length: 100\r\n")
    assert client.get("/api/session")[0] == 200
    for line in lines:
        line.close()


def test_the_last_user_leaves_no_door_open_to_other_machines(tmp_path, monkeypatch):
    """A server that other machines reach is closed to them again when its last user is dropped."""
    for module in (guard, login):  # 127.0.0.2 stands for another machine
        monkeypatch.setattr(module, "is_loopback", lambda host: host != "127.0.0.2" and is_loopback(host))
    with LiveDatabase(str(tmp_path / "lot")) as db:
        server = HttpThread(db)
        try:
            db.execute("CREATE USER admin PASSWORD 'one'")
            assert _metrics_from(server.port, "127.0.0.2") == 401
            assert _login_from(server.postgres_port, "127.0.0.2") == ("R", b"")
            db.execute("DROP USER admin")
            assert _metrics_from(server.port, "127.0.0.2") == 403
            assert _metrics_from(server.port, "127.0.0.1") == 200
            kind, body = _login_from(server.postgres_port, "127.0.0.2")
            assert kind == "E" and b"28000" in body
            assert _login_from(server.postgres_port, "127.0.0.1") == ("R", b"")
        finally:
            server.stop()


def _metrics_from(port, address):
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(address, 0))
    line.request("GET", "/metrics")
    return line.getresponse().status


def _login_from(port, address):
    """The kind of the first answer to a startup message; of an error its fields too."""
    line = socket.create_connection(("127.0.0.1", port), 60, (address, 0))
    body = struct.pack(">i", 196_608) + b"user\0admin\0database\0lot\0\0"
    line.sendall(struct.pack(">i", len(body) + 4) + body)
    kind, length = struct.unpack(">ci", line.recv(5, socket.MSG_WAITALL))
    found = line.recv(length - 4, socket.MSG_WAITALL)
    line.close()
    return kind.decode(), found if kind == b"E" else b""


def test_requests_that_do_not_come_are_not_waited_for(db):
    """A head or a body that does not go on; and more lines than there is room for, which say nothing."""
    server = HttpThread(db, connections=6, login_seconds=0.5)
    try:
        client = server.client()
        begun = [b"", b"GET / HTTP/1.1\r\nHost: ", b"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1\r\n"]
        begun.append(begun[2] + b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
        lines = [socket.create_connection(("127.0.0.1", server.port), 10) for _ in begun]
        for line, text in zip(lines, begun, strict=True):
            line.sendall(text)
        events = client.events("/api/live")
        assert events.next()[0] == "status"
        for line in lines:
            with contextlib.suppress(ConnectionError):
                assert line.recv(65_536) == b""
        flood = [socket.create_connection(("127.0.0.1", server.port), 10) for _ in range(30)]
        assert client.get("/api/session")[0] == 200
        assert events.next()[0] == "status"  # a stream is at work, and stays
        events.close()
        for line in (*lines, *flood):
            line.close()
    finally:
        server.stop()
