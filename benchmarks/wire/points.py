"""Forecasts beside counted bytes: pairs of streams drawn from a grid, all ways to join them, in one process.

Bytes of the edges are counted, without TLS and TCP. Join values are few, so that all are known when the counting
begins: forecasts are those of the long run.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path

from tests.sites.priced import Kind, Point, measure_point

POINTS, SECONDS = 20, 20
Counted = dict[str, tuple[float, float]]  # algorithm → bytes a second as forecast, and as counted


def draw_points(count: int = POINTS, seed: int = 7) -> Iterator[Point]:
    """Pairs of streams."""
    chance = random.Random(seed)
    for _ in range(count):
        kinds = [
            Kind(chance.choice((20, 50, 100)), chance.choice((2, 5, 20, 50)), chance.choice((20, 100, 400, 1250)))
            for _ in range(2)
        ]
        yield Point(kinds[0], kinds[1], chance.choice((0, 36)), chance.choice((1, 3)))


def measure_points(count: int = POINTS, seconds: int = SECONDS) -> list[Counted]:
    """All points, one after the other."""
    found = []
    for number, point in enumerate(draw_points(count)):
        with tempfile.TemporaryDirectory() as folder:
            found.append(measure_point(Path(folder), point, seconds=seconds))
        print(number, point, {n: (round(a), round(b)) for n, (a, b) in found[-1].items()}, flush=True)
    return found


def summarise(found: Sequence[Counted]) -> list[str]:
    """What the targets ask of the points, as lines of the page."""
    pairs = [both for point in found for both in point.values()]
    close = sum(abs(said - true) <= 0.1 * true for said, true in pairs)
    apart = [
        point[a][0] < point[b][0]
        for point in found
        for a, b in permutations(point, 2)
        if point[a][1] < 0.95 * point[b][1]
    ]
    best = [min(point.values())[1] / min(true for _, true in point.values()) for point in found]
    shares = close / len(pairs), sum(apart) / max(len(apart), 1), sum(ratio <= 1.1 for ratio in best) / len(best)
    return [
        f"{len(found)} pairs of streams, all algorithms in one process, bytes of edges (`benchmarks/wire/points.py`):",
        "",
        "| | target | found |",
        "|---|---:|---:|",
        f"| forecast within 10 % of what was counted | 90 % | {shares[0]:.0%} of {len(pairs)} |",
        f"| pairs more than 5 % apart in the order of their forecasts | 90 % | {shares[1]:.0%} of {len(apart)} |",
        f"| way with the least forecast at most 1.1 times the least bytes | 90 % | {shares[2]:.0%} of {len(best)} |",
    ]
