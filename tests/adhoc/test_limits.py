"""What an ad hoc query may use: time, memory, bytes; and a wait can be given up."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from tidemill.errors import TidemillError
from tidemill.runtime.sandbox import pool
from tidemill.runtime.thresholds import sizes

HEAVY = {
    "SELECT length(lpad('x', 2000000000, 'y')) AS n": ("TM516", "TM517"),
    "SELECT length(repeat('x', 2000000000)) AS n": ("TM516",),
    "SELECT length(replace(repeat('x', 1000000), 'x', repeat('y', 1000000))) AS n": ("TM516", "TM517"),
    "SELECT levenshtein(repeat('x', 1000000), repeat('y', 1000000)) AS n": ("TM516", "TM517"),
    "SELECT count(*) FROM Log a, Log b, Log c, Log d, Log e": ("TM517",),
    "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r": ("TM517",),
    "WITH RECURSIVE r AS (SELECT 'x' AS x UNION ALL SELECT x || x FROM r) SELECT max(x) FROM r": ("TM516", "TM517"),
    "SELECT list(a.temp ORDER BY b.temp) FROM Log a, Log b, Log c, Log d": ("TM516", "TM517"),
    "SELECT a.temp, b.temp, c.temp FROM Log a, Log b, Log c, Log d": ("TM517", "TM519"),
}


@pytest.mark.parametrize("attack", HEAVY)
def test_a_query_ends_within_its_limits(attack, db):
    """The attack is the name of the case; the database answers the next query as if nothing had been."""
    db.execute("SET query_memory = '200 MB'; SET query_bytes = '50 MB'")
    began = time.monotonic()
    with pytest.raises(TidemillError) as refused:
        db.query(attack, timeout=1.5)
    assert refused.value.code in HEAVY[attack] and refused.value.hint
    assert time.monotonic() - began < 10
    assert db.query("SELECT count(*) AS n FROM ByRoom").to_pylist() == [{"n": 9}]


def test_ctrl_c_ends_a_query_within_a_second(db):
    """SELECT length(lpad('x', 2000000000, 'y')) and ctrl-C: took 36 seconds."""
    db.query("SELECT 1")
    sent: list[float] = []

    def press() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(0.7, press).start()
    db.execute("SET query_memory = '4 GB'")
    with pytest.raises(KeyboardInterrupt):
        db.query("SELECT length(lpad('x', 2000000000, 'y')) AS n")
    assert time.monotonic() - sent[0] < 1
    assert db.query("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_ctrl_c_leaves_the_handler_of_others_alone(db):
    """Spark's handler cancels the running job: it must not hear of a query's ctrl-C, and be back afterwards."""
    before = signal.getsignal(signal.SIGINT)
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            db.query("SELECT count(*) FROM Log a, Log b, Log c, Log d, Log e")
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        assert heard == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_killed_process_is_replaced(db):
    """kill -9 of the process that answers."""
    db.query("SELECT 1")
    threading.Timer(0.5, lambda: [os.kill(int(p), signal.SIGKILL) for p in children()]).start()
    with pytest.raises(TidemillError, match="TM516"):
        db.query("SELECT count(*) FROM Log a, Log b, Log c, Log d, Log e")
    assert db.query("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_a_process_that_was_killed_while_it_waited_is_not_asked(db):
    """kill -9 of an idle process: the next query, of a few rows, needed "more memory than 1,024 MB"."""
    db.query("SELECT 1")
    for pid in children():
        os.kill(int(pid), signal.SIGKILL)
    until = time.monotonic() + 10
    while any(worker.is_alive for worker in pool._idle) and time.monotonic() < until:
        time.sleep(0.01)
    assert db.query("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_a_query_can_have_the_memory_that_it_may_use(db):
    """SELECT DISTINCT over 13 million rows: Arrow had reserved all but 512 MB of what the operating system allows, so a
    query failed before DuckDB knew that it has to use temporary files.
    """
    db.execute("SET query_memory = '1 GB'")
    db.query("SELECT 1")
    for worker in pool._idle:
        worker.end()
    pool._idle.clear()
    db.query("SELECT * FROM Log")
    [pid] = children()
    with open(f"/proc/{pid}/limits", encoding="ascii") as file:
        [limit] = [int(line.split()[3]) for line in file if line.startswith("Max data size")]
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        taken = int(file.read().split()[5]) * os.sysconf("SC_PAGESIZE")
    assert limit - taken > 1_000_000_000


def children() -> list[str]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [p for p in file.read().split() if "sandbox/worker.py" in open(f"/proc/{p}/cmdline").read()]


def test_queries_of_many_threads_are_answered(db):
    found: list[int] = []

    def ask() -> None:
        found.append(db.query("SELECT sum(n) AS n FROM ByRoom").to_pylist()[0]["n"])

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 6
    assert len(pool._idle) <= pool.MOST_IDLE


def test_a_large_answer_comes_whole(db):
    db.execute("SET query_bytes = '1 GB'; SET query_memory = '1 GB'; SET query_time = '2 minutes'")
    answer = db.query("SELECT a.temp AS x, b.temp AS y, c.room AS z FROM Log a, Log b, ByRoom c")
    assert answer.num_rows == 200 * 200 * 9 and answer.nbytes > sizes.copied_bytes


@pytest.mark.parametrize(
    "statement",
    [
        "SET query_time = 'x'",
        "SET query_time = 0",
        "SET query_time = -1",
        "SET query_memory = '1 GX'",
        "SET query_memory = '1 kB'",
        "SET query_bytes = ''",
        "SET query_bytes = -5",
        "SET query_bytes = 'much'",
    ],
)
def test_a_limit_is_checked_when_it_is_said(statement, db):
    with pytest.raises(TidemillError, match=r"TM217|TM101") as refused:
        db.execute(statement)
    assert refused.value.hint


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_timeout_is_checked(timeout, db):
    with pytest.raises(TidemillError, match="TM217"):
        db.query("SELECT 1", timeout=timeout)


def test_limits_are_kept(place):
    from tests.harness import LocalDatabase

    with LocalDatabase(str(place / "kept")) as db:
        db.execute("SET query_time = '2 minutes'; SET query_memory = '2 GB'")
    with LocalDatabase(str(place / "kept")) as db:
        shown = {r["name"]: r["value"] for r in db.execute("SHOW SETTINGS").to_pylist()}
        assert (shown["query_time"], shown["query_memory"]) == ("120 seconds", "2000000000")
