"""Columns of a query over those of a view, and expressions over leaves as users know them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tidemill.optimize.views.canonical import rebuild, stamp_of
from tidemill.plan import relations as r
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import Cast, ColumnRef, Hidden, Scalar


def project(source: Relation, query: Relation, values: Mapping[str, Scalar]) -> Relation:
    """The columns of the query, with its names and types."""
    items = []
    for column in query.schema:
        value = values[column.name]
        other = isinstance(value, ColumnRef) and source.type_of(value.name) != column.type
        items.append(Item(column.name, Cast(value, column.type) if other else value, column.type))
    return r.Project(source, tuple(items))


@lru_cache(maxsize=4096)
def user_text(value: Scalar) -> str:
    """An expression over the columns of leaves as users write it: without the numbers of the leaves, and with TS.

    >>> from tidemill.plan.scalars import Literal, Operation
    >>> seconds = Operation("//", ColumnRef("0.__ts"), Literal("1000000"))
    >>> user_text(ColumnRef("0.temp")), user_text(Operation(">", seconds, Literal("3")))
    ('"temp"', 'TS > 3')
    """
    return _name(value).sql


def _name(value: Scalar) -> Scalar:
    if isinstance(value, ColumnRef):
        return ColumnRef(value.name.partition(".")[2])
    stamp = stamp_of(value)
    if stamp is not None and stamp[0].name.partition(".")[2] == r.TS:
        return Hidden("TS")
    return rebuild(value, _name)
