"""Arrival times: the wall clock, without its jumps."""

from __future__ import annotations

import time
from collections.abc import Callable

JUMP_US = 1_000_000  # a larger step ahead is a wall clock that was set
PATIENCE_US = 60_000_000  # such a step is followed when it has lasted this long


def wall_us() -> int:
    """Microseconds since 1970 by the wall clock, which can be set to any time."""
    return time.time_ns() // 1000


def steady_us() -> int:
    """Microseconds of a clock that cannot be set; it counts a suspended machine's sleep where the system does."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000


class SteadyClock:
    """Wall-clock time that never goes back or stands still, and ignores a jump that is corrected within a minute.

    Normally it is the wall clock. A jump ahead is followed after a minute; until then time passes as if there had been
    none. While the wall clock is behind (it was set back, or `last` is ahead of it), this clock runs at half speed
    until the wall clock has caught up: times stay in order, windows go on closing.
    """

    def __init__(self, last: int = 0, wall: Callable[[], int] = wall_us, steady: Callable[[], int] = steady_us) -> None:
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
            lasting = steady - self._ahead_since >= PATIENCE_US
            self._time = wall if lasting else self._time + passed
            return int(self._time)
        self._ahead_since = None
        self._time = max(wall, self._time + passed / 2)
        return int(self._time)
