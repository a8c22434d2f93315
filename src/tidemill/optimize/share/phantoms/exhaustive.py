"""Exhaustive space allocation ES (paper 002, section 6.3): the best of all divisions of M into equal steps.

Trying all divisions of 100 steps among 7 relations one by one is a billion trials. Dynamic programming finds the same
minimum. One entry fed to R costs v_R = c1 + x_R(b_R) · Σ v_child in R and below. So the best division of m steps inside
a subtree does not depend on the other subtrees, and one table over m = 0 … steps for each subtree suffices:

    v_R(m) = min_k  c1 + x_R(k) · w_R(m - k)         w_R: the best for R's children together
    w(m)   = min_k  v_1(k) + w'(m - k)               one child after the other

With hash table evictions (28) a subtree that is fed with W entries costs W · f + h, where f is the cost of an entry and
h that of the subtree's own evictions. W depends on the tables above. So for each m all pairs (f, h) are kept that are
best for some possible W: a convex front. Both are exact minima over the grid; the tests compare them with all trials.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidemill.optimize.share.phantoms.collisions import collision_rates
from tidemill.optimize.share.phantoms.configuration import Configuration
from tidemill.optimize.share.phantoms.fronts import Front, Range, combine, put_above, steps_of
from tidemill.optimize.share.phantoms.model import Model

Array = NDArray[np.float64]


def exhaustive_allocation(steps: int = 100) -> Callable[[Configuration, Model, int], list[int]]:
    """An allocation scheme: the best division of the memory into `steps` equal steps, all of them used."""

    def es(configuration: Configuration, model: Model, memory: int) -> list[int]:
        grid = Grid.of(configuration, model, memory, steps)
        search = _minimize_intra_cost if model.evictions is None else _minimize_cycle_cost
        chosen = search(configuration, model, grid)
        return [int(grid.buckets[i][k]) for i, k in enumerate(chosen)]

    return es


@dataclass(frozen=True)
class Grid:
    """For each relation and number of steps 0 … n: buckets, collision rate and entries; -1 buckets where none fits."""

    steps: int
    buckets: list[Array]
    rates: list[Array]
    entries: list[Array]

    @classmethod
    def of(cls, configuration: Configuration, model: Model, memory: int, steps: int) -> Grid:
        space = np.arange(steps + 1) * (memory / steps)
        buckets, rates, entries = [], [], []
        described = zip(
            model.groups(configuration), model.bucket_sizes(configuration), model.flows(configuration), strict=True
        )
        for groups, size, flow in described:
            count = np.floor(space / size + 1e-9)
            fits = count >= 1
            safe = np.where(fits, count, 1.0)
            rate = collision_rates(groups, safe)
            buckets.append(np.where(fits, count, -1.0))
            rates.append(np.where(fits, rate / flow, np.inf))
            entries.append(groups * (1 - rate) if model.only_occupied else safe)
        least = sum(int(np.argmax(b >= 1)) if b[-1] >= 1 else steps + 1 for b in buckets)
        if least > steps:
            raise ValueError(f"{steps} steps of {memory} units do not give each of {len(buckets)} relations a bucket")
        return cls(steps, buckets, rates, entries)


def _minimize_intra_cost(configuration: Configuration, model: Model, grid: Grid) -> list[int]:
    """The steps of each relation that minimise e_m (7)."""
    c1, c2 = model.constants.c1, model.constants.c2
    own: dict[int, NDArray[np.intp]] = {}
    split: dict[int, list[NDArray[np.intp]]] = {}
    values: dict[int, Array] = {}
    nothing = np.full(grid.steps + 1, np.inf)
    nothing[0] = 0.0

    def combine_siblings(members: tuple[int, ...]) -> tuple[Array, list[NDArray[np.intp]]]:
        total, cuts = nothing, []
        for member in members:
            total, cut = _minimize_columns(values[member][:, None] + _shift(total))
            cuts.append(cut)
        return total, cuts

    for i in reversed(range(len(configuration.relations))):
        below, split[i] = combine_siblings(configuration.children[i])
        if configuration.emits[i]:
            below = below + c2
        evicted = _shift(below)
        with np.errstate(invalid="ignore"):
            trial = c1 + grid.rates[i][:, None] * evicted
        trial[np.isinf(evicted)] = np.inf
        values[i], own[i] = _minimize_columns(trial)
    _, split[-1] = combine_siblings(configuration.raw)
    return _trace_back(configuration, grid.steps, own, split)


def _shift(values: Array) -> Array:
    """matrix[k, m] = values[m - k], infinite where m < k."""
    steps = len(values)
    padded = np.concatenate([np.full(steps, np.inf), values])
    places = np.arange(steps)
    return padded[steps + places[None, :] - places[:, None]]


def _minimize_columns(trial: Array) -> tuple[Array, NDArray[np.intp]]:
    best = trial.argmin(axis=0)
    return np.take_along_axis(trial, best[None, :], axis=0)[0], best


def _trace_back(
    configuration: Configuration, steps: int, own: dict[int, NDArray[np.intp]], split: dict[int, list[NDArray[np.intp]]]
) -> list[int]:
    """Read the chosen steps of each relation out of the tables, from the top."""
    chosen = [0] * len(configuration.relations)

    def assign(node: int, members: tuple[int, ...], left: int) -> None:
        for member, cut in zip(reversed(members), reversed(split[node]), strict=True):
            part = int(cut[left])
            left -= part
            chosen[member] = int(own[member][part])
            assign(member, configuration.children[member], part - chosen[member])

    assign(-1, configuration.raw, steps)
    return chosen


def _minimize_cycle_cost(configuration: Configuration, model: Model, grid: Grid) -> list[int]:
    """The steps of each relation that minimise E_c (29)."""
    c1, c2 = model.constants.c1, model.constants.c2
    times = model.times(configuration)
    fed = _feed_ranges(configuration, model, grid, times)
    fronts: dict[int, Front] = {}
    for i in reversed(range(len(configuration.relations))):
        # Entries leave R by collisions, x W, and by hash table evictions, n e: the weights of what is below.
        low, high = fed[i]
        fits = grid.buckets[i] >= 1
        leaving = (
            float((grid.rates[i] * low + times[i] * grid.entries[i])[fits].min()),
            float((grid.rates[i] * high + times[i] * grid.entries[i])[fits].max()),
        )
        below = combine([fronts.pop(c) for c in configuration.children[i]], grid.steps, leaving)
        extra = c2 if configuration.emits[i] else 0.0
        fronts[i] = put_above(i, below, grid.rates[i], times[i] * grid.entries[i], c1, extra, fed[i])
    everything = combine([fronts[i] for i in configuration.raw], grid.steps, fed[-1])
    at = int(np.flatnonzero(everything.steps == grid.steps)[0])
    steps = steps_of(everything, at)
    return [steps[i] for i in range(len(configuration.relations))]


def _feed_ranges(configuration: Configuration, model: Model, grid: Grid, times: list[float]) -> dict[int, Range]:
    """The least and greatest number of entries fed to each relation; under -1 that of the raw ones, n_c."""
    tuples = model.statistics.tuples
    ranges = {-1: (tuples, tuples)}
    for i, parent in enumerate(configuration.parents):
        if parent < 0:
            ranges[i] = (tuples, tuples)
            continue
        low, high = ranges[parent]
        fits = grid.buckets[parent] >= 1
        rates, evicted = grid.rates[parent][fits], times[parent] * grid.entries[parent][fits]
        ranges[i] = (float((rates * low + evicted).min()), float((rates * high + evicted).max()))
    return ranges
