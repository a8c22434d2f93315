"""The cost of a configuration (paper 002, sections 3.2 and 7.1), in the units of c1 and c2.

`rates` and `buckets` are in the order of `configuration.relations`. A query with children (see `Configuration`)
counts as one more leaf in every sum over leaves: what it evicts goes to its children and to the exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidemill.optimize.share.phantoms.configuration import Configuration, Relation

Evictions = Callable[[frozenset[Relation]], float]


@dataclass(frozen=True)
class Constants:
    """c1 of a probe, c2 of an eviction to the exchange; the paper measured a ratio of 15 (section 8.2)."""

    c1: float = 1.0
    c2: float = 15.0

    def __post_init__(self) -> None:
        if self.c1 <= 0 or self.c2 <= 0:
            raise ValueError("costs are positive")


def intra_cost(configuration: Configuration, rates: Sequence[float], constants: Constants) -> float:
    """e_m (7), per tuple: Σ_I Π_{A_R} x · c1 + Σ_L Π_{A_R} x · x_R · c2.

    >>> shared = Configuration.parse("AB(A B)")
    >>> intra_cost(shared, [0.25, 0.5, 0.5], Constants(1, 8))  # 1 + 2 (1/4) + 2 (1/8) 8
    3.5
    """
    fed: list[float] = []
    probes = evictions = 0.0
    for parent, rate, query in zip(configuration.parents, rates, configuration.emits, strict=True):
        arriving = 1.0 if parent < 0 else fed[parent] * rates[parent]
        fed.append(arriving)
        probes += arriving
        if query:
            evictions += arriving * rate
    return probes * constants.c1 + evictions * constants.c2


def evicted_costs(configuration: Configuration, rates: Sequence[float], constants: Constants) -> list[float]:
    """What one entry evicted from R costs below: Σ_children (c1 + x · the same), and c2 if R is a query."""
    below = [constants.c2 if query else 0.0 for query in configuration.emits]
    for i in reversed(range(len(below))):
        parent = configuration.parents[i]
        if parent >= 0:
            below[parent] += constants.c1 + rates[i] * below[i]
    return below


def eviction_cost(
    configuration: Configuration,
    relation: Relation,
    entries: Sequence[float],
    rates: Sequence[float],
    constants: Constants,
) -> float:
    """E_R (27): the cost of evicting the whole hash table of R.

    b_R [Σ_{D_R} Π_{A_r - (A_R ∪ R)} x · c1 + Σ_{L_R} Π_{(A_r ∪ r) - (A_R ∪ R)} x · c2]. For a leaf: b_R c2.

    >>> c = Configuration.parse("AB(A B)")
    >>> eviction_cost(c, c.relations[0], [10, 5, 5], [0.5, 0.1, 0.2], Constants(1, 10))  # 10 (2 + 0.3 · 10)
    50.0
    """
    i = configuration.position[relation]
    return entries[i] * evicted_costs(configuration, rates, constants)[i]


def end_cost(
    configuration: Configuration, entries: Sequence[float], rates: Sequence[float], constants: Constants
) -> float:
    """E_e (8): every hash table is evicted once, from the raw relations down.

    Written with E_R: Σ_I E_R. M_R of the equation is the number of entries, not of bytes.
    """
    below = evicted_costs(configuration, rates, constants)
    return sum(count * lower for count, lower in zip(entries, below, strict=True))


def cycle_end_cost(
    configuration: Configuration,
    entries: Sequence[float],
    rates: Sequence[float],
    constants: Constants,
    evictions: Evictions,
) -> float:
    """E_cee (28): Σ_I n_R E_R, where n_R = evictions(L_R) (24)."""
    below = evicted_costs(configuration, rates, constants)
    times = [evictions(answered) for answered in configuration.answered]
    return sum(n * count * lower for n, count, lower in zip(times, entries, below, strict=True))


def cycle_cost(
    configuration: Configuration,
    entries: Sequence[float],
    rates: Sequence[float],
    constants: Constants,
    evictions: Evictions,
    tuples: float,
) -> float:
    """E_c (29): E_cie + E_cee, with E_cie = n_c e_m (23)."""
    within = tuples * intra_cost(configuration, rates, constants)
    return within + cycle_end_cost(configuration, entries, rates, constants, evictions)
