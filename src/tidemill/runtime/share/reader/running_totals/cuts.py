"""Classes of values that no comparison of a column with a number tells apart."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np

from tidemill.plan.predicate_programs import Program
from tidemill.runtime.thresholds import sizes

_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1  # of 64 bits


@dataclass(frozen=True)
class Cuts:
    """Programs over one column tell apart no two values of one *class*, a stretch of values between two cuts.

    `table[v - least]` is the class of v; values beyond the ends of the table are in the classes of its ends. `values`
    has one value of each class.
    """

    least: int
    table: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def at(cls, cuts: Sequence[int]) -> Cuts:
        """The classes between these cuts, which are in order and `near`.

        >>> found = Cuts.at([4, 5, 6])
        >>> found.least, found.table.tolist(), found.values.tolist()
        (3, [0, 1, 2, 3], [3, 4, 5, 6])
        """
        least = cuts[0] - 1
        table = np.searchsorted(np.array(cuts), np.arange(least, cuts[-1] + 1), side="right").astype(np.uint8)
        return cls(least, table, np.array([least, *cuts]))


def near(cuts: Set[int]) -> bool:
    """True where a table from the first to the last cut is small, and they are not at the ends of 64 bits."""
    first, last = min(cuts), max(cuts)
    return last - first <= sizes.span and first > _LEAST and last < _GREATEST


def find_cuts(atom: Program) -> set[int]:
    """The least values of the stretches on which a comparison is true throughout, or false.

    >>> sorted(find_cuts(["in", "a", [3, 7]]))
    [3, 4, 7, 8]
    """
    what = atom[0]
    if what in ("<", ">="):
        return {atom[2]}
    if what in ("<=", ">"):
        return {atom[2] + 1}
    return {cut for number in (atom[2] if what == "in" else [atom[2]]) for cut in (number, number + 1)}
