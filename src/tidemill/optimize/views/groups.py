"""Groups of a query from the finer groups of a view: counts and sums are added up, extremes compared.

    count(*), count(x)   the sum of the view's counts
    sum(x)               the sum of the view's sums, where sums are exact: integers and decimals
    min(x), max(x)       the least, the greatest of the view's
    avg(x)               from sum and count, of integers

Where both group by the same, each group of the query is one of the view, and any aggregate is taken over as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidemill.optimize.views.block import Block, GroupedBlock
from tidemill.optimize.views.canonical import Given, canonical, rewrite
from tidemill.optimize.views.columns import project, user_text
from tidemill.plan import relations as r
from tidemill.plan.aggregates import INTEGERS, Aggregate, decimal_shape
from tidemill.plan.collected import CollectedAggregate
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import Cast, ColumnRef, Scalar, template

_SUMMABLE_DIGITS = 19  # of a DECIMAL: fewer rows than 10^19 have a sum of at most 38 digits
_AVERAGE = "CASE WHEN {1} > 0 THEN CAST({0} AS DOUBLE) / {1} END"


@dataclass(frozen=True)
class Regrouped:
    """The groups of a query over the rows of a view; `again` where several groups of the view make one."""

    over: Callable[[Relation], Relation]
    again: bool


def regroup(query: r.GroupBy, wanted: Block, grouped: GroupedBlock, view: Block, given: Given) -> Regrouped | str:
    """How to compute the groups of a query; a text says why the view does not have them."""
    keys: dict[str, Scalar] = {}
    for name in query.keys:
        value = rewrite(wanted.columns[name], given)
        if value is None:
            return f"it does not group by {user_text(wanted.columns[name])}"
        keys[name] = value
    own = {canonical(wanted.columns[name]) for name in query.keys}
    same = own == {canonical(view.columns[name]) for name in grouped.grouping.keys}
    work = _Aggregates(_shown_aggregates(grouped, view), wanted)
    for aggregate in query.aggregates:
        reason = work.take_over(aggregate) if same else work.combine(aggregate)
        if reason is not None:
            return reason
    failing = _failing_aggregate(grouped, view, {identity(a, wanted) for a in query.aggregates} if same else set())
    if failing is not None:
        return f"{failing.function.upper()} of {failing.argument_type} may fail, and the view stops where it does"
    if same:
        return Regrouped(lambda source: project(source, query, {**keys, **work.answers}), False)
    return Regrouped(lambda source: _group(source, query, keys, work), True)


def _shown_aggregates(grouped: GroupedBlock, view: Block) -> dict[Any, str]:
    """The columns of the view that show an aggregate, by what it is."""
    calls = {a.name: identity(a, view) for a in grouped.grouping.aggregates}
    return {
        calls[value.name]: name
        for name, value in grouped.columns.items()
        if isinstance(value, ColumnRef) and value.name in calls
    }


def _failing_aggregate(grouped: GroupedBlock, view: Block, computed: set[Any]) -> Aggregate | None:
    """An aggregate of the view that may fail, and is none of those that the query computes for the same groups."""
    for aggregate in grouped.grouping.aggregates:
        if not _never_fails(aggregate) and identity(aggregate, view) not in computed:
            return aggregate
    return None


def _never_fails(aggregate: Aggregate) -> bool:
    """True when an aggregate has a value for any rows: sums with enough digits to overflow have not."""
    kind, type_name = aggregate.function, str(aggregate.argument_type)
    if aggregate.user_functions is not None or aggregate.collects:
        return False
    if kind in ("count", "min", "max"):
        return True
    if kind in ("sum", "avg") and type_name in ("DOUBLE", "FLOAT"):
        return True
    decimal = decimal_shape(type_name)
    return type_name in INTEGERS - {"HUGEINT"} or (decimal is not None and decimal[0] <= _SUMMABLE_DIGITS)


def identity(aggregate: Aggregate, block: Block) -> tuple[Any, ...]:
    """Equal for aggregates that have the same answer over the same rows."""
    argument = None if aggregate.argument is None else canonical(block.columns[aggregate.argument])
    call = aggregate.call if isinstance(aggregate, CollectedAggregate) else None
    return type(aggregate), aggregate.function, argument, aggregate.distinct, aggregate.user_functions or call


@dataclass
class _Aggregates:
    known: dict[Any, str]
    wanted: Block
    answers: dict[str, Scalar] = field(default_factory=dict)  # by the query's name for the aggregate
    sums: dict[tuple[str, str], Aggregate] = field(default_factory=dict)  # by function and column of the view

    def take_over(self, aggregate: Aggregate) -> str | None:
        """Each group is one of the view; the reason where the view lacks something."""
        column = self.known.get(identity(aggregate, self.wanted))
        if column is not None:
            self.answers[aggregate.name] = ColumnRef(column)
            return None
        parts = self._sum_and_count(aggregate)
        if parts is None:
            return self._lacks(aggregate)
        self.answers[aggregate.name] = template(_AVERAGE, *map(ColumnRef, parts))
        return None

    def combine(self, aggregate: Aggregate) -> str | None:
        """Several groups of the view make one of the query."""
        kind = aggregate.function
        if aggregate.distinct or aggregate.user_functions is not None or aggregate.sets or aggregate.collects:
            return f"{kind.upper()} does not add up from groups"
        if kind == "avg":
            parts = self._sum_and_count(aggregate)
            if parts is None:
                return self._lacks(aggregate)
            whole, count = (
                self._add("sum", column, kind) for column, kind in zip(parts, ("HUGEINT", "BIGINT"), strict=True)
            )
            self.answers[aggregate.name] = template(_AVERAGE, whole, count)
            return None
        if kind not in ("count", "sum", "min", "max"):
            return f"{kind.upper()} does not add up from groups"
        if kind == "sum" and not _is_exact(str(aggregate.argument_type)):
            return f"sums of {aggregate.argument_type} depend on their order"
        column = self.known.get(identity(aggregate, self.wanted))
        if column is None:
            return self._lacks(aggregate)
        added = self._add("sum" if kind == "count" else kind, column, aggregate.type)
        self.answers[aggregate.name] = Cast(added, aggregate.type) if kind in ("count", "sum") else added
        return None

    def _add(self, function: str, column: str, type_name: str) -> Scalar:
        result = "HUGEINT" if function == "sum" and type_name in INTEGERS else type_name
        made = Aggregate(function, column, type_name, f"__sum{len(self.sums)}", result)
        return ColumnRef(self.sums.setdefault((function, column), made).name)

    def _sum_and_count(self, aggregate: Aggregate) -> tuple[str, str] | None:
        """The columns of the view from which an average of integers is computed as the engine computes it."""
        if aggregate.function != "avg" or aggregate.argument_type not in INTEGERS or aggregate.distinct:
            return None
        argument = canonical(self.wanted.columns[str(aggregate.argument)])
        found = [self.known.get((Aggregate, kind, argument, False, None)) for kind in ("sum", "count")]
        return (found[0], found[1]) if found[0] is not None and found[1] is not None else None

    def _lacks(self, aggregate: Aggregate) -> str:
        argument = "*" if aggregate.argument is None else user_text(self.wanted.columns[aggregate.argument])
        return f"it does not give {aggregate.function}({argument})"


def _is_exact(type_name: str) -> bool:
    return type_name in INTEGERS or decimal_shape(type_name) is not None


def _group(source: Relation, query: r.GroupBy, keys: dict[str, Scalar], work: _Aggregates) -> Relation:
    """Group the view's groups by the keys of the query."""
    columns = {a.argument for a in work.sums.values() if a.argument is not None}
    items = [Item(k, value, query.type_of(k)) for k, value in keys.items()]
    names = {c: c if c not in keys else f"__of.{c}" for c in columns}
    items += [Item(names[c], ColumnRef(c), source.type_of(c)) for c in sorted(columns)]
    sums = tuple(
        Aggregate(a.function, names[str(a.argument)], source.type_of(str(a.argument)), a.name, a.type)
        for a in work.sums.values()
    )
    grouped = r.GroupBy(r.Project(source, tuple(items)), tuple(query.keys), sums)
    return project(grouped, query, {**{k: ColumnRef(k) for k in query.keys}, **work.answers})
