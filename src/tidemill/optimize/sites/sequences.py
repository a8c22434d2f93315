"""Joins of m streams: for each stream its own order of one-way joins (Definition 1 of paper 001)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.optimize.sites.corrected import price_join, price_shipments
from tidemill.optimize.sites.parameters import AT_SOURCE, Constants, Link, OneWayJoin, SiteStream
from tidemill.optimize.sites.printed import printed_cost
from tidemill.optimize.sites.shipments import Shipment, list_shipments

CostOf = Callable[[str, OneWayJoin], float]


@dataclass(frozen=True)
class JoinGraph:
    """Streams and the pairs that are joined. With `shared` all pairs compare one attribute."""

    streams: tuple[SiteStream, ...]
    pairs: frozenset[tuple[int, int]]
    shared: bool = False

    def __post_init__(self) -> None:
        reached, todo = {0}, [0]
        while todo:
            for other in self.near(todo.pop()):
                if other not in reached:
                    reached.add(other)
                    todo.append(other)
        if len(reached) != len(self.streams):
            raise ValueError("some streams are not joined with the others")

    def near(self, stream: int) -> Iterator[int]:
        """Streams that are joined with this one."""
        for a, b in sorted(self.pairs):
            if stream in (a, b):
                yield b if stream == a else a


@dataclass(frozen=True)
class Step:
    """The next stream of a sequence, and by which algorithm."""

    stream: int
    algorithm: str


@dataclass(frozen=True)
class Flow:
    """What a sequence has joined so far: S_current of Algorithm 10. `draws` are independent values a second of each
    stream in it.
    """

    graph: JoinGraph
    members: tuple[int, ...]
    site: str
    rate: float
    full: float
    draws: Mapping[int, float]

    @classmethod
    def begin(cls, graph: JoinGraph, head: int) -> Flow:
        """The tuples of the head stream."""
        s = graph.streams[head]
        return cls(graph, (head,), s.site, s.rate, s.full, {head: s.rate})

    def candidates(self) -> list[int]:
        """Streams that may come next: joined with one that is in, and not in themselves."""
        found = {n for m in self.members for n in self.graph.near(m)} - set(self.members)
        return sorted(found)

    def join_with(self, stream: int, interval: float, grace: float) -> OneWayJoin:
        """The one-way join to a stream, through the pair with the fewest values in common."""
        by = self._through(stream)
        current = self.graph.streams[by]
        values = min(self.graph.streams[m].distinct for m in self.members) if self.graph.shared else current.distinct
        first = replace(current, site=self.site, rate=self.rate, full=self.full, distinct=values)
        return OneWayJoin(first, self.graph.streams[stream], interval, grace, min(self.draws[by], self.rate))

    def _through(self, stream: int) -> int:
        return next(n for n in self.graph.near(stream) if n in self.members)

    def selectivity(self, stream: int) -> float:
        """The share of pairs that match: 1/max(d, d') for each attribute that is compared."""
        target = self.graph.streams[stream]
        if self.graph.shared:
            values = min(self.graph.streams[m].distinct for m in self.members)
            return 1 / max(values, target.distinct)
        found = 1.0
        for n in self.graph.near(stream):
            if n in self.members:
                found /= max(self.graph.streams[n].distinct, target.distinct)
        return found

    def advance(self, stream: int, algorithm: str) -> Flow:
        """S_current ⋈ S_next: its rate is r · w_next · ρ, its rows have the bytes of both."""
        target = self.graph.streams[stream]
        fan_out = target.rate * target.window * self.selectivity(stream)
        rate = self.rate * fan_out
        kept = min(1.0, fan_out)
        draws = {m: d * kept for m, d in self.draws.items()} | {stream: rate}
        site = self.site if algorithm in AT_SOURCE else target.site
        return Flow(self.graph, (*self.members, stream), site, rate, self.full + target.full, draws)


SequencePlan = tuple[tuple[Step, ...], ...]  # by head stream


@dataclass(frozen=True)
class Prices:
    """How one-way joins are priced: `printed` as in Appendix B, else corrected; where the answer is delivered."""

    link: Link
    interval: float
    constants: Constants
    grace: float = 0.0
    printed: bool = False
    result: str | None = None

    def step(self, flow: Flow, stream: int, algorithm: str) -> float:
        """Seconds of a one-way join in a second."""
        join = flow.join_with(stream, self.interval, self.grace)
        if flow.site == flow.graph.streams[stream].site:
            return price_join("SP-D", join, self.link, self.constants).processing
        if self.printed:
            return printed_cost(algorithm, join, self.link, self.constants)
        return price_join(algorithm, join, self.link, self.constants).cost

    def delivery(self, flow: Flow) -> float:
        """Seconds to deliver what a sequence found; the paper charges nothing."""
        if self.printed or self.result is None or self.result == flow.site:
            return 0.0
        return price_shipments([self._result(flow)], self.link)[0]

    def _result(self, flow: Flow) -> Shipment:
        assert self.result is not None
        what = f"result {flow.members[0]}"
        return Shipment(what, flow.site, self.result, flow.rate * flow.full, min(flow.rate, 1 / self.interval))

    def shipments(self, graph: JoinGraph, head: int, steps: Sequence[Step]) -> list[Shipment]:
        """All shipments of a sequence; what only head streams send has names that other sequences have too."""
        flow, found = Flow.begin(graph, head), list[Shipment]()
        for step in steps:
            join = flow.join_with(step.stream, self.interval, self.grace)
            name = "+".join(map(str, flow.members))
            found += list_shipments(step.algorithm, join, self.constants, (f"[{name}]", f"[{step.stream}]"))
            flow = flow.advance(step.stream, step.algorithm)
        if self.result is not None and self.result != flow.site:
            found.append(self._result(flow))
        return found

    def sequence(self, graph: JoinGraph, head: int, steps: Sequence[Step]) -> float:
        """C of a join sequence."""
        flow, total = Flow.begin(graph, head), 0.0
        for step in steps:
            total += self.step(flow, step.stream, step.algorithm)
            flow = flow.advance(step.stream, step.algorithm)
        return total + self.delivery(flow)


def price_plan(graph: JoinGraph, plan: SequencePlan, prices: Prices, *, share: bool = False) -> float:
    """C of a plan, equation (1): the sum over its sequences; with `share`, equal shipments cross once."""
    total = sum(prices.sequence(graph, head, steps) for head, steps in enumerate(plan))
    if not share or prices.printed:
        return total
    each = [prices.shipments(graph, head, steps) for head, steps in enumerate(plan)]
    apart = sum(price_shipments(s, prices.link)[0] for s in each)
    together = price_shipments([s for listed in each for s in listed], prices.link)[0]
    return total - apart + together
