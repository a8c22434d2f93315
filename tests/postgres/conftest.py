"""A live database with a server before it, shared by the tests of a file; and input that grows."""

from __future__ import annotations

import pytest

from tests.live import LiveDatabase
from tests.postgres.serving import SETUP, RawClient, ServerProcess, ServerThread, wait_until


class Feed:
    """Files of readings; each call writes one, at the next times."""

    def __init__(self, folder):
        self.folder, self.files, self.time = folder, 0, 0

    def write(self, *rows, step=1):
        """Rows of (room, temp, note), each at a later time."""
        self.files += 1
        lines = ["room,temp,note,at"]
        for room, temp, note in rows:
            self.time += step
            lines.append(f"{room},{temp},{note},{self.time}")
        made = self.folder / f".{self.files:05}.csv"
        made.write_text("\n".join(lines) + "\n", encoding="utf-8")
        made.rename(self.folder / f"{self.files:05}.csv")


@pytest.fixture(scope="module")
def feed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("input")
    (folder / "buildings").mkdir()
    (folder / "buildings" / "1.csv").write_text("room,building\n1,North\n2,South\n")
    return Feed(folder)


@pytest.fixture(scope="module")
def db(tmp_path_factory, feed):
    with LiveDatabase(str(tmp_path_factory.mktemp("db") / "lot")) as opened:
        opened.execute(SETUP.format(folder=feed.folder))
        feed.write((1, 90.5, "it's"), (2, 70, ""), (3, 85, "ä€"), (4, 20, "x"), (5, 81.25, "b"))
        feed.write((9, 10, "last"))
        opened.start()
        wait_until(lambda: opened.query("SELECT count(*) AS n FROM Hot").column("n")[0].as_py() == 3)
        yield opened


@pytest.fixture(scope="module")
def server(db):
    started = ServerThread(db)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def process(tmp_path_factory, feed):
    """The same in a process of its own."""
    feed.write((1, 90.5, "it's"), (2, 70, ""), (3, 85, "ä€"), (4, 20, "x"), (5, 81.25, "b"))
    feed.write((9, 10, "last"))
    started = ServerProcess(tmp_path_factory.mktemp("process"), SETUP.format(folder=feed.folder))
    client = RawClient(started.port).start()
    wait_until(lambda: any(body.endswith(b"\x013") for _, body in client.query("SELECT count(*) AS n FROM Hot")))
    client.close()
    yield started
    started.stop()
