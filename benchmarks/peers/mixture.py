"""A thousand queries that differ in everything: windows, group-bys, compound predicates, MIN and MAX, many answers.

W5 is drawn as in paper 003: one predicate each, counts and sums, few answers. Here ranges and slides are of 20 to
600 s, there are one or two group attributes, three queries of four have a predicate of two comparisons, three of four
have MIN or MAX, and the answers have nearly half as many rows as the input.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchmarks.packets import ATTRIBUTES
from benchmarks.peers.workloads import POOL, SKEW

LEAST, MOST, UNIT = 20, 600, 10
_KEYS = (*((a,) for a in ATTRIBUTES), *combinations(ATTRIBUTES, 2))
_SUMS = (
    "count(*) AS n, sum(len) AS total",
    "count(*) AS n, min(len) AS least",
    "count(*) AS n, max(len) AS most",
    "count(*) AS n, sum(len) AS total, max(len) AS most",
)
_JOINED = ("{0}", "{0} AND {1}", "{0} OR {1}", "{0} AND {1}")


@dataclass(frozen=True)
class Unlike:
    """One query of the mixture."""

    name: str
    keys: tuple[str, ...]
    sums: str
    predicate: str
    range: int
    slide: int

    @property
    def by(self) -> str:
        return ", ".join(self.keys)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.keys, *(item.rsplit(" ", 1)[1] for item in self.sums.split(", ")))

    def statement(self, more: str = "", where: str | None = None) -> str:
        """The view, with further aggregates and another WHERE if they are given."""
        return (
            f"CREATE RSTREAM VIEW {self.name} AS SELECT {self.by}, {self.sums}{more} FROM S"
            f" [RANGE {self.range} SECONDS SLIDE {self.slide} SECONDS]{where or f' WHERE {self.predicate}'}"
            f" GROUP BY {self.by}"
        )

    def answer(self, source: str) -> str:
        """The same for DuckDB: a row is copied into each pane's windows after panes are aggregated."""
        pane, overlap = self.slide * 1_000_000, self.range // self.slide
        again = ", ".join(
            f"{_COMBINE[item.split('(')[0]]}({item.rsplit(' ', 1)[1]}) AS {item.rsplit(' ', 1)[1]}"
            for item in self.sums.split(", ")
        )
        panes = (
            f"SELECT epoch_us(ts) // {pane} AS pane, {self.by}, {self.sums} FROM {source}"
            f" WHERE {self.predicate} GROUP BY ALL"
        )
        copies = f"SELECT unnest(range(pane + 1, pane + {overlap + 1})) AS point, * EXCLUDE (pane) FROM ({panes})"
        return (
            f"SELECT make_timestamp(point * {pane}) AS TS, {self.by}, {again} FROM ({copies}) GROUP BY point, {self.by}"
        )


_COMBINE = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}


def mixed(count: int, seed: int = 6) -> tuple[Unlike, ...]:
    """Queries of the mixture.

    >>> queries = mixed(200)
    >>> all(20 <= q.slide <= q.range <= 600 and q.range % q.slide == 0 for q in queries)
    True
    >>> len({q.keys for q in queries}), len({q.sums for q in queries})
    (10, 4)
    """
    chance = np.random.default_rng(seed)
    steps = np.arange(LEAST // UNIT, MOST // UNIT + 1)
    weights = steps**-SKEW
    found = []
    for i in range(count):
        slide = UNIT * int(chance.choice(steps, p=weights / weights.sum()))
        predicate = _JOINED[chance.integers(4)].format(*(POOL[p] for p in chance.integers(0, len(POOL), 2)))
        found.append(
            Unlike(
                f"m{i}",
                _KEYS[chance.integers(len(_KEYS))],
                _SUMS[chance.integers(4)],
                predicate,
                slide * int(chance.integers(1, MOST // slide + 1)),
                slide,
            )
        )
    return tuple(found)
