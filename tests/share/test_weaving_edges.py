"""Edges and edge rates (paper 003, section II) against counting in the composite slide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.experiments.weaving.workload import table_two
from tests.share.weaving_drawn import counted_rate, windows
from tidemill.optimize.share.weaving.acq import sliding
from tidemill.optimize.share.weaving.edges import common_rates, edge_after, edge_rate, edge_times, edges_of, union
from tidemill.optimize.share.weaving.estimate import estimate_density
from tidemill.optimize.share.weaving.residues import TooHard, drop_subsumed, prime_powers, union_density
from tidemill.plan.windows import Window

QA, QB = sliding(8, 5), sliding(5, 4)


def test_edges_of_example_2() -> None:
    a, b = edges_of([QA]), edges_of([QB])
    assert edge_times(a, 1, 14) == [3, 5, 8, 10, 13]
    assert edge_times(b, 1, 13) == [1, 4, 5, 8, 9, 12]
    assert edge_times(union(a, b), 1, 14) == [1, 3, 4, 5, 8, 9, 10, 12, 13]


def test_a_window_whose_range_is_a_multiple_of_its_slide_has_one_edge_in_a_slide() -> None:
    assert edges_of([sliding(60, 10)]) == ((10, 0),)
    assert edges_of([Window(10, 0, 0, None)]) == ((10, 1),)


@given(st.lists(windows(), min_size=1, max_size=6))
def test_edge_rate_equals_counting_in_the_composite_slide(drawn: list[Window]) -> None:
    found = edge_rate(edges_of(drawn), work=10**9)
    assert found.error == 0
    assert found.value == pytest.approx(counted_rate(drawn), abs=1e-12)


@given(st.lists(st.tuples(st.integers(1, 24), st.integers(0, 100)), min_size=1, max_size=6))
def test_density_of_any_residue_classes_equals_counting(drawn: list[tuple[int, int]]) -> None:
    period = math.lcm(*(s for s, _ in drawn))
    marked = np.zeros(period, dtype=bool)
    for s, a in drawn:
        marked[a % s :: s] = True
    assert union_density(drawn) == pytest.approx(marked.mean(), abs=1e-12)
    assert union_density(drop_subsumed(drawn)) == pytest.approx(marked.mean(), abs=1e-12)


@given(st.lists(windows(), min_size=1, max_size=4), st.integers(2, 1_000_000), st.integers(0, 1_000_000))
def test_edge_rate_scales_with_the_clock_and_does_not_change_when_time_is_shifted(
    drawn: list[Window], scale: int, shift: int
) -> None:
    edges = edges_of(drawn)
    moved = union(tuple((s * scale, (a * scale + shift) % (s * scale)) for s, a in edges))
    assert edge_rate(moved, work=10**9).value * scale == pytest.approx(edge_rate(edges, work=10**9).value, rel=1e-9)


@given(st.lists(windows(), min_size=1, max_size=5))
def test_common_rates_equal_counting(drawn: list[Window]) -> None:
    common = common_rates([edges_of([w]) for w in drawn])
    for i, one in enumerate(drawn):
        for j, other in enumerate(drawn):
            expected = counted_rate([one]) + counted_rate([other]) - counted_rate([one, other])
            assert common[i, j] == pytest.approx(expected, abs=1e-12)


@given(st.lists(windows(), min_size=1, max_size=4), st.integers(-50, 50))
def test_edge_after_is_the_next_edge(drawn: list[Window], time: int) -> None:
    edges = edges_of(drawn)
    assert edge_after(edges, time) == edge_times(edges, time + 1, time + 40)[0]


def test_hundreds_of_slides_are_counted_without_their_composite_slide() -> None:
    edges = edges_of(a.window for a in table_two(200, seed=5, whole=True) if a.window.slide >= 100)
    assert len(edges) > 100
    assert math.lcm(*(s for s, _ in edges)) > 10**100
    exact = union_density(edges)
    assert estimate_density(edges, samples=65536)[0] == pytest.approx(exact, rel=0.005)


@pytest.mark.parametrize("seed", range(5))
def test_the_estimate_is_within_its_error(seed: int) -> None:
    edges = edges_of(a.window for a in table_two(25, seed) if a.window.slide >= 10)
    value, error = estimate_density(edges)
    assert 0 < abs(value - union_density(edges)) < error
    assert estimate_density(edges) == (value, error)


def test_the_estimate_of_rare_edges_is_as_good() -> None:
    edges = tuple((10**9 + p, 0) for p in (7, 9, 21, 33, 87, 93))
    value, _ = estimate_density(edges)
    assert value == pytest.approx(union_density(edges), rel=1e-6)


def test_a_union_too_hard_to_count_is_estimated() -> None:
    edges = edges_of(a.window for a in table_two(300, seed=3) if a.window.slide >= 100)
    with pytest.raises(TooHard):
        union_density(edges, work=10_000)
    found = edge_rate(edges)
    assert 0 < found.error < 0.05 * sum(1 / s for s, _ in edges)
    assert found.value == pytest.approx(estimate_density(edges, samples=200_000)[0], abs=found.error)


@given(st.integers(1, 10**6))
def test_prime_powers_multiply_to_the_number(number: int) -> None:
    assert math.prod(power for _, power in prime_powers(number)) == number
    assert all(power % prime == 0 for prime, power in prime_powers(number))
