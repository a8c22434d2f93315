"""A better division of space than SL, found numerically in a few milliseconds: equal marginal worth of all tables.

The paper uses closed forms (section 6.2: equations of high order). But the cost is linear in each collision rate and
in each table's entries, so one pass over the configuration gives its slope along every table size:

    ∂cost/∂b_R = (W_R x'_R + n_R e'_R) · v_R        W_R: entries fed to R, v_R: what an entry evicted from R costs below

At a minimum the slope for each unit of space is the same for all tables. With x about μ g / b the step
s_R ← s_R √slope_R, scaled to M, gets there at once; repeated, it also follows the true curve (13) and the evictions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tidemill.optimize.share.phantoms.configuration import Configuration
from tidemill.optimize.share.phantoms.model import Model
from tidemill.optimize.share.phantoms.space import Allocate, sl, whole_buckets

_ROUNDS = 24
# l_m falls as a table shrinks (section 5.3): below this share of its first size a flow length is not valid any more.
_BELIEVED = 0.5


def refined_allocation(start: Allocate = sl) -> Allocate:
    """An allocation scheme: start with another scheme and equalize the slopes; never worse than the start.

    A relation that is not raw and whose l_a is above 1 keeps at least half of its first space. Equation 15 divides by
    the same l_a whatever the size, so it would predict a low rate even for a table of one bucket. But such an l_a is
    due to groups that the feeder holds back, and a small table does not have it.
    """

    def allocate(configuration: Configuration, model: Model, memory: int) -> list[int]:
        first = start(configuration, model, memory)
        sizes = model.bucket_sizes(configuration)
        best, least = first, model.cost(configuration, first)
        shares = [float(b * h) for b, h in zip(first, sizes, strict=True)]
        least_shares = [
            max(float(h), s * _BELIEVED if l > 1 and depth > 1 else 0.0)
            for s, h, l, depth in zip(shares, sizes, model.flows(configuration), configuration.depths, strict=True)
        ]
        for _ in range(_ROUNDS):
            buckets = [s / h for s, h in zip(shares, sizes, strict=True)]
            worth = model.slopes(configuration, buckets)
            shares = _move_space(shares, [w / h for w, h in zip(worth, sizes, strict=True)], least_shares, memory)
            trial = whole_buckets(shares, sizes, memory)
            cost = model.cost(configuration, trial)
            if cost < least:
                best, least = trial, cost
        return best

    return allocate


def _move_space(shares: list[float], worth: list[float], least: Sequence[float], memory: int) -> list[float]:
    """Shares times the square root of their marginal worth, scaled to the memory; no table below its least share."""
    most = max(worth)
    if most <= 0:
        return shares
    # A table whose space is worth nothing, or less, gives up at most three quarters of it in a round.
    wanted = [s * math.sqrt(max(w / most, 1 / 16)) for s, w in zip(shares, worth, strict=True)]
    held: set[int] = set()
    while True:
        free = [i for i in range(len(wanted)) if i not in held]
        scale = (memory - sum(least[i] for i in held)) / sum(wanted[i] for i in free) if free else 0.0
        short = {i for i in free if wanted[i] * scale < least[i]}
        if not short:
            return [least[i] if i in held else w * scale for i, w in enumerate(wanted)]
        held |= short
