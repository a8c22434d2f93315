"""Data for the experiments of paper 002 (section 8.1): uniform tuples and a packet trace, made up.

The paper's trace is not public. Ours has the same numbers: 860,000 packets in 62 seconds and 2,837 groups of four
attributes; *every* projection on one attribute has 552 groups, on two 1,846, on three 2,117.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

ATTRIBUTES = "ABCD"
GROUPS = {1: 552, 2: 1846, 3: 2117, 4: 2837}
TUPLES, PACKETS, SECONDS = 1_000_000, 860_000, 62.0
FLOWS = 8_000

Columns = NDArray[np.int64]
"""One row for each attribute."""


@dataclass(frozen=True)
class Trace:
    """Packets in the order of time; `flow` numbers the flow of each."""

    columns: Columns
    flow: NDArray[np.int64]

    def half(self, second: bool) -> Trace:
        """The first or the second time window of the two that the trace is cut into."""
        middle = self.columns.shape[1] // 2
        cut = slice(middle, None) if second else slice(0, middle)
        return Trace(self.columns[:, cut], self.flow[cut])


def group_set(seed: int = 2) -> Columns:
    """2,837 groups whose 15 projections have exactly the paper's numbers of groups.

    Units that share no pair of values with each other: 1,505 single groups, 12 products of 3 values in each
    attribute (81 groups; 27, 9 in three and two attributes), 4 products of 2 values (16; 8, 4), 34 sets of four
    units of which each has 2 values in another attribute (8; 7, 6), and one set of six units with 2 values in each of
    two attributes (24; 18, 13). So 1,505 + 12·81 + 4·16 + 34·8 + 24 = 2,837, and likewise 2,117 and 1,846. Values are
    dealt out evenly, but 108 of the 1,846 pairs of values have nine groups each.

    No set with these numbers is even: over all pairs of values of A and B there are 2,837 - 1,846 = 991 groups more
    than pairs, and 2,117 - 1,846 = 271 values of C, and of D, more than pairs. A pair with r values of C and s of D has
    at most r·s groups, so pairs with at most 2 and 2 could have no more than 3·271 = 813 of the 991.
    """
    chance = np.random.default_rng(seed)
    decks = [np.concatenate([chance.permutation(GROUPS[1]) for _ in range(8)]).tolist() for _ in ATTRIBUTES]
    names = [chance.choice(2**31, GROUPS[1], replace=False) for _ in ATTRIBUTES]
    taken: set[tuple[int, int, int, int]] = set()
    rows: list[tuple[int, ...]] = []
    for shape in _units():
        dealt = _deal(shape, decks, taken)
        rows.extend(product(*dealt))
    values = np.array(rows, dtype=np.int64).T
    return np.stack([names[i][values[i]] for i in range(len(ATTRIBUTES))])


def _units() -> Iterator[tuple[int, int, int, int]]:
    """How many values each unit has in each attribute, large units first."""
    yield from [(3, 3, 3, 3)] * 12 + [(2, 2, 2, 2)] * 4
    for pair in combinations(range(4), 2):
        yield tuple(2 if i in pair else 1 for i in range(4))  # type: ignore[misc]
    for one in range(4):
        yield from [tuple(2 if i == one else 1 for i in range(4))] * 34  # type: ignore[misc]
    yield from [(1, 1, 1, 1)] * 1505


def _deal(
    shape: tuple[int, int, int, int], decks: list[list[int]], taken: set[tuple[int, int, int, int]]
) -> list[list[int]]:
    """Values from the fronts of the decks, passing over those that would share a pair with an earlier unit."""
    dealt: list[list[int]] = []
    for attribute, count in enumerate(shape):
        hand: list[int] = []
        place = 0
        while len(hand) < count:
            value = decks[attribute][place]
            fits = value not in hand and all(
                (other, attribute, held, value) not in taken for other in range(attribute) for held in dealt[other]
            )
            if fits:
                hand.append(decks[attribute].pop(place))
            else:
                place += 1
        dealt.append(hand)
    for left, right in combinations(range(4), 2):
        taken.update((left, right, a, b) for a in dealt[left] for b in dealt[right])
    return dealt


def even_group_set(seed: int = 2) -> Columns:
    """2,837 groups whose projections are all even, so that equation 13 holds for each (section 5.2).

    Each of the 552 values of an attribute is in 5 or 6 groups, nearly every pair of values in one: pairs and triples
    have nearly as many groups as there are.
    """
    chance = np.random.default_rng(seed)
    names = [chance.choice(2**31, GROUPS[1], replace=False) for _ in ATTRIBUTES]
    while True:
        rounds = -(-GROUPS[4] // GROUPS[1])
        dealt = [np.concatenate([chance.permutation(GROUPS[1]) for _ in range(rounds)]) for _ in ATTRIBUTES]
        values = np.stack([deck[: GROUPS[4]] for deck in dealt])
        if len(np.unique(values.T, axis=0)) == GROUPS[4]:
            return np.stack([names[i][values[i]] for i in range(len(ATTRIBUTES))])


def uniform(tuples: int = TUPLES, seed: int = 3, groups: Columns | None = None) -> Columns:
    """Tuples uniformly at random over some groups, those of `group_set` unless others are given."""
    chosen = np.random.default_rng(seed).integers(0, GROUPS[4], tuples)
    return np.ascontiguousarray((group_set() if groups is None else groups)[:, chosen])


def counts(groups: Columns) -> dict[int, float]:
    """The number of groups in one to four attributes, on average over the projections."""
    places = range(len(ATTRIBUTES))
    return {n: float(np.mean([group_count(groups, s) for s in combinations(places, n)])) for n in GROUPS}


def one_attribute(groups: int, tuples: int, seed: int) -> Columns:
    """Tuples uniformly at random over `groups` values of one attribute."""
    chance = np.random.default_rng(seed)
    return chance.choice(2**40, groups, replace=False)[chance.integers(0, groups, tuples)][None, :]


def trace(packets: int = PACKETS, flows: int = FLOWS, seed: int = 4) -> Trace:
    """Interleaved flows: every group has some; lengths are heavy-tailed, a flow lasts about a second.

    A flow is a burst: it starts anywhere in the 62 seconds, and its packets follow each other at exponential gaps.
    """
    chance = np.random.default_rng(seed)
    group = np.concatenate([np.arange(GROUPS[4]), chance.integers(0, GROUPS[4], flows - GROUPS[4])])
    share = 1 + chance.pareto(1.6, flows)
    length = 1 + chance.multinomial(packets - flows, share / share.sum())
    begin = chance.uniform(0, SECONDS, flows)
    lasts = chance.lognormal(-1.0, 0.8, flows)
    flow = np.repeat(np.arange(flows), length)
    gaps = chance.exponential(1.0, len(flow)) * (lasts / length)[flow]
    first = np.cumsum(length) - length
    run = np.cumsum(gaps)
    time = begin[flow] + run - run[first][flow]
    order = np.argsort(time, kind="stable")
    return Trace(np.ascontiguousarray(group_set()[:, group[flow[order]]]), flow[order])


def flows_in_random_order(packets: Trace, repeats: int, seed: int = 5) -> Columns:
    """One tuple for each flow, without the clusteredness (section 5.2): independent draws, each flow `repeats` times on
    average. Dealing out all flows again and again would not do: a group of one flow never follows itself in a round.
    """
    _, first = np.unique(packets.flow, return_index=True)
    chance = np.random.default_rng(seed)
    return np.ascontiguousarray(packets.columns[:, chance.choice(first, repeats * len(first))])


def group_count(columns: Columns, attributes: tuple[int, ...]) -> int:
    """Different values of some attributes."""
    code = np.zeros(columns.shape[1], dtype=np.int64)
    for i in attributes:
        _, own = np.unique(columns[i], return_inverse=True)
        code = code * (int(own.max()) + 1) + own
        _, code = np.unique(code, return_inverse=True)
    return int(code.max()) + 1


def group_sizes(columns: Columns, attributes: str) -> NDArray[np.int64]:
    """How many tuples each group of the projection has."""
    picked = columns[[ATTRIBUTES.index(a) for a in attributes]]
    return np.unique(picked, axis=1, return_counts=True)[1]
