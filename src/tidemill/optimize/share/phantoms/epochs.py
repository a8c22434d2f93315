"""How often a relation is evicted when its queries have epochs of different lengths (paper 002, equation 24)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

import numpy as np

from tidemill.optimize.share.phantoms.configuration import Relation

_SUBSETS = 8
_SIEVE = 1 << 20


@dataclass(frozen=True)
class Epochs:
    """Epoch length w of each query; called with L_R it gives n_R, the hash table evictions of R in a cycle.

    >>> from tidemill.optimize.share.phantoms.configuration import relation, relations
    >>> e = Epochs({relation("A"): 2, relation("B"): 3, relation("C"): 5})
    >>> e.cycle, e(frozenset(relations("A B C"))), e(frozenset(relations("A B")))
    (30, 22, 20)
    """

    lengths: Mapping[Relation, int]

    @property
    def cycle(self) -> int:
        """γ, the least common multiple of all epoch lengths."""
        return math.lcm(*self.lengths.values())

    def __call__(self, queries: frozenset[Relation]) -> int:
        return hash_table_evictions((self.lengths[q] for q in queries), self.cycle)


def hash_table_evictions(lengths: Iterable[int], cycle: int | None = None) -> int:
    """n_R (24): time stamps in (0, γ] that are a multiple of a length.

    Few lengths: inclusion and exclusion as printed. Many: γ times the exact density of the union of multiples.

    >>> hash_table_evictions([2, 3]), hash_table_evictions([2, 3, 5])
    (4, 22)
    """
    least = _drop_multiples(lengths)
    whole = math.lcm(*least) if cycle is None else cycle
    if any(whole % w for w in least):
        raise ValueError("a cycle is a multiple of every epoch length")
    if len(least) <= _SUBSETS:
        return inclusion_exclusion(least, whole)
    return int(union_density(least) * whole)


def inclusion_exclusion(lengths: Iterable[int], cycle: int) -> int:
    """Equation 24 as printed: Σ over nonempty subsets s of (-1)^(|s|+1) γ / lcm(s)."""
    distinct = tuple(lengths)
    return sum(
        (-1) ** (size + 1) * (cycle // math.lcm(*chosen))
        for size in range(1, len(distinct) + 1)
        for chosen in combinations(distinct, size)
    )


def union_density(lengths: Iterable[int]) -> Fraction:
    """Share of the positive integers that are a multiple of one of the lengths, exactly.

    Lengths without a common factor hit independently (Chinese remainder theorem): 1 - Π (1 - density). Inside a
    component: sieve one period if it is short, otherwise split off the greatest length w,
    d(S ∪ {w}) = d(S) + (1 - d({s / gcd(s, w)})) / w.

    >>> union_density([2, 3])
    Fraction(2, 3)
    """
    return _density(_drop_multiples(lengths))


@lru_cache(maxsize=1 << 16)
def _density(least: tuple[int, ...]) -> Fraction:
    if not least:
        return Fraction(0)
    if least[0] == 1:
        return Fraction(1)
    parts = _components(least)
    if len(parts) > 1:
        return 1 - math.prod((1 - _density(part) for part in parts), start=Fraction(1))
    if len(least) == 1:
        return Fraction(1, least[0])
    shared = math.gcd(*least)
    if shared > 1:
        return _density(tuple(w // shared for w in least)) / shared
    period = math.lcm(*least)
    if period <= _SIEVE:
        return _sieve_density(least, period)
    rest, last = least[:-1], least[-1]
    return _density(rest) + (1 - _density(_drop_multiples(w // math.gcd(w, last) for w in rest))) / last


def _sieve_density(lengths: tuple[int, ...], period: int) -> Fraction:
    hit = np.zeros(period, dtype=np.bool_)
    for w in lengths:
        hit[::w] = True
    return Fraction(int(np.count_nonzero(hit)), period)


def _drop_multiples(lengths: Iterable[int]) -> tuple[int, ...]:
    """The lengths that are no multiple of another one, ascending: multiples add nothing."""
    kept: list[int] = []
    for w in sorted(set(lengths)):
        if w < 1:
            raise ValueError("an epoch has a positive length")
        if not any(w % small == 0 for small in kept):
            kept.append(w)
    return tuple(kept)


def _components(lengths: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Groups of lengths connected by common factors."""
    groups: list[tuple[int, list[int]]] = []
    for w in lengths:
        product, members = w, [w]
        apart = []
        for other, inside in groups:
            if math.gcd(other, w) > 1:
                product, members = product * other, inside + members
            else:
                apart.append((other, inside))
        groups = [*apart, (product, members)]
    return [tuple(sorted(members)) for _, members in groups]
