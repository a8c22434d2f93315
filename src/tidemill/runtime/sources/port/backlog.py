"""How much may be received before it is processed: what readers take in a few seconds, and never more than is allowed.

Behind a slow engine a fixed number of bytes is any length of time: 64 MB are two seconds at 500,000 rows/s and a
quarter of a minute at 60,000. The limit follows what was processed while there was always something to do, so what has
arrived is answered in a bounded time whatever the speed, and the senders wait instead. Small batches have their fixed
cost, so the limit is never below a size at which that is little.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

SECONDS = 3.0  # of processing: one batch under way and one that waits
LEAST_BYTES = 8 << 20  # a sender is not held back for less: at 100 MB/s it is less than a tenth of a second
_SAMPLES = 4  # the fastest of the last intervals counts: a batch may be slow for reasons that pass


class Backlog:
    """The limit on bytes received and not committed, from the times of the commits."""

    def __init__(
        self,
        most: int,
        seconds: float | None = None,
        least: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._clock = most, clock
        self._seconds, self._least = seconds or SECONDS, min(least or LEAST_BYTES, most)
        self._rates: deque[float] = deque(maxlen=_SAMPLES)
        self._committed, self._received, self._at = 0, 0, clock()
        self._held = False

    @property
    def limit(self) -> int:
        """Bytes."""
        return min(max(int(self._seconds * max(self._rates, default=0.0)), self._least), self._most)

    def hold(self) -> None:
        """A sender waits because of the limit."""
        self._held = True

    def commit(self, committed: int, received: int) -> None:
        """Record the bytes processed and received so far; call it often, the rate is measured between two calls."""
        if committed <= self._committed:
            return
        now = self._clock()
        # There was always something to do if senders were held, or if all this was there at the last commit.
        if self._held or committed <= self._received:
            self._rates.append((committed - self._committed) / max(now - self._at, 1e-3))
        self._committed, self._received, self._at, self._held = committed, received, now, False
