"""The optimizer's statistics of a stream: group counts, flow lengths, tuples (paper 002, sections 4.1 and 5.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidemill.optimize.share.phantoms.configuration import Relation, relation

Groups = Mapping[frozenset[str], float] | Callable[[Relation], float]


@dataclass(frozen=True)
class Statistics:
    """Numbers of the last window, taken as the estimate for the next one.

    `groups`: g of an attribute set, or a function of the relation; a set that a mapping lacks is estimated.
    `flows`: effective flow length l_a for depth 1, 2, …; the last one also stands for all deeper relations.
    `tuples`: n_e, the tuples of an epoch, or n_c of a cycle where epochs differ.

    >>> s = Statistics.parse({"A": 552, "AB": 1846}, flows=(40.0, 3.0))
    >>> s.of(relation("AB#7")), s.flow(1), s.flow(5)
    (1846.0, 40.0, 3.0)
    """

    groups: Groups
    flows: tuple[float, ...] = (1.0,)
    tuples: float = 1_000_000.0
    _estimates: dict[frozenset[str], float] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.flows or not all(0 < l < math.inf for l in self.flows) or self.tuples <= 0:
            raise ValueError("flow lengths and tuples must be positive")

    @classmethod
    def parse(cls, groups: Mapping[str, float], flows: tuple[float, ...] = (1.0,), tuples: float = 1e6) -> Statistics:
        """Group counts under the paper's notation for relations."""
        return cls({relation(text).attributes: count for text, count in groups.items()}, flows, tuples)

    def of(self, wanted: Relation) -> float:
        """g, the number of groups; at least one."""
        if callable(self.groups):
            return max(1.0, float(self.groups(wanted)))
        known = self.groups.get(wanted.attributes)
        if known is not None:
            return max(1.0, float(known))
        if wanted.attributes not in self._estimates:
            self._estimates[wanted.attributes] = estimate_groups(self.groups, wanted.attributes, self.tuples)
        return self._estimates[wanted.attributes]

    def flow(self, depth: int) -> float:
        """l_a of the relations of a depth."""
        return self.flows[min(depth, len(self.flows)) - 1]


def estimate_groups(known: Mapping[frozenset[str], float], attributes: frozenset[str], tuples: float) -> float:
    """Groups of a set without a count: its parts are taken as independent, limited by the number of tuples.

    The set is covered by disjoint counted sets, largest first; an attribute in none of them has sqrt(tuples) values.
    Of D combinations, n tuples have D(1 - (1 - 1/D)^n). The estimate is never below the count of a subset, nor above
    that of a superset or the number of tuples.

    >>> round(estimate_groups({frozenset("A"): 10, frozenset("B"): 20}, frozenset("AB"), 1e6))
    200
    >>> round(estimate_groups({frozenset("A"): 10, frozenset("ABC"): 30, frozenset("B"): 20}, frozenset("AB"), 1e6))
    30
    """
    rest, combinations = set(attributes), 1.0
    inside = sorted((part for part in known if part and part < attributes), key=lambda p: (-len(p), sorted(p)))
    for part in inside:
        if part <= rest:
            combinations *= max(1.0, known[part])
            rest -= part
    combinations *= math.sqrt(tuples) ** len(rest)
    met = -combinations * math.expm1(tuples * math.log1p(-1.0 / combinations)) if combinations > 1 else 1.0
    least = max((known[part] for part in inside), default=1.0)
    most = min((count for whole, count in known.items() if whole > attributes), default=tuples)
    return max(1.0, least, min(met, most, tuples))
