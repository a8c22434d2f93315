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
from typing import Literal

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
    """One additive column: its SQL over raw changes (`__diff` is the weight), its type, how it adds up.

    `once` is shorter SQL for changes that are all single insertions.
    """

    name: str
    sql: str
    type: str
    combine: Combine = "sum"
    once: str | None = None


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a GROUP BY over a column (None for COUNT(*)), with its answer's name and type."""

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
    def fold(self) -> str | None:
        """The user's functions behind it (`plan.custom`), pickled; None for the aggregates of the language."""
        return None

    @property
    def sets(self) -> bool:
        """True when the argument is a list of values, each of which counts once."""
        return False

    def keeps_values(self, insert_only: bool) -> bool:
        """True when the values themselves must be kept: the least one may go, or each counts only once."""
        return self.distinct or self.is_extreme(insert_only) or self.fold is not None

    def is_extreme(self, insert_only: bool) -> bool:
        """True for MIN and MAX where rows may be taken back: parts cannot tell the next one."""
        return self.function in ("min", "max") and not insert_only


@dataclass(frozen=True)
class CountOfSets(Aggregate):
    """COUNT(DISTINCT x) over lists of values of x: how many different values there are in all of them, but for NULL."""

    @property
    def sets(self) -> bool:
        return True


def one_value(sql: str) -> str:
    """SQL of the list that holds one value."""
    return f"list_value({sql})"


def weavable(aggregate: Aggregate) -> str | None:
    """Why the windows of several queries cannot put this aggregate together from shared parts; None when they can.

    >>> weavable(Aggregate("sum", "v", "INTEGER", "s", "HUGEINT"))
    >>> weavable(Aggregate("min", "t", "VARCHAR", "m", "VARCHAR"))
    'MIN of VARCHAR'
    """
    if aggregate.distinct:
        return f"{aggregate.function.upper()}(DISTINCT …)"
    type_name = aggregate.argument_type
    if aggregate.fold is not None:
        return None  # its parts are objects
    if aggregate.function == "count" or type_name is None or type_name in _MACHINE:
        return None  # whether there is a value can be counted for any type
    shape = decimal_shape(type_name)
    if shape is not None and shape[0] <= 18:
        return None
    return f"{aggregate.function.upper()} of {type_name}"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def decimal_shape(type_name: str) -> tuple[int, int] | None:
    """(precision, scale) of a DECIMAL type, else None.

    >>> decimal_shape("DECIMAL(10,2)")
    (10, 2)
    """
    found = re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", type_name)
    return (int(found[1]), int(found[2])) if found else None


def single(part: Part) -> str:
    """The SQL of a part over rows that all count once: the same sums without their weight, which is faster."""
    return part.once or part.sql


def parts(aggregate: Aggregate, insert_only: bool) -> tuple[Part, ...]:
    """The additive columns this aggregate needs besides the row count `__n`."""
    if aggregate.argument is None or aggregate.is_extreme(insert_only) or aggregate.fold is not None:
        return ()
    if aggregate.distinct:
        # Filled in by the stage, which sees a value appear for the first time and leave for good.
        return (Part(f"{aggregate.slug}__k", "CAST(0 AS BIGINT)", "BIGINT"),)
    column, slug = _quote(aggregate.argument), aggregate.slug
    count = Part(f"{slug}__c", f"CAST(sum(CASE WHEN {column} IS NOT NULL THEN __diff ELSE 0 END) AS BIGINT)", "BIGINT",
                 once=f"count({column})")
    kind = aggregate.function
    if kind == "count":
        return (count,)
    if kind in ("min", "max"):
        return (Part(f"{slug}__{kind}", f"{kind}({column})", aggregate.type, "min" if kind == "min" else "max"),)
    if kind in ("sum", "avg"):
        return (count, *_sum_parts(column, slug, str(aggregate.argument_type)))
    if aggregate.argument_type in SQUARABLE:
        return (count, *_sum_parts(column, slug, str(aggregate.argument_type)), _square_part(column, slug))
    double = f"CAST({column} AS DOUBLE)"
    return (
        count,
        *_double_parts(double, f"{slug}__d"),
        *_double_parts(f"({double} * {double})", f"{slug}__q"),
    )


def _sum_parts(column: str, slug: str, type_name: str) -> tuple[Part, ...]:
    shape = decimal_shape(type_name)
    if type_name in INTEGERS or type_name == "BOOLEAN":
        exact = f"CAST({column} AS HUGEINT)"
    elif shape:
        exact = _unscaled(column, *shape)
    else:
        return _double_parts(f"CAST({column} AS DOUBLE)", f"{slug}__d")
    plain = column if type_name in INTEGERS else exact
    return (Part(f"{slug}__s", f"CAST(coalesce(sum({exact} * __diff), 0) AS HUGEINT)", "HUGEINT",
                 once=f"CAST(coalesce(sum({plain}), 0) AS HUGEINT)"),)


def _square_part(column: str, slug: str) -> Part:
    wide = f"CAST({column} AS BIGINT)"
    return Part(f"{slug}__u", f"CAST(coalesce(sum(CAST({wide} * {wide} AS HUGEINT) * __diff), 0) AS HUGEINT)",
                "HUGEINT", once=f"CAST(coalesce(sum({wide} * {wide}), 0) AS HUGEINT)")


def _unscaled(column: str, precision: int, scale: int) -> str:
    """SQL for a decimal times 10^scale as a HUGEINT; where 38 digits cannot hold the product, by its digits."""
    if precision + scale <= 38:
        wide = f"CAST({column} AS DECIMAL(38,{scale}))"
        return f"CAST({wide} * CAST({10 ** scale} AS DECIMAL({scale + 1},0)) AS HUGEINT)"
    return f"CAST(replace(CAST({column} AS VARCHAR), '.', '') AS HUGEINT)"


def _double_parts(value: str, slug: str) -> tuple[Part, ...]:
    finite = f"isfinite({value})"
    small = f"({finite} AND abs({value}) < {BIG})"
    large = f"({finite} AND abs({value}) >= {BIG} AND abs({value}) < {HUGE})"
    fixed = f"CAST(round({value} * {FIX}) AS HUGEINT)"
    coarse = f"CAST({value} / {COARSE} AS HUGEINT)"

    def counted(test: str) -> str:
        return f"CAST(coalesce(sum(CASE WHEN {test} THEN __diff END), 0) AS BIGINT)"

    def added(test: str, term: str, type_name: str) -> str:
        return f"CAST(coalesce(sum(CASE WHEN {test} THEN {term} * __diff END), 0) AS {type_name})"

    return (
        Part(f"{slug}f", added(small, fixed, "HUGEINT"), "HUGEINT"),
        Part(f"{slug}r", added(small, f"({value} - CAST({fixed} AS DOUBLE) / {FIX})", "DOUBLE"), "DOUBLE"),
        Part(f"{slug}g", added(large, coarse, "HUGEINT"), "HUGEINT"),
        Part(f"{slug}b", added(f"{finite} AND abs({value}) >= {HUGE}", f"({value} * {DOWN})", "DOUBLE"), "DOUBLE"),
        Part(f"{slug}n", counted(f"isnan({value})"), "BIGINT"),
        Part(f"{slug}p", counted(f"isinf({value}) AND {value} > 0"), "BIGINT"),
        Part(f"{slug}m", counted(f"isinf({value}) AND {value} < 0"), "BIGINT"),
    )


def finish(aggregate: Aggregate) -> str:
    """SQL that turns the added-up parts (plain column names) into the answer."""
    slug, kind = aggregate.slug, aggregate.function
    if aggregate.argument is None:
        return "__n"
    if aggregate.distinct:
        return _quote(f"{slug}__k")
    count = _quote(f"{slug}__c")
    if kind == "count":
        return count
    if kind in ("min", "max"):
        return _quote(f"{slug}__{kind}")
    if kind in ("sum", "avg"):
        return f"CASE WHEN {count} > 0 THEN {_finish_sum(aggregate, count)} END"
    return _finish_variance(aggregate, count)


def _finish_sum(aggregate: Aggregate, count: str) -> str:
    type_name, slug = str(aggregate.argument_type), aggregate.slug
    shape = decimal_shape(type_name)
    if type_name in INTEGERS or type_name == "BOOLEAN":
        total = _quote(f"{slug}__s")
        return total if aggregate.function == "sum" else f"CAST({total} AS DOUBLE) / {count}"
    if shape:
        total, scale = _quote(f"{slug}__s"), shape[1]
        if aggregate.function == "avg":
            return f"CAST({total} AS DOUBLE) / {10 ** scale}.0 / {count}"
        ulp = "1" if scale == 0 else "0." + "0" * (scale - 1) + "1"
        rest = f"CAST({total} % {10 ** scale} AS DECIMAL({scale + 1},0)) * CAST({ulp} AS DECIMAL({scale + 1},{scale}))"
        return f"CAST({total} // {10 ** scale} AS DECIMAL(38,{scale})) + CAST({rest} AS DECIMAL(38,{scale}))"
    total = _finish_double(f"{slug}__d")
    return total if aggregate.function == "sum" else f"({total}) / {count}"


def _finish_double(slug: str) -> str:
    f, r, g, b, n, p, m = (_quote(f"{slug}{c}") for c in "frgbnpm")
    return (
        f"CASE WHEN {n} > 0 OR ({p} > 0 AND {m} > 0) THEN CAST('nan' AS DOUBLE)"
        f" WHEN {p} > 0 THEN CAST('inf' AS DOUBLE) WHEN {m} > 0 THEN CAST('-inf' AS DOUBLE)"
        f" ELSE CAST({f} AS DOUBLE) / {FIX} + {r} + CAST({g} AS DOUBLE) * {COARSE} + {b} * {UP} END"
    )


def _finish_variance(aggregate: Aggregate, count: str) -> str:
    population = aggregate.function.endswith("_pop")
    divisor = count if population else f"({count} - 1)"
    least = 1 if population else 2
    whole = aggregate.argument_type in SQUARABLE
    spread = _whole_spread(aggregate.slug, count) if whole else _double_spread(aggregate.slug, count)
    spread = f"{spread} / {divisor}"
    answer = f"sqrt({spread})" if aggregate.function.startswith("stddev") else spread
    return f"CASE WHEN {count} >= {least} THEN {answer} END"


def _double_spread(slug: str, count: str) -> str:
    """SQL for the sum of squared distances from the mean."""
    total, squares = _finish_double(f"{slug}__d"), _finish_double(f"{slug}__q")
    return f"greatest(({squares}) - ({total}) * ({total}) / {count}, 0.0)"


def _whole_spread(slug: str, count: str) -> str:
    """The same from sums of whole numbers; exact where the product of count and squares fits 128 bits."""
    total, squares = _quote(f"{slug}__s"), _quote(f"{slug}__u")
    rounded = f"CAST({squares} AS DOUBLE) - CAST({total} AS DOUBLE) * CAST({total} AS DOUBLE) / {count}"
    exact = f"CAST({count} * {squares} - {total} * {total} AS DOUBLE) / {count}"
    return f"CASE WHEN {squares} < {EXACT_SQUARES} THEN greatest({exact}, 0.0) ELSE greatest({rounded}, 0.0) END"


FUNCTIONS = {
    "count": "count", "sum": "sum", "avg": "avg", "min": "min", "max": "max", "mean": "avg",
    "stddev": "stddev_samp", "stddev_samp": "stddev_samp", "stddev_pop": "stddev_pop",
    "variance": "var_samp", "var_samp": "var_samp", "var_pop": "var_pop",
}
