"""Users: SCRAM, rights of readers, and that no password is to be found anywhere."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.live import LiveDatabase
from tests.postgres.serving import ServerThread
from tests.statements import parse_one
from tidemill.engine.users.verifiers import make_verifier, read_verifier
from tidemill.errors import EngineProblem, SyntaxProblem, TidemillError
from tidemill.serve.postgres.tls import check_address

SECRET = "s3cret-of-the-user"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for localhost, its own authority."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificate can be made")
    folder = tmp_path_factory.mktemp("tls")
    command = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(["openssl", *command.split(), *names, *files], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory, certificate):
    """A database with an administrator, a reader and a creator."""
    folder = tmp_path_factory.mktemp("users")
    (folder / "in").mkdir()
    (folder / "in" / "1.csv").write_text("a,at\n1,1\n2,2\n3,3\n")
    with LiveDatabase(str(folder / "lot")) as db:
        db.execute(
            f"""
            REGISTER SOURCE S (a INTEGER, at BIGINT) FROM FILES '{folder}/in/*.csv' WITH (timestamp = 'at');
            CREATE TAGGED STREAM T OVER S;
            CREATE VIEW Open AS SELECT a FROM T;
            CREATE VIEW Closed AS SELECT a, at FROM T;
            CREATE VIRTUAL VIEW Through AS SELECT a FROM Closed;
            CREATE USER admin PASSWORD '{SECRET}';
            CREATE USER reader PASSWORD '{SECRET}2';
            CREATE USER creator PASSWORD '{SECRET}3';
            GRANT SELECT ON Open, Through TO reader;
            GRANT CREATE TO creator
            """
        )
        db.run()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        started = ServerThread(db, context)
        yield started
        started.stop()


def connect(server, user, password, **more):
    return psycopg.connect(server.dsn(user, password=password, **more), autocommit=True)


def test_a_password_opens_and_a_wrong_one_does_not(server):
    with connect(server, "reader", SECRET + "2") as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("reader",)
    for user in ("reader", "nobody"):
        with pytest.raises(psycopg.OperationalError, match="password authentication failed") as found:
            connect(server, user, "wrong")
        assert SECRET not in str(found.value)


def test_the_state_of_a_wrong_password_is_28p01(server):
    from tests.postgres.serving import RawClient, fields_of

    client = RawClient(server.port)
    body = b"\0\3\0\0user\0reader\0\0"
    client.line.sendall((len(body) + 4).to_bytes(4, "big") + body)
    assert client.message()[0] == "R"
    first = b"SCRAM-SHA-256\0" + (len(b"n,,n=,r=abc")).to_bytes(4, "big") + b"n,,n=,r=abc"
    client.send("p", first)
    challenge = client.message()[1][4:].decode()
    nonce = challenge.split(",")[0]
    client.send("p", f"c=biws,{nonce},p={'A' * 43}=".encode())
    kind, body = client.message()
    assert (kind, fields_of(body)["C"], fields_of(body)["S"]) == ("E", "28P01", "FATAL")


def test_verify_full_works_and_another_authority_does_not(server, certificate, tmp_path):
    right = {"sslmode": "verify-full", "sslrootcert": str(certificate / "cert.pem"), "host": "localhost"}
    with connect(server, "reader", SECRET + "2", **right) as connection:
        assert connection.pgconn.ssl_in_use
    other = tmp_path / "other.pem"
    command = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    files = ["-keyout", str(tmp_path / "k"), "-out", str(other)]
    subprocess.run(["openssl", *command.split(), *files], check=True, capture_output=True)
    with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
        connect(server, "reader", SECRET + "2", **{**right, "sslrootcert": str(other)})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM Closed",
        "SELECT * FROM Missing",
        "SELECT (SELECT max(a) FROM Closed) AS x",
        "WITH w AS (SELECT * FROM Closed) SELECT * FROM w",
        "SELECT * FROM Open JOIN Closed USING (a)",
        "SELECT * FROM dead_letters",
        "SUBSCRIBE Closed",
        "DESCRIBE Closed",
        "COPY Closed TO STDOUT",
        "COPY (SUBSCRIBE Closed) TO STDOUT",
        "DECLARE c CURSOR FOR SELECT * FROM Closed",
        "CREATE VIEW Own AS SELECT * FROM Closed",
        "SELECT STREAMED a FROM T",
        "DROP VIEW Open",
        "EXPLAIN VIEW Closed",
        "EXPLAIN",
        "SHOW USERS",
        "SHOW SETTINGS",
        "SHOW DEAD LETTERS",
        "SET query_time = '1 second'",
        "CREATE USER other PASSWORD 'x'",
        "ALTER USER admin PASSWORD 'x'",
        "GRANT ALL TO reader",
    ],
)
def test_a_reader_sees_granted_views_only(server, text):
    with connect(server, "reader", SECRET + "2") as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as found:
            connection.execute(text)
        assert "did you mean" not in str(found.value)


def test_what_a_reader_may_do(server):
    with connect(server, "reader", SECRET + "2") as connection:
        assert connection.execute("SELECT a FROM Open ORDER BY a").fetchall() == [(1,), (2,), (3,)]
        assert connection.execute("SELECT a FROM Through ORDER BY a").fetchall() == [(1,), (2,), (3,)]
        shown = connection.execute("SHOW ALL").fetchall()
        assert [(row[0], row[3], row[4]) for row in shown] == [("Open", None, None), ("Through", None, None)]
        names = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v', 'f') ORDER BY 1"
        assert connection.execute(names).fetchall() == [("Open",), ("Through",)]
        columns = "SELECT DISTINCT table_name FROM information_schema.columns ORDER BY 1"
        assert connection.execute(columns).fetchall() == [("Open",), ("Through",)]
        assert connection.execute("SELECT rolname FROM pg_roles ORDER BY 1").fetchall() == [("reader",), ("tidemill",)]
        connection.execute(f"ALTER USER reader PASSWORD '{SECRET}2'")


def test_a_creator_defines_and_reads_but_does_not_manage_users(server):
    with connect(server, "creator", SECRET + "3") as connection:
        connection.execute("CREATE VIEW Made AS SELECT a FROM Closed")
        connection.execute("DROP VIEW Made")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE USER other PASSWORD 'x'")


def test_a_grant_ends_with_the_view_and_a_session_with_its_user(server):
    with connect(server, "admin", SECRET) as admin, connect(server, "reader", SECRET + "2") as reader:
        admin.execute("CREATE VIEW Passing AS SELECT a FROM T")
        admin.execute("GRANT SELECT ON Passing TO reader")
        reader.execute("SELECT * FROM Passing")
        admin.execute("DROP VIEW Passing")
        admin.execute("CREATE VIEW Passing AS SELECT a, at FROM T")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("SELECT * FROM Passing")
        admin.execute("CREATE USER brief PASSWORD 'p'")
        with connect(server, "brief", "p") as brief:
            admin.execute("DROP USER brief")
            with pytest.raises(psycopg.errors.UndefinedObject):
                brief.execute("SELECT 1")
        with pytest.raises(psycopg.Error, match="last user with all rights"):
            admin.execute("DROP USER admin")
        admin.execute("DROP VIEW Passing")


def test_no_password_is_in_the_directory(server):
    root = Path(server.db.paths.root)
    text = (root / "catalog.json").read_text(encoding="utf-8")
    assert [u["name"] for u in json.loads(text)["users"]] == ["admin", "reader", "creator"]
    for path in root.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


def test_no_password_is_in_what_is_shown(server):
    with connect(server, "admin", SECRET) as connection:
        shown = str(connection.execute("SHOW USERS").fetchall()) + str(connection.execute("SHOW SETTINGS").fetchall())
        assert SECRET not in shown and "SCRAM" not in shown
        with pytest.raises(psycopg.Error) as found:
            connection.execute(f"EXPLAIN CREATE USER x PASSWORD '{SECRET}'")
        assert SECRET not in str(found.value.diag.message_primary) + str(found.value.diag.message_hint)
    assert SECRET not in repr(parse_one(f"CREATE USER x PASSWORD '{SECRET}'"))


@pytest.mark.parametrize(
    "text", [f"CREATE USER a '{SECRET}'", f"CREATE USER a PASSWORD {SECRET}x", f"ALTER USER a PASSWORD 'x' '{SECRET}'"]
)
def test_a_mistake_in_the_statement_does_not_show_the_password(text):
    with pytest.raises(SyntaxProblem) as found:
        parse_one(text)
    assert SECRET not in str(found.value)


def test_a_verifier_can_be_given_in_the_place_of_a_password():
    made = make_verifier("p")
    assert make_verifier(str(made)) == made == read_verifier(str(made))


@pytest.mark.parametrize(
    ("host", "tls", "users", "listens"),
    [
        ("127.0.0.1", False, False, True),
        ("localhost", False, False, True),
        ("::1", False, False, True),
        ("0.0.0.0", False, False, False),
        ("0.0.0.0", True, False, False),
        ("0.0.0.0", False, True, False),
        ("0.0.0.0", True, True, True),
        ("example.org", False, True, False),
    ],
)
def test_other_machines_need_tls_and_users(host, tls, users, listens):
    try:
        check_address(host, tls, users)
    except EngineProblem as problem:
        assert not listens and problem.code == "TM531"
    else:
        assert listens


def test_a_database_without_users_field_still_opens(tmp_path):
    with LiveDatabase(str(tmp_path / "db")) as db:
        db.execute("CREATE USER a PASSWORD 'x'")
    path = tmp_path / "db" / "catalog.json"
    data = json.loads(path.read_text())
    del data["users"]
    path.write_text(json.dumps(data))
    with LiveDatabase(str(tmp_path / "db")) as db:
        assert db.catalog.users == {}
        with pytest.raises(TidemillError):
            db.execute("GRANT ALL TO a")
