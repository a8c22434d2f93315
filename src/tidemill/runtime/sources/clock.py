"""Arrival times: the wall clock, as long as it can be believed."""

from __future__ import annotations

import time
from collections.abc import Callable

JUMP_US = 1_000_000  # further ahead than this the wall clock has been set
PATIENCE_US = 60_000_000  # and is believed when it stays there


def wall_us() -> int:
    """Microseconds since 1970, which somebody may set to anything."""
    return time.time_ns() // 1000


def steady_us() -> int:
    """Microseconds that only pass, through a machine's sleep as well where the system counts it."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000


class SteadyClock:
    """Wall-clock time that never goes back, never stands still, and does not follow a jump that is taken back.

    In step with the wall clock it is the wall clock. A wall clock that jumps ahead is followed after a minute; until
    then time passes as if it had not. One that is behind, because it was set back or because `last` is ahead, is waited
    for at half the pace: times stay in order, windows go on closing.
    """

    def __init__(self, last: int = 0, wall: Callable[[], int] = wall_us,
                 steady: Callable[[], int] = steady_us) -> None:
        self._wall, self._steady = wall, steady
        self._time: float = max(last, wall())
        self._seen = steady()
        self._ahead_since: int | None = None

    def now(self) -> int:
        """The time in microseconds."""
        steady, wall = self._steady(), self._wall()
        passed, self._seen = max(0, steady - self._seen), steady
        if wall > self._time + passed + JUMP_US:
            self._ahead_since = steady if self._ahead_since is None else self._ahead_since
            believed = steady - self._ahead_since >= PATIENCE_US
            self._time = wall if believed else self._time + passed
            return int(self._time)
        self._ahead_since = None
        self._time = max(wall, self._time + passed / 2)
        return int(self._time)
