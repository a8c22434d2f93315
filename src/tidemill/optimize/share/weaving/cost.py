"""The cost of a weaved plan in aggregate operations per unit of time (paper 003, equations 1 to 4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidemill.optimize.share.weaving.acq import Acq


class Tree(Protocol):
    """A weaved group as the equations see it: edge rate E_i and overlap factor Ω_i."""

    @property
    def rate(self) -> float: ...

    @property
    def overlap(self) -> float: ...


def overlap_factor(acq: Acq) -> float:
    """r/s, a query's part of Ω (2): the number of its windows that contain a fragment. For a landmark window it is 1.

    >>> from tidemill.optimize.share.weaving.acq import sliding
    >>> overlap_factor(Acq("a", sliding(8, 5)))
    1.6
    """
    return 1.0 if acq.window.range is None else acq.window.range / acq.window.slide


def amortised_factor(acq: Acq) -> float:
    """Ω of an engine that slides: a fragment enters a query's running answer once and leaves it once.

    >>> from tidemill.optimize.share.weaving.acq import sliding
    >>> [amortised_factor(Acq("q", w)) for w in (sliding(50, 1), sliding(8, 5), sliding(5, 5))]
    [2.0, 1.6, 1.0]
    """
    return min(2.0, max(1.0, overlap_factor(acq)))


def final_cost(trees: Iterable[Tree]) -> float:
    """Σ E_i·Ω_i, the final aggregation of (3) and (4)."""
    return sum(tree.rate * tree.overlap for tree in trees)


def tree_cost(rate: float, tree: Tree) -> float:
    """C_t = λ + E·Ω (1), one weaved group with a sub-aggregation of its own."""
    return rate + tree.rate * tree.overlap


def twoops_cost(rate: float, trees: Iterable[Tree]) -> float:
    """m·λ + Σ E_i·Ω_i (3): every weaved group aggregates all input rows."""
    return sum(tree_cost(rate, tree) for tree in trees)


def triops_cost(rate: float, edge_rate: float, trees: Iterable[Tree]) -> float:
    """λ + m·E + Σ E_i·Ω_i (4): rows are aggregated once, fragments once for each weaved group."""
    trees = list(trees)
    return rate + len(trees) * edge_rate + final_cost(trees)


def merge_gain(worth: float, one: Tree, other: Tree, together: float) -> float:
    """By how much the cost falls when two groups become one with `together` as its edge rate.

    One group fewer is worth λ under (3) and E under (4).
    """
    return worth + one.rate * one.overlap + other.rate * other.overlap - together * (one.overlap + other.overlap)
