"""Expressions that have a value on every row. Any other one may fail, and a row on which it fails is put aside.

A view that evaluates an expression that may fail does not show the rows on which it does; a query that does not
evaluate it would.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tidemill.optimize.views.canonical import MIRROR, bare, canonical, stamp_of
from tidemill.optimize.views.implication import constant_of
from tidemill.plan.scalars import Chain, ColumnRef, Epoch, In, Literal, Not, Operation, Scalar, Template

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_FLOATS = ("DOUBLE", "FLOAT")
_TESTS = (("", " IS NULL"), ("CASE WHEN ", " THEN ", " END"))


def is_total(value: Scalar, types: Mapping[str, str]) -> bool:
    """True when the expression certainly has a value, or is NULL, on every row; `types` by canonical column.

    >>> a = ColumnRef("a")
    >>> types = {canonical(a): "INTEGER"}
    >>> is_total(Operation(">", a, Literal("3")), types), is_total(Template(("", " + 1"), (a,)), types)
    (True, False)
    """
    value = bare(value)
    if isinstance(value, (ColumnRef, Literal)) or constant_of(value) is not None:
        return True
    if isinstance(value, Operation) and value.sign == "%":
        divisor = constant_of(value.right)
        return isinstance(bare(value.left), ColumnRef) and isinstance(divisor, Fraction) and divisor > 0
    if isinstance(value, Operation):
        return value.sign in MIRROR and _comparable([value.left, value.right], types)
    if isinstance(value, In):
        return _comparable([value.value, *value.options], types)
    if isinstance(value, Epoch) or stamp_of(value) is not None:
        return isinstance(bare(value.parts[0]), ColumnRef)
    simple = isinstance(value, (Chain, Not)) or (isinstance(value, Template) and value.texts in _TESTS)
    return simple and all(is_total(part, types) for part in value.parts)


def _comparable(values: list[Scalar], types: Mapping[str, str]) -> bool:
    """True when values are compared as they are, or by a conversion that cannot fail."""
    kinds = set()
    for value in map(bare, values):
        constant = constant_of(value)
        if constant is None and not isinstance(value, ColumnRef):
            return False
        kinds.add(_kind(types.get(canonical(value), "")) if constant is None else _constant_kind(constant))
    return len(kinds) == 1 and "" not in kinds


def _constant_kind(constant: object) -> str:
    return "text" if isinstance(constant, str) else "number"


def _kind(type_name: str) -> str:
    if type_name in _NUMBERS or type_name in _FLOATS or type_name.startswith("DECIMAL"):
        return "number"
    return "text" if type_name == "VARCHAR" else type_name
