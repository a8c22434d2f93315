"""Flow lengths from the entries that tables made (paper 002, section 5.3).

The paper divides the rate of equation 13 by the observed rate. A table that begins empty collides less than equation 13
says until it is full, whatever the flows. So here the flow length is the divisor of the probes for which a table of
random rows makes as many entries as were observed (`share_model.entries_with_flow`). It is below 1 if the table made
more entries than random rows would.

The number of groups that share a bucket is random: if n = g (g - 1) / 2b pairs do so on average, deviations of √n are
common. They are subtracted from the difference. Without that, one lucky table of few groups would predict that every
table of its depth, even one of a single bucket, holds rows back.
"""

from __future__ import annotations

import math

from tidemill.optimize.share.phantoms.share_model import entries_with_flow

LONGEST, SHORTEST = 100.0, 0.25
_SLIGHT = 0.05  # relative difference of entries that the error of estimated group counts explains
_DEVIATIONS = 2.0
_STEPS = 40


def significant_flow(probes: float, keys: float, buckets: float, met: float, skew: float = 1.0) -> float:
    """The flow length that explains `met` entries of an epoch, less what chance alone may explain.

    >>> significant_flow(2000, 61, 249, met=180)  # 298 entries were expected; with 7 pairs 180 may be chance
    1.0
    >>> round(significant_flow(100_000, 2000, 1000, met=7_000), 1)  # with 2,000 pairs it is not chance
    8.4
    """
    keys = min(keys, probes)
    expected = entries_with_flow(probes, keys, buckets, 1.0, skew)
    again = expected - keys  # entries of groups that had one before
    pairs = keys * (keys - 1) / (2 * buckets)
    if again <= 0 or pairs <= _DEVIATIONS**2:
        return 1.0
    luck = _DEVIATIONS / math.sqrt(pairs)  # relative deviation of collisions by chance
    slight = _SLIGHT * min(expected, met) + _DEVIATIONS * math.sqrt(again)
    if abs(met - expected) <= luck * again + slight:
        return 1.0
    usual = (met - keys) / (1 - luck if met < expected else 1 + luck)
    return observed_flow(probes, keys, buckets, keys + max(0.0, usual), skew)


def observed_flow(probes: float, keys: float, buckets: float, met: float, skew: float = 1.0) -> float:
    """The flow length that explains all `met` entries of this table, chance included."""
    low, high = SHORTEST, LONGEST
    if met <= (1 + _SLIGHT) * keys and entries_with_flow(probes, keys, buckets, 1.0, skew) <= (1 + _SLIGHT) * met:
        return 1.0  # hardly a key has two entries, so the length makes no difference
    if entries_with_flow(probes, keys, buckets, low, skew) <= met:
        return low
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if entries_with_flow(probes, keys, buckets, middle, skew) > met else (low, middle)
    return low
