"""Flow lengths from the entries that tables really made (paper 002, section 5.3).

The paper divides the rate of equation 13 by the rate that was met. A table that begins empty collides less than
equation 13 says until it is full, whatever the flows; so here a length is the factor by which the probes of a share
must be fewer for a table of random rows to make as many entries (`share_model.made`). Below 1 it says that a table
made more entries than random rows would.

How many groups share a bucket is a matter of chance: where n = g (g - 1) / 2b pairs do so on average, n - √n or n + √n
often do. As much is taken off the difference: a table of few groups that was lucky would else promise that every table
of its depth, even one of a single bucket, holds rows back.
"""

from __future__ import annotations

import math

from tidemill.optimize.share.phantoms.share_model import made

LONGEST, SHORTEST = 100.0, 0.25
_SLIGHT = 0.05  # a difference of the entries that group counts, which are estimates, explain
_DEVIATIONS = 2.0
_STEPS = 40


def certain_flow(probes: float, keys: float, buckets: float, met: float, skew: float = 1.0) -> float:
    """The length that explains `met` entries of an epoch with so many probes and keys, as far as chance does not.

    >>> certain_flow(2000, 61, 249, met=180)  # 7 pairs share buckets: 298 entries were expected, but this may be luck
    1.0
    >>> round(certain_flow(100_000, 2000, 1000, met=7_000), 1)  # of 2,000 pairs so few collisions are no luck
    8.4
    """
    keys = min(keys, probes)
    expected = made(probes, keys, buckets, 1.0, skew)
    again = expected - keys  # entries of groups that had one before
    pairs = keys * (keys - 1) / (2 * buckets)
    if again <= 0 or pairs <= _DEVIATIONS**2:
        return 1.0
    luck = _DEVIATIONS / math.sqrt(pairs)  # by which collisions may be more or fewer without any flow
    slight = _SLIGHT * min(expected, met) + _DEVIATIONS * math.sqrt(again)
    if abs(met - expected) <= luck * again + slight:
        return 1.0
    usual = (met - keys) / (1 - luck if met < expected else 1 + luck)
    return flow_met(probes, keys, buckets, keys + max(0.0, usual), skew)


def flow_met(probes: float, keys: float, buckets: float, met: float, skew: float = 1.0) -> float:
    """The length that explains `met` entries, luck and all: of this very table."""
    low, high = SHORTEST, LONGEST
    if met <= (1 + _SLIGHT) * keys and made(probes, keys, buckets, 1.0, skew) <= (1 + _SLIGHT) * met:
        return 1.0  # hardly a key came twice: no length would make a difference
    if made(probes, keys, buckets, low, skew) <= met:
        return low
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if made(probes, keys, buckets, middle, skew) > met else (low, middle)
    return low
