"""A hash table that begins empty: how many entries the probes of an epoch make (paper 002, sections 3.2 and 5.1).

Equation 13 is the collision rate of a full table, and equation 8 adds the entries that are left at the end of an epoch.
Neither holds if an epoch brings few rows for each group, or for each bucket: then the table is being filled during the
whole epoch. Both are limits of one count. Every probe that does not find its own group makes an entry, and every entry
is evicted once, by a collision or by the end of the epoch.

A bucket that k of g groups share is probed P times in an epoch, where P has a Poisson distribution with mean m k / g.
Each probe but the first finds its own group with probability 1/k. Summed over the buckets, where k has a Poisson
distribution with mean α = g / b:

    entries = m x  +  b Σ_k P(k) (1 - e^(-m k / g)) / k  =  m x + b e^(-α) (h(α) - h(α e^(-m/g)))

with x of equation 13 and h(z) = Σ z^k / (k · k!).
"""

from __future__ import annotations

import math
from functools import lru_cache

from tidemill.optimize.share.phantoms.collisions import collision_rate

_POINTS = 64  # of the table of h, for each factor of e
_LOW, _HIGH = -14.0, 8.0
_MOST = 1e6  # groups for each probe from which all probes count as different groups


def entries_made(probes: float, distinct: float, buckets: float, skew: float = 1.0) -> float:
    """Entries that a table makes, and evicts, in an epoch with `probes` probes of `distinct` groups.

    Never fewer than the groups, never more than the probes. Groups that are not equally frequent, or arrive in flows,
    collide like a smaller number of groups: `skew` is that number divided by `distinct` (see `StreamStatistics.skew`).

    >>> round(entries_made(1000, 10, 1e9)), round(entries_made(1000, 1000, 5)), round(entries_made(1000, 10, 1))
    (10, 1000, 900)
    >>> round(entries_made(3000, 500, 500))  # 6 rows a group in as many buckets as groups: 0.37 · 3000 + the cold start
    1347
    """
    if distinct >= probes:
        return probes
    if distinct <= 1:
        return min(1.0, probes)
    groups = max(1.0, skew * total_groups(probes, distinct))
    steady = probes * collision_rate(groups, buckets)
    load = groups / buckets
    cold = buckets * (_scale(load, load) - _scale(load * math.exp(-probes / groups), load))
    return min(probes, max(distinct, steady + cold))


@lru_cache(maxsize=4096)
def total_groups(probes: float, distinct: float) -> float:
    """The g equally frequent groups of which `probes` probes see `distinct` ones: g (1 - e^(-m/g)) = distinct.

    >>> round(total_groups(1000, 632.12)), round(total_groups(1e6, 50)), total_groups(10, 10) >= 1e6
    (1000, 50, True)
    """
    share = distinct / probes
    if share >= 1 - 0.5 / _MOST:
        return probes * _MOST
    each = 2 * (1 - share) * (1 + (1 - share) / 3) if share > 0.5 else 1 / share
    for _ in range(6):  # Newton's steps on 1 - e^(-u) = share · u, u probes for each group
        there = math.exp(-each)
        slope = there - share
        each -= (1 - there - share * each) / slope if slope else 0.0
    return probes / each


def entries_left(probes: float, distinct: float, buckets: float) -> float:
    """Entries that are left in the table, one per bucket in use: b (1 - (1 - 1/b)^distinct).

    >>> round(entries_left(1000, 10, 1e9)), round(entries_left(1000, 500, 500))
    (10, 316)
    """
    met = min(probes, distinct)
    return -buckets * math.expm1(met * math.log1p(-1 / buckets)) if buckets > 1 else min(1.0, met)


def _scale(z: float, load: float) -> float:
    """e^(-load) h(z) for z <= load, interpolated in a table of z e^(-z) h(z), which lies between 0 and 1.3."""
    if z <= 0:
        return 0.0
    place = (math.log(z) - _LOW) * _POINTS
    if place <= 0:
        return z * math.exp(-load)
    last = len(_TABLE) - 2
    below = min(int(place), last)
    found = _TABLE[below] + min(1.0, place - below) * (_TABLE[below + 1] - _TABLE[below])
    return found * math.exp(z - load) / z


def _sum(z: float) -> float:
    """z e^(-z) h(z): by the series up to z = 40, by the asymptotic expansion above."""
    if z > 40:
        return 1 + 1 / z + 2 / z**2 + 6 / z**3 + 24 / z**4
    term, total, k = 1.0, 0.0, 0
    while k < z or term > 1e-12 * total:
        k += 1
        term *= z / k
        total += term / k
    return z * math.exp(-z) * total


_TABLE = [_sum(math.exp(_LOW + i / _POINTS)) for i in range(int((_HIGH - _LOW) * _POINTS) + 1)]
