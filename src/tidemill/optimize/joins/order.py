"""In which order a change of one input probes the others (an MJoin: one linear ordering for each input).

The paper leaves join ordering aside as independent of early aggregation. The fan-outs are not: a step to AS_j
multiplies by n_j, a step to W_j by m_j, so the ordering goes with the plan.
"""

from __future__ import annotations

from tidemill.optimize.joins.parameters import Parameters

Order = tuple[int, ...]


def order(k: int, known: Parameters, plan: str) -> Order:
    """The other inputs: next is one joined with those already there, with the smallest fan-out.

    An input joined with none of them (a product) comes only when nothing else is left. Equal fan-outs: the smaller
    table, then the smaller number.

    >>> from tidemill.optimize.joins.parameters import parameters
    >>> from tidemill.optimize.joins.streams import Stream
    >>> star = parameters([Stream(1, 10, 1, 5), Stream(1, 80, 2, 8), Stream(1, 20, 1, 5)])
    >>> order(0, star, "000"), order(0, star, "010")  # m = 10 and 4; n_1 = 2 instead of 10
    ((2, 1), (1, 2))
    """
    reached, left = [k], [j for j in range(len(known.streams)) if j != k]
    while left:
        tables = [known.probed(j, plan, reached) for j in left]
        connected = [t for t in tables if known.bound(t.input, reached)] or tables
        following = min(connected, key=lambda t: (t.fan_out, t.size, t.input)).input
        reached.append(following)
        left.remove(following)
    return tuple(reached[1:])


def orders(known: Parameters, plan: str) -> tuple[Order, ...]:
    """One linear ordering for the changes of each input."""
    return tuple(order(k, known, plan) for k in range(len(known.streams)))
