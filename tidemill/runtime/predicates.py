"""Programs of `optimize.share.predicates` over arrays without missing values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

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
