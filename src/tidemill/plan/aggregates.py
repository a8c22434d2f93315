"""Aggregate functions by what they can do: combine, invert, or only keep the values.

An aggregate is described by *parts*: additive columns that the producer computes from raw changes
and the stage adds up. `finish` turns added-up parts into the answer. Nothing else in the system
tests the name of an aggregate function.

Exactness. Sums of integers and decimals are HUGEINT sums. A sum of DOUBLE must survive taking a
value out again, so values below 2^62 are split into a fixed-point part (multiples of 2^-40, added exactly as
HUGEINT) and a remainder below 2^-41, values below 2^111 are added exactly as multiples of 2^9, and only larger
ones as scaled doubles; NaN and infinities are counted, not added.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from tidemill.plan.scalars import Cast, ColumnRef, Hidden, Operation, Paren, Scalar, Template, WhereCounted, template
from tidemill.plan.scalars import Literal as Constant

FIX = "1099511627776.0"  # 2^40
BIG = "4611686018427387904.0"  # 2^62: x * 2^40 leaves room for millions of such values in a HUGEINT
COARSE = "512.0"  # 2^9 divides every double of 2^62 and more
HUGE = "2596148429267413814265248164610048.0"  # 2^111: x / 2^9 leaves the same room
EXACT_SQUARES = 1 << 62  # times any count is below 2^125, and so is the square of the sum
DOWN, UP = "pow(2.0, -540)", "pow(2.0, 540)"  # the rest is added up where it cannot overflow

Combine = Literal["sum", "min", "max"]
INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT"}
# Types whose squares fit a machine word: sums and squares of them are exact.
SQUARABLE = {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT"}
# Types whose values fit a machine word, so that kernels can add and compare them.
_MACHINE = INTEGERS - {"UBIGINT", "HUGEINT"} | {"BOOLEAN", "DOUBLE", "FLOAT", "DATE", "TIMESTAMP"}


@dataclass(frozen=True)
class Part:
    """One additive column: its value over raw changes (`__diff` is the weight), its type, how it adds up.

    `once` is a shorter expression for changes that are all single insertions.
    """

    name: str
    value: Scalar
    type: str
    combine: Combine = "sum"
    once: Scalar | None = None

    @property
    def sql(self) -> str:
        """The value as DuckDB text."""
        return self.value.sql


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a GROUP BY over a column (None for COUNT(*)), with its answer's name and type."""

    IN_MANY_NODES: ClassVar[bool] = True  # for `plan.node`: rules build nodes anew with the same aggregates

    function: str
    argument: str | None
    argument_type: str | None
    name: str
    type: str
    distinct: bool = False

    @property
    def slug(self) -> str:
        """Prefix of this aggregate's part columns; equal arguments share their parts."""
        return "" if self.argument is None else f"{self.argument}"

    @property
    def user_functions(self) -> str | None:
        """The user's functions behind it (`plan.user_aggregates`), pickled; None for the aggregates of the language."""
        return None

    @property
    def sets(self) -> bool:
        """True when the argument is a list of values, each of which counts once."""
        return False

    @property
    def collects(self) -> bool:
        """True when only all the values together give the answer (`plan.collected`)."""
        return False

    def keeps_values(self, append_only: bool) -> bool:
        """True when the values themselves must be kept: the least one may go, or each counts only once."""
        return self.distinct or self.is_extreme(append_only) or self.user_functions is not None or self.collects

    def is_extreme(self, append_only: bool) -> bool:
        """True for MIN and MAX where rows may be taken back: parts cannot tell the next one."""
        return self.function in ("min", "max") and not append_only and not self.collects


@dataclass(frozen=True)
class CountOfSets(Aggregate):
    """COUNT(DISTINCT x) over lists of values of x: how many different values there are in all of them, but for NULL."""

    @property
    def sets(self) -> bool:
        return True


def one_value(value: Scalar) -> Scalar:
    """The list that holds one value."""
    return template("list_value({0})", value)


def why_not_weavable(aggregate: Aggregate) -> str | None:
    """Why the windows of several queries cannot put this aggregate together from shared parts; None when they can.

    >>> why_not_weavable(Aggregate("sum", "v", "INTEGER", "s", "HUGEINT"))
    >>> why_not_weavable(Aggregate("min", "t", "VARCHAR", "m", "VARCHAR"))
    'MIN of VARCHAR'
    """
    if aggregate.distinct:
        return f"{aggregate.function.upper()}(DISTINCT …)"
    if aggregate.collects:
        return f"{aggregate.function.upper()} needs all values at once"
    type_name = aggregate.argument_type
    if aggregate.user_functions is not None:
        return None  # its parts are objects
    if aggregate.function == "count" or type_name is None or type_name in _MACHINE:
        return None  # whether there is a value can be counted for any type
    shape = decimal_shape(type_name)
    if shape is not None and shape[0] <= 18:
        return None
    return f"{aggregate.function.upper()} of {type_name}"


def decimal_shape(type_name: str) -> tuple[int, int] | None:
    """(precision, scale) of a DECIMAL type, else None.

    >>> decimal_shape("DECIMAL(10,2)")
    (10, 2)
    """
    found = re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", type_name)
    return (int(found[1]), int(found[2])) if found else None


def single(part: Part) -> Scalar:
    """The value of a part over rows that all count once: the same sums without their weight, which is faster."""
    return part.value if part.once is None else part.once


def parts(aggregate: Aggregate, append_only: bool) -> tuple[Part, ...]:
    """The additive columns this aggregate needs besides the row count `__n`."""
    if aggregate.argument is None or aggregate.is_extreme(append_only) or aggregate.user_functions is not None:
        return ()
    if aggregate.collects:
        return ()
    if aggregate.distinct:
        # Filled in by the stage, which sees a value appear for the first time and leave for good.
        return (Part(f"{aggregate.slug}__k", Cast(Constant("0"), "BIGINT"), "BIGINT"),)
    argument, slug = ColumnRef(aggregate.argument), aggregate.slug
    count = _part(
        argument,
        f"{slug}__c",
        "CAST(sum(CASE WHEN {0} IS NOT NULL THEN __diff ELSE 0 END) AS BIGINT)",
        "BIGINT",
        once="count({0})",
    )
    kind = aggregate.function
    if kind == "count":
        return (count,)
    if kind in ("min", "max"):
        combine: Combine = "min" if kind == "min" else "max"
        return (_part(argument, f"{slug}__{kind}", f"{kind}({{0}})", aggregate.type, combine),)
    if kind in ("sum", "avg"):
        return (count, *_sum_parts(argument, slug, str(aggregate.argument_type)))
    if aggregate.argument_type in SQUARABLE:
        return (count, *_sum_parts(argument, slug, str(aggregate.argument_type)), _square_part(argument, slug))
    double = "CAST({0} AS DOUBLE)"
    squares = _double_parts(argument, f"({double} * {double})", f"{slug}__q")
    return (count, *_double_parts(argument, double, f"{slug}__d"), *squares)


def _part(
    argument: Scalar, name: str, sql: str, type_name: str, combine: Combine = "sum", once: str | None = None
) -> Part:
    """A part from SQL in which {0} stands for the argument."""
    value = template(sql, argument)
    return Part(name, value, type_name, combine, None if once is None else template(once, argument))


def _sum_parts(argument: Scalar, slug: str, type_name: str) -> tuple[Part, ...]:
    shape = decimal_shape(type_name)
    if type_name in INTEGERS or type_name == "BOOLEAN":
        exact = "CAST({0} AS HUGEINT)"
    elif shape:
        exact = _unscale(*shape)
    else:
        return _double_parts(argument, "CAST({0} AS DOUBLE)", f"{slug}__d")
    plain = "{0}" if type_name in INTEGERS else exact
    sql = f"CAST(coalesce(sum({exact} * __diff), 0) AS HUGEINT)"
    once = f"CAST(coalesce(sum({plain}), 0) AS HUGEINT)"
    return (_part(argument, f"{slug}__s", sql, "HUGEINT", once=once),)


def _square_part(argument: Scalar, slug: str) -> Part:
    square = "CAST({0} AS BIGINT) * CAST({0} AS BIGINT)"
    sql = f"CAST(coalesce(sum(CAST({square} AS HUGEINT) * __diff), 0) AS HUGEINT)"
    return _part(argument, f"{slug}__u", sql, "HUGEINT", once=f"CAST(coalesce(sum({square}), 0) AS HUGEINT)")


def _unscale(precision: int, scale: int) -> str:
    """SQL for a decimal times 10^scale as a HUGEINT; where 38 digits cannot hold the product, by its digits."""
    if precision + scale <= 38:
        wide = f"CAST({{0}} AS DECIMAL(38,{scale}))"
        return f"CAST({wide} * CAST({10**scale} AS DECIMAL({scale + 1},0)) AS HUGEINT)"
    return "CAST(replace(CAST({0} AS VARCHAR), '.', '') AS HUGEINT)"


def _double_parts(argument: Scalar, value: str, slug: str) -> tuple[Part, ...]:
    """The parts of a DOUBLE, which is `value` with the argument put in for {0}."""
    finite = f"isfinite({value})"
    small = f"({finite} AND abs({value}) < {BIG})"
    large = f"({finite} AND abs({value}) >= {BIG} AND abs({value}) < {HUGE})"
    fixed = f"CAST(round({value} * {FIX}) AS HUGEINT)"
    coarse = f"CAST({value} / {COARSE} AS HUGEINT)"

    def count(letter: str, test: str) -> Part:
        sql = f"CAST(coalesce(sum(CASE WHEN {test} THEN __diff END), 0) AS BIGINT)"
        return _part(argument, slug + letter, sql, "BIGINT")

    def add(letter: str, test: str, term: str, type_name: str) -> Part:
        sql = f"CAST(coalesce(sum(CASE WHEN {test} THEN {term} * __diff END), 0) AS {type_name})"
        return _part(argument, slug + letter, sql, type_name)

    return (
        add("f", small, fixed, "HUGEINT"),
        add("r", small, f"({value} - CAST({fixed} AS DOUBLE) / {FIX})", "DOUBLE"),
        add("g", large, coarse, "HUGEINT"),
        add("b", f"{finite} AND abs({value}) >= {HUGE}", f"({value} * {DOWN})", "DOUBLE"),
        count("n", f"isnan({value})"),
        count("p", f"isinf({value}) AND {value} > 0"),
        count("m", f"isinf({value}) AND {value} < 0"),
    )


def finish(aggregate: Aggregate) -> Scalar:
    """The answer from the added-up parts."""
    slug, kind = aggregate.slug, aggregate.function
    if aggregate.argument is None:
        return Hidden("__n")
    if aggregate.distinct:
        return ColumnRef(f"{slug}__k")
    count = ColumnRef(f"{slug}__c")
    if kind == "count":
        return count
    if kind in ("min", "max"):
        return ColumnRef(f"{slug}__{kind}")
    if kind in ("sum", "avg"):
        return WhereCounted(count, _finish_sum(aggregate, count))
    return _finish_variance(aggregate, count)


def _finish_sum(aggregate: Aggregate, count: Scalar) -> Scalar:
    type_name, slug = str(aggregate.argument_type), aggregate.slug
    shape = decimal_shape(type_name)
    total = ColumnRef(f"{slug}__s")
    if type_name in INTEGERS or type_name == "BOOLEAN":
        return total if aggregate.function == "sum" else Operation("/", Cast(total, "DOUBLE"), count)
    if shape:
        scale = shape[1]
        if aggregate.function == "avg":
            return template(f"CAST({{0}} AS DOUBLE) / {10**scale}.0 / {{1}}", total, count)
        ulp = "1" if scale == 0 else "0." + "0" * (scale - 1) + "1"
        rest = f"CAST({{0}} % {10**scale} AS DECIMAL({scale + 1},0)) * CAST({ulp} AS DECIMAL({scale + 1},{scale}))"
        whole = f"CAST({{0}} // {10**scale} AS DECIMAL(38,{scale}))"
        return template(f"{whole} + CAST({rest} AS DECIMAL(38,{scale}))", total)
    added = _finish_double(f"{slug}__d")
    return added if aggregate.function == "sum" else Operation("/", Paren(added), count)


def _finish_double(slug: str) -> Template:
    f, r, g, b, n, p, m = (f"{{{i}}}" for i in range(7))
    return template(
        f"CASE WHEN {n} > 0 OR ({p} > 0 AND {m} > 0) THEN CAST('nan' AS DOUBLE)"
        f" WHEN {p} > 0 THEN CAST('inf' AS DOUBLE) WHEN {m} > 0 THEN CAST('-inf' AS DOUBLE)"
        f" ELSE CAST({f} AS DOUBLE) / {FIX} + {r} + CAST({g} AS DOUBLE) * {COARSE} + {b} * {UP} END",
        *(ColumnRef(f"{slug}{letter}") for letter in "frgbnpm"),
    )


def _finish_variance(aggregate: Aggregate, count: Scalar) -> Scalar:
    population = aggregate.function.endswith("_pop")
    divisor = "{0}" if population else "({0} - 1)"
    least = 1 if population else 2
    whole = aggregate.argument_type in SQUARABLE
    spread = _whole_spread(aggregate.slug, count) if whole else _double_spread(aggregate.slug, count)
    answer = f"{{1}} / {divisor}"
    answer = f"sqrt({answer})" if aggregate.function.startswith("stddev") else answer
    return template(f"CASE WHEN {{0}} >= {least} THEN {answer} END", count, spread)


def _double_spread(slug: str, count: Scalar) -> Scalar:
    """The sum of squared distances from the mean."""
    total, squares = _finish_double(f"{slug}__d"), _finish_double(f"{slug}__q")
    return template("greatest(({1}) - ({0}) * ({0}) / {2}, 0.0)", total, squares, count)


def _whole_spread(slug: str, count: Scalar) -> Scalar:
    """The same from sums of whole numbers; exact where the product of count and squares fits 128 bits."""
    total, squares, n = "{0}", "{1}", "{2}"
    rounded = f"CAST({squares} AS DOUBLE) - CAST({total} AS DOUBLE) * CAST({total} AS DOUBLE) / {n}"
    exact = f"CAST({n} * {squares} - {total} * {total} AS DOUBLE) / {n}"
    return template(
        f"CASE WHEN {squares} < {EXACT_SQUARES} THEN greatest({exact}, 0.0) ELSE greatest({rounded}, 0.0) END",
        ColumnRef(f"{slug}__s"),
        ColumnRef(f"{slug}__u"),
        count,
    )


FUNCTIONS = {
    "count": "count",
    "sum": "sum",
    "avg": "avg",
    "min": "min",
    "max": "max",
    "mean": "avg",
    "stddev": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
}
