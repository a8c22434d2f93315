"""The questions: window aggregates over the packet trace, the same for every engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.packets import ATTRIBUTES


@dataclass(frozen=True)
class Query:
    """count(*) and sum(len) by `keys` over windows of `range` seconds that begin at every multiple of `slide`."""

    name: str
    keys: tuple[str, ...]
    range: int
    slide: int
    predicate: str | None = None

    @property
    def where(self) -> str:
        return f" WHERE {self.predicate}" if self.predicate else ""

    @property
    def by(self) -> str:
        """
        >>> Query("q", ("sip", "dip"), 10, 10).by
        'sip, dip'
        """
        return ", ".join(self.keys)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.keys, "n", "total")


@dataclass(frozen=True)
class Work:
    """Queries that stand together over one stream."""

    title: str
    queries: tuple[Query, ...]


_PAIRS = (("sip", "dip"), ("dip", "sp"), ("dip", "dp"), ("sp", "dp"))
# (slide, windows that a row is in): 20 to 600 seconds long, few slides divide one another, 1.2 windows end in a second.
_SLIDING = (
    (5, 4), (8, 5), (9, 10), (10, 6), (12, 15), (15, 20), (16, 5), (18, 10), (20, 30), (21, 4),
    (24, 10), (25, 6), (28, 15), (30, 20), (35, 4), (36, 5), (40, 12), (45, 8), (50, 12), (60, 5),
)  # fmt: skip
WORKS = {
    "W1": Work("four tumbling group-bys of 10 s", tuple(Query(f"w1_{a}_{b}", (a, b), 10, 10) for a, b in _PAIRS)),
    "W2": Work("one window of 60 s every 1 s by sip", (Query("w2", ("sip",), 60, 1),)),
    "W3": Work(
        "twenty sliding windows by sip",
        tuple(Query(f"w3_{s * overlap}_{s}", ("sip",), s * overlap, s) for s, overlap in _SLIDING),
    ),
}

# The ways to write a work for Spark; spark_side.py tells what they are.
EACH, ONE, PANES = "each query", "one pass", "panes"
# DuckDB answers every query by itself, or all of them are written together by hand; duckdb_side.py tells how.
ASKED, SHARED = "duckdb", "duckdb, shared by hand"

# Table II of paper 003: slides by a Zipf law, ranges of 1 to 50 slides.
SKEW, OVERLAP, STEPS = 0.6, 50, 1_000
_LENGTHS = (40, 60, 100, 200, 300, 450, 576, 700, 900, 1_100, 1_300, 1_499)
_LOW, _HIGH = (256, 512, 1_024, 2_048, 4_096, 8_192), (49_152, 53_248, 57_344, 61_440, 63_488, 64_512)
POOL = (
    *(f"len > {v}" for v in _LENGTHS),
    *(f"{port} < {v}" for port in ("sp", "dp") for v in _LOW),
    *(f"{port} >= {v}" for port in ("sp", "dp") for v in _HIGH),
)


def drawn(count: int, unit: int, least: int, seed: int = 5) -> tuple[Query, ...]:
    """Queries as in Table II of paper 003, each with one predicate of the pool and any of the 15 group-bys.

    A slide is k·unit seconds with P(k) ~ k^-0.6 for `least` <= k <= 1,000. The paper begins at 1; many windows with
    thousands of groups that report every second would only measure how fast rows are stored.

    >>> queries = drawn(300, 10, 40)
    >>> all(q.slide in range(400, 10_001, 10) and q.range in range(q.slide, 51 * q.slide, q.slide) for q in queries)
    True
    >>> len({q.keys for q in queries})
    15
    """
    chance = np.random.default_rng(seed)
    steps = np.arange(least, STEPS + 1)
    weights = steps**-SKEW
    slides = unit * chance.choice(steps, count, p=weights / weights.sum())
    overlaps = chance.integers(1, OVERLAP + 1, count)
    sets = chance.integers(1, 2 ** len(ATTRIBUTES), count)
    predicates = chance.integers(0, len(POOL), count)
    return tuple(
        Query(
            f"q{i}",
            tuple(a for place, a in enumerate(ATTRIBUTES) if sets[i] >> place & 1),
            int(slides[i] * overlaps[i]),
            int(slides[i]),
            POOL[predicates[i]],
        )
        for i in range(count)
    )
