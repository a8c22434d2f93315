"""Windows by time: which rows a query reads, and when.

A window is evaluated at the points p ≡ `offset` (mod `slide`). At point p it holds the rows whose event time ts
satisfies `ts + after <= p < ts + until`. All lengths are microseconds.

    FROM S [RANGE r SLIDE s]                               Window(s, r % s, 1, r + 1)   rows of [p - r, p)
    S SYNC EVERY s … WHERE NOW - r < TS AND TS <= NOW      Window(s, 0, 0, r)           rows of (p - r, p]
    landmark: everything up to now                         until = None

Windows that count rows are the same, with row numbers 1, 2, 3, … in the place of times:

    FROM S [ROWS n SLIDE m]                                Window(m, 0, 0, n)           rows of (p - n, p]

An *edge* of a query is a time at which its fragments end: no window of the query begins or ends inside a fragment
(paired windows, paper 003, section II-B).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Rows inside at the points p ≡ offset (mod slide): those with ts + after <= p < ts + until."""

    slide: int
    offset: int
    after: int
    until: int | None

    @property
    def range(self) -> int | None:
        """How much time the window covers; None for a landmark window."""
        return None if self.until is None else self.until - self.after

    @property
    def phases(self) -> tuple[int, ...]:
        """Edges modulo the slide: where windows begin and where they end, one number when they coincide.

        >>> Window(5, 8 % 5, 1, 9).phases  # q_a of paper 003: r = 8, s = 5
        (0, 3)
        """
        ends = {(self.offset - self.after + 1) % self.slide}
        if self.until is not None:
            ends.add((self.offset - self.until + 1) % self.slide)
        return tuple(sorted(ends))

    def first_point(self, time: int) -> int:
        """The first point at which a row of this event time can be inside.

        >>> Window(5, 3, 1, 9).first_point(3)
        8
        """
        return time + self.after + (self.offset - time - self.after) % self.slide

    def begin(self, point: int) -> int | None:
        """The least event time inside at a point.

        >>> Window(5, 3, 1, 9).begin(8), Window(5, 3, 1, 9).end(8)
        (0, 8)
        """
        return None if self.until is None else point - self.until + 1

    def end(self, point: int) -> int:
        """The least event time after all that are inside at a point."""
        return point - self.after + 1
