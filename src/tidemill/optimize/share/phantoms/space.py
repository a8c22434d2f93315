"""Space allocation (paper 002, section 6): how a budget of M units is divided among the hash tables.

A unit is 4 bytes and a bucket of relation i takes h_i of them. Everything below divides *space* s_i = b_i h_i, so the
paper's results hold with g h / l_a in place of g (sections 6.1 and 6.4). Every relation gets at least one bucket, even
if M is too small for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tidemill.optimize.share.phantoms.collisions import MU
from tidemill.optimize.share.phantoms.configuration import Configuration
from tidemill.optimize.share.phantoms.cost import Constants
from tidemill.optimize.share.phantoms.model import Model

Allocate = Callable[[Configuration, Model, int], list[int]]
"""Buckets for each relation of a configuration, in its order, under a memory budget."""


def sl(configuration: Configuration, model: Model, memory: int) -> list[int]:
    """Supernode with linear combination: a supernode has as many groups as its relations together."""
    return _by_supernodes(configuration, model, memory, lambda own, below: own + sum(below))


def sr(configuration: Configuration, model: Model, memory: int) -> list[int]:
    """Supernode with square root combination: the root of a supernode's groups is the sum of the roots."""
    return _by_supernodes(
        configuration, model, memory, lambda own, below: (math.sqrt(own) + sum(map(math.sqrt, below))) ** 2
    )


def pl(configuration: Configuration, model: Model, memory: int) -> list[int]:
    """Linear proportional: space as g h, that is buckets as g."""
    return _in_proportion(configuration, model, memory, lambda weight: weight)


def pr(configuration: Configuration, model: Model, memory: int) -> list[int]:
    """Square root proportional: space as √(g h)."""
    return _in_proportion(configuration, model, memory, math.sqrt)


def without_phantom(weights: Sequence[float], memory: float) -> list[float]:
    """The best division among raw leaves: s_i proportional to √(weight_i), where weight is g h / l_a.

    >>> without_phantom([100, 400], 30)
    [10.0, 20.0]
    """
    roots = [math.sqrt(w) for w in weights]
    return [memory * root / sum(roots) for root in roots]


def one_phantom(weights: Sequence[float], memory: float, constants: Constants, query: bool = False) -> list[float]:
    """The best division between a phantom, first in the answer, and the relations it feeds (21, 22).

    s_i = M √w_i / (S + √(S² + f c1 M / (μ c2))), S = Σ √w_j, and the phantom gets the rest, more than half. A feeder
    that is itself a query also costs c2 for each of its evictions: then f c1 + c2 replaces f c1.

    >>> [round(s, 1) for s in one_phantom([100, 400], 3000, Constants(1, 15))]
    [1800.9, 399.7, 799.4]
    """
    roots = [math.sqrt(w) for w in weights]
    total = sum(roots)
    price = len(roots) * constants.c1 + (constants.c2 if query else 0.0)
    share = memory / (total + math.sqrt(total * total + price * memory / (MU * constants.c2)))
    below = [share * root for root in roots]
    return [memory - sum(below), *below]


def weights_of(configuration: Configuration, model: Model) -> list[float]:
    """g h / l_a of each relation."""
    return [
        g * h / l
        for g, h, l in zip(
            model.groups(configuration), model.bucket_sizes(configuration), model.flows(configuration), strict=True
        )
    ]


def supernodes(
    configuration: Configuration, weights: Sequence[float], combine: Callable[[float, list[float]], float]
) -> list[float]:
    """The weight of each relation together with everything below it, folded from the leaves up (figure 13)."""
    folded = list(weights)
    for i in reversed(range(len(folded))):
        below = configuration.children[i]
        if below:
            folded[i] = combine(weights[i], [folded[c] for c in below])
    return folded


def whole_buckets(shares: Sequence[float], sizes: Sequence[int], memory: int) -> list[int]:
    """Whole buckets near the given shares of space: at least one each, and no space left for another one.

    Space left after rounding down goes to the relations that lost the largest fraction.

    >>> whole_buckets([10.0, 20.0], [3, 3], 30), whole_buckets([0.5, 29.5], [2, 3], 30)
    ([3, 7], [1, 9])
    >>> whole_buckets([1.0, 1.0], [2, 3], 2)
    [1, 1]
    """
    over = [max(0.0, share - size) for share, size in zip(shares, sizes, strict=True)]
    spare = memory - sum(sizes)
    if spare <= 0:
        return [1] * len(sizes)
    scale = min(1.0, spare / sum(over)) if sum(over) > 0 else 0.0
    exact = [1 + o * scale / size for o, size in zip(over, sizes, strict=True)]
    buckets = [int(b + 1e-9) for b in exact]
    left = memory - sum(b * size for b, size in zip(buckets, sizes, strict=True))
    cut = sorted(range(len(sizes)), key=lambda i: buckets[i] - exact[i])
    while left >= min(sizes):
        for i in cut:
            if sizes[i] <= left:
                buckets[i] += 1
                left -= sizes[i]
    return buckets


def _by_supernodes(
    configuration: Configuration, model: Model, memory: int, combine: Callable[[float, list[float]], float]
) -> list[int]:
    folded = supernodes(configuration, weights_of(configuration, model), combine)
    shares = [0.0] * len(folded)
    raw = configuration.raw
    for i, share in zip(raw, without_phantom([folded[i] for i in raw], memory), strict=True):
        shares[i] = share
    # Preorder: a supernode's share is known before it is unfolded.
    for i, below in enumerate(configuration.children):
        if below:
            parts = one_phantom([folded[c] for c in below], shares[i], model.constants, configuration.emits[i])
            shares[i] = parts[0]
            for c, part in zip(below, parts[1:], strict=True):
                shares[c] = part
    return whole_buckets(shares, model.bucket_sizes(configuration), memory)


def _in_proportion(
    configuration: Configuration, model: Model, memory: int, weight: Callable[[float], float]
) -> list[int]:
    sizes = model.bucket_sizes(configuration)
    weights = [weight(g * h) for g, h in zip(model.groups(configuration), sizes, strict=True)]
    return whole_buckets([memory * w / sum(weights) for w in weights], sizes, memory)
