"""Predicate programs: comparisons of integer columns with integers, joined by AND, OR and NOT.

A reader evaluates a program on arrays without missing values; every other predicate is evaluated by DuckDB. A program
is a nested list, so that it travels in a plan file:

    ["and", p, …]   ["or", p, …]   ["not", p]   [">", column, number]   ["in", column, [numbers]]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidemill.plan.scalars import Chain, ColumnRef, In, Literal, Negative, Not, Operation, Paren, Scalar

Program = list[Any]

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_MIRROR = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARE = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}

# ---- compile ---------------------------------------------------------------------------------------


def compile_program(predicate: Scalar, types: Mapping[str, str]) -> Program | None:
    """The predicate as a program over columns of these types, or None where it needs more than that.

    >>> a, b = ColumnRef("a"), ColumnRef("b")
    >>> more, some = Operation(">", a, Literal("3")), In(b, (Literal("5"), Negative(Literal("6"))))
    >>> compile_program(Chain("AND", (more, Not(some))), {"a": "INTEGER", "b": "BIGINT"})
    ['and', ['>', 'a', 3], ['not', ['in', 'b', [5, -6]]]]
    >>> compile_program(Operation(">", a, Literal("3.5")), {"a": "INTEGER"}) is None
    True
    """
    predicate = _bare(predicate)
    if isinstance(predicate, Chain):
        return _chain(predicate, types)
    if isinstance(predicate, Not):
        inner = compile_program(predicate.value, types)
        return None if inner is None else ["not", inner]
    if isinstance(predicate, In):
        name, numbers = _column(predicate.value, types), [_number(o) for o in predicate.options]
        return None if name is None or None in numbers else ["in", name, numbers]
    if isinstance(predicate, Operation) and predicate.sign in _MIRROR:
        return _comparison(predicate, types)
    return None


def _chain(chain: Chain, types: Mapping[str, str]) -> Program | None:
    """Pairs within pairs: what running totals decide by group is found part by part."""
    found = compile_program(chain.conditions[0], types)
    for condition in chain.conditions[1:]:
        other = compile_program(condition, types)
        if found is None or other is None:
            return None
        found = [chain.word.lower(), found, other]
    return found


def _comparison(comparison: Operation, types: Mapping[str, str]) -> Program | None:
    left, right, sign = comparison.left, comparison.right, comparison.sign
    for column, value, how in ((left, right, sign), (right, left, _MIRROR[sign])):
        name, number = _column(column, types), _number(value)
        if name is not None and number is not None:
            return [how, name, number]
    return None


def _bare(value: Scalar) -> Scalar:
    while isinstance(value, Paren):
        value = value.value
    return value


def _column(value: Scalar, types: Mapping[str, str]) -> str | None:
    value = _bare(value)
    return value.name if isinstance(value, ColumnRef) and types.get(value.name) in _INTEGERS else None


def _number(value: Scalar) -> int | None:
    value = _bare(value)
    if isinstance(value, Negative):
        inner = _number(value.value)
        return None if inner is None else -inner
    return value.number if isinstance(value, Literal) and len(value.text) < 19 else None


# ---- read and interpret ----------------------------------------------------------------------------


def columns_of(program: Program) -> set[str]:
    """The columns that a program reads.

    >>> sorted(columns_of(["and", [">", "a", 3], ["in", "b", [1, 2]]]))
    ['a', 'b']
    """
    if program[0] in ("and", "or", "not"):
        return {c for p in program[1:] for c in columns_of(p)}
    return {program[1]}


def atoms(program: Program) -> list[Program]:
    """The comparisons of a program.

    >>> atoms(["or", ["<=", "a", 3], ["not", ["=", "b", 7]]])
    [['<=', 'a', 3], ['=', 'b', 7]]
    """
    return [a for p in program[1:] for a in atoms(p)] if program[0] in ("and", "or", "not") else [program]


def evaluate(program: Program, columns: Mapping[str, np.ndarray]) -> np.ndarray:
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
            result |= _compare("=", values, number)
        return result
    return _compare(what, values, program[2])


def _compare(sign: str, values: np.ndarray, number: int) -> np.ndarray:
    facts = np.iinfo(values.dtype)
    if not facts.min <= number <= facts.max:
        # No value of this width equals the number: all lie on one side of it.
        below = number > facts.max
        return np.full(len(values), sign == "<>" or ((sign in ("<", "<=")) == below and sign not in ("=",)))
    return _COMPARE[sign](values, values.dtype.type(number))
