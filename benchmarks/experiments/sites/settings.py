"""The settings of section 5 of paper 001: defaults and table 2 as printed, axes of figure 7 of our own choice."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.sites.twins.data import Kind
from tidemill.optimize.sites import Constants, JoinGraph, Link, OneWayJoin, SiteStream

# A probe compares one attribute; the paper prints no constants.
CONSTANTS = Constants(c_p=1e-7, c_i=1e-6, c_u=1e-6, c_h=1e-6)
DELTA = 80
DEFAULT = Kind(300, 3000, 1250, 5, 10)
KBPS = 1000 / 8
TOPOLOGIES = {
    "star": ((0, 1), (0, 2), (0, 3)),
    "chain": ((0, 1), (1, 2), (2, 3)),
    "cycle": ((0, 1), (1, 2), (2, 3), (0, 3)),
    "fully connected": ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)),
}
TABLE_2 = {
    "attributes": (10, 50, 100, 150, 200),
    "selectivity": (0.02, 0.04, 0.06, 0.08, 0.1),
    "rate": (10, 50, 100, 150, 200),
    "window": (400, 800, 1200, 1600, 2000),
}
ATTRIBUTE_BYTES = 5


@dataclass(frozen=True)
class Point:
    """A one-way join with its link; `tau` in ms."""

    x: float
    first: Kind
    second: Kind
    latency: float = 0.025
    kbps: float = 1024
    tau: int = 100

    @property
    def link(self) -> Link:
        return Link(self.latency, self.kbps * KBPS)

    @property
    def join(self) -> OneWayJoin:
        return OneWayJoin(
            as_stream("n1", self.first), as_stream("n2", self.second), self.tau / 1000, (DELTA + self.tau) / 1000
        )


@dataclass(frozen=True)
class Sweep:
    """One panel of figure 7."""

    letter: str
    title: str
    across: str
    points: tuple[Point, ...]


def as_stream(site: str, kind: Kind) -> SiteStream:
    return SiteStream(site, kind.rate, kind.window / 1000, kind.full, kind.partial, kind.distinct)


def _second(values: Sequence[float], change: Callable[[float], Kind]) -> tuple[Point, ...]:
    return tuple(Point(v, DEFAULT, change(v)) for v in values)


def figure_7(quick: bool = False) -> list[Sweep]:
    """(a) to (g): parameters of S2, the link, and the interval."""
    take = (lambda values: values[::2]) if quick else (lambda values: values)
    return [
        Sweep(
            "a",
            "tuple size",
            "bytes of a tuple of S2",
            _second(take((250, 750, 1250, 1750, 2250)), lambda v: replace(DEFAULT, full=int(v))),
        ),
        Sweep(
            "b",
            "stream rate",
            "tuples of S2 a second",
            _second(take((100, 200, 300, 400, 500)), lambda v: replace(DEFAULT, rate=v)),
        ),
        Sweep(
            "c",
            "selectivity factor",
            "selectivity factor of S2",
            _second(take((0.02, 0.05, 0.1, 0.2, 0.5)), lambda v: replace(DEFAULT, distinct=round(1 / v))),
        ),
        Sweep(
            "d",
            "window size",
            "window of S2, ms",
            _second(take((1000, 2000, 3000, 4000, 5000)), lambda v: replace(DEFAULT, window=int(v))),
        ),
        Sweep(
            "e",
            "network latency",
            "latency, ms",
            tuple(Point(v, DEFAULT, DEFAULT, latency=v / 1000) for v in take((5, 15, 25, 50, 75))),
        ),
        Sweep(
            "f",
            "bandwidth",
            "bandwidth, Kbps",
            tuple(Point(v, DEFAULT, DEFAULT, kbps=v) for v in take((256, 512, 1024, 4096, 16384))),
        ),
        Sweep(
            "g",
            "execution interval",
            "interval, ms",
            tuple(Point(v, DEFAULT, DEFAULT, tau=int(v)) for v in take((50, 100, 200, 300, 400))),
        ),
    ]


def draw_graph(topology: str, chance: random.Random) -> tuple[JoinGraph, list[Kind]]:
    """A four-way join by table 2, each stream at a site of its own."""
    kinds = [
        Kind(
            chance.choice(TABLE_2["rate"]),
            int(chance.choice(TABLE_2["window"])),
            int(chance.choice(TABLE_2["attributes"])) * ATTRIBUTE_BYTES,
            ATTRIBUTE_BYTES,
            round(1 / chance.choice(TABLE_2["selectivity"])),
        )
        for _ in range(4)
    ]
    return graph_of(kinds, TOPOLOGIES[topology]), kinds


def graph_of(kinds: Sequence[Kind], pairs: Sequence[tuple[int, int]], shared: bool = False) -> JoinGraph:
    streams = tuple(as_stream(f"n{i}", kind) for i, kind in enumerate(kinds))
    return JoinGraph(streams, frozenset(pairs), shared)


IDENTICAL = Kind(100, 1200, 500, 5, 17)
FIGURE_9 = {
    "tuple size": [replace(IDENTICAL, full=n * ATTRIBUTE_BYTES) for n in (10, 50, 100, 150, 200)],
    "selectivity factor": [replace(IDENTICAL, distinct=round(1 / f)) for f in (0.02, 0.04, 0.06, 0.08, 0.1)],
    "stream rate": [replace(IDENTICAL, rate=r) for r in (10, 50, 100, 150, 200)],
    "window size": [replace(IDENTICAL, window=w) for w in (400, 800, 1200, 1600, 2000)],
}
# Rates and selectivity factors of the access logs of four days, as the paper states them.
LOG_RATES, LOG_FACTORS = (2370, 3670, 3500, 4200), (0.0024, 0.0017, 0.0015, 0.001)


def figure_10(window: int) -> list[Kind]:
    return [Kind(r, window, 142, 4, round(1 / f)) for r, f in zip(LOG_RATES, LOG_FACTORS, strict=True)]
