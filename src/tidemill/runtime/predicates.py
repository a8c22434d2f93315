"""Programs of `optimize.share.predicates` over arrays without missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidemill.runtime.thresholds import sizes

_COMPARE = {
    "=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}


def columns_of(program: list[Any]) -> set[str]:
    """The columns that a program reads.

    >>> sorted(columns_of(["and", [">", "a", 3], ["in", "b", [1, 2]]]))
    ['a', 'b']
    """
    if program[0] in ("and", "or", "not"):
        return {c for p in program[1:] for c in columns_of(p)}
    return {program[1]}


def evaluate(program: list[Any], columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """One truth value for each row.

    >>> evaluate(["not", [">", "a", 3]], {"a": np.array([1, 5])}).tolist()
    [True, False]
    """
    what = program[0]
    if what == "not":
        return ~evaluate(program[1], columns)
    if what in ("and", "or"):
        join = np.logical_and if what == "and" else np.logical_or
        result = evaluate(program[1], columns)
        for other in program[2:]:
            result = join(result, evaluate(other, columns))
        return result
    values = columns[program[1]]
    if what == "in":
        result = np.zeros(len(values), bool)
        for number in program[2]:
            result |= _compared("=", values, number)
        return result
    return _compared(what, values, program[2])


def _compared(sign: str, values: np.ndarray, number: int) -> np.ndarray:
    facts = np.iinfo(values.dtype)
    if not facts.min <= number <= facts.max:
        # No value of this width equals the number: all lie on one side of it.
        below = number > facts.max
        return np.full(len(values), sign == "<>" or ((sign in ("<", "<=")) == below and sign not in ("=",)))
    return _COMPARE[sign](values, values.dtype.type(number))


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


def atoms(program: list[Any]) -> list[list[Any]]:
    """The comparisons of a program.

    >>> atoms(["or", ["<=", "a", 3], ["not", ["=", "b", 7]]])
    [['<=', 'a', 3], ['=', 'b', 7]]
    """
    return [a for p in program[1:] for a in atoms(p)] if program[0] in ("and", "or", "not") else [program]


def cuts(atom: list[Any]) -> set[int]:
    """The least values of the stretches on which a comparison is true throughout, or false.

    >>> sorted(cuts(["in", "a", [3, 7]]))
    [3, 4, 7, 8]
    """
    what = atom[0]
    if what in ("<", ">="):
        return {atom[2]}
    if what in ("<=", ">"):
        return {atom[2] + 1}
    return {cut for number in (atom[2] if what == "in" else [atom[2]]) for cut in (number, number + 1)}
