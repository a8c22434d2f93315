"""The order in which a change of one input probes the others (an MJoin: one linear ordering for each input).

The paper treats join ordering as independent of early aggregation. The fan-outs depend on it: a step to AS_j
multiplies by n_j, a step to W_j by m_j. So the ordering is chosen for each plan.
"""

from __future__ import annotations

from tidemill.optimize.joins.parameters import Parameters

Order = tuple[int, ...]


def probe_order(k: int, known: Parameters, plan: str) -> Order:
    """The other inputs; next is always the one with the smallest fan-out that is joined with an input before it.

    An input joined with none of them (a product) comes only if no other is left. Ties: the smaller table, then the
    smaller number.

    >>> from tidemill.optimize.joins.parameters import derive_parameters
    >>> from tidemill.optimize.joins.streams import Stream
    >>> star = derive_parameters([Stream(1, 10, 1, 5), Stream(1, 80, 2, 8), Stream(1, 20, 1, 5)])
    >>> probe_order(0, star, "000"), probe_order(0, star, "010")  # m = 10 and 4; n_1 = 2 instead of 10
    ((2, 1), (1, 2))
    """
    reached, left = [k], [j for j in range(len(known.streams)) if j != k]
    while left:
        tables = [known.probed_table(j, plan, reached) for j in left]
        connected = [t for t in tables if known.bound_attributes(t.input, reached)] or tables
        following = min(connected, key=lambda t: (t.fan_out, t.size, t.input)).input
        reached.append(following)
        left.remove(following)
    return tuple(reached[1:])


def probe_orders(known: Parameters, plan: str) -> tuple[Order, ...]:
    """One linear ordering for the changes of each input."""
    return tuple(probe_order(k, known, plan) for k in range(len(known.streams)))
