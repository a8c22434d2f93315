"""A hash table that begins empty: how many entries a stretch of probes makes (paper 002, sections 3.2 and 5.1).

Equation 13 is the rate of a table that has been full for a while, and equation 8 adds the entries that are left in it
at the end of an epoch. Where an epoch brings few rows for each group, or each bucket, neither holds: the table is
being filled all the time. Both are limits of one count. Every probe that does not find its own group makes an entry,
and every entry is evicted once, by a collision or by the end of the epoch.

A bucket that k of g groups share is probed P times in an epoch, P of Poisson's with mean m k / g. All probes but the
first find their own group with probability 1/k. Summed over the buckets, where k is of Poisson's with mean α = g / b:

    entries = m x  +  b Σ_k P(k) (1 - e^(-m k / g)) / k  =  m x + b e^(-α) (h(α) - h(α e^(-m/g)))

with x of equation 13 and h(z) = Σ z^k / (k · k!).
"""

from __future__ import annotations

import math

from tidemill.optimize.share.phantoms.collisions import collision_rate

_POINTS = 64  # of the table of h, for each factor of e
_LOW, _HIGH = -14.0, 8.0
_MOST = 1e6  # groups for each probe beyond which all probes are of different groups


def entries(probes: float, distinct: float, buckets: float, skew: float = 1.0) -> float:
    """Entries that a table makes, and evicts, in an epoch with so many probes, which are of `distinct` groups.

    Never fewer than the groups, never more than the probes. Groups that are not equally frequent, or come in flows,
    collide like fewer ones: `skew` has their number for each group (see `known.Known.skew`).

    >>> round(entries(1000, 10, 1e9)), round(entries(1000, 1000, 5)), round(entries(1000, 10, 1))
    (10, 1000, 900)
    >>> round(entries(3000, 500, 500))  # 6 rows a group in as many buckets as groups: 0.37 · 3000 + the cold start
    1347
    """
    if distinct >= probes:
        return probes
    if distinct <= 1:
        return min(1.0, probes)
    groups = max(1.0, skew * groups_met(probes, distinct))
    steady = probes * collision_rate(groups, buckets)
    load = groups / buckets
    cold = buckets * (_scaled(load, load) - _scaled(load * math.exp(-probes / groups), load))
    return min(probes, max(distinct, steady + cold))


def groups_met(probes: float, distinct: float) -> float:
    """g of which so many probes meet `distinct` ones, if all are equally frequent: g (1 - e^(-m/g)) = distinct.

    >>> round(groups_met(1000, 632.12)), round(groups_met(1e6, 50)), groups_met(10, 10) >= 1e6
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


def left_over(probes: float, distinct: float, buckets: float) -> float:
    """Buckets in use after so many probes of `distinct` groups: b (1 - (1 - 1/b)^distinct).

    >>> round(left_over(1000, 10, 1e9)), round(left_over(1000, 500, 500))
    (10, 316)
    """
    met = min(probes, distinct)
    return -buckets * math.expm1(met * math.log1p(-1 / buckets)) if buckets > 1 else min(1.0, met)


def _scaled(z: float, load: float) -> float:
    """e^(-load) h(z) for z <= load; h is taken from a table, as z e^(-z) h(z), which lies between 0 and 1.3."""
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
    """z e^(-z) h(z): the series while it is short, the asymptotic one beyond."""
    if z > 40:
        return 1 + 1 / z + 2 / z**2 + 6 / z**3 + 24 / z**4
    term, total, k = 1.0, 0.0, 0
    while k < z or term > 1e-12 * total:
        k += 1
        term *= z / k
        total += term / k
    return z * math.exp(-z) * total


_TABLE = [_sum(math.exp(_LOW + i / _POINTS)) for i in range(int((_HIGH - _LOW) * _POINTS) + 1)]
