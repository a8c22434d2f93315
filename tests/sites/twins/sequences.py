"""Definition 1: a join of m streams as a sequence of one-way joins for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.sites.twins.algorithms import TWINS, OneWay
from tests.sites.twins.wire import Item, Stream, Wire

Graph = frozenset[tuple[int, int]]  # pairs of joined streams, smaller number first


@dataclass(frozen=True)
class Step:
    """The next stream of a sequence, by which algorithm."""

    stream: int
    algorithm: str


@dataclass
class MultiWay:
    """The sequence of one head stream: each step joins what the step before gave, where that is.

    Join values: attribute e of a tuple belongs to edge e of the graph, in the order of `edges`; with `shared` all edges
    compare attribute 0.
    """

    wire: Wire
    streams: Sequence[Stream]
    edges: Sequence[tuple[int, int]]
    head: int
    steps: Sequence[Step]
    grace: int
    shared: bool = False
    joins: list[OneWay] = field(default_factory=list)

    def __post_init__(self) -> None:
        place, done = self.head, [self.head]
        for step in self.steps:
            self.joins.append(self._join(step, place, done))
            place = step.stream if "-D" in step.algorithm else place
            done.append(step.stream)

    def _join(self, step: Step, place: int, done: Sequence[int]) -> OneWay:
        """The first edge to what is joined already gives the join values, the others are checked besides."""
        near = [(e, a if b == step.stream else b) for e, (a, b) in enumerate(self.edges) if step.stream in (a, b)]
        near = [(0 if self.shared else e, other) for e, other in near if other in done]
        (edge, first), rest, target = near[0], near[1:], self.streams[step.stream]

        def fits(row: Item, found: Item) -> bool:
            return all(row.value(o, e) == found.value(step.stream, e) for e, o in rest)

        return TWINS[step.algorithm](
            self.wire,
            place,
            step.stream,
            target.window,
            self.grace,
            lambda row: row.value(first, edge),
            lambda found: found.value(step.stream, edge),
            self.streams[first].partial,
            target.partial,
            fits,
        )

    def destination(self, t: int, tau: int) -> None:
        for step, join in zip(self.steps, self.joins, strict=True):
            join.destination(t, self.streams[step.stream].batch(t - tau, t))

    def source(self, t: int, tau: int) -> tuple[list[Item], int]:
        rows, place = self.streams[self.head].batch(t - tau, t), self.head
        for join in self.joins:
            rows, place = join.source(t, rows)
        return rows, place


def run_sequences(sequences: Sequence[MultiWay], until: int, tau: int, result: int | None = None) -> list[Item]:
    """Run all sequences every τ; joined rows are delivered to node `result`, where one is named."""
    found: list[Item] = []
    for t in range(tau, until + tau, tau):
        for each in sequences:
            each.wire.now = t
            each.destination(t, tau)
        for each in sequences:
            rows, place = each.source(t, tau)
            if result is not None and rows:
                each.wire.ship(place, result, "result", sum(r.size for r in rows))
            found += rows
    return found
