"""Appendix B of paper 001 as printed: seconds of execution in a second, for each of the six algorithms.

S(x) = latency + x / bandwidth, f_ij = min(1, f_i / f_j), m_i = min(1/f_i, wp_i/f_i · 100), k_i = min(1/f_i, w_i/f_i ·
100). As m_i and k_i are 1/f_i wherever a buffer has a hundredth of a tuple, they do not depend on anything but f_i.
The formulas are kept with their slips (docs/decisions/2026-11-18-faults-of-the-semijoin-paper.md); for what holds,
see `corrected`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.optimize.sites.parameters import Constants, Link, OneWayJoin


@dataclass(frozen=True)
class _Terms:
    """The notation of Table 4."""

    r1: float
    r2: float
    w2: float
    wp1: float
    wp2: float
    f12: float
    f21: float
    k2: float
    m1: float
    m2: float
    F1: float
    F2: float
    P1: float
    P2: float
    link: Link
    c: Constants

    def S(self, size: float) -> float:
        """Seconds to transfer this many bytes."""
        return self.link.latency + size / self.link.bandwidth


def printed_cost(algorithm: str, join: OneWayJoin, link: Link, constants: Constants) -> float:
    """C of an algorithm: processing and transmission, in seconds for each second.

    >>> from tidemill.optimize.sites.parameters import SiteStream
    >>> s = SiteStream("n", 300, 3.0, 1250, 5, 10)
    >>> free = Constants(0, 0, 0, 0)
    >>> round(printed_cost("SP-S", OneWayJoin(s, s, 0.1), Link(0.025, 128_000), free), 3)  # 10 · (25 ms + 37,500 B)
    3.18
    """
    first, second = join.first, join.second
    (wp1, wp2), w2 = join.batch, second.rate * second.window
    t = _Terms(
        first.rate,
        second.rate,
        w2,
        wp1,
        wp2,
        min(1.0, second.distinct / first.distinct),
        min(1.0, first.distinct / second.distinct),
        min(second.distinct, w2 * second.distinct * 100),
        min(first.distinct, wp1 * first.distinct * 100),
        min(second.distinct, wp2 * second.distinct * 100),
        first.full,
        second.full,
        first.partial,
        second.partial,
        link,
        constants,
    )
    return _FORMULAS[algorithm](t)


def _sp_s(t: _Terms) -> float:
    c = t.c
    return t.r1 * c.c_u + t.r1 * c.c_p * t.w2 + t.r2 / t.wp2 * t.S(t.wp2 * t.F2) + t.r2 * c.c_u


def _sp_d(t: _Terms) -> float:
    c = t.c
    return t.r1 * c.c_i + t.r1 / t.wp1 * t.S(t.wp1 * t.F1) + t.r1 * c.c_p * t.w2 + t.r2 * c.c_u


def _sm_s1(t: _Terms) -> float:
    c, often = t.c, t.r1 / t.wp1
    return (
        t.r1 * c.c_i
        + often * t.S(t.m1 * t.P1)
        + often * t.m1 * c.c_p * t.w2
        + often * t.S(t.wp2 * t.f21 * t.F2)
        + often * t.wp2 * t.f21 * c.c_i
        + t.r2 * c.c_i
        + t.r1 * c.c_p * t.w2 * t.f21
        + t.r2 / t.wp2 * t.S(c.count_bytes)
    )


def _sm_s2(t: _Terms) -> float:
    c, often, again = t.c, t.r1 / t.wp1, t.r2 / t.wp2
    missing = t.k2 * (1 - t.f12)
    fresh = t.m2 * (1 - t.f21)
    return (
        t.r1 * c.c_i
        + t.r1 * c.c_h
        + often * t.S(missing * t.P2)
        + often * missing * c.c_p * t.w2
        + often * t.S(missing * t.F2)
        + t.r2 * c.c_p * t.k2
        + t.r1 * c.c_h
        + t.r2 * c.c_i
        + again * fresh * c.c_i
        # The parenthesis of S closes before this sum ends in print; the full tuples are bytes, so they belong in it.
        + again * t.S(fresh * t.P2 + t.wp2 * t.f21 * t.F2)
        + again * fresh * c.c_u
    )


def _sm_d1(t: _Terms) -> float:
    c, often, again = t.c, t.r1 / t.wp1, t.r2 / t.wp2
    fresh = t.m2 * (1 - t.f21)
    return (
        t.r1 * c.c_i
        + t.r1 * c.c_p * t.k2
        + often * t.S(t.wp1 * t.f12 * t.F1)
        + t.r1 * t.f12 * c.c_p * t.w2
        + t.r2 * c.c_p * t.k2
        + t.r2 * c.c_i
        + 2 * again * fresh * c.c_i
        + again * t.S(fresh * t.P2)
    )


def _sm_d2(t: _Terms) -> float:
    c, often = t.c, t.r1 / t.wp1
    return (
        t.r1 * c.c_i
        + often * t.S(t.m1 * t.P1)
        + often * t.m1 * c.c_p * t.w2
        + often * t.S(t.m1 * t.f12 * t.P1)
        + often * t.m1 * t.f12 * c.c_p * t.wp1
        + often * t.S(t.wp1 * t.f12 * t.F1)
        + often * t.wp1 * t.f12 * c.c_p * t.w2
        + t.r2 * c.c_u
    )


_FORMULAS = {"SP-S": _sp_s, "SP-D": _sp_d, "SM-S1": _sm_s1, "SM-S2": _sm_s2, "SM-D1": _sm_d1, "SM-D2": _sm_d2}
