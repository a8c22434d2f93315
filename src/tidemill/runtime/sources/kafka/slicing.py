"""Cuts what is new in a topic into slices whose partitions lie at the same time, as far as that is known.

A source has one order of its rows, and a row is late when it is too far behind a row before it. Partitions one after
the other would make most rows of the second one late. So slices are short, a slice ends at one time of the records in
all partitions, and the records of a slice are read in the order of their times (`fetch`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tidemill.runtime.sources.kafka.slices import Part

AtTime = Callable[[int], dict[int, int]]  # milliseconds → the first offset of that time or later of each partition


def cut_evenly(ends: dict[int, int], upto: dict[int, int], rows: int) -> Iterator[tuple[Part, ...]]:
    """Slices of about `rows` offsets, with the same share of what is left of every partition.

    >>> list(cut_evenly({0: 0, 1: 5}, {0: 6, 1: 7}, 4))
    [((0, 0, 3), (1, 5, 6)), ((0, 3, 6), (1, 6, 7))]
    """
    at = dict(ends)
    while left := sum(upto[p] - at[p] for p in upto):
        pieces = -(-left // max(rows, 1))
        stop = {p: at[p] + -(-(upto[p] - at[p]) // pieces) for p in upto}
        yield parts_between(at, stop)
        at = stop


def parts_between(start: dict[int, int], stop: dict[int, int]) -> tuple[Part, ...]:
    """The ranges of the partitions that have something between two places."""
    return tuple((p, start[p], stop[p]) for p in sorted(stop) if stop[p] > start[p])


class TimeCuts:
    """Finds the next time at which a slice of about `rows` offsets ends; begins with the width of the last slice."""

    def __init__(self) -> None:
        self._width = 1000
        self._time: int | None = None

    def next_slice(
        self, ends: dict[int, int], upto: dict[int, int], rows: int, at_time: AtTime
    ) -> Iterator[tuple[Part, ...]]:
        """One slice that ends at a time; several, cut evenly, where too many records have the same time."""
        if sum(upto[p] - ends[p] for p in upto) <= rows:
            yield parts_between(ends, upto)
            return
        low, high, stop = self._search(ends, upto, rows, at_time)
        if stop is None:  # no time between them: all these records are of one
            stop = at_time(high)
            yield from cut_evenly(ends, {p: max(stop[p], ends[p]) for p in upto}, rows)
        else:
            yield parts_between(ends, stop)
        self._width = max(high - (self._time or low), 1)
        self._time = high

    def _search(
        self, ends: dict[int, int], upto: dict[int, int], rows: int, at_time: AtTime
    ) -> tuple[int, int, dict[int, int] | None]:
        """A time at which half to all of `rows` are before; without one, two times that touch each other."""
        low = self._time or 0
        high = time.time_ns() // 1_000_000 + 86_400_000
        guess = low + self._width if self._time else (low + high) // 2
        while high - low > 1:
            guess = min(max(guess, low + 1), high - 1)
            stop = {p: max(o, ends[p]) for p, o in at_time(guess).items()}
            count = sum(stop[p] - ends[p] for p in upto)
            if rows // 2 <= count <= rows and count:
                return low, guess, stop
            low, high = (low, guess) if count > rows else (guess, high)
            near = self._time is not None and count <= rows and guess - (self._time or 0) < 64 * self._width
            guess = guess + (guess - (self._time or 0)) if near else (low + high) // 2
        return low, high, None
