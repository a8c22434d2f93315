"""A live database whose processes are killed one after the other; says `ok` when everything was as it should be."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import tidemill
from tests.spark.processes import kill
from tidemill.errors import TidemillError


def descendants(word: str, program: str = "python") -> list[int]:
    """Processes below this one that run a program and whose command has a word in it.

    The JVM's command has names of our modules too, and so have the copies of it that are about to run another program.
    """
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parents.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(name))
            except OSError:
                continue
    found, todo = [], [os.getpid()]
    while todo:
        for pid in parents.get(todo.pop(), []):
            todo.append(pid)
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    runs = program in os.path.basename(os.readlink(f"/proc/{pid}/exe"))
                    if runs and word.encode() in file.read():
                        found.append(pid)
            except OSError:
                continue
    return found


def until(reached: Callable[[], bool], what: str, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, f"{what} did not happen in time"
        time.sleep(0.1)


def raised(call: Callable[[], object]) -> str:
    try:
        call()
    except TidemillError as error:
        return error.code
    return "nothing"


def main(path: str) -> None:
    db = tidemill.open(path)
    db.execute("""
        REGISTER SOURCE R (k INTEGER) FROM GENERATE (rate = 200, start = 'now', k = 'uniform(1,5)');
        CREATE TAGGED STREAM S OVER R;
        CREATE VIEW C AS SELECT k, count(*) AS n FROM S SYNC EVERY 1 SECOND GROUP BY k;
    """)
    db.start()

    def goes_on(what: str) -> None:
        before = db.outlet.committed
        until(lambda: db.outlet.committed >= before + 2 or db.failure is not None, f"two batches after {what}")
        assert db.is_running and db.failure is None, f"{what}: {db.failure}"

    goes_on("the start")
    # When what they are forked from is gone, they start by themselves.
    for word, which in (
        ("python_streaming_source_runner", -1),
        ("tidemill.runtime.spark.worker_daemon", -1),
        ("tidemill.runtime.spark.zygote", 0),
        ("python_streaming_source_runner", -1),
    ):
        pids = descendants(word)
        assert pids, f"there is no process {word}"
        kill(pids[which])
        print("killed", word, flush=True)
        goes_on(f"{word} was killed")
    waiting: list[str] = []
    subscription = db.subscribe("C")
    subscription.next(5.0)
    thread = threading.Thread(target=lambda: waiting.append(raised(lambda: [None for _ in subscription])))
    thread.start()
    for pid in descendants("org.apache.spark", "java"):
        kill(pid)
    until(lambda: not db.is_running, "the failure", 60)
    thread.join(60)
    assert waiting == ["TM505"], waiting
    assert db.failure is not None and db.failure.code == "TM505"
    print("killed the JVM", flush=True)
    db.execute("CREATE VIEW D AS SELECT max(n) AS most FROM C")  # the JVM need not be asked for it
    db.stop()
    db.start()
    goes_on("the JVM was killed")
    until(lambda: db.query("SELECT most FROM D").num_rows == 1, "the view that was created without a JVM")
    db.stop()
    total = sum(db.query("SELECT n FROM C").column("n").to_pylist())
    seen = db.status()["sources"][0]["rows"]
    assert 0 < total <= seen, (total, seen)
    db.close()
    print("ok", flush=True)


def waiting(path: str) -> None:
    """The JVM is killed under run(), and under another thread's subscription before the first batch."""
    db = tidemill.open(path)
    db.execute("""
        REGISTER SOURCE R (k INTEGER) FROM GENERATE (rate = 1000, rows = 1000000000, k = 'uniform(1,5)')
        WITH (batch_rows = 20000);
        CREATE TAGGED STREAM S OVER R;
        CREATE VIEW C AS SELECT k, count(*) AS n FROM S GROUP BY k;
    """)
    assert ended(db, lambda: db.run(final=True)) == "TM505"
    print("killed the JVM under run()", flush=True)
    db.stop()
    db.start()
    goes_on(db)
    code = ended(db, lambda: created_and_followed(db), ("tidemill.runtime.spark.zygote",))
    assert code == "TM505", code
    assert db.failure is not None and db.failure.code == "TM505"
    print("killed the JVM under a subscriber", flush=True)
    db.stop()
    db.start()
    goes_on(db)
    db.stop()
    assert db.query("SELECT n FROM D").num_rows == 1
    total, seen = sum(db.query("SELECT n FROM C").column("n").to_pylist()), db.status()["sources"][0]["rows"]
    assert 0 < total <= seen, (total, seen)
    db.close()
    print("ok", flush=True)


def created_and_followed(db: tidemill.engine.Database) -> None:
    """A statement is durable and does not wait for a batch that hangs; a wait for changes ends with an error."""
    began = time.monotonic()
    db.execute("CREATE VIEW D AS SELECT count(*) AS n FROM S")
    assert time.monotonic() - began < 2
    with db.subscribe("D") as changes:
        while changes.next() is not None:
            pass


def goes_on(db: tidemill.engine.Database) -> None:
    before = db.outlet.committed
    until(lambda: db.outlet.committed >= before + 2, "two batches")


def ended(db: tidemill.engine.Database, call: Callable[[], object], hang: tuple[str, ...] = ()) -> str:
    """What a waiting call raises when the JVM is killed; it may take some seconds. Meanwhile some processes of the job
    hang, so that no batch comes to an end.
    """
    codes: list[str] = []
    committed = db.outlet.committed
    jvm = descendants("org.apache.spark", "java")  # its command has the names of all others in it
    hung = [pid for word in hang for pid in descendants(word) if pid not in jvm]
    for pid in hung:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    thread = threading.Thread(target=lambda: codes.append(raised(call)))
    thread.start()
    if hung:
        time.sleep(3)
    else:
        until(lambda: db.outlet.committed >= committed + 2, "two batches of the run")
    assert thread.is_alive(), codes
    began = time.monotonic()
    for pid in [*(jvm or descendants("org.apache.spark", "java")), *hung]:
        kill(pid)
    thread.join(60)
    assert not thread.is_alive() and time.monotonic() - began < 20, "nobody told the one who waits"
    return codes[0]


if __name__ == "__main__":
    (waiting if "waiting" in sys.argv[2:] else main)(sys.argv[1])
