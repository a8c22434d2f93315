"""The collision rate of a hash table that keeps the most recent group (paper 002, section 5)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

MU = 0.354
ALPHA = 0.0267
# Below this ratio g/b the power series is exact to the last digits while equation 13 subtracts nearly equal numbers.
_SPARSE = 1e-3


def collision_rate(groups: float, buckets: float, flow: float = 1.0) -> float:
    """x of equation 15: (1 - b/g + b/g (1 - 1/b)^g) / l_a; with l_a = 1 it is equation 13.

    The share of probes that find another group in their bucket.

    >>> collision_rate(1, 10), collision_rate(2, 1), collision_rate(2, 2), collision_rate(2, 2, flow=5)
    (0.0, 0.5, 0.25, 0.05)
    >>> round(collision_rate(3000, 3000), 3)  # 1/e with as many groups as buckets
    0.368
    """
    if groups <= 1:
        return 0.0
    if groups < _SPARSE * buckets:
        return _sparse(groups, buckets) / flow
    if buckets <= 1:
        return (1.0 - 1.0 / groups) / flow
    return (1.0 + buckets / groups * math.expm1(groups * math.log1p(-1.0 / buckets))) / flow


def collision_rates(groups: float, buckets: NDArray[np.float64], flow: float = 1.0) -> NDArray[np.float64]:
    """`collision_rate` for many table sizes at once."""
    if groups <= 1:
        return np.zeros(len(buckets))
    with np.errstate(divide="ignore"):
        dense = 1.0 + buckets / groups * np.expm1(groups * np.log1p(-1.0 / buckets))
    return np.where(groups < _SPARSE * buckets, _sparse(groups, buckets), dense) / flow


def _sparse(g: float, b: Any) -> Any:
    """Σ_{k>=2} (-1)^k C(g, k) b^(1-k) / g: the first four terms, (g-1)/2b - (g-1)(g-2)/6b² + …"""
    step = (g - 1) / (2 * b)
    total = step
    for k in (3, 4, 5):
        step = -step * (g - k + 1) / (k * b)
        total = total + step
    return total


def occupied_buckets(groups: float, buckets: float) -> float:
    """Buckets in use once every group has arrived: b (1 - (1 - 1/b)^g) = g (1 - x).

    >>> occupied_buckets(1, 10), occupied_buckets(2, 2)
    (1.0, 1.5)
    """
    return groups * (1.0 - collision_rate(groups, buckets))


def linear_rate(groups: float, buckets: float, flow: float = 1.0) -> float:
    """Equation 16, the straight line through rates below 0.4: 0.0267/l_a + 0.354 g / (l_a b).

    >>> round(linear_rate(1000, 1000), 4)
    0.3807
    """
    return (ALPHA + MU * groups / buckets) / flow


def flow_length(groups: float, buckets: float, actual: float) -> float:
    """l_m (section 5.3): the rate that equation 13 predicts without flows, divided by the observed rate.

    A table without any collision has an infinite l_m. It says nothing about a smaller table, so leave it out of an
    average.

    >>> flow_length(2, 2, actual=0.05), flow_length(2, 2, actual=0.0)
    (5.0, inf)
    """
    return collision_rate(groups, buckets) / actual if actual > 0 else math.inf
