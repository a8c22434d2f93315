"""A thousand idle connections on a port: who sends goes on sending, and the job goes on."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.harness import LocalDatabase
from tests.network import free_port

CROWD = 1_000


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    """File handles for both ends of all connections, as far as they are allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * CROWD if hard == resource.RLIM_INFINITY else min(4 * CROWD, hard)
    if wanted < 2 * CROWD + 500:
        pytest.skip("too few file handles are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def count(db: Any) -> int:
    found = db.query("SELECT n FROM Counted").column(0).to_pylist()
    return int(found[0]) if found else 0


@pytest.mark.parametrize("options", ["", "WITH (max_connections = 2000)", "WITH (max_connections = 50)"])
def test_a_sender_goes_on_among_a_thousand_idle_connections(tmp_path, options):
    """for i in range(1000): socket.create_connection(("127.0.0.1", 5501)): ended the job for good."""
    port = free_port()
    with many_files(), LocalDatabase(str(tmp_path / "db"), cores=1) as db:
        db.execute(f"""
            REGISTER SOURCE S (k INTEGER) FROM PORT {port} {options};
            CREATE TAGGED STREAM T OVER S;
            CREATE VIEW Counted AS SELECT count(*) AS n FROM T;
        """)
        db.start()
        crowd: list[socket.socket] = []
        sent = 0
        with contextlib.ExitStack() as ends:
            sender = ends.enter_context(socket.create_connection(("127.0.0.1", port)))
            sender.sendall(b"0\n")
            sent += 1
            until(db, sent)
            while len(crowd) < CROWD:
                for _ in range(100):
                    crowd.append(ends.enter_context(socket.create_connection(("127.0.0.1", port))))
                sender.sendall(b"1\n2\n3\n")
                sent += 3
                db.step()
            until(db, sent)
            # The port takes or refuses a connection some time after the sender was told that it stands; where that
            # takes long, some that were taken have been silent for so long that they had to give way.
            wait_for(lambda: sum(senders(db).values()) >= CROWD)
            assert senders(db)["connections"] >= 50
        wait_for(lambda: not senders(db)["connections"])  # until the port has noticed that they are gone
        with socket.create_connection(("127.0.0.1", port)) as later:
            later.sendall(b"7\n")
            until(db, sent + 1)
        db.stop()


def senders(db: Any) -> dict[str, int]:
    return dict(db.status()["sources"][0]["senders"])


def wait_for(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


def until(db: Any, rows: int) -> None:
    end = time.monotonic() + 30
    while count(db) < rows:
        assert time.monotonic() < end, (count(db), rows, db.status())
        if not db.step():
            time.sleep(0.05)
    assert count(db) == rows
