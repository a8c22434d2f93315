"""Statistics of the inputs of an aggregation join, and which pairs are joined (paper 000, tables II and III)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Graph = frozenset[tuple[int, int]]

_KEY = "key"


@dataclass(frozen=True)
class Stream:
    """One input S_i.

    `rate`: λ_i, rows that arrive per unit of time; 0 for a static relation.
    `window`: w_i, rows in W_i.
    `groups`: g_i, values of the grouping attributes (and of the columns needed one by one); 1 if there are none.
    `values`: 1/σ_i, values of the join attribute; a mapping if the input is joined on several attributes. Inputs that
    share a name are joined on it. A single number is for one attribute that all inputs share.
    `per_value`: groups for each value of the join attributes, as α_i and n_i need it. The paper takes the attributes as
    independent, so this is g_i unless given; it is 1 if the input is grouped by its join attribute.
    `decrement`: 1 if rows leave the window again, 0 for a landmark window. It is the paper's factor of two.
    `alike`: the late and the early form have the same columns. Consolidation is free, and both bits cost the same.
    `matches`, `set_matches`, `set_size`: m_i, n_i, α_i as measured, instead of appendix A. The first two hold for
    every probe by a join attribute of this input.
    `late_width`, `early_width`: bytes of a row of W_i and of AS_i.
    `refresh`: time between two synchronization points. `shipped`: measured changes of AS_i per unit of time. Without
    both, every row is a change.

    >>> auction = Stream(rate=10, window=3600, values={"auction": 3600, "seller": 60})
    >>> auction.join_values, auction.static, Stream(rate=0, window=100).static
    (216000.0, False, True)
    """

    rate: float
    window: float
    groups: float = 1.0
    values: float | Mapping[str, float] = 1.0
    per_value: float | None = None
    decrement: int = 1
    alike: bool = False
    matches: float | None = None
    set_matches: float | None = None
    set_size: float | None = None
    late_width: float = 64.0
    early_width: float = 64.0
    refresh: float | None = None
    shipped: float | None = None

    def __post_init__(self) -> None:
        measured = (self.matches, self.set_matches, self.set_size, self.shipped)
        amounts = [self.rate, self.window, self.late_width, self.early_width, *(x for x in measured if x is not None)]
        if not all(0 <= x < math.inf for x in amounts):
            raise ValueError("rates, sizes and widths are finite and not negative")
        counts = [self.groups, *self.attributes.values(), *([] if self.per_value is None else [self.per_value])]
        if not all(1 <= x < math.inf for x in counts):
            raise ValueError("an attribute has at least one value")
        if self.decrement not in (0, 1):
            raise ValueError("decrement is 0 or 1")
        if self.refresh is not None and not 0 < self.refresh < math.inf:
            raise ValueError("the time between two refreshes is positive")

    @property
    def attributes(self) -> Mapping[str, float]:
        """Values of each join attribute."""
        return self.values if isinstance(self.values, Mapping) else {_KEY: self.values}

    @property
    def join_values(self) -> float:
        """1/σ_i of all join attributes together, taken as independent."""
        return float(math.prod(self.attributes.values()))

    @property
    def groups_per_value(self) -> float:
        return self.groups if self.per_value is None else self.per_value

    @property
    def static(self) -> bool:
        """A static relation: no row arrives, so it never probes the others."""
        return self.rate == 0


def joined_pairs(streams: Sequence[Stream]) -> Graph:
    """The pairs that share a join attribute.

    >>> bid, auction = Stream(100, 10, values={"auction": 5}), Stream(1, 10, values={"auction": 5, "seller": 3})
    >>> sorted(joined_pairs([bid, auction, Stream(0, 9, values={"seller": 9})]))
    [(0, 1), (1, 2)]
    """
    return frozenset(
        (i, j)
        for j, right in enumerate(streams)
        for i, left in enumerate(streams[:j])
        if left.attributes.keys() & right.attributes.keys()
    )


def check_pairs(streams: Sequence[Stream], graph: Graph) -> Graph:
    """The same pairs with the smaller input first; ValueError for a pair that cannot be joined."""
    pairs = frozenset((min(pair), max(pair)) for pair in graph)
    for i, j in sorted(pairs):
        if not 0 <= i < j < len(streams):
            raise ValueError(f"no pair of inputs: {i} and {j}")
        if not streams[i].attributes.keys() & streams[j].attributes.keys():
            raise ValueError(f"inputs {i} and {j} share no join attribute")
    return pairs
