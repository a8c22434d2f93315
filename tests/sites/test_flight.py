"""Sites over real Arrow Flight on this machine: what arrives, and each refusal."""

from __future__ import annotations

import json
import shutil
import socket
import time
from contextlib import contextmanager

import pytest
from pyarrow import flight

from tests.harness import LocalDatabase
from tests.sites.certificates import make_authority, make_certificate
from tidemill.engine.sites.exports import local_site
from tidemill.errors import EngineProblem, TidemillError
from tidemill.runtime.sites import flight_client
from tidemill.runtime.sites.flight_client import FlightPeer
from tidemill.runtime.sites.flight_server import Identity
from tidemill.runtime.sites.protocol import HEARTBEAT_S, REQUEST_BYTES, Want, Wish

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl")

STREAM = """
REGISTER SOURCE S (ip INTEGER, at INTEGER) FROM FILES '{}/*.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM Packets OVER S;
CREATE TAGGED STREAM Secret OVER S;
"""


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    make_authority(folder)
    make_authority(folder, "stranger")
    for site in ("paris", "lyon", "rome"):
        make_certificate(folder, site)
    make_certificate(folder, "lyon", "stranger", "forged")
    (folder / "token").write_text("a-token-that-both-have\n")
    (folder / "other").write_text("another-token\n")
    return folder


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


@contextmanager
def paris_and_lyon(tmp_path, keys):
    """Two databases with mutual TLS; paris exports Packets to lyon."""
    port = free_port()
    (tmp_path / "1.csv").write_text("ip,at\n1,1\n2,2\n3,3\n")
    with LocalDatabase(str(tmp_path / "paris")) as paris, LocalDatabase(str(tmp_path / "lyon")) as lyon:
        files = f"ca = '{keys}/ca.pem', certificate = '{keys}/{{0}}.pem', key = '{keys}/{{0}}.key'"
        paris.execute(f"CREATE LOCAL SITE paris AT 'localhost:{port}' WITH ({files.format('paris')})")
        paris.execute(f"CREATE SITE lyon WITH (token_file = '{keys}/token')")
        paris.execute(STREAM.format(tmp_path) + "EXPORT STREAM Packets TO SITE lyon")
        token = f"token_file = '{keys}/token'"
        lyon.execute(f"CREATE SITE paris AT 'localhost:{port}' WITH ({files.format('lyon')}, {token})")
        paris.state.sites.open()
        yield port, paris, lyon


def peer(keys, port, certificate="lyon", token="token", site="paris", name="lyon"):
    identity = Identity(*((keys / f"{f}").read_bytes() for f in (f"{certificate}.pem", f"{certificate}.key", "ca.pem")))
    return FlightPeer(site, "localhost", port, identity, name, (keys / token).read_text().strip())


def refusal(call):
    with pytest.raises(TidemillError) as caught:
        call()
    return caught.value


def test_rows_arrive_over_mutual_tls(tmp_path, keys):
    with paris_and_lyon(tmp_path, keys) as (_, paris, lyon):
        lyon.execute("CREATE STREAMED VIEW V AS SELECT ip FROM paris.Packets")
        lyon.start()
        until = time.monotonic() + 20
        while not list(paris.catalog.of("edge")) and time.monotonic() < until:
            time.sleep(0.02)
        paris.run()
        while not lyon.state.sites.status()[0]["inbox_bytes"] and time.monotonic() < until:
            time.sleep(0.02)
        source = next(lyon.catalog.of("source")).spec.name
        from tidemill.runtime.sites.inbox import Inbox

        while not Inbox(lyon.paths.source(source), source).head().ended and time.monotonic() < until:
            time.sleep(0.02)
        lyon.stop()
        lyon.run()
        assert [r["ip"] for r in lyon.changes("V").to_pylist()] == [1, 2, 3]
        [shown] = lyon.status()["sites"]
        assert shown["connected"] and shown["security"] == "mutual TLS" and shown["reads"][0]["received"] > 0


def test_a_view_that_comes_later_is_told_at_once(tmp_path, keys):
    """The request of the first one is held back for ten seconds; the second one does not wait for its end."""
    with paris_and_lyon(tmp_path, keys) as (_, paris, lyon):
        lyon.start()
        until = time.monotonic() + 20
        for number in (1, 2):
            lyon.execute(f"CREATE STREAMED VIEW V{number} AS SELECT ip FROM paris.Packets WHERE ip > {number}")
            began = time.monotonic()
            while len(list(paris.catalog.of("edge"))) < number and time.monotonic() < until:
                time.sleep(0.02)
            took = time.monotonic() - began
            time.sleep(0.5)  # the next request is held back by now
        assert len(list(paris.catalog.of("edge"))) == 2 and took < HEARTBEAT_S / 2


def test_without_a_certificate_nothing_is_answered(tmp_path, keys):
    with paris_and_lyon(tmp_path, keys) as (port, *_):
        bare = flight.FlightClient(
            flight.Location.for_grpc_tls("localhost", port),
            tls_root_certs=(keys / "ca.pem").read_bytes(),
            override_hostname="paris",
        )
        with pytest.raises(flight.FlightError):
            list(bare.do_action(flight.Action("describe", b"{}"), flight.FlightCallOptions(timeout=5)))
        bare.close()
        plain = FlightPeer("paris", "localhost", port, None, "lyon", "a-token-that-both-have")
        assert refusal(lambda: plain.describe("Packets")).code == "TM702"
        plain.close()


def test_a_certificate_of_another_authority_is_refused(tmp_path, keys):
    with paris_and_lyon(tmp_path, keys) as (port, *_):
        forged = peer(keys, port, certificate="forged")
        assert refusal(lambda: forged.describe("Packets")).code == "TM702"
        forged.close()


def test_the_name_in_the_certificate_counts_not_the_name_that_is_claimed(tmp_path, keys):
    with paris_and_lyon(tmp_path, keys) as (port, *_):
        rome = peer(keys, port, certificate="rome", name="lyon")
        found = refusal(lambda: rome.describe("Packets"))
        assert found.code == "TM702" and 'no site "rome" is known here' in str(found)
        rome.close()


def test_a_server_with_another_name_is_not_believed(tmp_path, keys):
    with paris_and_lyon(tmp_path, keys) as (port, *_):
        wrong = peer(keys, port, site="rome")
        assert "cannot be reached" in refusal(lambda: wrong.describe("Packets")).message
        wrong.close()


def test_another_token_is_refused_and_not_shown(tmp_path, keys):
    with paris_and_lyon(tmp_path, keys) as (port, *_):
        wrong = peer(keys, port, token="other")
        found = refusal(lambda: wrong.describe("Packets"))
        assert found.code == "TM702" and "token" in str(found)
        assert "another-token" not in str(found).replace("has another token", "")
        wrong.close()


@pytest.mark.parametrize("content", [b"", b"two\nlines", b"gr\xc3\xbcn", b"\xff\xfe secret"])
def test_a_token_that_no_header_can_carry_is_said(tmp_path, keys, content):
    (tmp_path / "odd").write_bytes(content)
    with LocalDatabase(str(tmp_path / "db")) as db:
        files = f"ca = '{keys}/ca.pem', certificate = '{keys}/lyon.pem', key = '{keys}/lyon.key'"
        db.execute(f"CREATE SITE paris AT 'localhost:{free_port()}' WITH ({files}, token_file = '{tmp_path}/odd')")
        found = refusal(lambda: db.execute("CREATE VIEW V AS SELECT a FROM paris.S"))
        assert found.code == "TM706" and "token_file" in found.message and "secret" not in str(found)


def test_only_what_is_exported_is_described_and_shipped(tmp_path, keys):
    with paris_and_lyon(tmp_path, keys) as (port, paris, _):
        lyon = peer(keys, port)
        assert lyon.describe("Packets").name == "Packets"
        assert refusal(lambda: lyon.describe("Secret")).code == "TM703"
        refused = lyon.greet("db", {"e": Wish('SELECT "ip" FROM "Secret"')})
        assert refused["e"]["code"] == "TM703" and not list(paris.catalog.of("edge"))
        lyon.close()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ip FROM Packets WHERE ip IN (SELECT ip FROM Secret)",
        "SELECT DISTINCT ip FROM Secret",
        "SELECT ip FROM rome.Packets",
        "SELECT p.ip FROM Packets p JOIN lyon.unknown u ON p.ip = u.ip",
        "SELECT p.ip FROM Packets SYNC ON Secret p",
        "SELECT TimePoint FROM clockStr c",
        "SELECT getenv('HOME') AS home FROM Packets p",
        "SELECT current_setting('threads') AS t FROM Packets p",
        "SELECT STREAMED ip FROM Packets",
        "SELECT p.ip FROM Packets p JOIN Secret s ON p.ip = s.ip",
        "SELECT ip FROM (SELECT ip FROM Secret) Packets",
        "SELECT ip FROM Packets UNION SELECT ip FROM Secret",
        "WITH Packets AS (SELECT ip FROM Secret) SELECT ip FROM Packets",
        "SELECT ip FROM read_csv('/etc/passwd')",
        "DROP STREAM Packets CASCADE",
        "SELECT ip FROM Packets; DROP STREAM Packets",
        "",
        "SELECT " + ", ".join(["ip"] * 40_000) + " FROM Packets",
    ],
)
def test_a_fragment_that_reads_or_does_anything_else_is_refused(tmp_path, keys, text):
    with paris_and_lyon(tmp_path, keys) as (port, paris, _):
        lyon = peer(keys, port)
        assert "e" in lyon.greet("db", {"e": Wish(text)})
        assert not list(paris.catalog.of("edge")) and "packets" in paris.catalog.entries
        lyon.close()


def test_a_request_that_is_too_long_is_refused(tmp_path, keys):
    with paris_and_lyon(tmp_path, keys) as (port, *_):
        lyon = peer(keys, port)
        wants = {f"edge {i}" * 20: Want(-1, 0, 0) for i in range(REQUEST_BYTES // 200)}
        found = refusal(lambda: lyon.fetch(wants, 0.0))
        assert found.code in ("TM713", "TM702")
        found = refusal(lambda: lyon.greet("x" * (REQUEST_BYTES + 1), {}))
        assert found.code in ("TM713", "TM702")
        lyon.close()


def test_a_message_that_is_too_long_is_refused(tmp_path, keys, monkeypatch):
    with paris_and_lyon(tmp_path, keys) as (port, *_):
        monkeypatch.setattr(flight_client, "LARGEST_BYTES", -(1 << 20) + 64)  # what the client takes at most: 64 bytes
        lyon = peer(keys, port)
        found = refusal(lambda: lyon.describe("Packets"))
        assert found.code == "TM702" and isinstance(found, EngineProblem)
        lyon.close()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"version": 1}', b'{"version": 7, "name": "Packets"}', b"\x80"])
def test_nonsense_is_refused(tmp_path, keys, body):
    with paris_and_lyon(tmp_path, keys) as (port, *_):
        lyon = peer(keys, port)
        [reply] = lyon._client.do_action(flight.Action("describe", body), lyon._options(0.0))
        assert json.loads(reply.body.to_pybytes())["problem"]["code"].startswith("TM7")
        lyon.close()


def test_an_answer_that_breaks_off_is_noticed(keys):
    """On a stream that breaks off, the reader may just end."""
    found = FlightPeer.__new__(FlightPeer)
    found.site = "paris"
    envelope = json.dumps({"messages": 2, "notes": [], "refused": {}}).encode()
    for bodies in ([], [envelope], [envelope, b"one"], [b"{"]):
        assert refusal(lambda bodies=bodies: found._unpack(bodies)).code == "TM710"
    assert found._unpack([envelope, b"one", b"two"]).messages == (b"one", b"two")


def test_secrets_are_in_no_catalog_status_or_plan(tmp_path, keys):
    with paris_and_lyon(tmp_path, keys) as (_, paris, lyon):
        lyon.execute("CREATE STREAMED VIEW V AS SELECT ip FROM paris.Packets")
        shown = [str(lyon.execute("EXPLAIN VIEW V")), str(lyon.execute("SHOW SITES")), str(lyon.status())]
        for db in (paris, lyon):
            db.execute("SHOW ALL")
            shown += [path.read_text(errors="replace") for path in (tmp_path / local(db)).rglob("*.json")]
        key = (keys / "lyon.key").read_text().splitlines()[1]
        assert not [text for text in shown if "a-token-that-both-have" in text or key in text]


def local(db):
    return "paris" if local_site(db.catalog) is not None else "lyon"


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("CREATE SITE x AT 'example.org:7443' WITH (plaintext = true)", "TM706"),
        ("CREATE LOCAL SITE x AT '0.0.0.0:7443' WITH (plaintext = true)", "TM706"),
        ("CREATE SITE x AT 'example.org:7443'", "TM706"),
        ("CREATE SITE x", "TM706"),
        ("CREATE SITE x AT 'example.org' WITH (plaintext = true)", "TM701"),
        ("CREATE SITE \"x.y\" AT 'localhost:1' WITH (plaintext = true)", "TM701"),
        ("CREATE SITE x AT 'h:1' WITH (ca = '/no', certificate = '/no', key = '/no', token_file = '/no')", "TM706"),
        ("EXPORT STREAM s TO SITE nowhere", "TM301"),
        ("DROP SITE nowhere", "TM301"),
    ],
)
def test_a_site_is_secure_or_refused(tmp_path, statement, code):
    with LocalDatabase(str(tmp_path / "db")) as db:
        found = refusal(lambda: db.execute(statement))
        assert found.code == code and found.hint


def test_an_address_in_use_is_said(tmp_path):
    with socket.socket() as taken, LocalDatabase(str(tmp_path / "db")) as db:
        taken.bind(("localhost", 0))
        taken.listen()
        port = taken.getsockname()[1]
        db.execute(f"CREATE LOCAL SITE me AT 'localhost:{port}' WITH (plaintext = true)")
        assert refusal(db.state.sites.open).code == "TM708"


def test_a_site_that_is_gone_is_said_and_holds_nothing_up(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"CREATE SITE paris AT 'localhost:{free_port()}' WITH (plaintext = true)")
        found = refusal(lambda: db.execute("CREATE VIEW V AS SELECT a FROM paris.S"))
        assert found.code == "TM702" and "cannot be reached" in found.message and found.line == 1
        assert not list(db.catalog.of("view"))
