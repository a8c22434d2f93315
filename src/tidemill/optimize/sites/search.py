"""The search for a plan of sequences: Algorithm 10 of paper 001, repaired, and the exhaustive search."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.optimize.sites.parameters import AT_SOURCE, PAPER
from tidemill.optimize.sites.sequences import Flow, JoinGraph, Prices, SequencePlan, Step, price_plan


def choose_greedy(
    graph: JoinGraph, prices: Prices, algorithms: Sequence[str] = PAPER, *, look_ahead: bool = False
) -> SequencePlan:
    """Algorithm 10: each sequence is extended by the stream and algorithm whose one-way join costs least.

    Two repairs: line 9 overwrites A_next for every candidate, so that the stream appended in line 16 may have the
    algorithm of another one; here both are saved together. And only streams that are not in the sequence yet are
    candidates. With `look_ahead` the cheapest step after it counts too: where a step leaves its rows decides what the
    next one has to ship.
    """
    heads = range(len(graph.streams))
    return tuple(_extend_greedily(graph, prices, head, algorithms, look_ahead) for head in heads)


def _extend_greedily(
    graph: JoinGraph, prices: Prices, head: int, algorithms: Sequence[str], look_ahead: bool
) -> tuple[Step, ...]:
    flow, steps = Flow.begin(graph, head), list[Step]()
    while len(flow.members) < len(graph.streams):
        best = min(_choices(flow, algorithms), key=lambda s: _first_cost(prices, flow, s, algorithms, look_ahead))
        steps.append(best)
        flow = flow.advance(best.stream, best.algorithm)
    return tuple(steps)


def _choices(flow: Flow, algorithms: Sequence[str]) -> list[Step]:
    return [Step(k, a) for k in flow.candidates() for a in algorithms]


def _first_cost(prices: Prices, flow: Flow, step: Step, algorithms: Sequence[str], look_ahead: bool) -> float:
    """The cost of a step; the last one has the delivery of the result too."""
    cost, after = prices.step(flow, step.stream, step.algorithm), flow.advance(step.stream, step.algorithm)
    if len(after.members) == len(flow.graph.streams):
        return cost + prices.delivery(after)
    if look_ahead:
        cost += min(_first_cost(prices, after, s, algorithms, False) for s in _choices(after, algorithms))
    return cost


def search_exhaustively(graph: JoinGraph, prices: Prices, algorithms: Sequence[str] = PAPER) -> SequencePlan:
    """The cheapest plan of all orders and algorithms.

    Sequences are priced one by one, so each is searched by itself. All algorithms that join at the source leave the
    same flow behind, and so do all that join at the destination: of each kind only the cheapest can be part of an
    optimal plan, so 2^(m-1) placements are tried for each order in the place of 6^(m-1).
    """
    return tuple(
        _search(prices, Flow.begin(graph, head), algorithms, len(graph.streams))[1]
        for head in range(len(graph.streams))
    )


def _search(prices: Prices, flow: Flow, algorithms: Sequence[str], streams: int) -> tuple[float, tuple[Step, ...]]:
    if len(flow.members) == streams:
        return prices.delivery(flow), ()
    best: tuple[float, tuple[Step, ...]] | None = None
    for stream in flow.candidates():
        for kind in (True, False):
            alike = [a for a in algorithms if (a in AT_SOURCE) == kind]
            if not alike:
                continue
            cost, name = min((prices.step(flow, stream, a), a) for a in alike)
            rest, steps = _search(prices, flow.advance(stream, name), algorithms, streams)
            if best is None or cost + rest < best[0]:
                best = cost + rest, (Step(stream, name), *steps)
    assert best is not None
    return best


def choose_shared(graph: JoinGraph, prices: Prices, algorithms: Sequence[str] = PAPER) -> SequencePlan:
    """A plan that takes equal shipments of its sequences into account.

    Beginning with the exhaustive plan, which prices sequences apart, one sequence at a time is replaced by the one that
    is cheapest beside the others, until none is better.
    """
    plan = list(search_exhaustively(graph, prices, algorithms))
    cost = price_plan(graph, tuple(plan), prices, share=True)
    better = True
    while better:
        better = False
        for head in range(len(plan)):
            for steps in _all_sequences(Flow.begin(graph, head), algorithms, len(graph.streams)):
                other = [*plan[:head], steps, *plan[head + 1 :]]
                price = price_plan(graph, tuple(other), prices, share=True)
                if price < cost - 1e-12:
                    plan, cost, better = other, price, True
    return tuple(plan)


def _all_sequences(flow: Flow, algorithms: Sequence[str], streams: int) -> list[tuple[Step, ...]]:
    if len(flow.members) == streams:
        return [()]
    return [
        (Step(k, a), *rest)
        for k in flow.candidates()
        for a in algorithms
        for rest in _all_sequences(flow.advance(k, a), algorithms, streams)
    ]
