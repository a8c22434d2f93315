"""`kill -9` at any moment: after it is started again, every answer is that of a run without a crash."""

from __future__ import annotations

import json
import os
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tests.harness import LocalDatabase
from tests.network import free_port
from tests.spark import scenario
from tests.spark.processes import Child, kill, module, until
from tidemill.runtime.spark.shard_labels import shard_labels

THOROUGH = bool(os.environ.get("TIDEMILL_THOROUGH"))
ROUNDS = 50 if THOROUGH else 3
KINDS = ("worker", "group", "driver")
ROWS, ROOMS = 1000, 4000  # enough that large segments are files
# Loops, keyed streams, outer, band and aggregation joins, SYNC ON, shared windows, a sink, answers in files.
VIEWS = (
    "Levels",
    "Sizes",
    "SizesNow",
    "Occupied",
    "OccupiedNow",
    "Report",
    "Crowd",
    "Band",
    "Pulse",
    "OnPulse",
    "Noted",
    "NotedNow",
    "Rush",
)
START = 600.0 if THOROUGH else 120.0  # a thorough run may share its machine: a start then takes minutes

pytestmark = [pytest.mark.crash, pytest.mark.timeout(3600 if THOROUGH else 600)]


class Lives:
    """One database and the processes that run it, one after the other.

    What a killed process leaves behind (its JVM, Python workers) is not waited for, as no user would.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.path, self.log, self.arguments = folder / "db", folder / "log", arguments
        self.children: list[Child] = []
        self.seen: set[int] = set()

    def alive(self) -> Child:
        """The running process, or a new one."""
        if not self.children or not self.children[-1].is_alive:
            self.seen = self.numbers("offsets")
            command = module("tests.spark.crash_child", str(self.path), *self.arguments)
            self.children.append(Child(command, log=self.log))
        return self.children[-1]

    def bury(self) -> None:
        """Nothing of any life goes on."""
        for child in self.children:
            child.end()

    def numbers(self, log: str) -> set[int]:
        """Micro-batches in Spark's `offsets` or `commits` log."""
        folder = self.path / "checkpoint" / log
        return {int(name) for name in os.listdir(folder) if name.isdigit()} if folder.exists() else set()

    def in_progress(self) -> bool:
        """A batch that was begun and not committed."""
        return bool(self.numbers("offsets") - self.numbers("commits"))


@pytest.fixture
def lives(tmp_path) -> Iterator[Lives]:
    found = Lives(tmp_path)
    yield found
    found.bury()


def disturb(lives: Lives, kind: str, chance: random.Random) -> bool:
    """Kill something a few micro-batches from now, at any point of a batch; True when it hit a running batch."""
    child = lives.alive()
    wanted = max(lives.seen, default=-1) + chance.randrange(1, 4)
    until(lambda: max(lives.numbers("offsets"), default=-1) >= wanted or not child.is_alive, START, f"batch {wanted}")
    time.sleep(chance.uniform(0, 1.2))
    lives.seen = lives.numbers("offsets")
    if not child.is_alive:
        return False
    if kind == "worker":
        return kill_worker(lives, child, chance)
    child.kill_group() if kind == "group" else child.kill_driver()
    return lives.in_progress()


def kill_worker(lives: Lives, child: Child, chance: random.Random) -> bool:
    """Kill a worker while it computes; True when there was one and its batch was not committed yet."""
    end = time.monotonic() + 10
    while child.is_alive and time.monotonic() < end:
        busy = child.busy_workers()
        if busy and lives.in_progress():
            kill(chance.choice(busy))
            return True
    return False


def finish(lives: Lives, attempts: int = 3) -> None:
    """Let it run to the end; a job that failed because of a killed worker is started again."""
    for _ in range(attempts):
        child = lives.alive()
        until(lambda c=child: not c.is_alive, 300, "the end of the run")  # type: ignore[misc]
        if child.process.returncode == 0:
            return
    raise AssertionError(f"it does not finish: {child.tail()}")


def test_killed_at_random_it_ends_as_if_nothing_had_happened(lives, tmp_path):
    seed = time.time_ns() if THOROUGH else 4
    chance = random.Random(seed)
    data, out = tmp_path / "data", tmp_path / "out"
    scenario.write_input(data, files=2 * ROUNDS + 6, rows=ROWS, rooms=ROOMS)
    with LocalDatabase(str(tmp_path / "wanted")) as db:
        scenario.create(db, data, tmp_path / "wanted out", views=VIEWS)
        db.run(final=True)
        wanted = scenario.everything(db, tmp_path / "wanted out")
    with tidemill.open(str(lives.path), shards=2) as db:
        scenario.create(db, data, out, batch_rows=ROWS, views=VIEWS)
        db.execute("SET sealed_rows = 10")
    landed = {kind: 0 for kind in KINDS}
    for number in range(ROUNDS):
        kind = KINDS[number % len(KINDS)]
        landed[kind] += disturb(lives, kind, chance)
    stale = [leave_garbage(lives.path / "state" / str(shard)) for shard in shard_labels(2)]
    finish(lives)
    with tidemill.open(str(lives.path)) as db:
        found = scenario.everything(db, out)
        kept = {name for (name,) in db.store.cursor().sql("SELECT file FROM __sealed_files").fetchall()}
    assert scenario.differences(found, wanted) == "", f"seed {seed}"
    assert kept and {path.name for path in lives.path.glob("sealed/*")} == kept
    assert sum(landed.values()) > 0, f"no kill landed in a running batch, seed {seed}"
    assert not any(path.exists() for path in stale), "what failed attempts leave behind is swept"
    assert list(lives.path.glob("state/*/*.arrow")), "no segment was large enough for a file"
    if THOROUGH:
        assert all(landed.values()), f"some kind of kill never landed in a running batch: {landed}, seed {seed}"


def leave_garbage(shard: Path) -> Path:
    """A segment that no manifest names, as an attempt leaves it that was killed before its batch was committed."""
    shard.mkdir(parents=True, exist_ok=True)
    path = shard / "0123456789abcdef0123456789abcdef.arrow"
    path.write_bytes(b"torn")
    return path


def test_what_a_port_has_received_survives(tmp_path):
    port = free_port()
    lives = Lives(tmp_path, "600")
    with tidemill.open(str(lives.path), shards=2) as db:
        db.execute(f"REGISTER SOURCE Wire (n INTEGER) FROM PORT {port} WITH (format = 'json', batch_rows = 40)")
        db.execute("CREATE TAGGED STREAM WireStr OVER Wire")
        db.execute("""CREATE VIEW Totals AS SELECT W.n % 2 AS odd, count(*) AS n, sum(W.n) AS s
                      FROM R(WireStr) W GROUP BY W.n % 2""")
    try:
        child = lives.alive()
        send(port, range(300))
        received(lives.path, 299)
        until(lambda: len(lives.numbers("commits")) >= 1 and lives.in_progress(), START, "a batch to kill in")
        child.kill_group()
        lives.alive()
        send(port, range(300, 600))
        finish(lives, attempts=1)
    finally:
        lives.bury()
    with tidemill.open(str(lives.path)) as db:
        found = db.query("SELECT odd, n, s FROM Totals ORDER BY odd").to_pylist()
        assert [(row["odd"], row["n"], int(row["s"])) for row in found] == [
            (0, 300, sum(range(0, 600, 2))),
            (1, 300, sum(range(1, 600, 2))),
        ]


def send(port: int, numbers: range) -> None:
    """One record a line, as soon as the port is open."""
    end = time.monotonic() + START
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as sender:
                sender.sendall(b"".join(json.dumps({"n": n}).encode() + b"\n" for n in numbers))
            return
        except ConnectionRefusedError:
            assert time.monotonic() < end, "nobody listens"
            time.sleep(0.1)


def received(path: Path, last: int) -> None:
    """Wait until the last record is in the spool: what is still on the wire is lost with the process."""
    line = json.dumps({"n": last}).encode()

    def spooled() -> bool:
        return any(line in file.read_bytes() for file in (path / "sources").glob("*/*") if file.is_file())

    until(spooled, 30, "the record in the spool")
