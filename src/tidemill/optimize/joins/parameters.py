"""Sizes, fan-outs and buckets derived from the statistics of the inputs (paper 000, appendix A, for m inputs)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidemill.optimize.joins.streams import Graph, Stream, check_pairs, joined_pairs

AS = -1


class Table(NamedTuple):
    """W_i, AS_i or (`input` = AS) the AS of the query: its size, its buckets, and the rows that a probe finds."""

    input: int
    early: bool
    size: float
    buckets: float
    fan_out: float


@dataclass(frozen=True)
class Parameters:
    """α, α_i, m_i, n_i, B_i and B_g, and every table that a plan may probe or update."""

    streams: tuple[Stream, ...]
    graph: Graph
    B: float
    alpha: float
    alphas: tuple[float, ...]
    m: tuple[float, ...]
    n: tuple[float, ...]
    buckets: tuple[float, ...]
    B_g: float
    whole_key: bool = False
    batch: float | None = None

    def bound_attributes(self, j: int, known: Collection[int]) -> frozenset[str]:
        """The join attributes of j whose values are in a row of the `known` inputs."""
        mine, found = self.streams[j].attributes, set[str]()
        for i in known:
            if (min(i, j), max(i, j)) in self.graph:
                found |= mine.keys() & self.streams[i].attributes.keys()
        return frozenset(found)

    def early(self, i: int, plan: str) -> bool:
        """Whether input i is kept as an aggregation set. If both its forms are alike, it always is."""
        return plan[i] == "1" or self.streams[i].alike

    def probed_table(self, j: int, plan: str, known: Collection[int]) -> Table:
        """W_j or AS_j, probed by a row of the `known` inputs. If they share no attribute with j, all of it matches."""
        stream, early, names = self.streams[j], self.early(j, plan), self.bound_attributes(j, known)
        size = self.alphas[j] if early else stream.window
        if not names:
            return Table(j, early, size, 1.0, size)
        found = set_matches(stream, names) if early else matches(stream, names)
        return Table(j, early, size, min(_values(stream, names), self.B), found)

    def runs(self, table: Table, known: Collection[int]) -> float:
        """The number of runs of one group in the rows that a probe of the `known` inputs finds.

        Rows of AS_j are all of different groups: n_j runs. Rows of W_j are m_j rows of n_j groups in random order: each
        but the first begins a new run with probability 1 - 1/n_j.

        >>> p = derive_parameters([Stream(1, 40, 4, 2), Stream(1, 40, 1, 2)])
        >>> [p.runs(p.probed_table(j, plan, [1 - j]), [1 - j]) for plan in ("00", "11") for j in (0, 1)]
        [15.25, 1.0, 4.0, 1.0]
        """
        if table.early or table.fan_out <= 1:
            return table.fan_out
        groups = max(1.0, self.probed_table(table.input, "1" * len(self.streams), known).fan_out)
        return 1 + (table.fan_out - 1) * (1 - 1 / groups)

    def first_share(self, k: int, plan: str, table: Table, known: Collection[int], rows: float) -> float | None:
        """Of the lookups that a micro-batch of input k makes in a table, the share that are the first of their value.

        `rows` is the number of joined rows for each change at this step. If the value is in the change itself, they
        make one lookup together. None if the length of a micro-batch is unknown.

        >>> p = derive_parameters([Stream(50, 40, 4, 10), Stream(1, 40, 1, 10)], batch=2)  # 50 rows come and go, twice
        >>> round(p.first_share(0, "00", p.probed_table(1, "00", [0]), [0], 1), 4)
        0.05
        """
        if self.batch is None:
            return None
        names, stream = self.bound_attributes(table.input, known), self.streams[k]
        values = _values(self.streams[table.input], names)
        changes = self.batch * (1 + stream.decrement) * self.shipped_changes(k, plan)
        if names <= self.bound_attributes(table.input, [k]):
            return first_lookups(changes * min(rows, 1.0), values) / max(rows, 1.0)
        return first_lookups(changes * rows, values)

    def updated_set(self, k: int) -> Table:
        """AS_k for an AS update."""
        buckets = max(1.0, min(self.alphas[k], self.B)) if self.whole_key else self.buckets[k]
        return Table(k, True, self.alphas[k], buckets, self.n[k])

    @property
    def answer(self) -> Table:
        """AS for an AS update."""
        return Table(AS, True, self.alpha, self.B_g, 1.0)

    def shipped_changes(self, k: int, plan: str) -> float:
        """Changes of input k that reach the join per unit of time, without their later deletions.

        Late: λ_k. Early: as measured; or at most one for each group and refresh, min(λ_k, α_k / refresh).
        """
        stream = self.streams[k]
        if not self.early(k, plan):
            return stream.rate
        if stream.shipped is not None:
            return stream.shipped
        return stream.rate if stream.refresh is None else min(stream.rate, self.alphas[k] / stream.refresh)


def derive_parameters(
    streams: Sequence[Stream],
    B: float = math.inf,
    graph: Graph | None = None,
    *,
    whole_key: bool = False,
    alpha: float | None = None,
    batch: float | None = None,
) -> Parameters:
    """Appendix A: α = Π min(w_i, g_i), α_i = min(w_i, g_i/σ_i), m_i = σ_i w_i, n_i = min(w_i σ_i, g_i),
    B_i = min(1/σ_i, B), B_g = min(g_1, B).

    The paper prints m_1 = α_1 w_1, a misprint for σ_1 w_1: its text has "the product of join selectivity factor σ_1 and
    window size w_1", and so has m_2. It hashes AS on G_1 alone and AS_i on the join attribute alone. With `whole_key`
    both are hashed on all their attributes: B_g = min(α, B), and an AS update of AS_i walks max(1, α_i/B) entries.
    `alpha` is α as measured. `batch` is the length of a micro-batch, in which a row that several changes match is
    fetched once. Without a graph, the pairs that share a join attribute are joined.

    >>> p = derive_parameters([Stream(300, 5000, 150, 10), Stream(300, 5000, 1, 10)], B=1021)  # the default of figure 4
    >>> p.alpha, p.alphas, p.m, p.n, p.buckets, p.B_g
    (150.0, (1500.0, 10.0), (500.0, 500.0), (150.0, 1.0), (10.0, 10.0), 150.0)
    """
    if not streams or not B >= 1:
        raise ValueError("a join has inputs, and a hash table has at least one bucket")
    size = float(math.prod(min(s.window, s.groups) for s in streams)) if alpha is None else alpha
    everything = [frozenset(s.attributes) for s in streams]
    return Parameters(
        streams=tuple(streams),
        graph=check_pairs(streams, joined_pairs(streams) if graph is None else graph),
        B=B,
        alpha=size,
        alphas=tuple(set_size(s) for s in streams),
        m=tuple(matches(s, names) for s, names in zip(streams, everything, strict=True)),
        n=tuple(set_matches(s, names) for s, names in zip(streams, everything, strict=True)),
        buckets=tuple(min(s.join_values, B) for s in streams),
        B_g=float(max(1.0, min(size, B)) if whole_key else min(streams[0].groups, B)),
        whole_key=whole_key,
        batch=batch,
    )


def first_lookups(lookups: float, values: float) -> float:
    """Of n lookups of v values drawn at random, the share that are the first of their value: v (1 - (1 - 1/v)^n)/n.

    >>> first_lookups(1, 10), round(first_lookups(1000, 10), 4), first_lookups(20, 1)
    (1.0, 0.01, 0.05)
    """
    if lookups <= 1:
        return 1.0
    return -values * math.expm1(lookups * math.log1p(-1 / values)) / lookups if values > 1 else 1 / lookups


def set_size(stream: Stream) -> float:
    """α_i = min(w_i, g_i/σ_i)."""
    if stream.set_size is not None:
        return stream.set_size
    return float(min(stream.window, stream.groups_per_value * stream.join_values))


def matches(stream: Stream, names: frozenset[str]) -> float:
    """m_i = σ_i w_i, where σ_i is that of the join attributes with these names."""
    return stream.window / _values(stream, names) if stream.matches is None else stream.matches


def set_matches(stream: Stream, names: frozenset[str]) -> float:
    """n_i = min(σ_i w_i, g_i); join attributes not in `names` count as grouping attributes of AS_i.

    >>> auction = Stream(rate=1, window=1000, groups=2, values={"auction": 100, "seller": 3})
    >>> set_matches(auction, frozenset({"auction", "seller"})), set_matches(auction, frozenset({"auction"}))
    (2.0, 6.0)
    """
    if stream.set_matches is not None:
        return stream.set_matches
    values = _values(stream, names)
    if stream.set_size is not None:
        groups = stream.set_size / values
    else:
        groups = stream.groups_per_value * stream.join_values / values
    return float(min(matches(stream, names), groups))


def _values(stream: Stream, names: frozenset[str]) -> float:
    return float(math.prod(stream.attributes[name] for name in names))
