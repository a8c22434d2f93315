"""Fronts of pairs (f, h): the divisions of m steps that are best for some weight W, by W·f + h."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Range = tuple[float, float]


@dataclass
class Front:
    """Pairs for one number of steps; `made[j]` says how pair j came about, to be followed back."""

    f: Array
    h: Array
    made: list[object]


Fronts = list[Front]
EMPTY = Front(np.empty(0), np.empty(0), [])


@dataclass(frozen=True)
class Lead:
    """A relation with `steps` of its own over a division of its children."""

    relation: int
    steps: int
    below: object


def combined(siblings: Sequence[Fronts], steps: int, weights: Range) -> Fronts:
    """The fronts of several subtrees that share m steps: f and h add up."""
    total: Fronts = [Front(np.zeros(1), np.zeros(1), [None])] + [EMPTY] * steps
    for fronts in siblings:
        total = [_sums(total, fronts, m, weights) for m in range(steps + 1)]
    return total


def _sums(left: Fronts, right: Fronts, m: int, weights: Range) -> Front:
    pairs = [(left[k], right[m - k]) for k in range(m + 1) if len(left[k].f) and len(right[m - k].f)]
    if not pairs:
        return EMPTY
    f = np.concatenate([np.add.outer(a.f, b.f).ravel() for a, b in pairs])
    h = np.concatenate([np.add.outer(a.h, b.h).ravel() for a, b in pairs])
    kept = best(f, h, weights)
    starts = np.cumsum([0] + [len(a.f) * len(b.f) for a, b in pairs])
    made: list[object] = []
    for j in kept:
        number = int(np.searchsorted(starts, j, side="right")) - 1
        a, b = pairs[number]
        row, column = divmod(int(j - starts[number]), len(b.f))
        made.append((a.made[row], b.made[column]))
    return Front(f[kept], h[kept], made)


def leading(
    relation: int, below: Fronts, rates: Array, evicted: Array, c1: float, extra: float, weights: Range
) -> Fronts:
    """Put a relation above: with k steps of its own, f = c1 + x_k F and h = evicted_k F + H, F including `extra`."""
    fits = [k for k in range(len(rates)) if np.isfinite(rates[k])]
    found: Fronts = []
    for m in range(len(below)):
        parts = [(k, below[m - k]) for k in fits if k <= m and len(below[m - k].f)]
        if not parts:
            found.append(EMPTY)
            continue
        f = np.concatenate([c1 + rates[k] * (part.f + extra) for k, part in parts])
        h = np.concatenate([evicted[k] * (part.f + extra) + part.h for k, part in parts])
        origin = [(k, made) for k, part in parts for made in part.made]
        kept = best(f, h, weights)
        found.append(Front(f[kept], h[kept], [Lead(relation, *origin[j]) for j in kept]))
    return found


def best(f: Array, h: Array, weights: Range) -> NDArray[np.intp]:
    """Positions of the pairs that minimise W·f + h for some W in the range.

    With u and v the values at both ends of the range, W·f + h is a mixture of u and v: what counts is the lower left
    convex hull of the points (u, v).

    >>> best(np.array([1.0, 3.0, 2.0, 2.0]), np.array([9.0, 0.0, 2.0, 8.0]), (0.0, 10.0)).tolist()
    [1, 2, 0]
    """
    u, v = weights[0] * f + h, weights[1] * f + h
    order = np.lexsort((v, u))
    lower = np.minimum.accumulate(v[order])
    kept = order[np.concatenate([[True], v[order][1:] < lower[:-1]])]
    hull: list[int] = []
    for j in kept.tolist():
        while len(hull) > 1 and _above(u, v, hull[-2], hull[-1], j):
            hull.pop()
        hull.append(j)
    return np.array(hull, dtype=np.intp)


def _above(u: Array, v: Array, a: int, b: int, c: int) -> bool:
    """Whether point b lies on or above the line from a to c."""
    return bool((u[b] - u[a]) * (v[c] - v[a]) - (v[b] - v[a]) * (u[c] - u[a]) <= 0)


def joined(fronts: Fronts, steps: int) -> dict[int, int]:
    """The steps of each relation in the one pair left when all steps are used and the weight is known."""
    chosen: dict[int, int] = {}

    def follow(made: object) -> None:
        if isinstance(made, Lead):
            chosen[made.relation] = made.steps
            follow(made.below)
        elif isinstance(made, tuple):
            for part in made:
                follow(part)

    follow(fronts[steps].made[0])
    return chosen
