"""Which rows cross for a query: the site of the join and a method for each input, by what their fragments ship.

The search prices the trees of `plan.sites` themselves, so that what is chosen is what runs. With up to four inputs on
four sites all combinations are tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from tidemill.optimize.sites.corrected import Price, price_shipments
from tidemill.optimize.sites.known import known_share, new_values
from tidemill.optimize.sites.parameters import Constants, Link, SiteStream
from tidemill.optimize.sites.shipments import Shipment
from tidemill.plan.sites import (
    ALGORITHMS,
    JoinAt,
    Keys,
    Leaf,
    Matching,
    Method,
    Ship,
    SiteQuery,
    build_tree,
    methods_of,
)
from tidemill.plan.sites.algorithms import MethodName
from tidemill.plan.sites.tree import crossings, leaf_of, site_of

ALIKE = 1.01  # costs that differ by less are taken for equal
BETTER = 0.8  # another plan takes over where it costs less than this share of the one in force


@dataclass(frozen=True)
class Situation:
    """Statistics of the inputs by alias, the link, seconds between two batches, how long the query has run, and rows a
    second and bytes of a row of its answer. `common` and `shares`, where they were measured: the number of join values
    that two inputs share, and the share of the rows of the first whose values the second has. Otherwise the values of
    the input with fewer of them are among those of the other, and all have as many rows.
    """

    streams: Mapping[str, SiteStream]
    link: Link
    interval: float
    age: float
    answer: tuple[float, float] = (0.0, 0.0)
    constants: Constants = field(default_factory=Constants)
    common: Mapping[frozenset[str], float] = field(default_factory=dict)
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def in_common(self, one: str, other: str) -> float:
        """Join values that two inputs share."""
        least = min(self.streams[one].distinct, self.streams[other].distinct)
        return min(self.common.get(frozenset((one, other)), least), least)

    def share(self, of: str, by: str) -> float:
        """The share of the rows of an input whose join values another one has, sooner or later."""
        found = self.shares.get((of, by))
        return self.in_common(of, by) / self.streams[of].distinct if found is None else found


@dataclass(frozen=True)
class Choice:
    """A site, methods, what they ship, and what that costs."""

    methods: dict[str, Method]
    join_site: str
    price: Price
    shipments: tuple[Shipment, ...] = ()
    message_bytes: float = 0.0

    def bytes_at(self, site: str) -> tuple[float, float]:
        """Bytes a second that come to a site, and that leave it, with what messages cost by themselves."""
        come, leave = (s for s in self.shipments if s.target == site), (s for s in self.shipments if s.source == site)
        return self._bytes(come), self._bytes(leave)

    def _bytes(self, shipments: Iterable[Shipment]) -> float:
        return sum(s.bytes + s.messages * self.message_bytes for s in shipments)


def choose_methods(query: SiteQuery, situation: Situation, *, max_latency: float | None = None) -> Choice:
    """The cheapest choice whose answers are no later than `max_latency` seconds; where none is, the least late.

    Of those that cost nearly the same the one with the earliest answers, so the one with the fewest crossings.
    """
    return cheapest([price_choice(query, *choice, situation) for choice in _all_choices(query)], max_latency)


def cheapest(found: Sequence[Choice], max_latency: float | None = None) -> Choice:
    """The cheapest of some choices that is in time, as `choose_methods` has it."""
    in_time = [c for c in found if max_latency is None or c.price.latency <= max_latency]
    if not in_time:
        return min(found, key=lambda c: (c.price.latency, c.price.cost))
    least = min(c.price.cost for c in in_time)
    alike = [c for c in in_time if c.price.cost <= ALIKE * least]
    return min(alike, key=lambda c: (c.price.latency, c.price.cost))


def list_algorithms(query: SiteQuery, situation: Situation) -> dict[str, Choice]:
    """The seven algorithms of a join of two inputs, each with its price."""
    return {name: price_choice(query, *methods_of(query, name), situation) for name in ALGORITHMS}


def takes_over(current: Price, other: Price) -> bool:
    """A better plan by a fifth is worth a change."""
    return other.cost < BETTER * current.cost


def price_choice(query: SiteQuery, methods: Mapping[str, Method], join_site: str, situation: Situation) -> Choice:
    """What the tree of a choice ships, the delivery of the answer included."""
    tree = build_tree(query, methods, join_site)
    shipped = list(_tree_shipments(tree, query, situation))
    crossed = crossings(tree)
    if join_site != query.site:
        rate, size = situation.answer
        shipped.append(Shipment("answer", join_site, query.site, rate * size, _often(rate, situation)))
        crossed += 1
    seconds, size, messages = price_shipments(shipped, situation.link)
    carried = size * situation.interval / situation.link.bandwidth
    late = situation.interval + crossed * situation.link.latency + carried
    price = Price(seconds, _processing(tree, query, situation), size, messages, late)
    return Choice(dict(methods), join_site, price, tuple(shipped), situation.link.message_bytes)


def _all_choices(query: SiteQuery) -> Iterator[tuple[dict[str, Method], str]]:
    """All sites, and for each input that is elsewhere all methods by all neighbours that may reduce it."""
    names: tuple[MethodName, ...] = ("keys", "both", "bloom")
    for site in query.sites:
        far = [i.alias for i in query.inputs if i.site != site]
        listed = [
            [Method("whole"), *(Method(n, e.other(alias)) for e in query.reducers(alias) for n in names)]
            for alias in far
        ]
        for chosen in product(*listed):
            yield dict(zip(far, chosen, strict=True)), site


def _tree_shipments(tree: JoinAt, query: SiteQuery, situation: Situation) -> Iterator[Shipment]:
    for each in tree.inputs:
        if isinstance(each, Ship):
            assert isinstance(each.input, (Leaf, Matching))
            yield from _rows(each.input, each.to, query, situation)


def _rows(tree: Leaf | Matching, to: str, query: SiteQuery, situation: Situation) -> Iterator[Shipment]:
    """Rows of an input to the join, behind the keys that say which."""
    alias = leaf_of(tree).alias
    stream = situation.streams[alias]
    rate = stream.rate
    if isinstance(tree, Matching):
        near = leaf_of(tree.keys).alias
        rate *= situation.share(alias, near) * known_share(situation.streams[near], situation.age)
        yield from _keys(tree.keys, alias, query, situation)
    yield Shipment(f"rows of {alias}", query.input(alias).site, to, rate * stream.full, _often(rate, situation))


def _keys(tree: Keys | Matching | Ship, of: str, query: SiteQuery, situation: Situation) -> Iterator[Shipment]:
    """Keys that are shipped to the rows of input `of`; with two steps, those that the rows have are shipped before."""
    if not isinstance(tree, Ship):
        return
    inner = tree.input
    assert isinstance(inner, (Keys, Matching))
    alias = leaf_of(inner).alias
    near, size = situation.streams[alias], situation.streams[alias].partial
    fresh = new_values(near, situation.age)
    if isinstance(inner, Matching):
        yield from _keys(inner.keys, alias, query, situation)
        far, age = situation.streams[of], situation.age
        both = [known_share(near, a) * known_share(far, a) for a in (age, age + 1)]
        fresh = situation.in_common(alias, of) * (both[1] - both[0])
    elif inner.fingerprint:
        size = situation.constants.fingerprint_bytes
    what = f"keys of {alias} for {of}"
    yield Shipment(what, site_of(inner, query), tree.to, fresh * size, _often(fresh, situation))


def _processing(tree: JoinAt, query: SiteQuery, situation: Situation) -> float:
    """Seconds of work in a second, by hashing: a row that is sent is encoded and decoded, one that is joined or reduced
    is kept and probes, and one whose join value is wanted is compared with those that are known.
    """
    c, total = situation.constants, 0.0
    for each in tree.inputs:
        alias = leaf_of(each).alias
        rate = situation.streams[alias].rate
        if isinstance(each, Ship) and isinstance(each.input, Matching):
            near = leaf_of(each.input.keys).alias
            total += rate * (c.c_i + c.c_p) + situation.streams[near].rate * c.c_h
            total += rate * c.c_h if isinstance(_inner(each.input.keys), Matching) else 0.0
            rate *= situation.share(alias, near) * known_share(situation.streams[near], situation.age)
        total += rate * (c.c_i + c.c_p) + (2 * rate * c.c_h if isinstance(each, Ship) else 0.0)
    if tree.site != query.site:
        total += 2 * situation.answer[0] * c.c_h
    return total


def _inner(tree: Keys | Matching | Ship) -> Keys | Matching | Leaf | JoinAt:
    return tree.input if isinstance(tree, Ship) else tree


def _often(changes: float, situation: Situation) -> float:
    """Messages a second: one for each interval in which something changes."""
    return min(changes, 1 / situation.interval)
