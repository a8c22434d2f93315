"""What each algorithm ships, in bytes and messages a second, by occupancy.

A join value is drawn by a tuple of S2 in an interval with probability a; it is in W2 while one of the last L intervals
drew it. A value is asked for in an interval, by a tuple of S1, with probability p. Then, with q = 1 - a,

    in W2            1 - q^L
    new in W2        a q^L a interval: drawn after L intervals without
    asked and known  see `_unasked`: a value that was asked for stays known until it leaves W2

so nothing is assumed but that values are drawn independently and alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.optimize.sites.parameters import Constants, OneWayJoin, drawn_share, occupancy


@dataclass(frozen=True)
class Shipment:
    """Bytes and messages a second from one site to another. Shipments of equal `what` and sites are one."""

    what: str
    source: str
    target: str
    bytes: float
    messages: float


def list_shipments(
    algorithm: str, join: OneWayJoin, constants: Constants | None = None, names: tuple[str, str] = ("S1", "S2")
) -> list[Shipment]:
    """All shipments of a one-way join; none where both inputs are at one site. `names` tell equal data of two joins.

    >>> from tidemill.optimize.sites.parameters import SiteStream
    >>> left, right = (SiteStream(site, 300, 3.0, 1250, 5, 10) for site in "LR")
    >>> [(s.what, s.source, s.target, round(s.bytes)) for s in list_shipments("SP-D", OneWayJoin(left, right, 0.1))]
    [('S1 rows', 'L', 'R', 375000)]
    """
    if join.first.site == join.second.site:
        return []
    found = _SHIPPED[algorithm](_Shares(join), join, constants or Constants())
    ends = {">": (join.first.site, join.second.site), "<": (join.second.site, join.first.site)}
    first, second = names
    listed = []
    for direction, what, size, often in found:
        source, target = ends[direction]
        named = what.replace("S1", first).replace("S2", second)
        listed.append(Shipment(named, source, target, size / join.interval, often / join.interval))
    return listed


Found = list[tuple[str, str, float, float]]  # direction, what, bytes and messages in an interval


class _Shares:
    """Probabilities for a join value, in an interval."""

    def __init__(self, join: OneWayJoin) -> None:
        _, n2 = join.batch
        self.asked = drawn_share(join.first.distinct, join.values)  # p
        self.came = drawn_share(join.second.distinct, n2)  # a
        self.gone = (1 - self.came) ** join.stay  # q^L
        self.quiet = (1 - self.asked) ** join.stay  # not asked for while a tuple is in W2
        self.first_in_second = join.common / join.first.distinct
        self.second_in_first = join.common / join.second.distinct
        still = (1 - self.came) * (1 - self.asked)
        again = self.came * (1 - self.asked)
        #: Σ a q^(g-1) (1-p)^g over gaps g <= L: drawn again in time, and not asked for in between.
        self.carried = again * (1 - still**join.stay) / (1 - still) if still < 1 else again * join.stay

    @property
    def unknown(self) -> float:
        """The probability that a value is not known when a tuple of S2 draws it."""
        return self.gone / (1 - self.carried) if self.carried < 1 else 1.0

    @property
    def never(self) -> float:
        """The probability that a value is not asked for from the time it is new in W2 until it leaves."""
        return self.gone * self.quiet / (1 - self.carried) if self.carried < 1 else 1.0


def _batches(tuples: float) -> float:
    """Messages in an interval: none for an empty buffer."""
    return min(1.0, tuples)


def _sp_s(p: _Shares, j: OneWayJoin, c: Constants) -> Found:
    n2 = j.batch[1]
    return [("<", "S2 rows", n2 * j.second.full, _batches(n2))]


def _sp_d(p: _Shares, j: OneWayJoin, c: Constants) -> Found:
    n1 = j.batch[0]
    return [(">", "S1 rows", n1 * j.first.full, _batches(n1))]


def _sm_s1(p: _Shares, j: OneWayJoin, c: Constants) -> Found:
    """K1; tuples of W2 whose value is asked for while they are there; a count of what expired."""
    keys, rows = occupancy(j.first.distinct, j.values), j.batch[1] * p.second_in_first * (1 - p.quiet)
    return [
        (">", "S1 keys", keys * j.first.partial, _batches(j.values)),
        ("<", "S2 rows by S1", rows * j.second.full, _batches(rows)),
        ("<", "S2 expired by S1", c.count_bytes * _batches(rows), _batches(rows)),
    ]


def _sm_s2(p: _Shares, j: OneWayJoin, c: Constants) -> Found:
    """v_C, v_J and s_F; values asked for that are in W2 and not known; their tuples."""
    d2, n2 = j.second.distinct, j.batch[1]
    fresh = d2 * p.came * p.gone
    counts = d2 * (1 - p.gone) + fresh  # entries that have gone are told once
    asked = j.common * p.came * p.gone * (1 - p.never)
    shipped = n2 * p.second_in_first * (1 - p.unknown * p.quiet)
    sent_on = n2 * p.second_in_first * (1 - p.unknown)
    update = counts * c.count_bytes + fresh * j.second.partial + sent_on * j.second.full
    return [
        ("<", "S2 values and rows by S1", update, _batches(counts)),
        (">", "S1 keys in S2", asked * j.second.partial, _batches(asked)),
        ("<", "S2 rows by S1", (shipped - sent_on) * j.second.full, _batches(asked)),
    ]


def _sm_d1(p: _Shares, j: OneWayJoin, c: Constants) -> Found:
    """v_C and v_J; tuples of S1 whose value is in W2."""
    d2, n1 = j.second.distinct, j.batch[0]
    fresh = d2 * p.came * p.gone
    counts = d2 * (1 - p.gone) + fresh
    rows = n1 * p.first_in_second * (1 - p.gone)
    return [
        ("<", "S2 values", counts * c.count_bytes + fresh * j.second.partial, _batches(counts)),
        (">", "S1 rows by S2", rows * j.first.full, _batches(rows)),
    ]


def _sm_d2(p: _Shares, j: OneWayJoin, c: Constants) -> Found:
    """K1; those of its values that are in W2; tuples of S1 with these values."""
    n1 = j.batch[0]
    keys = occupancy(j.first.distinct, j.values)
    there = keys * p.first_in_second * (1 - p.gone)
    rows = n1 * p.first_in_second * (1 - p.gone)
    return [
        (">", "S1 keys", keys * j.first.partial, _batches(j.values)),
        ("<", "S1 keys in S2", there * j.first.partial, _batches(there)),
        (">", "S1 rows by S2", rows * j.first.full, _batches(rows)),
    ]


def _bloom(p: _Shares, j: OneWayJoin, c: Constants) -> Found:
    """Like SM-S1, with a fingerprint in the place of each value, and without counts of what expired. 31 bits collide so
    rarely that no row too many is charged.
    """
    keys = occupancy(j.first.distinct, j.values)
    rows = j.batch[1] * p.second_in_first * (1 - p.quiet)
    return [
        (">", "S1 fingerprints", keys * c.fingerprint_bytes, _batches(j.values)),
        ("<", "S2 rows by S1", rows * j.second.full, _batches(rows)),
    ]


_SHIPPED = {
    "SP-S": _sp_s,
    "SP-D": _sp_d,
    "SM-S1": _sm_s1,
    "SM-S2": _sm_s2,
    "SM-D1": _sm_d1,
    "SM-D2": _sm_d2,
    "BLOOM": _bloom,
}
