"""Aggregates in two levels: group by (keys, v) first, then by keys.

COUNT(DISTINCT x) counts the groups (keys, x); an approximate count keeps the greatest rank for each (keys, register
of x), which is a HyperLogLog sketch with a row for each register in use. Both are then plain aggregates, which
combine, slide and share like all others. The other aggregates of the query go through both levels:

    count(*)  →  n = count(*)       sum(n)                min(y)  →  m = min(y)   min(m)
    sum(y)    →  s = sum(y)         sum(s)                avg(y)  →  s, c         sum(s) / sum(c)
"""

from __future__ import annotations

from tidemill.plan import relations as r
from tidemill.plan.aggregates import INTEGERS, Aggregate
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import Cast, ColumnRef, Operation, Scalar, WhereCounted, template

PRECISION = 12
APPROXIMATE = "approx_count_distinct"
_M = 1 << PRECISION
_ALPHA = 0.7213 / (1 + 1.079 / _M)


def decomposes(aggregate: Aggregate, exactly: bool) -> bool:
    """True when an aggregate can go through both levels; `exactly`, without rounding in between."""
    if aggregate.collects:
        return False
    if aggregate.distinct or aggregate.argument is None or aggregate.function in ("count", "min", "max"):
        return True
    return aggregate.function in ("sum", "avg") and (not exactly or aggregate.argument_type in INTEGERS)


def by_value(node: r.GroupBy) -> Relation | None:
    """COUNT(DISTINCT x) of one column in two levels; None where the query has something that cannot go that way."""
    values = {a.argument for a in node.aggregates if a.distinct}
    if len(values) != 1 or not all(decomposes(a, exactly=True) for a in node.aggregates):
        return None
    (value,) = values
    if value is None or value in node.keys:
        return None
    return _Levels(node, value).relation()


def by_register(node: r.GroupBy) -> Relation:
    """An approximate distinct count in two levels. Needs one such argument and aggregates that decompose."""
    (argument,) = {a.argument for a in node.aggregates if a.function == APPROXIMATE}
    assert argument is not None
    column, known = "hash({0})", "{0} IS NOT NULL"
    rest = f"CAST({column} & {(1 << 64 - PRECISION) - 1} AS DOUBLE)"  # 52 bits: a double holds them
    width = 64 - PRECISION
    rank = f"CASE WHEN {rest} = 0 THEN {width + 1} ELSE {width} - CAST(floor(log2({rest})) AS INTEGER) END"
    items = [Item.of(c) for c in node.input.schema]
    for name, sql in (("__register", f"{column} >> {width}"), ("__rank", rank)):
        value = template(f"CASE WHEN {known} THEN CAST({sql} AS INTEGER) END", ColumnRef(argument))
        items.append(Item(name, value, "INTEGER"))
    return _Levels(r.GroupBy(r.Project(node.input, tuple(items)), node.keys, node.aggregates), "__register").relation()


def estimate(weights: Scalar, used: Scalar) -> Scalar:
    """HyperLogLog: Σ 2^-rank over the registers in use, and their number, to the number of different values."""
    empty = f"({_M} - {{1}})"
    raw = f"({_ALPHA * _M * _M!r} / (coalesce({{0}}, 0.0) + {empty}))"
    small = f"({_M} * ln({_M}.0 / {empty}))"
    return template(
        f"CAST(CASE WHEN {{1}} = 0 THEN 0 WHEN {raw} <= {2.5 * _M} AND {empty} > 0 THEN round({small})"
        f" ELSE round({raw}) END AS BIGINT)",
        weights,
        used,
    )


class _Levels:
    def __init__(self, node: r.GroupBy, value: str) -> None:
        self.node, self.value = node, value
        self.lower: dict[str, Aggregate] = {}
        self.weights: list[Item] = []
        self.upper: list[Aggregate] = []
        self.items: list[Item] = [Item(k, ColumnRef(k), node.input.type_of(k)) for k in node.keys]

    def relation(self) -> Relation:
        for aggregate in self.node.aggregates:
            self.items.append(Item(aggregate.name, self._answer(aggregate), aggregate.type))
        first = r.GroupBy(self.node.input, (*self.node.keys, self.value), tuple(self.lower.values()))
        between: Relation = first
        if self.weights:
            kept = [Item.of(c) for c in first.schema]
            between = r.Project(first, (*kept, *self.weights))
        second = r.GroupBy(between, self.node.keys, tuple(self.upper))
        return r.Project(second, tuple(self.items))

    def _answer(self, a: Aggregate) -> Scalar:
        if a.function == APPROXIMATE:
            rank = self._below(Aggregate("max", "__rank", "INTEGER", "", "INTEGER"))
            self.weights.append(Item("__weight", template("pow(2.0, -{0})", ColumnRef(rank)), "DOUBLE"))
            weights = self._above("sum", "__weight", "DOUBLE", "DOUBLE")
            used = self._above("count", self.value, "INTEGER", "BIGINT")
            return estimate(weights, used)
        if a.distinct:
            return self._above("count", self.value, str(a.argument_type), "BIGINT")
        if a.function == "avg":
            total, kind = self._total("sum", a)
            count, _ = self._total("count", a)
            number = Cast(total, "DOUBLE") if kind == "HUGEINT" else total
            return WhereCounted(count, Operation("/", number, count))
        if a.function in ("min", "max"):
            below = self._below(Aggregate(a.function, a.argument, a.argument_type, "", a.type))
            return self._above(a.function, below, a.type, a.type)
        total, _ = self._total(a.function, a)
        return Cast(total if a.function == "sum" else template("coalesce({0}, 0)", total), a.type)

    def _total(self, function: str, a: Aggregate) -> tuple[Scalar, str]:
        """Sums of sums, and sums of counts."""
        exact = function == "count" or a.argument_type in INTEGERS
        kind = "BIGINT" if function == "count" else "HUGEINT" if exact else "DOUBLE"
        below = self._below(Aggregate(function, a.argument, a.argument_type, "", kind))
        whole = "HUGEINT" if exact else "DOUBLE"
        return self._above("sum", below, kind, whole), whole

    def _below(self, a: Aggregate) -> str:
        key = f"{a.function}({a.argument})"
        if key not in self.lower:
            name = f"__low{len(self.lower)}"
            self.lower[key] = Aggregate(a.function, a.argument, a.argument_type, name, a.type)
        return self.lower[key].name

    def _above(self, function: str, column: str, column_type: str, result: str) -> Scalar:
        found = next((a for a in self.upper if (a.function, a.argument) == (function, column)), None)
        if found is None:
            found = Aggregate(function, column, column_type, f"__high{len(self.upper)}", result)
            self.upper.append(found)
        return ColumnRef(found.name)
