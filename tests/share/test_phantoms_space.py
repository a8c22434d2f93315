"""Space allocation: closed forms, heuristics and the exhaustive yardstick (paper 002, section 6)."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.share.phantoms_drawn import configurations, models, shared
from tidemill.optimize.share.phantoms.collisions import MU
from tidemill.optimize.share.phantoms.configuration import Configuration, relation
from tidemill.optimize.share.phantoms.cost import Constants
from tidemill.optimize.share.phantoms.exhaustive import exhaustive_allocation
from tidemill.optimize.share.phantoms.model import Model
from tidemill.optimize.share.phantoms.peak import fit_peak, peak_load, shift, shrink
from tidemill.optimize.share.phantoms.refinement import refined_allocation
from tidemill.optimize.share.phantoms.space import one_phantom, pl, pr, sl, sr, supernodes, weights_of, without_phantom
from tidemill.optimize.share.phantoms.statistics import Statistics

SCHEMES = (sl, sr, pl, pr)
PAPER = {1: 552, 2: 1846, 3: 2117, 4: 2837}


def _papers(flows: tuple[float, ...] = (1.0,)) -> Model:
    return Model(Statistics(lambda r: PAPER[len(r.attributes)], flows))


@effort(200)
@given(configurations(), models(), st.integers(1, 20_000), st.sampled_from(SCHEMES))
def test_an_allocation_uses_all_memory(c: Configuration, model: Model, memory: int, scheme) -> None:
    buckets, sizes = scheme(c, model, memory), model.bucket_sizes(c)
    used = sum(b * h for b, h in zip(buckets, sizes, strict=True))
    assert min(buckets) >= 1
    if memory <= sum(sizes):
        assert buckets == [1] * len(sizes)
    else:
        assert memory - min(sizes) < used <= memory


def test_figure_13_is_folded_from_the_leaves_up() -> None:
    """ABCD(ABC(AB(A B) C) D): AB' = A + B + AB, then ABC' = AB' + C + ABC, which leaves two levels."""
    c = Configuration.parse("ABCD(ABC(AB(A B) C) D)")
    groups = {"A": 100.0, "B": 200.0, "C": 150.0, "D": 120.0, "AB": 400.0, "ABC": 600.0, "ABCD": 900.0}
    model = Model(Statistics.parse(groups), sizes=lambda _: 1)
    weights = weights_of(c, model)
    folded = dict(zip(map(str, c.relations), supernodes(c, weights, lambda own, below: own + sum(below)), strict=True))
    assert folded["AB"] == 100 + 200 + 400
    assert folded["ABC"] == 700 + 150 + 600
    top = one_phantom([folded["ABC"], folded["D"]], 40_000, model.constants)
    middle = one_phantom([folded["AB"], folded["C"]], top[1], model.constants)
    low = one_phantom([100, 200], middle[1], model.constants)
    expected = {"ABCD": top[0], "D": top[2], "ABC": middle[0], "C": middle[2], "AB": low[0], "A": low[1], "B": low[2]}
    for r, buckets in zip(c.relations, sl(c, model, 40_000), strict=True):
        assert abs(buckets - expected[str(r)]) <= 1


def test_square_roots_are_added_in_sr() -> None:
    c = Configuration.parse("ABC(AB(A B) C)")
    model = Model(Statistics.parse({"A": 100, "B": 400, "AB": 900, "C": 100, "ABC": 2500}), sizes=lambda _: 1)
    top = one_phantom([(10 + 20 + 30) ** 2, 100], 10_000, model.constants)
    assert abs(sr(c, model, 10_000)[0] - top[0]) <= 1


@effort(100)
@given(st.lists(st.floats(1, 1e4), min_size=1, max_size=6), st.floats(10, 1e6), st.floats(1, 60))
def test_the_closed_form_cannot_be_improved(weights: list[float], memory: float, c2: float) -> None:
    """Moving space between any two relations does not lower e = c1 + f x0 c1 + x0 Σ x_i c2 with x = μ w / s (17)."""
    constants = Constants(1.0, c2)
    best = one_phantom(weights, memory, constants)
    assert math.isclose(sum(best), memory) and best[0] > memory / 2

    def cost(s: list[float]) -> float:
        below = len(weights) + MU * c2 * sum(w / part for w, part in zip(weights, s[1:], strict=True))
        return MU / s[0] * below

    for i, j in product(range(len(best)), repeat=2):
        moved = list(best)
        moved[i], moved[j] = moved[i] - 0.01 * best[i], moved[j] + 0.01 * best[i]
        if i != j:
            assert cost(best) <= cost(moved) * (1 + 1e-12)


@pytest.mark.parametrize("text", ["A B C D", "AB BC BD CD"])
@pytest.mark.parametrize("scheme", [sl, sr])
def test_without_phantom_space_goes_by_square_roots(text: str, scheme) -> None:
    c, model = Configuration.parse(text), _papers()
    exact = without_phantom(weights_of(c, model), 40_000)
    sizes = model.bucket_sizes(c)
    assert all(abs(b - s / h) <= 1 for b, s, h in zip(scheme(c, model, 40_000), exact, sizes, strict=True))


@pytest.mark.parametrize("scheme", [sl, sr])
def test_with_one_phantom_over_all_both_supernodes_are_the_closed_form(scheme) -> None:
    c, model = Configuration.parse("ABCD(AB BC BD CD)"), _papers((40.0, 3.0))
    exact = one_phantom(weights_of(c, model)[1:], 60_000, model.constants)
    sizes = model.bucket_sizes(c)
    assert all(abs(b - s / h) <= 1 for b, s, h in zip(scheme(c, model, 60_000), exact, sizes, strict=True))


@pytest.mark.parametrize("text", ["A B C D", "ABCD(A B C D)", "ABCD(AB BC BD CD)", "ABC(AB BC AC)"])
def test_tractable_cases_are_within_two_percent_of_exhaustive(text: str) -> None:
    """Section 8.3.1."""
    c, model = Configuration.parse(text), _papers((40.0, 3.0, 1.0))
    for memory in range(20_000, 100_001, 20_000):
        best = model.cost(c, exhaustive_allocation(200)(c, model, memory))
        assert model.cost(c, sl(c, model, memory)) <= 1.02 * best


def _all_divisions(c: Configuration, model: Model, memory: int, steps: int) -> float:
    sizes, unit = model.bucket_sizes(c), memory / steps
    found = math.inf
    for cut in product(range(1, steps + 1), repeat=len(sizes)):
        buckets = [int(k * unit / h + 1e-9) for k, h in zip(cut, sizes, strict=True)]
        if sum(cut) == steps and min(buckets) >= 1:
            found = min(found, model.cost(c, buckets))
    return found


@effort(60)
@given(shared(most=3), models(), st.sampled_from([400, 3000]), st.booleans(), st.booleans())
def test_exhaustive_finds_the_best_of_all_divisions(
    c: Configuration, model: Model, memory: int, ended: bool, only_occupied: bool
) -> None:
    assume(len(c.relations) <= 5)
    if ended:
        model = replace(model, evictions=lambda below: 3.0 * len(below), only_occupied=only_occupied)
    best = model.cost(c, exhaustive_allocation(9)(c, model, memory))
    assert math.isclose(best, _all_divisions(c, model, memory, 9), rel_tol=1e-9)


@effort(60)
@given(shared(), models(), st.sampled_from(SCHEMES), st.booleans())
def test_exhaustive_is_never_worse_than_a_scheme_on_its_grid(
    c: Configuration, model: Model, scheme, ended: bool
) -> None:
    memory, steps = 20_000, 40
    if ended:
        model = replace(model, evictions=lambda below: float(len(below)))
    sizes = model.bucket_sizes(c)
    shares = [b * h * steps / memory for b, h in zip(scheme(c, model, memory), sizes, strict=True)]
    cut = [max(1, int(s)) for s in shares]
    while sum(cut) != steps:
        direction = 1 if sum(cut) < steps else -1
        movable = [i for i in range(len(cut)) if cut[i] + direction >= 1]
        cut[max(movable, key=lambda i: (shares[i] - cut[i]) * direction)] += direction
    on_grid = [int(k * memory / steps / h + 1e-9) for k, h in zip(cut, sizes, strict=True)]
    assert model.cost(c, exhaustive_allocation(steps)(c, model, memory)) <= model.cost(c, on_grid) * (1 + 1e-12)


@effort(80)
@given(shared(), models(), st.sampled_from([600, 20_000]), st.booleans(), st.booleans(), st.sampled_from(SCHEMES))
def test_refined_sizes_are_never_worse_than_those_it_began_with(
    c: Configuration, model: Model, memory: int, ended: bool, only_occupied: bool, scheme
) -> None:
    if ended:
        model = replace(model, evictions=lambda below: 2.0 * len(below), only_occupied=only_occupied)
    buckets, sizes = refined_allocation(scheme)(c, model, memory), model.bucket_sizes(c)
    assert model.cost(c, buckets) <= model.cost(c, scheme(c, model, memory))
    assert min(buckets) >= 1 and sum(b * h for b, h in zip(buckets, sizes, strict=True)) <= max(memory, sum(sizes))


@effort(80)
@given(shared(), models(), st.sampled_from([600, 20_000]), st.sampled_from(SCHEMES))
def test_a_table_below_another_keeps_half_of_its_space_where_flows_are_claimed(
    c: Configuration, model: Model, memory: int, scheme
) -> None:
    first, buckets = scheme(c, model, memory), refined_allocation(scheme)(c, model, memory)
    for before, after, flow, depth in zip(first, buckets, model.flows(c), c.depths, strict=True):
        # Whole buckets: each share is cut by less than two.
        assert flow <= 1 or depth == 1 or after >= before / 2 - 2


def test_no_table_is_refined_away_by_a_long_flow() -> None:
    """Equation 15 would leave AB one bucket for 2,837 groups and promise a rate of 1/4: l_a was met in a large one."""
    c = Configuration.parse("ABCD(ABC(AB(A B) C) D)")
    model = Model(Statistics(lambda r: 552 if len(r.attributes) == 1 else 2837, (1.06, 1.68, 4.07, 4.28)))
    place = c.position[relation("AB")]
    begun = sl(c, model, 60_000)
    alone = [*begun]
    alone[place] = 1
    assert model.rates(c, alone)[place] < 0.25  # what the model believes of one bucket
    assert refined_allocation()(c, model, 60_000)[place] >= begun[place] / 2 - 2


@effort(60)
@given(shared(), models(), st.booleans(), st.booleans(), st.data())
def test_a_slope_is_what_one_more_bucket_saves(
    c: Configuration, model: Model, ended: bool, only_occupied: bool, data: st.DataObject
) -> None:
    if ended:
        model = replace(model, evictions=lambda below: 3.0 * len(below), only_occupied=only_occupied)
    n = len(c.relations)
    buckets = data.draw(st.lists(st.integers(20, 3000).map(float), min_size=n, max_size=n))
    for i, slope in enumerate(model.slopes(c, buckets)):
        more = [b * (1.001 if i == j else 1.0) for j, b in enumerate(buckets)]
        saved = (model.cost(c, buckets) - model.cost(c, more)) / (0.001 * buckets[i])
        assert math.isclose(slope, saved, rel_tol=1e-3, abs_tol=1e-9)


def test_refined_sizes_are_close_to_exhaustive_ones() -> None:
    for text, flows in (("ABCD(AC(A C) BD(B D))", (1.0,)), ("ABCD(AB BCD(BC BD CD))", (40.0, 3.0, 1.0))):
        c, model = Configuration.parse(text), _papers(flows)
        for memory in (20_000, 40_000, 100_000):
            best = model.cost(c, exhaustive_allocation(100)(c, model, memory))
            assert model.cost(c, refined_allocation()(c, model, memory)) <= 1.01 * best


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="steps"):
        exhaustive_allocation(3)(Configuration.parse("A B C D"), _papers(), 10_000)


def test_seven_relations_in_steps_of_one_percent_take_no_time() -> None:
    c, model = Configuration.parse("ABCD(AC(A C) BD(B D))"), _papers()
    buckets = exhaustive_allocation(100)(c, model, 40_000)
    assert model.cost(c, buckets) <= min(model.cost(c, scheme(c, model, 40_000)) for scheme in SCHEMES) * 1.001


def test_shrink_and_shift_keep_the_peak_load() -> None:
    c, model = Configuration.parse("ABCD(AB BCD(BC BD CD))"), _papers((40.0, 3.0))
    buckets = sl(c, model, 40_000)
    peak = peak_load(c, buckets, model)
    for share in (1.0, 0.95, 0.9, 0.6):
        smaller = shrink(c, buckets, model, share * peak)
        assert smaller is not None and peak_load(c, smaller, model) <= share * peak
        assert all(a <= b for a, b in zip(smaller, buckets, strict=True))
        moved = shift(c, buckets, model, share * peak)
        if moved is not None:
            sizes = model.bucket_sizes(c)
            assert peak_load(c, moved, model) <= share * peak
            assert sum(b * h for b, h in zip(moved, sizes, strict=True)) <= 40_000
            assert all(moved[i] <= buckets[i] for i in c.leaves)
            assert moved[c.position[relation("ABCD")]] >= buckets[c.position[relation("ABCD")]]
        best = fit_peak(c, buckets, model, share * peak)
        assert model.cost(c, best) <= model.cost(c, smaller)
    assert shift(c, buckets, model, 0.95 * peak) is not None and shift(c, buckets, model, 0.5 * peak) is None
    assert shrink(c, buckets, model, 0.0) is None and fit_peak(c, buckets, model, 0.0) == [1] * len(buckets)
    assert shift(Configuration.parse("A B"), [10, 10], model, 1.0) is None
