"""Whole answers of empty windows."""

from __future__ import annotations

from dataclasses import replace

from tidemill.plan import relations as r
from tidemill.plan.aggregates import Aggregate
from tidemill.plan.node import walk
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import ColumnRef, Literal, Operation

_COUNT = "__rows"


def drop_empty_windows(node: Relation) -> Relation:
    """The same answer without the row that an aggregate without keys has for an empty window.

        GroupBy[; f(a)]          Project[f]
          window            →      Filter[__rows > 0]
                                     GroupBy[; f(a), count(*) AS __rows]
                                       window

    A whole answer repeats at every point, so without this a long gap in the input would repeat that row at each of its
    points. Left alone are aggregates over all rows, aggregates with keys, and those under HAVING, which may select
    exactly that row.
    """
    if isinstance(node, r.Project):
        below = drop_empty_windows(node.input)
        return node if below is node.input else replace(node, input=below)
    if not isinstance(node, r.GroupBy) or node.keys or not _is_window(node.input):
        return node
    count = Aggregate("count", None, None, _COUNT, "BIGINT")
    counted = replace(node, aggregates=(*node.aggregates, count))
    filled = r.Filter(counted, Operation(">", ColumnRef(_COUNT), Literal("0")))
    return r.Project(filled, tuple(Item(a.name, ColumnRef(a.name), a.type) for a in node.aggregates))


def _is_window(node: Relation) -> bool:
    """Whether rows leave the relation as time passes, or as newer rows arrive."""
    return any(isinstance(n, r.RowsWindow) or (isinstance(n, r.Temporal) and n.upper is not None) for n in walk(node))
