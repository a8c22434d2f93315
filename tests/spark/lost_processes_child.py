"""A live database whose processes are killed one after the other; says `ok` when everything was as it should be."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

import tidemill
from tests.spark.processes import kill
from tidemill.errors import TidemillError


def descendants(word: str) -> list[int]:
    """Processes below this one whose command has a word in it."""
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
                    if word.encode() in file.read():
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
        until(lambda: db.outlet.committed >= before + 2, f"two batches after {what}")
        assert db.is_running and db.failure is None, what

    goes_on("the start")
    for word in ("python_streaming_source_runner", "tidemill.runtime.daemon"):
        pids = descendants(word)
        assert pids, f"there is no process {word}"
        kill(pids[-1])
        print("killed", word, flush=True)
        goes_on(f"{word} was killed")
    waiting: list[str] = []
    subscription = db.subscribe("C")
    subscription.next(5.0)
    thread = threading.Thread(target=lambda: waiting.append(raised(lambda: [None for _ in subscription])))
    thread.start()
    for pid in descendants("org.apache.spark"):
        kill(pid)
    until(lambda: not db.is_running, "the failure", 60)
    thread.join(60)
    assert waiting == ["TM505"], waiting
    assert db.failure is not None and db.failure.code == "TM505"
    print("killed the JVM", flush=True)
    db.stop()
    db.start()
    goes_on("the JVM was killed")
    db.stop()
    total = sum(db.query("SELECT n FROM C").column("n").to_pylist())
    seen = db.status()["sources"][0]["rows"]
    assert 0 < total <= seen, (total, seen)
    db.close()
    print("ok", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
