"""Edges of windows: where fragments end, and how many there are (paper 003, sections II-B, II-C).

The edges of a window are at most two residue classes (slide, phase). A set of queries that shares its fragments has the
union of their edges. The composite slide, the period of that union, is never built.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tidemill.optimize.share.weaving.estimate import estimate_density
from tidemill.optimize.share.weaving.residues import Residue, TooHard, drop_subsumed, union_density
from tidemill.plan.windows import Window

Edges = tuple[Residue, ...]

WORK = 4_000  # class visits, about 12 ms; most unions of a hundred classes with one phase stay below


@dataclass(frozen=True)
class EdgeRate:
    """Edges per time unit, with a bound of its error: 0 if it was counted exactly."""

    value: float
    error: float = 0.0


def edges_of(windows: Iterable[Window]) -> Edges:
    """The edges of queries that share their fragments, as classes none of which lies in another.

    >>> edges_of([Window(5, 3, 1, 9), Window(4, 1, 1, 6)])  # q_a (8, 5) and q_b (5, 4)
    ((4, 0), (4, 1), (5, 0), (5, 3))
    """
    return drop_subsumed((w.slide, phase) for w in windows for phase in w.phases)


def union(*sets: Edges) -> Edges:
    """The edges of several sets together."""
    return drop_subsumed(edge for edges in sets for edge in edges)


@lru_cache(maxsize=8192)
def edge_rate(edges: Edges, work: int = WORK) -> EdgeRate:
    """E, the edges for each time unit: counted exactly, or estimated when that takes too much work.

    >>> edge_rate(((4, 0), (4, 1), (5, 0), (5, 3)))  # 12 of 20: q_a and q_b together
    EdgeRate(value=0.7, error=0.0)
    """
    try:
        return EdgeRate(union_density(edges, work))
    except TooHard:
        return EdgeRate(*estimate_density(edges))


def edge_times(edges: Edges, begin: int, end: int) -> list[int]:
    """The edges in [begin, end), in order.

    >>> edge_times(((5, 0), (5, 3)), 1, 14)
    [3, 5, 8, 10, 13]
    """
    return sorted({t for slide, phase in edges for t in range(begin + (phase - begin) % slide, end, slide)})


def edge_after(edges: Edges, time: int) -> int:
    """The first edge after a time: where the fragment ends that the time falls into.

    >>> edge_after(((5, 0), (5, 3)), 3), edge_after(((5, 0), (5, 3)), 2)
    (5, 3)
    """
    return min(time + 1 + (phase - time - 1) % slide for slide, phase in edges)


def common_rates(sets: Sequence[Edges]) -> np.ndarray:
    """How many edges each pair of windows has in common, per time unit.

    Each set is the classes of ONE slide. Two classes intersect if their phases agree modulo g = gcd(s, s'), and then in
    one of lcm(s, s') times. Classes of one slide are disjoint, so the pairs add up.

    >>> common_rates([((5, 0), (5, 3)), ((4, 0), (4, 1))]).tolist()  # 0, 5, 8, 13 of 20
    [[0.4, 0.2], [0.2, 0.5]]
    """
    slides = np.array([edges[0][0] for edges in sets], dtype=np.int64)
    divisors = np.gcd.outer(slides, slides)
    meet = np.zeros(divisors.shape)
    for mine in _columns(sets):
        for other in _columns(sets):
            there = (mine >= 0)[:, None] & (other >= 0)[None, :]
            meet += there & ((mine[:, None] - other[None, :]) % divisors == 0)
    return meet * divisors / np.multiply.outer(slides.astype(float), slides.astype(float))


def _columns(sets: Sequence[Edges]) -> list[np.ndarray]:
    """First phases, second phases, …; -1 where a set has fewer."""
    return [
        np.array([edges[i][1] if i < len(edges) else -1 for edges in sets], dtype=np.int64)
        for i in range(max(map(len, sets), default=0))
    ]
