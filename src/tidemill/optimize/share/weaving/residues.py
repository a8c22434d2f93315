"""How many integers lie in a union of residue classes, exactly.

A class (s, a) is all t ≡ a (mod s). The period of a union is the least common multiple of its moduli and may have
thousands of digits, so it is never enumerated. Instead t is seen as independent remainders, one for each prime (Chinese
remainder theorem):

    subsume    a class inside another one adds nothing
    private    a prime that divides one modulus only is independent of all others: (s, a) becomes (s / q, a) that hits
               with chance 1/q, where q is the part of s made of its private primes
    split      classes without a common prime are independent: hit = 1 - Π (1 - hitᵢ)
    branch     otherwise every remainder of t by the prime that most classes share is tried

So every class has a chance to hit, at the start 1. The work is bounded: see `union_density`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

Residue = tuple[int, int]
Chances = dict[Residue, float]


class TooHard(Exception):
    """The union was not counted within the allowed work."""


class _Work:
    """The work that is left, in class visits."""

    def __init__(self, allowed: int) -> None:
        self.left = allowed

    def spend(self, classes: int) -> None:
        self.left -= 1 + classes
        if self.left < 0:
            raise TooHard


def union_density(classes: Iterable[Residue], work: int = 1_000_000) -> float:
    """The share of all integers that lie in at least one class; TooHard after `work` class visits.

    Of six integers, 0 2 3 4 are even or a multiple of three:

    >>> round(union_density([(2, 0), (3, 0)]), 12)
    0.666666666667
    >>> round(union_density([(1000, 3), (4000, 3), (999, 5)]) * 999_000)  # 999 + 1000, once both
    1998
    """
    return _hit_chance({(s, a % s): 1.0 for s, a in classes}, _Work(work))


def drop_subsumed(classes: Iterable[Residue]) -> tuple[Residue, ...]:
    """The classes that lie in no other one, in order.

    >>> drop_subsumed([(10, 4), (2, 0), (5, 1), (4, 2)])
    ((2, 0), (5, 1))
    """
    return tuple(sorted(_subsume({(s, a % s): 1.0 for s, a in classes})))


@lru_cache(maxsize=65536)
def prime_powers(number: int) -> tuple[tuple[int, int], ...]:
    """The primes of a number, each with its power in it.

    >>> prime_powers(360)
    ((2, 8), (3, 9), (5, 5))
    """
    found, prime = [], 2
    while prime * prime <= number:
        power = 1
        while number % prime == 0:
            number //= prime
            power *= prime
        if power > 1:
            found.append((prime, power))
        prime += 1 if prime == 2 else 2
    return (*found, (number, number)) if number > 1 else tuple(found)


def _hit_chance(classes: Chances, work: _Work) -> float:
    """The chance that an integer drawn at random is hit by a class."""
    work.spend(len(classes))
    classes = _remove_private_primes(_subsume(classes))
    # Modulus 1 is everywhere; it hits with its chance, independent of the rest.
    hit = classes.pop((1, 0), 0.0)
    if hit < 1.0:
        for part in _split_independent(classes):
            hit += (1.0 - hit) * _branch(part, work)
    return hit


def _add_chance(classes: Chances, residue: Residue, chance: float) -> None:
    old = classes.get(residue, 0.0)
    classes[residue] = old + (1.0 - old) * chance


def _subsume(classes: Chances) -> Chances:
    """The classes without those inside a class of chance 1."""
    sure = sorted({s for (s, _), chance in classes.items() if chance == 1.0})
    kept = {}
    for (s, a), chance in classes.items():
        for divisor in sure:
            if 2 * divisor > s:
                kept[s, a] = chance
                break
            if s % divisor == 0 and classes.get((divisor, a % divisor)) == 1.0:
                break
        else:
            kept[s, a] = chance
    return kept


def _remove_private_primes(classes: Chances) -> Chances:
    """The classes without primes that divide one modulus only.

    Classes of one modulus that coincide without those primes exclude each other, so their chances add up.
    """
    while parts := _private_parts({s for s, _ in classes}):
        fewer: Chances = {}
        together: dict[tuple[int, int, int], float] = {}
        for (s, a), chance in classes.items():
            if part := parts.get(s):
                key = (s, s // part, a % (s // part))
                together[key] = together.get(key, 0.0) + chance / part
            else:
                _add_chance(fewer, (s, a), chance)
        for (_, s, a), chance in together.items():
            _add_chance(fewer, (s, a), chance)
        classes = fewer
    return classes


def _private_parts(moduli: set[int]) -> dict[int, int]:
    """For each modulus with private primes, the product of their powers."""
    owner: dict[int, tuple[int, int] | None] = {}
    for s in moduli:
        for prime, power in prime_powers(s):
            owner[prime] = None if prime in owner else (s, power)
    parts: dict[int, int] = {}
    for owned in owner.values():
        if owned:
            s, power = owned
            parts[s] = parts.get(s, 1) * power
    return parts


def _split_independent(classes: Chances) -> list[Chances]:
    """Independent parts: no prime divides moduli of two of them."""
    leader: dict[int, int] = {}

    def find(prime: int) -> int:
        while leader[prime] != prime:
            prime = leader[prime]
        return prime

    for s in {s for s, _ in classes}:
        primes = [p for p, _ in prime_powers(s)]
        for prime in primes:
            leader.setdefault(prime, prime)
            leader[find(prime)] = find(primes[0])
    parts: dict[int, Chances] = {}
    for (s, a), chance in classes.items():
        parts.setdefault(find(prime_powers(s)[0][0]), {})[s, a] = chance
    return list(parts.values())


def _branch(classes: Chances, work: _Work) -> float:
    """Try the remainders r of t = r + d·u. A remainder without a class of its own has only those d does not divide."""
    if len(classes) == 1:
        (((s, _), chance),) = classes.items()
        return chance / s
    divisor = math.gcd(*(s for s, _ in classes))
    if divisor == 1:
        shared: dict[int, int] = {}
        for s, _ in classes:
            for prime, _ in prime_powers(s):
                shared[prime] = shared.get(prime, 0) + 1
        divisor = max(shared, key=lambda prime: (shared[prime], prime))
    named: dict[int, Chances] = {a % divisor: {} for s, a in classes if s % divisor == 0}
    rest: Chances = {}
    for (s, a), chance in classes.items():
        if s % divisor == 0:
            _add_chance(named[a % divisor], (s // divisor, a // divisor), chance)
        else:
            rest[s, a] = chance
            inverse = pow(divisor, -1, s)
            for r, part in named.items():
                _add_chance(part, (s, (a - r) * inverse % s), chance)
    hit = sum(_hit_chance(part, work) for part in named.values())
    if rest and len(named) < divisor:
        hit += (divisor - len(named)) * _hit_chance(rest, work)
    return hit / divisor
