"""What waits on a port waits a bounded time, whatever the speed of the engine, and a fast engine is not held back."""

from __future__ import annotations

import pytest

from tidemill.runtime.sources.port.backlog import Backlog

FIXED_S = 0.3  # of a micro-batch that does nothing


def simulate(bytes_a_second: float, seconds: float, most: int = 64 << 20) -> tuple[float, float]:
    """Senders that always have more: (longest time from arrival to commit in the second half, bytes processed/s)."""
    now = 0.0
    backlog = Backlog(most, clock=lambda: now)
    received = committed = 0
    arrived: list[tuple[int, float]] = []
    waits, begin, done_before = [], None, 0
    while now < seconds:
        room = max(backlog.limit - (received - committed), 0)
        received += room
        arrived.append((received, now))
        backlog.hold()
        batch_end = received
        # The batch runs; what fits into the backlog arrives meanwhile, at its beginning.
        room = max(backlog.limit - (received - committed), 0)
        received += room
        arrived.append((received, now))
        now += FIXED_S + (batch_end - committed) / bytes_a_second
        committed = batch_end
        while arrived and arrived[0][0] <= committed:
            waits.append((now, now - arrived.pop(0)[1]))
        backlog.commit(committed, received)
        if begin is None and now > seconds / 2:
            begin, done_before = now, committed
    longest = max(wait for at, wait in waits if at > seconds / 2)
    assert begin is not None
    return longest, (committed - done_before) / (now - begin)


@pytest.mark.parametrize("megabytes_a_second", [3, 6, 15, 30, 100])
def test_what_waits_is_answered_in_seconds(megabytes_a_second):
    longest, speed = simulate(megabytes_a_second * 1e6, 300)
    assert longest < 8
    assert speed > 0.6 * megabytes_a_second * 1e6


def test_an_engine_that_keeps_up_says_nothing_of_its_speed():
    now = 0.0
    backlog = Backlog(64 << 20, clock=lambda: now)
    for step in range(1, 50):
        now += 1.0
        backlog.commit(1000 * step, 1000 * step)
    assert backlog.limit == 8 << 20
    backlog.hold()
    now += 1.0
    backlog.commit(20 << 20, 20 << 20)
    assert backlog.limit > 8 << 20


def test_the_users_limit_is_never_exceeded():
    now = 0.0
    backlog = Backlog(50_000, clock=lambda: now)
    assert backlog.limit == 50_000
    backlog.hold()
    now += 0.001
    backlog.commit(10**9, 10**9)
    assert backlog.limit == 50_000
