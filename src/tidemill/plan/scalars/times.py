"""When rows enter and leave windows: times that are shifted by a constant, rounded up to a point, or numbered.

Rules recognise these nodes only; they assume nothing about any other expression.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tidemill.plan.scalars.nodes import ColumnRef, Paren, Piece, Scalar, separate


@dataclass(frozen=True, eq=False, repr=False)
class Shift(Scalar):
    """A time plus or minus a number of microseconds."""

    time: Scalar
    sign: Literal["+", "-"]
    us: int

    def pieces(self) -> Iterable[Piece]:
        return ("(", self.time, f" {self.sign} {self.us})")


@dataclass(frozen=True, eq=False, repr=False)
class Extreme(Scalar):
    """The least or the greatest of some times."""

    function: Literal["least", "greatest"]
    times: tuple[Scalar, ...]

    def pieces(self) -> Iterable[Piece]:
        return (f"{self.function}(", *separate(self.times, ", "), ")")


@dataclass(frozen=True, eq=False, repr=False)
class Ceiling(Scalar):
    """The least synchronization point at or after a time; right for negative times too."""

    time: Scalar
    every: int
    offset: int

    def pieces(self) -> Iterable[Piece]:
        # The time that is left has the sign of the dividend; DuckDB computes it once.
        before, after = f"(({self.offset} - ", f") % {self.every})"
        left = (before, self.time, after)
        return ("(", self.time, " + ", *left, " + CASE WHEN ", *left, f" < 0 THEN {self.every} ELSE 0 END)")


@dataclass(frozen=True, eq=False, repr=False)
class Epoch(Scalar):
    """⌊time / length⌋: one number for each epoch of this length, before time 0 too.

    >>> Epoch(ColumnRef("__ts"), 5, "INTEGER").sql
    'CAST("__ts" // 5 - CASE WHEN "__ts" % 5 < 0 THEN 1 ELSE 0 END AS INTEGER)'
    """

    time: Scalar
    length: int
    type: str

    def pieces(self) -> Iterable[Piece]:
        # DuckDB divides towards zero: without the correction the epochs beside time 0 would share a number.
        size = self.length
        correction = f" % {size} < 0 THEN 1 ELSE 0 END AS {self.type})"
        return ("CAST(", self.time, f" // {size} - CASE WHEN ", self.time, correction)


@dataclass(frozen=True, eq=False, repr=False)
class Timestamp(Scalar):
    """Microseconds as a TIMESTAMP."""

    us: Scalar
    function: str = "make_timestamp"  # as it is written: plans are fingerprinted by their text

    def pieces(self) -> Iterable[Piece]:
        return (f"{self.function}(", self.us, ")")


def shift_of(scalar: Scalar) -> tuple[str, int] | None:
    """(column, c) when the expression is a column plus a constant c; None for anything else.

    >>> ts = ColumnRef("__ts")
    >>> shift_of(Shift(Shift(ts, "-", 3), "+", 10)), shift_of(Extreme("least", (Shift(ts, "+", 5), ts)))
    (('__ts', 7), ('__ts', 0))
    """
    if isinstance(scalar, Paren):
        return shift_of(scalar.value)
    if isinstance(scalar, ColumnRef):
        return scalar.name, 0
    if isinstance(scalar, Shift):
        base = shift_of(scalar.time)
        return None if base is None else (base[0], base[1] + (scalar.us if scalar.sign == "+" else -scalar.us))
    if isinstance(scalar, Extreme):
        known = [found for found in map(shift_of, scalar.times) if found is not None]
        if len(known) == len(scalar.times) and len({column for column, _ in known}) == 1:
            extreme = max if scalar.function == "greatest" else min
            return known[0][0], extreme(c for _, c in known)
    return None


def undo_rounding(bound: Scalar, period: tuple[int, int]) -> Scalar | None:
    """The time that a bound rounds up to the points of this period; None for anything else.

    >>> undo_rounding(Ceiling(ColumnRef("__ts"), 5, 3), (5, 3)), undo_rounding(ColumnRef("__ts"), (5, 3))
    (<"__ts">, None)
    """
    if isinstance(bound, Ceiling) and (bound.every, bound.offset) == period:
        return bound.time
    return None
