"""Which algorithm a join between sites takes: what is known of its streams and links, and the price of each way.

Prices are those of `optimize.sites`, of the very trees that would run. Where a rate or a sample of join values is not
known yet, prices are shown by assumed numbers and decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidemill.engine.sites.measures import Measures
from tidemill.engine.sites.placing import PlacedItem
from tidemill.engine.sites.realisation import Placement
from tidemill.engine.sites.reducers import Passed
from tidemill.errors import TidemillError
from tidemill.optimize.sites import (
    Choice,
    Link,
    SiteStream,
    Situation,
    cheapest,
    domain_size,
    known_share,
    occupancy,
    price_choice,
)
from tidemill.plan.sites import Equality, SiteQuery
from tidemill.runtime.sites.join_values import Sample, compare
from tidemill.runtime.sites.protocol import Statistics

USUAL_LINK = Link(0.02, 1_250_000, 800)  # until a round trip and a long answer were measured; bytes of an empty message
# Until they are measured, in some seconds. Any values work: EXPLAIN says which were assumed, and the next choice is by
# what was measured.
_USUAL_RATE, _USUAL_VALUES, _USUAL_WINDOW_S = 100.0, 1_000.0, 10.0
_CHANGE_BYTES = 4  # of a change by itself, compressed: its time and its difference
_LEAST_AGE_S = 60.0  # join values that are new at first are not what a plan costs in the long run

Ask = Callable[[str, str, tuple[str, ...]], Statistics]  # a site, a stream and columns there
FindLink = Callable[[str], tuple[float | None, float | None]]  # a site → seconds of a round trip, bytes a second
Asked = Mapping[tuple[str, tuple[str, ...]], Statistics]  # by alias and columns: what sites said before
Ways = Mapping[str, Placement | str]  # by name of the algorithm; a text says why it is not possible


@dataclass(frozen=True)
class Weighed:
    """The prices of all ways, and the best of those that are in time; `assumed` is what was not known."""

    ways: Ways
    prices: Mapping[str, Choice]
    best: str
    assumed: tuple[str, ...]
    site: str  # that asks
    limit: float | None = None  # seconds that answers may be late

    def show(self, chosen: str) -> list[dict[str, Any]]:
        """All ways as EXPLAIN lists them."""
        found: list[dict[str, Any]] = []
        for name, way in self.ways.items():
            if isinstance(way, str):
                found.append({"algorithm": name, "why": way})
                continue
            price, (come, leave) = self.prices[name].price, self.prices[name].bytes_at(self.site)
            found.append(
                {
                    "algorithm": name,
                    "chosen": name == chosen,
                    "in": come,
                    "out": leave,
                    "messages": price.messages,
                    "latency": price.latency,
                    "transmission": price.transmission,
                    "processing": price.processing,
                    "cost": price.cost,
                    "assumed": list(self.assumed),
                }
            )
        return found


class Choosing:
    """Prices the ways of a join by what this site and the others know."""

    def __init__(self, measures: Measures, ask: Ask, find_link: FindLink, unit_us: int) -> None:
        self._measures, self._ask, self._find_link, self._unit_us = measures, ask, find_link, unit_us

    def weigh(
        self,
        query: SiteQuery,
        items: Mapping[str, PlacedItem],
        ways: Ways,
        limit: float | None,
        asked: Asked | None = None,
        passed: Passed | None = None,
    ) -> Weighed:
        """The price of each way; `limit` are the seconds that answers may be late. Without `asked` the sites are asked.
        `passed` is what the reducers in force let pass: it says better which rows match than samples do.
        """
        found = self.ask_all(query, items) if asked is None else asked
        situation, assumed = self._situation(query, items, found, passed or {})
        prices = {
            name: price_choice(query, way.methods, way.site, situation)
            for name, way in ways.items()
            if isinstance(way, Placement)
        }
        best = cheapest(list(prices.values()), limit)
        name = next(n for n, choice in prices.items() if choice is best)
        return Weighed(ways, prices, name, assumed, query.site, limit)

    def ask_all(self, query: SiteQuery, items: Mapping[str, PlacedItem]) -> Asked:
        """What is known of the join values of all inputs."""
        return {(a, c): self._statistics(query, items[a], c) for a, c in _columns_joined(query)}

    def _situation(
        self, query: SiteQuery, items: Mapping[str, PlacedItem], found: Asked, passed: Passed
    ) -> tuple[Situation, tuple[str, ...]]:
        assumed: list[str] = []
        streams, ages = {}, [_LEAST_AGE_S]
        for each in query.inputs:
            listed = [s for (alias, _), s in found.items() if alias == each.alias] or [Statistics()]
            columns = next((c for a, c in found if a == each.alias), ())
            streams[each.alias] = _stream(query, each.alias, columns, listed[0], assumed)
            ages += [s.rows / s.rate for s in listed if s.rate > 0]
        common: dict[frozenset[str], float] = {}
        shares: dict[tuple[str, str], float] = {}
        for equality in query.equalities:
            _compare(equality, found, common, shares)
        for (of, by), rate in passed.items():
            whole = streams[of].rate * known_share(streams[by], max(ages))
            shares[of, by] = min(rate / whole, 1.0) if whole > 0 else 1.0
        windows = {i.alias: (items[i.alias].retention_us(self._unit_us) or 0) / 1e6 for i in query.inputs}
        link, interval = self._link(query), self._measures.interval
        known = Situation(streams, link, interval, max(ages), common=common, shares=shares)
        return replace(known, answer=_answer(query, known, windows)), tuple(assumed)

    def _statistics(self, query: SiteQuery, item: PlacedItem, columns: tuple[str, ...]) -> Statistics:
        """What is known of the values of columns of an input; a site that does not answer knows nothing."""
        if item.found.is_view:
            return Statistics()
        if item.site == query.site:
            return self._measures.statistics(item.found.name, columns)
        try:
            return self._ask(item.site, item.found.name, columns)
        except TidemillError:
            return Statistics(item.found.rate)

    def _link(self, query: SiteQuery) -> Link:
        """The slowest of the links to the other sites, as they were measured."""
        found = [self._find_link(site) for site in query.sites if site != query.site]
        trips = [trip / 2 for trip, _ in found if trip]
        bands = [band for _, band in found if band]
        latency, bandwidth = max(trips, default=USUAL_LINK.latency), min(bands, default=USUAL_LINK.bandwidth)
        return Link(latency, bandwidth, USUAL_LINK.message_bytes)


def width(kind: str) -> int:
    """Bytes of a value, at least.

    >>> width("INTEGER"), width("VARCHAR"), width("TIMESTAMP")
    (4, 16, 8)
    """
    sizes = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INTEGER": 4, "FLOAT": 4, "DATE": 4, "HUGEINT": 16, "UUID": 16}
    return 16 if kind.startswith("VARCHAR") else sizes.get(kind, 8)


def _columns_joined(query: SiteQuery) -> list[tuple[str, tuple[str, ...]]]:
    """The aliases with the columns by which they are joined."""
    return list(dict.fromkeys((a, e.columns_of(a)) for e in query.equalities for a in (e.left, e.right)))


def _stream(query: SiteQuery, alias: str, columns: Sequence[str], known: Statistics, assumed: list[str]) -> SiteStream:
    entry = query.input(alias)
    types = {c.name: c.type for c in entry.columns}
    sizes = {name: known.widths.get(name, float(width(kind))) for name, kind in types.items()}
    sample = _sample(known)
    if known.rate <= 0:
        assumed.append(f"rate of {alias}")
    if sample is None:
        assumed.append(f"join values of {alias}")
    values = _USUAL_VALUES if sample is None else domain_size(sample.distinct, float(known.rows))
    partial = known.key_bytes if known.key_bytes > 0 else float(sum(width(types[c]) for c in columns)) or 8.0
    full = max(sum(sizes.values()), 1.0)
    return SiteStream(entry.site, known.rate if known.rate > 0 else _USUAL_RATE, 1.0, full, partial, max(values, 1.0))


def _sample(known: Statistics) -> Sample | None:
    """The sample of join values; None where there is none, or the other site sends something else."""
    try:
        found = Sample.decode(known.values) if known.values and known.rows > 0 else None
    except ValueError:
        return None
    return found if found is not None and len(found.hashes) else None


def _compare(
    equality: Equality,
    found: Mapping[tuple[str, tuple[str, ...]], Statistics],
    common: dict[frozenset[str], float],
    shares: dict[tuple[str, str], float],
) -> None:
    left, right = (_sample(found[alias, equality.columns_of(alias)]) for alias in (equality.left, equality.right))
    if left is not None and right is not None:
        overlap = compare(left, right)
        common[frozenset((equality.left, equality.right))] = overlap.common
        shares[equality.left, equality.right] = overlap.left
        shares[equality.right, equality.left] = overlap.right


def _answer(query: SiteQuery, known: Situation, windows: Mapping[str, float]) -> tuple[float, float]:
    """Changes a second of the answer, and bytes of one: rows that meet in their windows come, and go again. A row that
    meets several others is in several changes of a message, which is compressed: it counts once.
    """
    rates = {alias: stream.rate for alias, stream in known.streams.items()}
    stays = {alias: windows[alias] or _USUAL_WINDOW_S for alias in rates}
    meeting, shares = 1.0, dict.fromkeys(rates, 1.0)
    for equality in query.equalities:
        one, other = equality.left, equality.right
        counts = known.streams[one].distinct * known.streams[other].distinct
        meeting *= known.in_common(one, other) / counts
        for alias, by in ((one, other), (other, one)):
            shares[alias] = min(shares[alias], known.share(alias, by))
    total = 0.0
    for alias, rate in rates.items():
        partners = 1.0
        for other in rates:
            partners *= rates[other] * stays[other] if other != alias else 1.0
        total += rate * partners
    changes = 2 * total * meeting
    together = changes * known.interval  # in a message
    size = float(_CHANGE_BYTES)
    for alias, stream in known.streams.items():
        there = rates[alias] * shares[alias] * (stays[alias] + known.interval)
        size += stream.full * (occupancy(there, together) / together if together > 0 else 1.0)
    return changes, size
