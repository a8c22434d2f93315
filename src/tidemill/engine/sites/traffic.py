"""Bytes that have crossed on an edge, by its event time: what a forecast is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.plan.physical import BEGINNING


@dataclass
class Traffic:
    """Messages of one edge since this process has it open."""

    bytes: int = 0
    rows: int = 0
    messages: int = 0
    first: int = BEGINNING  # how far the edge was closed behind the first message that said so
    last: int = BEGINNING
    early: int = 0  # bytes up to that message: its time is not known

    def add(self, size: int, rows: int, frontier: int) -> None:
        """One more message, and how far time is closed behind it."""
        self.bytes, self.rows, self.messages = self.bytes + size, self.rows + rows, self.messages + 1
        if self.first == BEGINNING:
            self.first, self.early = frontier, self.bytes
        self.last = max(self.last, frontier)

    @property
    def rate(self) -> float | None:
        """Bytes a second of event time; None where less than two messages with times have come.

        >>> edge = Traffic()
        >>> edge.add(900, 5, 1_000_000), edge.rate
        (None, None)
        >>> edge.add(500, 5, 3_000_000), edge.rate
        (None, 250.0)
        """
        span = (self.last - self.first) / 1e6
        return (self.bytes - self.early) / span if span > 0 and self.first > BEGINNING else None
