"""Fronts of pairs (f, h): for each number of steps the divisions that are best for some weight W, by W·f + h."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
Range = tuple[float, float]


@dataclass(frozen=True)
class Front:
    """Divisions of `steps` among some relations, with the pair (f, h) of each.

    To trace division i back: relation `relation` has `own[i]` steps (no relation if it is -1), and the other relations
    are divided as in division `at[j][i]` of front `parts[j]`.
    """

    steps: Places
    f: Floats
    h: Floats
    relation: int = -1
    own: Places | None = None
    parts: tuple[Front, ...] = ()
    at: tuple[Places, ...] = ()


NOTHING = Front(np.zeros(1, np.intp), np.zeros(1), np.zeros(1))


def combine(siblings: Sequence[Front], most: int, weights: Range) -> Front:
    """Several subtrees that share up to `most` steps: f and h add up."""
    total = NOTHING
    for front in siblings:
        left, right = np.nonzero(np.add.outer(total.steps, front.steps) <= most)
        steps, f, h = (getattr(total, c)[left] + getattr(front, c)[right] for c in ("steps", "f", "h"))
        kept = lower_hull(steps, f, h, weights)
        total = Front(steps[kept], f[kept], h[kept], parts=(total, front), at=(left[kept], right[kept]))
    return total


def put_above(
    relation: int, below: Front, rates: Floats, evicted: Floats, c1: float, extra: float, weights: Range
) -> Front:
    """Put a relation above: with k steps of its own f = c1 + x_k F and h = evicted_k F + H, F including `extra`.

    `rates` is infinite where k steps are too few for a bucket.
    """
    able = np.flatnonzero(np.isfinite(rates))
    rows, at = np.nonzero(np.add.outer(able, below.steps) < len(rates))
    own = able[rows]
    lower = below.f[at] + extra
    steps, f, h = own + below.steps[at], c1 + rates[own] * lower, evicted[own] * lower + below.h[at]
    kept = lower_hull(steps, f, h, weights)
    return Front(steps[kept], f[kept], h[kept], relation, own[kept], (below,), (at[kept],))


def lower_hull(steps: Places, f: Floats, h: Floats, weights: Range) -> Places:
    """Positions of the divisions that minimise W·f + h for some W in the range, among those of equal steps.

    With u and v the values at both ends of the range, W·f + h is a mixture of u and v: what counts is the lower left
    convex hull of the points (u, v).

    >>> same = np.zeros(4, np.intp)
    >>> lower_hull(same, np.array([1.0, 3.0, 2.0, 2.0]), np.array([9.0, 0.0, 2.0, 8.0]), (0.0, 10.0)).tolist()
    [1, 2, 0]
    """
    u, v = weights[0] * f + h, weights[1] * f + h
    order = np.lexsort((v, u, steps))
    rank = np.empty(len(v), np.int64)
    rank[np.argsort(v, kind="stable")] = np.arange(len(v))
    # From one group of equal steps to the next the ranks fall by more than their number, which resets the minimum.
    falling = rank[order] - steps[order].astype(np.int64) * len(v)
    lowest = np.minimum.accumulate(falling)
    kept = order[np.concatenate([[True], lowest[1:] < lowest[:-1]])]
    hull: list[int] = []
    start = 0
    for j, (own, x, y) in zip(kept.tolist(), zip(steps[kept], u[kept], v[kept], strict=True), strict=True):
        if hull and steps[hull[-1]] != own:
            start = len(hull)
        while len(hull) - start > 1 and _above(u, v, hull[-2], hull[-1], x, y):
            hull.pop()
        hull.append(j)
    return np.array(hull, dtype=np.intp)


def _above(u: Floats, v: Floats, a: int, b: int, x: float, y: float) -> bool:
    """Whether point b lies on or above the line from a to (x, y)."""
    return bool((u[b] - u[a]) * (y - v[a]) - (v[b] - v[a]) * (x - u[a]) <= 0)


def steps_of(front: Front, at: int) -> dict[int, int]:
    """The steps of each relation in division `at`."""
    found: dict[int, int] = {}
    if front.own is not None:
        found[front.relation] = int(front.own[at])
    for part, places in zip(front.parts, front.at, strict=True):
        found.update(steps_of(part, int(places[at])))
    return found
