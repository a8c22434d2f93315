"""Times that return at a fixed distance: p ≡ offset (mod every), all of them or those from a first one on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, lcm

from tidemill.plan.cached import cached_property

MOST_CLASSES = 100_000  # residue classes that `covered` looks at; above that the answer is "unknown"


@dataclass(frozen=True)
class Every:
    """The points p ≡ offset_us (mod every_us), in microseconds; with `since_us` only those at or after that time.

    Equal sets of points are equal objects: the offset is a residue, and `since_us` is the first point itself.

    >>> Every(5, 7) == Every(5, 2), Every(5, 2, 3)
    (True, Every(every_us=5, offset_us=2, since_us=7))
    """

    every_us: int
    offset_us: int = 0
    since_us: int | None = None

    def __post_init__(self) -> None:
        assert self.every_us > 0, f"a period is at least one microsecond, not {self.every_us}"
        object.__setattr__(self, "offset_us", self.offset_us % self.every_us)
        if self.since_us is not None:
            since = self.since_us + (self.offset_us - self.since_us) % self.every_us
            object.__setattr__(self, "since_us", since)

    def last_point_before(self, time: int) -> int | None:
        """The last point before a time; None where there is none.

        >>> Every(5, 1).last_point_before(-4), Every(5, 1, 0).last_point_before(1)
        (-9, None)
        """
        point = time - 1 - (time - 1 - self.offset_us) % self.every_us
        return point if self.since_us is None or point >= self.since_us else None

    @cached_property
    def order(self) -> tuple[int, int, int]:
        """What periods are sorted by, so that equal unions are equal."""
        return self.every_us, self.offset_us, -1 if self.since_us is None else self.since_us


def intersect_periods(a: Every, b: Every) -> Every | None:
    """The points of both, by the Chinese remainder theorem; None where no point is in both.

    Points p = a.offset + k · a.every are in b when k · a.every ≡ b.offset - a.offset (mod b.every): k is known modulo
    b.every / g, with g the greatest common divisor of both lengths, if g divides the right side; else there is none.

    >>> intersect_periods(Every(2), Every(3)), intersect_periods(Every(4, 1), Every(6, 3)).offset_us
    (Every(every_us=6, offset_us=0, since_us=None), 9)
    >>> intersect_periods(Every(4, 1), Every(6, 2)) is None
    True
    """
    shared = gcd(a.every_us, b.every_us)
    apart = b.offset_us - a.offset_us
    if apart % shared:
        return None
    steps = b.every_us // shared
    k = apart // shared * pow(a.every_us // shared, -1, steps) % steps if steps > 1 else 0
    begins = [since for since in (a.since_us, b.since_us) if since is not None]
    return Every(lcm(a.every_us, b.every_us), a.offset_us + k * a.every_us, max(begins) if begins else None)


def is_covered(period: Every, by: Sequence[Every], most: int = MOST_CLASSES) -> bool | None:
    """Whether each point of a period is a point of one of some others; None where that needs more than `most` classes.

    Several may cover a period together: 0 (mod 3) is inside 0 (mod 2) ∪ 1 (mod 2). The points of the period fall into
    residue classes modulo the least common multiple L of all lengths. Another period contains a class from its own
    first point on, or has no point of it. So each class is covered when the earliest of those that contain it begins
    early enough.

    >>> is_covered(Every(4), [Every(2)]), is_covered(Every(2), [Every(4), Every(3)])
    (True, False)
    >>> is_covered(Every(3), [Every(2), Every(2, 1)]), is_covered(Every(3), [Every(2), Every(2, 1, 0)])
    (True, False)
    """
    if any(_contains(other, period) for other in by):
        return True
    meeting = [other for other in by if intersect_periods(period, other) is not None]
    # Others that have less than all of the points together, even if they shared none, leave some out.
    whole = lcm(period.every_us, *(other.every_us for other in meeting))
    shares = sum(whole // lcm(period.every_us, other.every_us) for other in meeting)
    classes = whole // period.every_us
    if shares < classes:
        return False
    if classes > most:
        return None
    residues = range(period.offset_us, period.offset_us + whole, period.every_us)
    return all(_is_class_covered(Every(whole, residue, period.since_us), meeting) for residue in residues)


def _contains(other: Every, period: Every) -> bool:
    """True when all points of a period are points of one other."""
    if period.every_us % other.every_us or (period.offset_us - other.offset_us) % other.every_us:
        return False
    return other.since_us is None or (period.since_us is not None and other.since_us <= period.since_us)


def _is_class_covered(points: Every, by: Sequence[Every]) -> bool:
    return any(_contains(other, points) for other in by)


__all__ = ["MOST_CLASSES", "Every", "intersect_periods", "is_covered"]
