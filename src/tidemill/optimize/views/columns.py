"""Columns of a query over those of a view, and expressions over leaves as users know them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from tidemill.plan import relations as r
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import Cast, ColumnRef, Scalar

_STAMP = re.compile(r'\(?"__ts" // \d+\)?|make_timestamp\("__ts"\)')


def project(source: Relation, query: Relation, values: Mapping[str, Scalar]) -> Relation:
    """The columns of the query, with its names and types."""
    items = []
    for column in query.schema:
        value = values[column.name]
        other = isinstance(value, ColumnRef) and source.type_of(value.name) != column.type
        items.append(Item(column.name, Cast(value, column.type) if other else value, column.type))
    return r.Project(source, tuple(items))


@lru_cache(maxsize=4096)
def shown(value: Scalar) -> str:
    """An expression over the columns of leaves as users write it: without the numbers of the leaves, and with TS.

    >>> from tidemill.plan.scalars import template
    >>> shown(ColumnRef("0.temp")), shown(template("{0} // 1000000 > 3", ColumnRef("0.__ts")))
    ('"temp"', 'TS > 3')
    """
    text = value.substitute({c: ColumnRef(c.partition(".")[2]) for c in value.columns}).sql
    return _STAMP.sub("TS", text)
