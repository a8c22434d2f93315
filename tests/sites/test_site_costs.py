"""Costs of joins between sites: the paper's formulas, the corrected ones against counted bytes, and the search."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort, thorough
from tests.sites.twins import COUNT_BYTES
from tests.sites.twins.data import Kind, count_bytes
from tidemill.optimize.sites import (
    Constants,
    Flow,
    JoinGraph,
    Link,
    OneWayJoin,
    Prices,
    SiteStream,
    Step,
    choose_greedy,
    choose_shared,
    list_shipments,
    price_join,
    price_plan,
    printed_cost,
    search_exhaustively,
)
from tidemill.optimize.sites.parameters import PAPER
from tidemill.optimize.sites.search import _all_sequences

LINK = Link(0.025, 128_000)
FREE = Constants(0, 0, 0, 0)
DEFAULT = SiteStream("n1", 300, 3.0, 1250, 5, 10)
GRAPHS = {
    "star": frozenset({(0, 1), (0, 2), (0, 3)}),
    "chain": frozenset({(0, 1), (1, 2), (2, 3)}),
    "cycle": frozenset({(0, 1), (1, 2), (2, 3), (0, 3)}),
    "full": frozenset({(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}),
}


def test_formulas_at_the_paper_s_default_setting():
    """By hand: 10 batches of 30 tuples a second, 25 ms and 37,500 bytes at 128,000 B/s are 3.1797 s."""
    join = OneWayJoin(DEFAULT, replace(DEFAULT, site="n2"), 0.1)
    simple = 10 * (0.025 + 37_500 / 128_000)
    keys = 10 * (0.025 + 50 / 128_000)
    expected = {
        "SP-S": simple,
        "SP-D": simple,
        "SM-S1": simple + keys + 10 * (0.025 + 4 / 128_000),
        "SM-S2": 2 * 10 * 0.025 + simple,  # f12 = 1: nothing is missing, and two empty messages are charged
        "SM-D1": simple + 10 * 0.025,
        "SM-D2": simple + 2 * keys,
    }
    for name, seconds in expected.items():
        assert printed_cost(name, join, LINK, FREE) == pytest.approx(seconds), name


def test_distinct_values_as_printed_do_not_depend_on_the_buffer():
    """m_1 = min(1/f, wp/f · 100): ten values in a buffer of a tenth of a tuple, and in one of thirty tuples."""
    few = OneWayJoin(replace(DEFAULT, rate=1), replace(DEFAULT, site="n2"), 0.1)
    many = OneWayJoin(DEFAULT, replace(DEFAULT, site="n2"), 0.1)
    keys = 10 * (0.025 + 50 / 128_000)
    for join in (few, many):
        rest = printed_cost("SM-S1", join, LINK, FREE) - keys
        assert rest == pytest.approx(printed_cost("SM-S1", many, LINK, FREE) - keys)
    shipped = {s.what: s for s in list_shipments("SM-S1", few)}
    assert shipped["S1 keys"].bytes == pytest.approx(5 * 1, rel=0.01)  # one tuple a second has one value


def test_a_result_is_charged_where_it_is_delivered():
    join = OneWayJoin(DEFAULT, replace(DEFAULT, site="n2"), 0.1)
    at_home = price_join("SP-S", join, LINK, result=("n1", 100, 2500))
    away = price_join("SP-D", join, LINK, result=("n1", 100, 2500))
    assert away.bytes - at_home.bytes == pytest.approx(250_000)
    assert price_join("SP-D", join, LINK).bytes == at_home.bytes


def test_latency_counts_crossings():
    join = OneWayJoin(DEFAULT, replace(DEFAULT, site="n2"), 0.1)
    fast = Link(0.025, 1e12)
    found = {name: round((price_join(name, join, fast).latency - 0.1) / 0.025) for name in PAPER}
    assert found == {"SP-S": 1, "SP-D": 1, "SM-S1": 2, "SM-D1": 2, "SM-S2": 3, "SM-D2": 3}


def test_inputs_at_one_site_ship_nothing():
    join = OneWayJoin(DEFAULT, DEFAULT, 0.1)
    assert all(list_shipments(name, join) == [] for name in PAPER)


# ---- predicted and counted -----------------------------------------------------------------------

POINTS = 10


def _points(count: int):
    chance = random.Random(7)
    for _ in range(count):
        kinds = [
            Kind(
                chance.choice((20, 50, 100, 200)),
                chance.choice((400, 800, 1600)),
                chance.choice((50, 250, 1250)),
                chance.choice((5, 16, 36)),
                chance.choice((5, 20, 100, 500)),
            )
            for _ in range(2)
        ]
        yield kinds[0], kinds[1], chance.choice((50, 100, 200))


def test_predicted_bytes_are_those_that_the_twins_count():
    """Within 10 % at 90 % of the points, and pairs of algorithms more than 5 % apart in the right order."""
    close, total, ordered, pairs, worst = 0, 0, 0, 0, []
    for first, second, tau in _points(POINTS * (5 if thorough() else 1)):
        join = OneWayJoin(_stream("a", first), _stream("b", second), tau / 1000, (80 + tau) / 1000)
        predicted, counted = {}, {}
        for name in PAPER:
            wire, seconds = count_bytes(name, first, second, tau, seconds=30, warm_up=8)
            counted[name] = wire.total / seconds
            shipped = list_shipments(name, join, Constants(count_bytes=COUNT_BYTES))
            predicted[name] = sum(s.bytes for s in shipped)
            total += 1
            near = abs(predicted[name] - counted[name]) <= 0.1 * counted[name]
            close += near
            if not near:
                worst.append((name, round(predicted[name]), round(counted[name]), first, second, tau))
        for a, b in product(PAPER, PAPER):
            if counted[a] < 0.95 * counted[b]:
                pairs += 1
                ordered += predicted[a] < predicted[b]
    assert close / total >= 0.9, (close, total, worst[:12])
    assert pairs > 50 and ordered / pairs >= 0.9, (ordered, pairs)


def _stream(site: str, kind: Kind) -> SiteStream:
    return SiteStream(site, kind.rate, kind.window / 1000, kind.full, kind.partial, kind.distinct)


# ---- search --------------------------------------------------------------------------------------

streams = st.builds(
    SiteStream,
    st.sampled_from(["n1", "n2", "n3", "n4"]),
    st.sampled_from([10, 50, 100, 150, 200]),
    st.sampled_from([0.4, 0.8, 1.2, 1.6, 2.0]),
    st.sampled_from([50, 250, 500, 750, 1000]),
    st.just(5),
    st.sampled_from([50, 25, 16, 12, 10]),
)


@effort(40)
@given(
    listed=st.tuples(*[streams] * 4),
    shape=st.sampled_from(sorted(GRAPHS)),
    printed=st.booleans(),
    result=st.sampled_from([None, "n1"]),
)
def test_greedy_is_never_cheaper_than_exhaustive(listed, shape, printed, result):
    graph = JoinGraph(listed, GRAPHS[shape])
    prices = Prices(LINK, 0.1, Constants(), printed=printed, result=result)
    greedy, best = choose_greedy(graph, prices), search_exhaustively(graph, prices)
    for plan in (greedy, best):
        assert [sorted({h, *(s.stream for s in steps)}) for h, steps in enumerate(plan)] == [[0, 1, 2, 3]] * 4
    assert price_plan(graph, greedy, prices) >= price_plan(graph, best, prices) * (1 - 1e-12)


@effort(6)
@given(listed=st.tuples(*[streams] * 3), printed=st.booleans())
def test_the_exhaustive_search_leaves_nothing_out(listed, printed):
    """All orders with all of the 36 pairs of algorithms, one by one."""
    graph = JoinGraph(listed, frozenset({(0, 1), (1, 2), (0, 2)}))
    prices = Prices(LINK, 0.1, Constants(), printed=printed)
    best = search_exhaustively(graph, prices)
    for head in range(3):
        every = _all_sequences(Flow.begin(graph, head), PAPER, 3)
        assert len(every) == 2 * 36
        least = min(prices.sequence(graph, head, steps) for steps in every)
        assert prices.sequence(graph, head, best[head]) == pytest.approx(least)


def test_algorithm_10_as_printed_appends_the_algorithm_of_another_stream():
    """Line 9 sets A_next for every candidate, line 16 appends the last one."""
    small, large = replace(DEFAULT, site="n2", full=10), replace(DEFAULT, site="n3", full=5000, rate=200)
    graph = JoinGraph((replace(DEFAULT, full=3000, rate=100), small, large), frozenset({(0, 1), (0, 2)}))
    prices = Prices(LINK, 0.1, FREE, printed=True)
    repaired = choose_greedy(graph, prices)[0][0]
    assert repaired == Step(1, "SP-S")
    flow = Flow.begin(graph, 0)
    last = min(PAPER, key=lambda a: prices.step(flow, 2, a))  # what A_next holds after the loop
    assert last != repaired.algorithm
    assert prices.step(flow, 1, last) > 2 * prices.step(flow, 1, repaired.algorithm)


def test_two_sequences_share_a_shipment():
    """S1 → S2 at S1's site and S2 → S1 at S1's site ship the same tuples of S2."""
    graph = JoinGraph((DEFAULT, replace(DEFAULT, site="n2", full=500)), frozenset({(0, 1)}))
    prices = Prices(LINK, 0.1, Constants())
    both = ((Step(1, "SP-S"),), (Step(0, "SP-D"),))
    apart, shared = price_plan(graph, both, prices), price_plan(graph, both, prices, share=True)
    assert apart - shared == pytest.approx(10 * (0.025 + 15_000 / 128_000))
    chosen = choose_shared(graph, prices)
    assert price_plan(graph, chosen, prices, share=True) <= shared + 1e-9
