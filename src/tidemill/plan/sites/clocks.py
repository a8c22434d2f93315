"""Which times are closed on an edge between sites, and at which time a shipped row counts.

A change on an edge has a time; a row has a stamp besides, and stamp <= time. In the closed mode the frontier of an
edge is that of the fragment behind it, and nothing here is needed but the switch. In the leading mode a site ships
rows of known keys before it has heard that the keys are all there (docs/ideas/semijoins.md, "One crossing").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Change = tuple[int, tuple[object, ...], int]  # time, row, copies that come or go


def effective_frontier(told: int, keys_frontier: int, seen: int, additions: Iterable[int]) -> int:
    """Times before it are closed on a leading edge.

    `told` is the sender's frontier: all rows with keys that it knew have been shipped. `keys_frontier` is how far the
    keys that were sent to it are complete here, `seen` how far it had applied them, and `additions` are the times at
    which keys were added to what was sent. Rows of a key that it had not seen may still come, at the time of the key.

    >>> effective_frontier(told=90, keys_frontier=80, seen=50, additions=[10, 49])
    80
    >>> effective_frontier(told=90, keys_frontier=80, seen=50, additions=[10, 50, 60])
    50
    """
    return min([told, keys_frontier, *(t for t in additions if t >= seen)])


def landing_time(stamp: int, frontier: int) -> int:
    """The time at which a row of a leading edge counts: its own, or the least that is still open."""
    return max(stamp, frontier)


def switched_frontier(old: int, new: int, at: int) -> int:
    """The frontier of an input that is read from edge `old` before the agreed time, and from `new` from then on.

    >>> switched_frontier(5, 0, at=7), switched_frontier(9, 3, at=7), switched_frontier(9, 12, at=7)
    (5, 7, 12)
    """
    return old if old < at else max(at, new)


def switch_edges(old: Sequence[Change], new: Sequence[Change], at: int) -> list[Change]:
    """The changes of an input that is read from one edge before the agreed time and from another from then on.

    At the agreed time all that the old edge holds leaves, and all that the new one holds comes; what is in both
    cancels.

    >>> switch_edges([(1, ("a",), 1), (2, ("b",), 1), (8, ("c",), 1)], [(3, ("b",), 1), (9, ("d",), 1)], at=5)
    [(1, ('a',), 1), (2, ('b',), 1), (5, ('a',), -1), (9, ('d',), 1)]
    """
    found = [c for c in old if c[0] < at]
    net: dict[tuple[object, ...], int] = {}
    for _, row, diff in found:
        net[row] = net.get(row, 0) - diff
    for time, row, diff in new:
        if time <= at:
            net[row] = net.get(row, 0) + diff
    found += [(at, row, diff) for row, diff in net.items() if diff]
    return found + [c for c in new if c[0] > at]


def earliest_switch(started: int, retentions: Iterable[int | None], lead_us: int = 0) -> int | None:
    """The least time from which fragments that began at time `started` hold all rows that still count.

    A fragment sees the rows that come after it began, so the windows of all inputs must have filled since. The period
    of a synchronizer is part of the retention: it shows a row until its next point. None where an input has no bound:
    such a fragment begins with the stored contents.

    >>> earliest_switch(100, [30, 20]), earliest_switch(100, [30, None])
    (130, None)
    """
    listed = list(retentions)
    bounds = [r for r in listed if r is not None]
    return started + max(bounds, default=0) + lead_us if len(bounds) == len(listed) else None
