"""How far one draw of hash values may be from equation 13, whatever the hash function (section 5.2 of paper 002)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tidemill.optimize.share.phantoms.collisions import collision_rate


def scatter(groups: int, buckets: int) -> float:
    """The standard deviation of one draw's collision rate, relative to equation 13.

    With equal groups and many tuples, x = 1 - N/g where N is the number of buckets in use, and N of g balls in b bins
    has the variance b(b-1)(1-2/b)^g + b(1-1/b)^g - b²(1-1/b)^(2g).

    >>> scatter(2, 2)  # x is 0 or 1/2, each in half of the draws
    1.0
    """
    b, g = float(buckets), float(groups)
    variance = b * (b - 1) * (1 - 2 / b) ** g + b * (1 - 1 / b) ** g - b * b * (1 - 1 / b) ** (2 * g)
    return math.sqrt(max(variance, 0.0)) / g / collision_rate(groups, buckets)


def within(share: float, deviation: float) -> float:
    """How many of normally distributed values lie within `share` of their mean.

    >>> round(within(0.05, 0.025), 3)
    0.954
    """
    return math.erf(share / deviation / math.sqrt(2))


def weighted_rate(sizes: Sequence[int] | np.ndarray, buckets: int, draws: int = 40, seed: int = 5) -> float:
    """The collision rate of groups of different sizes in random order, the mean over draws of hash values.

    A tuple of group i finds another group in its bucket with the chance 1 - p_i / Σ p_j over the bucket's groups.

    >>> round(weighted_rate([1, 1], 1), 3), round(weighted_rate([9, 1], 1), 3)
    (0.5, 0.18)
    """
    shares, rng, found = np.asarray(sizes, float) / np.sum(sizes), np.random.default_rng(seed), []
    for _ in range(draws):
        place = rng.integers(0, buckets, len(shares))
        together = np.bincount(place, shares, buckets)[place]
        found.append(float((shares * (1 - shares / together)).sum()))
    return float(np.mean(found))
