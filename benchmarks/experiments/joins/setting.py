"""The settings of figures 4, 5 and 6 of paper 000: what the streams are like, and what is varied."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from tidemill.optimize.joins import Stream
from tidemill.runtime.calibrate.joins import Arrivals

BUCKETS = 1021
GROUPS = tuple(3**e for e in range(1, 10))
SELECTIVITIES = (0.0005, 0.005, 0.05, 0.5)


@dataclass(frozen=True)
class Input:
    """One stream: λ, w, g and 1/σ."""

    rate: int
    window: int
    groups: int
    values: int

    @property
    def stream(self) -> Stream:
        return Stream(self.rate, self.window, self.groups, self.values)

    @property
    def arrivals(self) -> Arrivals:
        return Arrivals(self.rate, self.window, self.groups, self.values)


Inputs = tuple[Input, ...]


@dataclass(frozen=True)
class Sweep:
    """One set of experiments: a parameter of S_1 (σ: of all) takes several values. `figure` is "4a" and so on."""

    figure: str
    title: str
    across: str
    points: tuple[tuple[float, Inputs], ...]
    method: str = "hash"
    log_across: bool = False

    @property
    def plans(self) -> tuple[str, ...]:
        """All plans, the LAP first.

        >>> figure_4()[0].plans
        ('00', '01', '10', '11')
        """
        return tuple("".join(bits) for bits in product("01", repeat=len(self.points[0][1])))


DEFAULT_4 = (Input(300, 5000, 150, 10), Input(300, 5000, 1, 10))
DEFAULT_5 = (Input(200, 300, 20, 10), Input(200, 300, 1, 10), Input(200, 300, 1, 10))
# Nested loop: windows so large, and matches so few, that comparing with every row is most of the cost.
SHOWCASES = {"EAP11": (1, 1), "EAP10": (1, 1000), "EAP01": (1000, 1), "LAP": (1000, 1000)}


def figure_4() -> list[Sweep]:
    """The two-way hash join."""
    rates = [(rate, _first(_other(DEFAULT_4, rate=500), rate=rate)) for rate in (100, 300, 500, 700, 900)]
    return _sweeps("4", DEFAULT_4, (1000, 2000, 3000, 4000, 5000), rates)


def figure_5() -> list[Sweep]:
    """The three-way hash join."""
    rates = [(rate, _first(DEFAULT_5, rate=rate)) for rate in (100, 200, 300, 400, 500, 600)]
    return _sweeps("5", DEFAULT_5, (100, 150, 200, 250, 300), rates)


def figure_6() -> list[Sweep]:
    """Showcases of the two-way nested loop join: each for a plan that should be the best."""
    sweeps = []
    for letter, (winner, (g1, g2)) in zip("abcd", SHOWCASES.items(), strict=True):
        both = tuple(Input(300, 5_000, g, 250) for g in (g1, g2))
        points = tuple((rate, _first(both, rate=rate)) for rate in (100, 300, 500))
        sweeps.append(Sweep(f"6{letter}", f"{winner}: g1 = {g1:,}, g2 = {g2:,}", "λ1", points, "nested loop"))
    return sweeps


def ends(sweeps: list[Sweep]) -> list[Sweep]:
    """The first and the last point of every sweep."""
    return [replace(s, points=(s.points[0], s.points[-1])) for s in sweeps]


def _sweeps(figure: str, default: Inputs, windows: tuple[int, ...], rates: list[tuple[int, Inputs]]) -> list[Sweep]:
    selective = [(σ, tuple(replace(i, values=round(1 / σ)) for i in default)) for σ in SELECTIVITIES]
    return [
        Sweep(f"{figure}a", "window size", "w1", tuple((w, _first(default, window=w)) for w in windows)),
        Sweep(
            f"{figure}b",
            "number of groups",
            "g1",
            tuple((g, _first(default, groups=g)) for g in GROUPS),
            log_across=True,
        ),
        Sweep(f"{figure}c", "stream rate", "λ1", tuple(rates)),
        Sweep(f"{figure}d", "join selectivity factor", "σ", tuple(selective), log_across=True),
    ]


def _first(inputs: Inputs, **changed: int) -> Inputs:
    return replace(inputs[0], **changed), *inputs[1:]


def _other(inputs: Inputs, **changed: int) -> Inputs:
    return inputs[0], *(replace(i, **changed) for i in inputs[1:])
