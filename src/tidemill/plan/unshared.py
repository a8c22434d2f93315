"""What a window aggregate means, in the operators that share nothing."""

from __future__ import annotations

from tidemill.plan import relations as r
from tidemill.plan.relations import Relation, WindowAggregate
from tidemill.plan.scalars import Ceiling, ColumnRef, Shift


def expand_window_aggregate(node: WindowAggregate) -> Relation:
    """The same relation as a chain of plain operators.

        WindowAggregate[p; k, a; f(a); W]   =   GroupBy[k; f(a)]
          R                                       Project[k, a]
                                                    Temporal[⌈ts + after⌉, ⌈ts + until⌉]
                                                      Filter[p]
                                                        R

    ⌈t⌉ is the first point of the window at or after t. Between two points the answer is that of the earlier one, so a
    row is inside at time t when ts + after <= p < ts + until for the last point p <= t. With `once` nothing leaves.
    Where the window counts rows, R is the window already, and no Temporal stands above it.
    """
    window = node.window
    period = (window.slide, window.offset)
    stamp = ColumnRef(r.TS)
    lower = Ceiling(Shift(stamp, "+", window.after), *period)
    upper = None
    if window.until is not None and not node.once:
        upper = Ceiling(Shift(stamp, "+", window.until), *period)
    rows = node.input if node.predicate is None else r.Filter(node.input, node.predicate)
    items = {item.name: item for item in (*node.keys, *node.arguments)}
    inside = rows if node.counts_rows else r.Temporal(rows, lower, upper, period)
    below = r.Project(inside, tuple(items.values()))
    return r.GroupBy(below, tuple(k.name for k in node.keys), node.aggregates)
