"""Streams of regular arrivals with join values drawn alike, as the paper's data generator makes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.sites.twins.sequences import MultiWay, Step, run_sequences
from tests.sites.twins.wire import Item, Stream, Wire


@dataclass(frozen=True)
class Kind:
    """Tuples a second, window in ms, bytes of full and partial tuples, distinct join values."""

    rate: float
    window: int
    full: int
    partial: int
    distinct: int


def make_stream(number: int, kind: Kind, until: int, seed: int, attributes: int = 1) -> Stream:
    """Tuples up to time `until` in ms, as regular as the rate says; values of the smaller domain are in the larger."""
    rng = np.random.default_rng([seed, number])
    count = int(kind.rate * until / 1000)
    times = np.maximum(1, ((np.arange(count) + rng.uniform()) * 1000 / kind.rate).astype(int))
    values = rng.integers(0, kind.distinct, (count, attributes))
    items = [
        Item(int(t), ((number, i),), ((number, tuple(int(x) for x in v)),), kind.full)
        for i, (t, v) in enumerate(zip(times, values, strict=True))
    ]
    return Stream(number, items, kind.window, kind.full, kind.partial)


def count_bytes(
    algorithm: str, first: Kind, second: Kind, tau: int, *, delta: int = 80, seconds: int = 2, warm_up: int = 0
) -> tuple[Wire, float]:
    """A one-way join from `first` to `second`, and the seconds over which it was counted: about this many after the
    windows have filled, and `warm_up` seconds more, because what SM-S2 knows grows for longer. The rows of the join are
    not made: nothing of what crosses depends on them.
    """
    grace = delta + tau
    warm = -(-(second.window + grace + 1000 * warm_up) // tau) * tau
    ticks = round(1000 * seconds / tau)
    until = warm + ticks * tau
    streams = [make_stream(i, k, until, 1) for i, k in enumerate((first, second))]
    wire = Wire(counting=lambda t: t > warm)
    join = MultiWay(wire, streams, [(0, 1)], 0, [Step(1, algorithm)], grace)
    join.joins[0].makes_rows = False
    run_sequences([join], until, tau)
    return wire, ticks * tau / 1000
