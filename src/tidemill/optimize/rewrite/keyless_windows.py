"""An aggregate over a whole window, without keys, shares its work when one key stands for all rows."""

from __future__ import annotations

from dataclasses import replace

from tidemill.optimize.rewrite.window_aggregates import window_aggregates
from tidemill.plan import relations as r
from tidemill.plan.aggregates import Aggregate
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import ColumnRef, Literal, Scalar, template

_ALL = "__all"


def keyless_windows(node: Relation) -> Relation | None:
    """Group by a constant, then give the one row of no rows where there is no group.

        GroupBy[; f(a), count(*)]        Project[f, coalesce(count, 0)]
          R                         →      GroupBy[; max(f), max(count)]
                                             GroupBy[__all; f(a), count(*)]
                                               Project[*, __all = 1]
                                                 R

    Sound for every relation R: the lower grouping has one row when R has rows and none when it has none; the greatest
    of one value is that value, of none it is NULL, and that is what every aggregate but a count gives for no rows.
    Worth it only where the lower grouping is a window aggregate whose rows leave again: elsewhere it only adds an
    exchange. User aggregates have no row for an empty window and stay as they are.
    """
    if not isinstance(node, r.GroupBy) or node.keys or not node.aggregates:
        return None
    if any(a.distinct or a.user_functions is not None for a in node.aggregates):
        return None
    needed = dict.fromkeys(a.argument for a in node.aggregates if a.argument is not None)
    columns = tuple(Item(n, ColumnRef(n), node.input.type_of(n)) for n in needed)
    below = r.Project(node.input, (*columns, Item(_ALL, Literal("1"), "INTEGER")))
    names = {a.name: f"__low{i}" for i, a in enumerate(node.aggregates)}
    lower = r.GroupBy(below, (_ALL,), tuple(replace(a, name=names[a.name]) for a in node.aggregates))
    found = window_aggregates(lower)
    if not isinstance(found, r.WindowAggregate) or found.window.until is None:
        return None
    tops = tuple(Aggregate("max", names[a.name], a.type, f"__high{i}", a.type) for i, a in enumerate(node.aggregates))
    items = tuple(Item(a.name, _answer(a, top.name), a.type) for a, top in zip(node.aggregates, tops, strict=True))
    return r.Project(r.GroupBy(lower, (), tops), items)


def _answer(aggregate: Aggregate, column: str) -> Scalar:
    value = ColumnRef(column)
    return template("coalesce({0}, 0)", value) if aggregate.function == "count" else value
