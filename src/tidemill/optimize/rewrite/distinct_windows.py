"""COUNT(DISTINCT …) over a window shares its work when it is counted in two levels."""

from __future__ import annotations

from tidemill.optimize.rewrite.window_aggregates import window_aggregates
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation
from tidemill.plan.two_level import by_value


def distinct_windows(node: Relation) -> Relation | None:
    """Group by the counted value as well, then count the groups.

        GroupBy[k; count(distinct x)]            GroupBy[k; count(x)]
          R                                 →      GroupBy[k, x]
                                                     R

    Sound for every relation R: a value is in the group k exactly when the group (k, x) has a row. Worth it only where
    the lower grouping is a window aggregate: elsewhere the values are kept in one operator anyway.
    """
    if not isinstance(node, r.GroupBy) or not any(a.distinct for a in node.aggregates):
        return None
    better = by_value(node)
    if better is None:
        return None
    lower = next(n for n in walk(better) if isinstance(n, r.GroupBy) and n.input is node.input)
    found = window_aggregates(lower)
    return better if isinstance(found, r.WindowAggregate) and found.window.until is not None else None
