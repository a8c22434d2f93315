"""What a join between sites costs: bytes that really cross, what a message costs by itself, how late answers are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.optimize.sites.parameters import Constants, Link, OneWayJoin
from tidemill.optimize.sites.shipments import Shipment, list_shipments

CROSSINGS = {"SP-S": 1, "SP-D": 1, "SM-S1": 2, "SM-D1": 2, "BLOOM": 2, "SM-S2": 3, "SM-D2": 3}


@dataclass(frozen=True)
class Price:
    """Seconds of transmission and of processing in a second, bytes and messages a second, and seconds from the
    arrival of a tuple to its joined rows.
    """

    transmission: float
    processing: float
    bytes: float
    messages: float
    latency: float

    @property
    def cost(self) -> float:
        """The paper's metric: transmission and processing."""
        return self.transmission + self.processing


def price_shipments(shipments: Iterable[Shipment], link: Link) -> tuple[float, float, float]:
    """(seconds of transmission, bytes, messages) a second; equal shipments of several joins cross once.

    >>> rows = Shipment("S rows", "n1", "n2", 1000, 10)
    >>> price_shipments([rows, rows], Link(0.025, 128_000, message_bytes=64))
    (0.2628125, 1640, 10)
    """
    once = {(s.what, s.source, s.target): s for s in shipments}
    messages = sum(s.messages for s in once.values())
    size = sum(s.bytes for s in once.values()) + messages * link.message_bytes
    return messages * link.latency + size / link.bandwidth, size, messages


def price_join(
    algorithm: str,
    join: OneWayJoin,
    link: Link,
    constants: Constants | None = None,
    *,
    result: tuple[str, float, float] | None = None,
) -> Price:
    """The price of a one-way join; `result` is (site, rows a second, bytes of a row) where answers are delivered."""
    known = constants or Constants()
    shipped = list_shipments(algorithm, join, known)
    place = join.first.site if _at_source(algorithm) else join.second.site
    if result is not None and result[0] != place:
        site, rate, size = result
        shipped.append(Shipment("result", place, site, rate * size, min(rate, 1 / join.interval)))
    seconds, size, messages = price_shipments(shipped, link)
    return Price(seconds, process(algorithm, join, known), size, messages, latency(algorithm, join, link, shipped))


def _at_source(algorithm: str) -> bool:
    return algorithm not in ("SP-D", "SM-D1", "SM-D2")


def latency(algorithm: str, join: OneWayJoin, link: Link, shipped: Iterable[Shipment]) -> float:
    """The interval of the batch, and for each crossing the latency of the link and the time of the bytes behind it."""
    listed = list(shipped)
    if not listed:
        return join.interval
    carried = sum(s.bytes for s in listed) * join.interval / link.bandwidth
    return join.interval + CROSSINGS[algorithm] * link.latency + carried


def process(algorithm: str, join: OneWayJoin, constants: Constants) -> float:
    """Seconds of processing in a second, by nested loops as in the paper: probes of windows, updates, and hashing."""
    c, (n1, n2), w2 = constants, join.batch, join.second.rate * join.second.window
    often = 1 / join.interval
    both = often * (n1 + n2) * c.c_i
    first = join.common / join.first.distinct
    second = join.common / join.second.distinct
    values = join.common
    probes = {
        "SP-S": n1 * w2,
        "SP-D": n1 * w2,
        "SM-S1": min(n1, join.first.distinct) * w2 + n1 * w2 * second,
        "BLOOM": min(n1, join.first.distinct) * w2 + n1 * w2 * second,
        "SM-S2": n1 * w2 * second,
        "SM-D1": n1 * first * w2,
        "SM-D2": min(n1, join.first.distinct) * w2 + n1 * first * w2 * min(1.0, values / join.second.distinct),
    }[algorithm]
    hashed = {"SM-S2": 2 * n1 + n2, "SM-D1": n1 + n2}.get(algorithm, 0.0)
    return both + often * (probes * c.c_p + hashed * c.c_h)
