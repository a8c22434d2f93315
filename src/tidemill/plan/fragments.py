"""Partial aggregates that travel as plain numbers: what a row contributes, how contributions combine, how they become
answers.

Every part is a BIGINT or DOUBLE column that combines by sum, min or max, so a hash table bucket, a fragment and a
sliding window treat all aggregates alike. Nothing is lost on the way:

- integer and decimal sums travel as two limbs, v = high · 2^32 + low, and BIGINT sums of limbs cannot overflow in
  practice;
- DOUBLE sums travel as the fixed-point limbs of `plan.aggregates` (multiples of 2^-40 in three limbs of 32 bits,
  coarse ones for values of 2^62
  and more), counts of NaN and infinities, and two DOUBLE remainders;
- MIN and MAX travel as integers in the order of the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidemill.plan.aggregates import INTEGERS, SQUARABLE, Aggregate, Combine, decimal_shape
from tidemill.plan.scalars import Cast, ColumnRef, Scalar, Timestamp, WhereCounted, template

SMALL = {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "BOOLEAN"}
LEAST, MOST = -(1 << 63), (1 << 63) - 1
LIMB = 1 << 32

Lift = Literal[
    "one", "valid", "whole", "low", "high", "order", "f0", "f1", "f2", "r", "g0", "g1", "g2", "b", "nan", "inf", "neg"
]
_DOUBLE_LIFTS: tuple[Lift, ...] = ("f0", "f1", "f2", "r", "g0", "g1", "g2", "b", "nan", "inf", "neg")


@dataclass(frozen=True)
class FragmentPart:
    """One column of a fragment: `lift` says what a row with this argument (squared: its square) contributes."""

    name: str
    lift: Lift
    argument: str | None = None
    squared: bool = False
    combine: Combine = "sum"

    @property
    def type(self) -> str:
        return "DOUBLE" if self.lift in ("r", "b") else "BIGINT"

    @property
    def nothing(self) -> int:
        """What combines with anything without changing it."""
        return {"sum": 0, "min": MOST, "max": LEAST}[self.combine]


COUNT = FragmentPart("__n", "one")


def fragment_parts(aggregate: Aggregate) -> tuple[FragmentPart, ...]:
    """The columns this aggregate needs besides the count of rows.

    >>> [p.name for p in fragment_parts(Aggregate("sum", "len", "INTEGER", "s", "HUGEINT"))]
    ['len__c', 'len__low']
    """
    argument, slug, kind = aggregate.argument, aggregate.slug, aggregate.function
    if argument is None or aggregate.user_functions is not None:
        return ()
    valid = FragmentPart(f"{slug}__c", "valid", argument)
    if kind == "count":
        return (valid,)
    if kind in ("min", "max"):
        return (valid, FragmentPart(f"{slug}__{kind}", "order", argument, combine="min" if kind == "min" else "max"))
    if kind in ("sum", "avg") and _is_exact(str(aggregate.argument_type)):
        if aggregate.argument_type in SMALL:
            return (valid, FragmentPart(f"{slug}__low", "whole", argument))
        return (valid, FragmentPart(f"{slug}__low", "low", argument), FragmentPart(f"{slug}__high", "high", argument))
    parts = _double_parts(argument, f"{slug}__d", False)
    if kind in ("sum", "avg"):
        return (valid, *parts)
    return (valid, *parts, *_double_parts(argument, f"{slug}__q", True))


def _is_exact(type_name: str) -> bool:
    return type_name in INTEGERS or type_name == "BOOLEAN" or decimal_shape(type_name) is not None


def _double_parts(argument: str, slug: str, squared: bool) -> tuple[FragmentPart, ...]:
    return tuple(FragmentPart(f"{slug}{lift}", lift, argument, squared) for lift in _DOUBLE_LIFTS)


def assemble_parts(aggregate: Aggregate) -> tuple[tuple[str, Scalar], ...]:
    """(name, value over the fragment columns) of the columns that `plan.aggregates.finish` reads."""
    slug, kind, type_name = aggregate.slug, aggregate.function, str(aggregate.argument_type)
    if aggregate.argument is None or aggregate.user_functions is not None:
        return ()
    counted = ColumnRef(f"{slug}__c")
    count = (counted.name, counted)
    if kind == "count":
        return (count,)
    if kind in ("min", "max"):
        name = f"{slug}__{kind}"
        return (count, (name, WhereCounted(counted, _decode_value(ColumnRef(name), type_name))))
    if kind in ("sum", "avg") and _is_exact(type_name):
        total: Scalar = Cast(ColumnRef(f"{slug}__low"), "HUGEINT")
        if type_name not in SMALL:
            total = template(f"(CAST({{0}} AS HUGEINT) * {LIMB} + {{1}})", ColumnRef(f"{slug}__high"), total)
        return (count, (f"{slug}__s", total))
    columns = _assemble_double(f"{slug}__d")
    if kind not in ("sum", "avg") and type_name in SQUARABLE:
        return (count, *_assemble_squares(slug))
    return (count, *columns) if kind in ("sum", "avg") else (count, *columns, *_assemble_double(f"{slug}__q"))


def _assemble_double(slug: str) -> tuple[tuple[str, Scalar], ...]:
    def limbs(letter: str) -> Scalar:
        a, b, c = (f"CAST({{{i}}} AS HUGEINT)" for i in range(3))
        return template(f"(({c} * {LIMB} + {b}) * {LIMB} + {a})", *(ColumnRef(f"{slug}{letter}{i}") for i in range(3)))

    plain = {"r": "r", "b": "b", "n": "nan", "p": "inf", "m": "neg"}
    return (
        (f"{slug}f", limbs("f")),
        (f"{slug}g", limbs("g")),
        *((f"{slug}{new}", ColumnRef(f"{slug}{old}")) for new, old in plain.items()),
    )


def _assemble_squares(slug: str) -> tuple[tuple[str, Scalar], ...]:
    """Sum and squares of whole numbers: fixed-point parts without a fraction, and squares that are multiples of 2^9."""
    sums, squares = (dict(_assemble_double(f"{slug}__{letter}")) for letter in "dq")
    point = f"CAST({1 << 40} AS HUGEINT)"
    fine, coarse = squares[f"{slug}__qf"], squares[f"{slug}__qg"]
    return (
        (f"{slug}__s", template(f"{{0}} // {point}", sums[f"{slug}__df"])),
        (f"{slug}__u", template(f"{{0}} // {point} + {{1}} * 512", fine, coarse)),
    )


def _decode_value(column: Scalar, type_name: str) -> Scalar:
    """A value from its number in order; doubles were decoded before SQL saw them."""
    shape = decimal_shape(type_name)
    if shape:
        precision, scale = shape
        ulp = "1" if scale == 0 else "0." + "0" * (scale - 1) + "1"
        return template(
            f"CAST(CAST({{0}} AS DECIMAL(18,0)) * CAST({ulp} AS DECIMAL({scale + 1},{scale}))"
            f" AS DECIMAL({precision},{scale}))",
            column,
        )
    if type_name == "BOOLEAN":
        return template("({0} <> 0)", column)
    if type_name == "DATE":
        return template("(DATE '1970-01-01' + CAST({0} AS INTEGER))", column)
    return Timestamp(column) if type_name == "TIMESTAMP" else Cast(column, type_name)
