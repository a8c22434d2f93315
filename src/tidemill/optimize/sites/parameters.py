"""Statistics of streams and links, in the notation of Table 4 of paper 001."""

from __future__ import annotations

import math
from dataclasses import dataclass

ALGORITHMS = ("SP-S", "SP-D", "SM-S1", "SM-S2", "SM-D1", "SM-D2", "BLOOM")
PAPER = ALGORITHMS[:6]
MOST_VALUES = 1e12  # of a join column in which every value is new
AT_SOURCE = frozenset({"SP-S", "SM-S1", "SM-S2", "BLOOM"})


@dataclass(frozen=True)
class SiteStream:
    """A stream at a site: tuples a second, length of its window in seconds, bytes of a full and a partial tuple, and
    the number of distinct join values, 1/f.
    """

    site: str
    rate: float
    window: float
    full: float
    partial: float
    distinct: float

    def __post_init__(self) -> None:
        if not (self.rate > 0 and self.window > 0 and self.full > 0 and self.partial > 0 and self.distinct >= 1):
            raise ValueError(f"not a stream: {self}")


@dataclass(frozen=True)
class Link:
    """Seconds of latency, bytes a second, and bytes that a message costs whatever is in it (headers, frontier)."""

    latency: float
    bandwidth: float
    message_bytes: float = 0.0


@dataclass(frozen=True)
class Constants:
    """Seconds to probe (c_p), insert (c_i), update (c_u) and hash (c_h) a tuple, and bytes of a count.

    The paper prints no values; its Table 4 has no c_i, which its formulas use beside c_u.
    """

    c_p: float = 1e-6
    c_i: float = 1e-6
    c_u: float = 1e-6
    c_h: float = 1e-6
    count_bytes: float = 4.0
    fingerprint_bytes: float = 4.0


@dataclass(frozen=True)
class OneWayJoin:
    """A one-way join from S1 to S2, executed every `interval` seconds; `grace`: how long removals from W2 wait.

    `draws` is the number of independent join values a second that S1 has: its rate, unless S1 is a join in which one
    tuple gives several rows.
    """

    first: SiteStream
    second: SiteStream
    interval: float
    grace: float = 0.0
    draws: float | None = None

    @property
    def batch(self) -> tuple[float, float]:
        """wp_1 and wp_2: tuples in the buffers."""
        return self.first.rate * self.interval, self.second.rate * self.interval

    @property
    def values(self) -> float:
        """Independent join values of S1 in a buffer."""
        return (self.first.rate if self.draws is None else self.draws) * self.interval

    @property
    def stay(self) -> float:
        """Intervals that a tuple stays in W2."""
        return max(1.0, (self.second.window + self.grace) / self.interval)

    @property
    def common(self) -> float:
        """Join values that both streams have: the smaller set is part of the larger one, as the paper assumes."""
        return min(self.first.distinct, self.second.distinct)


def occupancy(values: float, draws: float) -> float:
    """Distinct values among this many draws: d (1 - (1 - 1/d)^n).

    >>> occupancy(10, 1), round(occupancy(10, 10), 3), round(occupancy(10, 1000), 3), occupancy(1, 5)
    (1.0, 6.513, 10.0, 1.0)
    """
    if draws <= 1 or values <= 1:
        return min(draws, 1.0) if draws < 1 else 1.0
    return -values * math.expm1(draws * math.log1p(-1 / values))


def drawn_share(values: float, draws: float) -> float:
    """The probability that a value is among this many draws: 1 - (1 - 1/d)^n.

    >>> drawn_share(10, 0), drawn_share(10, 1), round(drawn_share(10, 10), 3)
    (0.0, 0.1, 0.651)
    """
    if values <= 1:
        return min(1.0, draws)
    return -math.expm1(draws * math.log1p(-1 / values))


def domain_size(seen: float, draws: float) -> float:
    """How many values there are, if this many draws have shown `seen` different ones: the inverse of `occupancy`.

    >>> round(domain_size(occupancy(1000, 500), 500)), round(domain_size(10, 1e6)), domain_size(40, 40)
    (1000, 10, 1000000000000.0)
    """
    if seen >= draws:
        return MOST_VALUES
    low, high = max(seen, 1.0), MOST_VALUES
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if occupancy(middle, draws) < seen else (low, middle)
    return high
