"""Whole answers of windows in which there is nothing."""

from __future__ import annotations

from dataclasses import replace

from tidemill.plan import relations as r
from tidemill.plan.aggregates import Aggregate
from tidemill.plan.node import walk
from tidemill.plan.relations import Item, Relation, quoted

_COUNT = "__rows"


def filled_windows(node: Relation) -> Relation:
    """The same answer without the row of no rows that an aggregate over an empty window gives.

        GroupBy[; f(a)]          Project[f]
          window            →      Filter[__rows > 0]
                                     GroupBy[; f(a), count(*) AS __rows]
                                       window

    An answer that is given again and again would have that row at every point of a gap, however long it is. Aggregates
    over all that ever came, those with keys and those under HAVING, which may ask for just that row, stay as they are.
    """
    if isinstance(node, r.Project):
        below = filled_windows(node.input)
        return node if below is node.input else replace(node, input=below)
    if not isinstance(node, r.GroupBy) or node.keys or not _is_window(node.input):
        return node
    count = Aggregate("count", None, None, _COUNT, "BIGINT")
    counted = replace(node, aggregates=(*node.aggregates, count))
    filled = r.Filter(counted, f"{quoted(_COUNT)} > 0")
    return r.Project(filled, tuple(Item(a.name, quoted(a.name), a.type) for a in node.aggregates))


def _is_window(node: Relation) -> bool:
    """Whether rows leave the relation as time passes, or as others come."""
    return any(isinstance(n, r.RowsWindow) or (isinstance(n, r.Temporal) and n.upper is not None) for n in walk(node))
