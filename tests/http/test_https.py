"""With TLS: the page and the API over HTTPS, cookies that leave no other way, and nothing for clients without it."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import urllib.error
import urllib.request

import pytest

from tests.http.serving import HttpThread
from tests.live import LiveDatabase
from tests.sites.certificates import make_authority, make_certificate
from tidemill.serve.postgres.tls import make_context


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A certificate for localhost, and its authority."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificate can be made")
    made = tmp_path_factory.mktemp("tls")
    make_authority(made)
    make_certificate(made, "localhost", file="server")
    (made / "server.pem").rename(made / "cert.pem")
    (made / "server.key").rename(made / "key.pem")
    return made


@pytest.fixture(scope="module")
def server(folder):
    with LiveDatabase(str(folder / "lot")) as db:
        db.execute("CREATE USER admin PASSWORD 'one'")
        started = HttpThread(
            db, certificate=folder, tls=make_context(str(folder / "cert.pem"), str(folder / "key.pem"))
        )
        yield started
        started.stop()


def ask(server, folder, path, body=None, **headers):
    """Status, headers and text of an answer; the certificate is checked."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    data = None if body is None else json.dumps(body).encode()
    given = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(f"https://localhost:{server.port}{path}", data, given)
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def test_a_login_gives_a_cookie_for_https_only(server, folder):
    assert ask(server, folder, "/healthz")[0] == 200
    assert ask(server, folder, "/metrics")[0] == 401
    status, headers, _ = ask(server, folder, "/api/login", {"user": "admin", "password": "one"})
    cookie = headers["Set-Cookie"]
    assert status == 200
    assert {"HttpOnly", "Secure", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
    own = {"Cookie": cookie.partition(";")[0], "Origin": f"https://localhost:{server.port}"}
    status, _, text = ask(server, folder, "/api/query", {"sql": "SELECT 1 AS x"}, **own)
    assert status == 200 and json.loads(text)["rows"] == [[1]]


def test_an_origin_without_tls_is_another_site(server, folder):
    status, _, _ = ask(server, folder, "/api/session", Origin=f"http://localhost:{server.port}")
    assert status == 403


def test_a_client_without_tls_gets_nothing(server, folder):
    with socket.create_connection(("127.0.0.1", server.port), 10) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert not line.recv(1000).startswith(b"HTTP")
    assert ask(server, folder, "/healthz")[0] == 200
