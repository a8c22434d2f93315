"""Expressions that have a value on every row. Any other one may fail, and a row on which it fails is put aside.

A view that evaluates an expression that may fail does not show the rows on which it does; a query that does not
evaluate it would.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tidemill.optimize.views.canonical import MIRROR, bare, canonical, stamp_of
from tidemill.optimize.views.implication import constant_of
from tidemill.plan.aggregates import decimal_shape
from tidemill.plan.relations import TS
from tidemill.plan.scalars import Chain, ColumnRef, Epoch, In, IsNull, Literal, Negative, Not, Operation, Scalar, When

_DIGITS = {
    "TINYINT": 3,
    "SMALLINT": 5,
    "INTEGER": 10,
    "BIGINT": 19,
    "HUGEINT": 39,
    "UTINYINT": 3,
    "USMALLINT": 5,
    "UINTEGER": 10,
    "UBIGINT": 20,
}
_MOST_DIGITS = 38  # of a DECIMAL
_FLOATS = ("DOUBLE", "FLOAT")


def is_total(value: Scalar, types: Mapping[str, str]) -> bool:
    """True when the expression certainly has a value, or is NULL, on every row; `types` by canonical column.

    >>> a = ColumnRef("a")
    >>> types = {canonical(a): "INTEGER"}
    >>> is_total(Operation(">", a, Literal("3")), types), is_total(Operation("+", a, Literal("1")), types)
    (True, False)
    """
    value = bare(value)
    if isinstance(value, (ColumnRef, Literal)) or constant_of(value) is not None:
        return True
    if isinstance(value, Operation) and value.sign == "%":
        divisor = constant_of(value.right)
        return isinstance(divisor, Fraction) and divisor > 0 and _are_comparable([value.left, value.right], types)
    if isinstance(value, Operation) and value.sign in MIRROR:
        return _are_comparable([value.left, value.right], types)
    if isinstance(value, In):
        return _are_comparable([value.value, *value.options], types)
    if isinstance(value, Epoch):
        return isinstance(bare(value.parts[0]), ColumnRef)
    stamp = stamp_of(value)
    if stamp is not None:  # not every number is a time
        return stamp[1] is not None or _is_time(stamp[0])
    return _is_total_logic(value, types)


def is_total_condition(value: Scalar, types: Mapping[str, str]) -> bool:
    """True when the condition certainly holds or does not hold, or is NULL: a text need not be a truth value.

    >>> s = ColumnRef("s")
    >>> [is_total_condition(s, {canonical(s): kind}) for kind in ("BOOLEAN", "VARCHAR")]
    [True, False]
    """
    value = bare(value)
    if isinstance(value, ColumnRef):
        return types.get(canonical(value)) == "BOOLEAN"
    if isinstance(value, Literal):
        return value.text.upper() in ("TRUE", "FALSE", "NULL")
    tests = isinstance(value, (Chain, Not, In, IsNull))
    tests = tests or (isinstance(value, Operation) and value.sign in MIRROR)
    return tests and is_total(value, types)


def _is_total_logic(value: Scalar, types: Mapping[str, str]) -> bool:
    if isinstance(value, (Chain, Not)):
        return all(is_total_condition(part, types) for part in value.parts)
    if isinstance(value, IsNull):
        return is_total(value.value, types)
    if isinstance(value, When):
        return is_total_condition(value.test, types) and is_total(value.value, types)
    return False


def _are_comparable(values: list[Scalar], types: Mapping[str, str]) -> bool:
    """True when values are compared as they are, or by a conversion that cannot fail."""
    kinds = set()
    for value in map(bare, values):
        constant, stamp = constant_of(value), stamp_of(value)
        if stamp is not None and _is_time(stamp[0]):
            kinds.add("TIMESTAMP" if stamp[1] is None else "number")
        elif constant is None and not isinstance(value, ColumnRef):
            return False
        else:
            kinds.add(_kind(types.get(canonical(value), "")) if constant is None else _constant_kind(constant))
    if kinds == {"number"}:
        return _fit_together([_shape(bare(value), types) for value in values])
    return len(kinds) == 1 and "" not in kinds


def _fit_together(shapes: list[tuple[int, int, bool] | None]) -> bool:
    """True when numbers can be compared: any with floats (None), and decimals that fit into one type. A shape has the
    digits before and after the point, and whether it is a decimal.
    """
    exact = [shape for shape in shapes if shape is not None]
    if len(exact) < len(shapes) or not any(is_decimal for _, _, is_decimal in exact):
        return True
    return max(whole for whole, _, _ in exact) + max(scale for _, scale, _ in exact) <= _MOST_DIGITS


def _shape(value: Scalar, types: Mapping[str, str]) -> tuple[int, int, bool] | None:
    if isinstance(value, ColumnRef):
        type_name = types[canonical(value)]
        if type_name.startswith("DECIMAL"):
            digits, scale = decimal_shape(type_name) or (_MOST_DIGITS + 1, 0)
            return digits - scale, scale, True
        return None if type_name in _FLOATS else (_DIGITS[type_name], 0, False)
    if stamp_of(value) is not None:
        return _DIGITS["BIGINT"], 0, False
    while isinstance(value, Negative):
        value = bare(value.value)
    assert isinstance(value, Literal)
    whole, point, rest = value.text.partition(".")
    return len(whole), len(rest), bool(point)


def _is_time(column: ColumnRef) -> bool:
    """Whether a column is the TS of a stream, as the engine has it."""
    return column.name.rpartition(".")[2] == TS


def _constant_kind(constant: object) -> str:
    return "text" if isinstance(constant, str) else "number"


def _kind(type_name: str) -> str:
    if type_name in _DIGITS or type_name in _FLOATS or type_name.startswith("DECIMAL"):
        return "number"
    return "text" if type_name == "VARCHAR" else type_name
