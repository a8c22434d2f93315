"""Tuples, streams, and a wire that counts what crosses it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

COUNT_BYTES = 4  # a number of expired tuples, or an element of the count vector


@dataclass(frozen=True)
class Item:
    """A tuple, or a joined row of several; `members` are (stream, number) pairs, `values` the join values of each."""

    ts: int
    members: tuple[tuple[int, int], ...]
    values: tuple[tuple[int, tuple[int, ...]], ...]  # (stream, join value of each of its attributes)
    size: int

    def joined(self, other: Item) -> Item:
        """The joined row has the time of the tuple that probes."""
        return Item(self.ts, self.members + other.members, self.values + other.values, self.size + other.size)

    def value(self, stream: int, attribute: int = 0) -> int:
        return next(v[attribute] for s, v in self.values if s == stream)


@dataclass(frozen=True)
class Stream:
    """A stream at a node of its own: tuples in the order of time, a window, bytes of a full and of a partial tuple."""

    number: int
    tuples: Sequence[Item]
    window: int
    full: int
    partial: int

    def batch(self, after: int, until: int) -> list[Item]:
        """B: tuples with after < ts <= until."""
        low, high = (bisect_right(self.tuples, t, key=lambda s: s.ts) for t in (after, until))
        return list(self.tuples[low:high])


@dataclass
class Work:
    """Operations of the processors: tuples probed, inserted or removed, hashed."""

    probes: int = 0
    updates: int = 0
    hashes: int = 0


@dataclass
class Wire:
    """All links: bytes and messages by (from, to, what). A shipment that two joins have in common is counted once."""

    now: int = 0
    bytes: Counter[tuple[int, int, str]] = field(default_factory=Counter)
    messages: Counter[tuple[int, int, str]] = field(default_factory=Counter)
    work: Work = field(default_factory=Work)
    share: bool = False
    shipped: set[Hashable] = field(default_factory=set)
    counting: Callable[[int], bool] = lambda t: True

    def ship(self, source: int, target: int, what: str, size: int, same: Hashable = None) -> None:
        """Count a message of `size` bytes; nothing crosses within a node. `same` names equal shipments of two joins."""
        if source == target or not self.counting(self.now):
            return
        if self.share and same is not None:
            if (self.now, source, target, what, same) in self.shipped:
                return
            self.shipped.add((self.now, source, target, what, same))
        self.bytes[source, target, what] += size
        self.messages[source, target, what] += 1

    def count(self, probes: int = 0, updates: int = 0, hashes: int = 0) -> None:
        """Count operations of the processors."""
        if self.counting(self.now):
            self.work.probes += probes
            self.work.updates += updates
            self.work.hashes += hashes

    @property
    def total(self) -> int:
        return self.bytes.total()

    def seconds(self, latency: float, bandwidth: float) -> float:
        """Transmission time as the paper has it: S(x) = latency + x / bandwidth for each message."""
        return self.messages.total() * latency + self.total / bandwidth
