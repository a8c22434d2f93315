"""A port under attack: idle crowds, one byte a second, endless lines, no file handles, a clock that jumps."""

from __future__ import annotations

import os
import resource
import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_port_connector import connector, everything, has_rows, port_spec, send, wait_for

from tests.harness import LocalDatabase
from tests.network import free_port
from tests.properties.effort import effort
from tidemill.runtime.planning.planner import Planner
from tidemill.runtime.sources.clock import JUMP_US, PATIENCE_US, SteadyClock
from tidemill.runtime.sources.port.senders import Senders
from tidemill.runtime.sources.port.spool import Spooler

DAY = 86_400_000_000


@pytest.fixture
def start(tmp_path):
    running = []

    def begin(spec=None, **settings):
        spooler = Spooler(spec or port_spec(), str(tmp_path), **settings)
        spooler.start()
        running.append(spooler)
        return spooler

    yield begin
    for spooler in running:
        spooler.stop()


def connected(spooler, count):
    return [socket.create_connection(spooler.address) for _ in range(count)]


def is_broken(sender):
    sender.settimeout(5)
    try:
        return sender.recv(1) == b""
    except ConnectionError:
        return True


def test_a_thousand_idle_connections_are_not_let_in(tmp_path, start):
    """for i in range(1000): socket.create_connection(("127.0.0.1", 5501))"""
    spooler = start(port_spec(options={"max_connections": 20}))
    before = len(os.listdir("/proc/self/fd"))
    crowd = connected(spooler, 200)
    try:
        wait_for(lambda: spooler.senders.counts["refused"] + spooler.senders.counts["silent"] >= 180)
        assert spooler.senders.describe()["connections"] == 20
        assert len(os.listdir("/proc/self/fd")) - before <= 200 + 25  # ours, and 20 of the port
        next(iter(crowd)).sendall(b"1,x\n")
        wait_for(has_rows(connector(tmp_path), 1))
    finally:
        for sender in crowd:
            sender.close()
    wait_for(lambda: not spooler.senders.present)
    send(spooler, b"2,y\n")
    wait_for(has_rows(connector(tmp_path), 2))


def test_the_limit_is_a_part_of_the_file_handles(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    assert Senders.of(port_spec()).most == 16


def test_a_new_sender_takes_the_place_of_the_most_silent_one(tmp_path, start):
    """20 idle connections that stay for ever, and no other gets in."""
    now = [0.0]
    spooler = start(senders=Senders(most=3, clock=lambda: now[0]))
    first, second, third = connected(spooler, 3)
    wait_for(lambda: len(spooler.senders.present) == 3)
    now[0] = 8.0
    first.sendall(b"1,x\n")
    wait_for(lambda: any(s.heard == 8.0 for s in spooler.senders.present))
    now[0] = 11.0
    send(spooler, b"2,y\n")
    wait_for(has_rows(connector(tmp_path), 2))
    assert spooler.senders.counts == {"refused": 0, "silent": 1, "unfinished": 0}
    first.sendall(b"3,z\n")
    wait_for(has_rows(connector(tmp_path), 3))
    for sender in (first, second, third):
        sender.close()


def test_a_silent_sender_is_let_go(start):
    """One connection, never a byte."""
    now = [0.0]
    spooler = start(senders=Senders(silent=30.0, clock=lambda: now[0]))
    (sender,) = connected(spooler, 1)
    wait_for(lambda: spooler.senders.present)
    now[0] = 29.0
    time.sleep(0.3)
    assert spooler.senders.present
    now[0] = 31.0
    assert is_broken(sender)
    wait_for(lambda: spooler.senders.describe() == {"connections": 0, "refused": 0, "silent": 1, "unfinished": 0})
    sender.close()


def test_a_sender_of_one_byte_a_second_is_let_go(tmp_path, start):
    """1 , x x x x … one byte a second and never a line end: its line is not taken for a whole one."""
    now = [0.0]
    spooler = start(senders=Senders(line=60.0, clock=lambda: now[0]))
    (sender,) = connected(spooler, 1)
    sender.sendall(b"7,whole\n")
    wait_for(has_rows(connector(tmp_path), 1))
    for second in range(1, 62):
        now[0] = float(second)
        sender.sendall(b"1")
        wait_for(lambda second=second: any(s.heard == float(second) for s in spooler.senders.present))
    now[0] = 70.0
    assert is_broken(sender)
    wait_for(lambda: not spooler.senders.present)
    assert spooler.senders.counts["unfinished"] == 1
    assert everything(connector(tmp_path))[0].column("a").to_pylist() == [7]
    sender.close()


def test_slow_senders_of_whole_lines_stay(tmp_path, start):
    now = [0.0]
    spooler = start(senders=Senders(line=60.0, clock=lambda: now[0]))
    (sender,) = connected(spooler, 1)
    for minute in range(5):
        now[0] = minute * 50.0
        sender.sendall(b"%d,x\n2" % minute)
        wait_for(has_rows(connector(tmp_path), minute + 1))
        sender.sendall(b"")
    assert spooler.senders.describe()["connections"] == 1
    sender.close()


def test_unfinished_lines_share_a_limit(tmp_path, start):
    """xxxxxxxx… without a line end, from every connection there may be."""
    spooler = start(senders=Senders(held=300_000))
    crowd = connected(spooler, 6)
    for sender in crowd:
        sender.sendall(b"1," + b"x" * 100_000)
    wait_for(lambda: spooler.senders.counts["unfinished"] >= 3)
    wait_for(lambda: len(spooler.senders.present) <= 3)
    send(spooler, b"2,y\n")
    wait_for(has_rows(connector(tmp_path), 1))
    for sender in crowd:
        sender.close()


def test_an_endless_line_costs_no_memory(tmp_path, start):
    """yes | tr -d '\\n' | nc 127.0.0.1 5501"""
    spooler = start(port_spec(options={"max_record_bytes": 1000}))
    (sender,) = connected(spooler, 1)
    for _ in range(40):
        sender.sendall(b"y" * (1 << 20))
    wait_for(lambda: any(s.held for s in spooler.senders.present))
    assert all(s.held < 1 << 20 for s in spooler.senders.present)
    sender.sendall(b"\n5,ok\n")
    sender.close()
    wait_for(has_rows(connector(tmp_path, options={"max_record_bytes": 1000}), 2))


def test_held_senders_are_not_blamed(tmp_path, start):
    """A full backlog holds a sender for an hour: it is not silent, it is not heard."""
    now = [0.0]
    limits = Senders(silent=30, line=60, clock=lambda: now[0])
    spooler = start(port_spec(options={"backlog_bytes": 1000}), senders=limits)
    (sender,) = connected(spooler, 1)
    sender.sendall(b"1,x\n" * 500 + b"9,unfin")
    wait_for(lambda: any(s.waits for s in spooler.senders.present))
    now[0] = 3600.0
    time.sleep(0.3)
    port = connector(tmp_path)
    port.trim(port.latest(port.initial(), None, True, 0).end)
    wait_for(lambda: not any(s.waits for s in spooler.senders.present))
    time.sleep(0.3)
    assert spooler.senders.describe() == {"connections": 1, "refused": 0, "silent": 0, "unfinished": 0}
    sender.close()


def test_no_file_handle_for_the_next_segment(tmp_path, start, monkeypatch):
    """ulimit -n reached while a segment is full: the port was dead from then on."""
    spooler = start(segment_bytes=100)

    def none_left(*_, **__):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr("tidemill.runtime.sources.port.spool.os.open", none_left)
        send(spooler, b"".join(b"%d,some text to fill it\n" % i for i in range(20)))
        wait_for(has_rows(connector(tmp_path), 20))
    send(spooler, b"20,after\n21,after\n")
    port = connector(tmp_path)
    wait_for(has_rows(port, 22))
    assert everything(port)[0].column("a").to_pylist() == list(range(22))
    spooler.stop()
    again = Spooler(port_spec(), str(tmp_path))
    again.start()
    again.stop()
    spooler.stop = lambda: None


def test_refusals_are_in_the_status(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        port = free_port()
        db.execute(
            f"REGISTER SOURCE P (a INTEGER) FROM PORT {port} WITH (max_connections = 1, line_timeout = '5 s',"
            " connection_timeout = '1 hour')"
        )
        spooler = db.state.ports.spoolers["p"]
        assert (spooler.senders.line, spooler.senders.silent) == (5.0, 3600.0)
        crowd = connected(spooler, 3)
        wait_for(lambda: spooler.senders.counts["refused"] == 2)
        assert db.status()["sources"][0]["senders"] == {"connections": 1, "refused": 2, "silent": 0, "unfinished": 0}
        for sender in crowd:
            sender.close()


# ---- the clock ---------------------------------------------------------------------------------


class Watch:
    """A wall clock that can be set, and a clock that only passes."""

    def __init__(self, now=1_700_000_000_000_000):
        self.wall, self.steady = now, 5_000_000

    def passes(self, us):
        self.wall += us
        self.steady += us

    def clock(self, last=0):
        return SteadyClock(last, wall=lambda: self.wall, steady=lambda: self.steady)


def test_a_day_ahead_and_back_changes_nothing():
    """date -s tomorrow; sleep 20; date -s yesterday: arrival times stood still for a day."""
    watch = Watch()
    clock, begin = watch.clock(), watch.wall
    watch.wall += DAY
    times = []
    for _ in range(20):
        watch.passes(1_000_000)
        times.append(clock.now())
    watch.wall -= DAY
    for _ in range(20):
        watch.passes(1_000_000)
        times.append(clock.now())
    assert times == [begin + i * 1_000_000 for i in range(1, 41)]


def test_a_clock_that_stays_ahead_is_followed_and_views_never_freeze():
    watch = Watch()
    clock, before = watch.clock(), 0
    watch.wall += DAY
    for _ in range(61):
        watch.passes(1_000_000)
        before = clock.now()
    assert before == watch.wall
    watch.wall -= DAY
    for _ in range(100):
        watch.passes(1_000_000)
        assert clock.now() == before + 500_000
        before += 500_000


def test_a_spool_that_is_a_day_ahead_goes_on():
    """Stamped while the clock was wrong, opened again when it was right."""
    watch = Watch()
    ahead = watch.wall + DAY
    clock = watch.clock(ahead)
    watch.passes(10_000_000)
    assert clock.now() == ahead + 5_000_000


def test_the_promise_of_a_port_goes_on_when_the_clock_comes_back(tmp_path, start):
    """Views over a port without a timestamp close by this clock: they were frozen for a day."""
    watch = Watch()
    spooler, port = start(clock=watch.clock), connector(tmp_path)

    def promised():
        return port.latest(port.initial(), None, True, 0).clock

    watch.wall += DAY
    watch.passes(5_000_000)
    wait_for(lambda: promised() == watch.wall - DAY)
    watch.wall -= DAY
    watch.passes(5_000_000)
    wait_for(lambda: promised() == watch.wall)
    spooler._append([(b"1,x", 0)])
    wait_for(has_rows(port, 1))
    assert everything(port)[0].column("__arrival").to_pylist() == [watch.wall]


@effort(150)
@given(st.lists(st.tuples(st.integers(0, 100_000_000), st.one_of(st.just(0), st.integers(-2 * DAY, 2 * DAY)))))
def test_time_never_goes_back_nor_stands_still(steps):
    watch = Watch()
    clock = watch.clock()
    last = clock.now()
    for passed, jump in steps:
        watch.passes(passed)
        watch.wall += jump
        now = clock.now()
        assert now >= last + passed // 2 - 1
        last = now
    for _ in range(PATIENCE_US // 1_000_000 + 2):
        watch.passes(1_000_000)
        last = clock.now()
    assert last >= watch.wall - JUMP_US


def test_generated_rows_go_on_when_the_clock_comes_back(tmp_path, monkeypatch):
    watch = Watch(time.time_ns() // 1000)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            "REGISTER SOURCE S (a INTEGER) FROM GENERATE (rate = 100); CREATE TAGGED STREAM T OVER S;"
            "CREATE VIEW V AS SELECT count(*) AS n FROM T"
        )
        db.start()
        assert isinstance(db.planner, Planner)
        db.planner.clock = watch.clock()

        def rows():
            db.step()
            return db.offset["sources"]["S"]["position"]["row"]

        watch.passes(2_000_000)
        assert rows() < 2000
        watch.wall += DAY
        watch.passes(1_000_000)
        before = rows()
        watch.wall -= DAY
        watch.passes(1_000_000)
        assert before < 2000 and before < rows() < 2000
