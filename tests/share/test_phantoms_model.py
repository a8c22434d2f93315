"""Collision rates, costs and hash table evictions against brute force (paper 002, sections 3.2, 5 and 7.1)."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.share.phantoms_drawn import configurations
from tidemill.optimize.share.phantoms.collisions import (
    collision_rate,
    collision_rates,
    flow_length,
    linear_rate,
    occupied_buckets,
)
from tidemill.optimize.share.phantoms.configuration import Configuration, relation, relations
from tidemill.optimize.share.phantoms.cost import (
    Constants,
    cycle_cost,
    cycle_end_cost,
    end_cost,
    eviction_cost,
    intra_cost,
)
from tidemill.optimize.share.phantoms.epochs import Epochs, hash_table_evictions, inclusion_exclusion, union_density
from tidemill.optimize.share.phantoms.model import Model
from tidemill.optimize.share.phantoms.statistics import Statistics


def _equation_12(g: int, b: int) -> float:
    """b Σ_{k=2}^g C(g, k) (1/b)^k (1 - 1/b)^(g-k) (k - 1) / g, in fractions."""
    p = Fraction(1, b)
    total = sum(math.comb(g, k) * p**k * (1 - p) ** (g - k) * (k - 1) for k in range(2, g + 1))
    return float(b * total / g)


@effort(200)
@given(st.integers(1, 40), st.one_of(st.integers(1, 60), st.integers(10**4, 10**9)), st.floats(1, 50))
def test_the_closed_form_equals_the_occupancy_sum(g: int, b: int, flow: float) -> None:
    assert math.isclose(collision_rate(g, b, flow), _equation_12(g, b) / flow, rel_tol=1e-9)


@effort(100)
@given(st.floats(1, 1e9), st.floats(1, 1e12), st.floats(1, 50))
def test_many_table_sizes_at_once_equal_one_at_a_time(g: float, b: float, flow: float) -> None:
    many = collision_rates(g, np.array([b, 1.0, 2 * b]), flow)
    assert np.allclose(many, [collision_rate(g, b, flow), collision_rate(g, 1, flow), collision_rate(g, 2 * b, flow)])
    assert all(0 <= x <= 1 for x in many)


def test_the_rate_stays_exact_for_large_numbers() -> None:
    assert math.isclose(collision_rate(2, 1e12), 5e-13, rel_tol=1e-9)
    assert math.isclose(collision_rate(1e9, 1e9), 1 / math.e, rel_tol=1e-6)
    assert math.isclose(collision_rate(1e9, 10), 1.0, rel_tol=1e-6)


def test_the_straight_line_is_near_the_curve_below_a_rate_of_0_4() -> None:
    """Section 5.4: an average error of less than 5 %; the line is for rates that matter, from about 0.1."""
    errors = []
    for step in range(25, 106):
        exact = collision_rate(1000 * step / 100, 1000)
        errors.append(abs(linear_rate(1000 * step / 100, 1000) / exact - 1))
    assert sum(errors) / len(errors) < 0.05


def test_random_data_collides_as_the_model_says() -> None:
    rng = random.Random(7)
    groups, buckets = 300, 200
    place = [rng.randrange(buckets) for _ in range(groups)]
    table: list[int | None] = [None] * buckets
    collisions = 0
    for _ in range(60_000):
        group = rng.randrange(groups)
        held = table[place[group]]
        collisions += held is not None and held != group
        table[place[group]] = group
    assert abs(collisions / 60_000 / collision_rate(groups, buckets) - 1) < 0.1


def test_a_flow_length_is_measured_from_the_rate_that_was_met() -> None:
    assert math.isclose(flow_length(2000, 1500, collision_rate(2000, 1500, 37.0)), 37.0)


def test_occupied_buckets_are_the_groups_that_do_not_collide() -> None:
    assert math.isclose(occupied_buckets(500, 100), 100 * (1 - 0.99**500))


CONSTANTS = Constants(1.0, 15.0)


def _equation_7(c: Configuration, x: list[float]) -> float:
    at = c.position
    total = 0.0
    for i, r in enumerate(c.relations):
        above = math.prod(x[at[a]] for a in c.ancestors(r))
        total += above * CONSTANTS.c1 + (above * x[i] * CONSTANTS.c2 if c.emits[i] else 0)
    return total


def _equation_8(c: Configuration, m: list[float], x: list[float]) -> float:
    """As printed, with M_R entries; for R' in A_R the product runs over the relations between R' and R."""
    at = c.position
    total = 0.0
    for i, r in enumerate(c.relations):
        for above in c.ancestors(r):
            between = set(c.ancestors(r)) - set(c.ancestors(above)) - {above}
            reach = m[at[above]] * math.prod(x[at[b]] for b in between)
            total += reach * CONSTANTS.c1 + (reach * x[i] * CONSTANTS.c2 if c.emits[i] else 0)
        total += m[i] * CONSTANTS.c2 if c.emits[i] else 0
    return total


@effort(150)
@given(configurations(), st.data())
def test_costs_equal_the_sums_as_printed(c: Configuration, data: st.DataObject) -> None:
    n = len(c.relations)
    x = data.draw(st.lists(st.floats(0, 1), min_size=n, max_size=n))
    m = data.draw(st.lists(st.floats(1, 1000), min_size=n, max_size=n))
    assert math.isclose(intra_cost(c, x, CONSTANTS), _equation_7(c, x))
    assert math.isclose(end_cost(c, m, x, CONSTANTS), _equation_8(c, m, x))
    assert math.isclose(cycle_end_cost(c, m, x, CONSTANTS, lambda _: 1), end_cost(c, m, x, CONSTANTS))
    times = [len(answered) + 2 for answered in c.answered]
    summed = sum(n * eviction_cost(c, r, m, x, CONSTANTS) for n, r in zip(times, c.relations, strict=True))
    assert math.isclose(cycle_end_cost(c, m, x, CONSTANTS, lambda below: len(below) + 2), summed)
    whole = cycle_cost(c, m, x, CONSTANTS, lambda below: len(below) + 2, 500.0)
    assert math.isclose(whole, 500 * _equation_7(c, x) + summed)


def test_the_example_of_section_2_5() -> None:
    """Equations 1 and 2: three queries alone, and under one phantom."""
    x1, x1_shared, x2 = 0.1, 0.2, 0.05
    alone = intra_cost(Configuration.parse("A B C"), [x1] * 3, CONSTANTS)
    shared = intra_cost(Configuration.parse("ABC(A B C)"), [x2] + [x1_shared] * 3, CONSTANTS)
    assert math.isclose(alone, 3 + 3 * x1 * 15)
    assert math.isclose(shared, 1 + 3 * x2 + 3 * x1_shared * x2 * 15)


def test_an_eviction_of_the_raw_relation_reaches_two_levels() -> None:
    """E_R of ABC in ABC(AB(A B) C): 100 (2 c1 + x_C c2 + x_AB (2 c1 + (x_A + x_B) c2))."""
    c = Configuration.parse("ABC(AB(A B) C)")
    assert [str(r) for r in c.relations] == ["ABC", "AB", "A", "B", "C"]
    cost = eviction_cost(c, relation("ABC"), [100] * 5, [0.9, 0.5, 0.1, 0.3, 0.2], CONSTANTS)
    assert math.isclose(cost, 100 * (2 + 0.2 * 15 + 0.5 * (2 + 0.4 * 15)))


def test_eviction_counts_of_section_7_1() -> None:
    assert hash_table_evictions([2, 3]) == 4
    assert hash_table_evictions([2, 3, 5]) == 22
    epochs = Epochs(dict(zip(relations("A B C"), (2, 3, 5), strict=True)))
    assert epochs.cycle == 30 and epochs(frozenset(relations("B"))) == 10


@effort(150)
@given(st.lists(st.integers(1, 24), min_size=1, max_size=7), st.integers(1, 3))
def test_evictions_in_a_cycle_equal_counting_them(lengths: list[int], cycles: int) -> None:
    whole = math.lcm(*lengths) * cycles
    if whole <= 200_000:
        counted = sum(any(t % w == 0 for w in lengths) for t in range(1, whole + 1))
        assert hash_table_evictions(lengths, whole) == counted
    assert inclusion_exclusion(set(lengths), whole) == union_density(lengths) * whole


def test_evictions_of_many_different_lengths_are_exact() -> None:
    lengths = [12, 18, 20, 28, 30, 42, 45, 50, 63, 66, 70, 75]
    counted = sum(any(t % w == 0 for w in lengths) for t in range(1, math.lcm(*lengths) + 1))
    assert hash_table_evictions(lengths) == counted
    huge = [97 * w for w in lengths] + [101 * 103, 107 * 109, 10007]
    assert hash_table_evictions(huge) == inclusion_exclusion(huge, math.lcm(*huge))


def test_a_cycle_that_is_no_multiple_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple"):
        hash_table_evictions([2, 3], 8)


def test_the_model_counts_own_evictions_when_told() -> None:
    c = Configuration.parse("AB(A B)")
    statistics = Statistics.parse({"A": 10, "B": 20, "AB": 100}, tuples=1000)
    plain, ended = Model(statistics, CONSTANTS), Model(statistics, CONSTANTS, evictions=lambda below: len(below))
    sizes = [50, 10, 10]
    x = plain.rates(c, sizes)
    extra = 2 * eviction_cost(c, relation("AB"), sizes, x, CONSTANTS) + 20 * 15
    assert math.isclose(ended.cost(c, sizes), plain.cost(c, sizes) + extra / 1000)


def test_groups_nobody_counted_lie_between_their_parts_and_their_whole() -> None:
    statistics = Statistics.parse({"A": 552, "B": 300, "ABC": 2117, "BC": 1846})
    assert statistics.of(relation("AB")) == 2117
    assert statistics.of(relation("C")) <= 1846
    assert statistics.of(relation("ABCD")) >= 2117
    assert Statistics({}, tuples=100).of(relation("A")) == pytest.approx(10, rel=0.01)
