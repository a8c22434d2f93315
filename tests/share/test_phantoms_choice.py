"""Choosing phantoms: GC, GP, EPES and the engine's entry point (paper 002, sections 4 and 8.4)."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.share.phantoms_drawn import models, queries
from tidemill.optimize.share.phantoms.choose import epes, gc, gp
from tidemill.optimize.share.phantoms.configuration import Configuration, Relation, relation, relations
from tidemill.optimize.share.phantoms.cost import Constants
from tidemill.optimize.share.phantoms.enumeration import all_configurations
from tidemill.optimize.share.phantoms.epochs import Epochs
from tidemill.optimize.share.phantoms.exhaustive import exhaustive_allocation
from tidemill.optimize.share.phantoms.feeding import FeedingGraph, assemble
from tidemill.optimize.share.phantoms.method import choose_configuration
from tidemill.optimize.share.phantoms.model import Model
from tidemill.optimize.share.phantoms.space import pl, pr, sl, sr
from tidemill.optimize.share.phantoms.statistics import Statistics

PAPER = {1: 552, 2: 1846, 3: 2117, 4: 2837}
CLUSTERED = Statistics(lambda r: PAPER[len(r.attributes)], (40.0, 3.0, 1.0))
UNIFORM = Statistics(lambda r: PAPER[len(r.attributes)])


def test_gc_finds_the_papers_configuration_on_clustered_data() -> None:
    """Section 8.5: ABCD(AB BCD(BC BD CD)) for M = 40,000, the same as EPES."""
    asked, model = relations("AB BC BD CD"), Model(CLUSTERED)
    chosen = gc(asked, model, 40_000)
    assert str(chosen.configuration) == "ABCD(AB BCD(BC BD CD))"
    assert chosen.configuration == epes(asked, model, 40_000).configuration


def test_epes_finds_the_papers_shape_on_uniform_data() -> None:
    """Section 8.4: two pairs below ABCD, such as ABCD(AC(A C) BD(B D)), for the queries A, B, C, D at M = 40,000."""
    best = epes(relations("A B C D"), Model(UNIFORM), 40_000)
    shape = sorted(len(r.attributes) for r in best.configuration.phantoms)
    assert shape == [2, 2, 4] and best.configuration.depths.count(3) == 4


def test_the_trace_falls_with_every_phantom() -> None:
    """Figure 17."""
    steps = gc(relations("A B C D"), Model(UNIFORM), 60_000).steps
    assert len(steps) > 2 and steps[0].feeder is None
    costs = [s.cost for s in steps]
    gains = [before - after for before, after in pairwise(costs)]
    assert min(gains) > 0 and gains[0] == max(gains)


def test_gp_takes_only_phantoms_that_fit() -> None:
    asked, model = relations("A B C D"), Model(UNIFORM)
    assert gp(asked, model, 40_000, 10.0).configuration.phantoms == ()
    for phi in (0.6, 1.0, 1.4):
        chosen = gp(asked, model, 40_000, phi)
        assert sum(phi * model.statistics.of(r) * model.sizes(r) for r in chosen.configuration.relations) < 40_000
        assert chosen.table_sizes == pl(chosen.configuration, model, 40_000)


def test_gp_chooses_as_in_figure_17() -> None:
    """Begins with ABCD; ends at a chain like ABCD(ABC(AC(A C) B) D) with φ = 0.8 and 1.2; with 2.0 only ABCD fits."""
    asked, model = relations("A B C D"), Model(UNIFORM)
    for phi in (0.8, 1.2):
        chosen = gp(asked, model, 40_000, phi, as_printed=True)
        assert chosen.steps[1].feeder == relation("ABCD")
        assert sorted(len(r.attributes) for r in chosen.configuration.phantoms) == [2, 3, 4]
        assert max(chosen.configuration.depths) == 4
    assert str(gp(asked, model, 40_000, 2.0, as_printed=True).configuration) == "ABCD(A B C D)"


@pytest.mark.parametrize("per_unit", [False, True])
def test_gp_takes_the_largest_benefit_for_a_bucket_or_for_a_unit(per_unit: bool) -> None:
    """Figure 5, line 8, divides by φ g: ABCD comes first. Divided by the units φ g h it is ABC."""
    asked, model = relations("A B C D"), Model(UNIFORM)

    def worth(feeder: Relation) -> float:
        after = assemble(asked, [feeder], UNIFORM.of)
        saved = model.cost(plain, model.groups(plain)) - model.cost(after, model.groups(after))
        return saved / UNIFORM.of(feeder) / (model.sizes(feeder) if per_unit else 1)

    plain = Configuration.without_phantoms(asked)
    best = max(FeedingGraph.of(asked).candidates, key=worth)
    first = gp(asked, model, 40_000, 1.0, per_unit=per_unit).steps[1].feeder
    assert first is not None and worth(first) == worth(best)
    assert len(first.attributes) == (3 if per_unit else 4)


@effort(60)
@given(queries(), models(), st.integers(30, 60_000), st.booleans(), st.sampled_from([sl, sr, pl, pr]))
def test_gc_never_costs_more_than_no_phantom(
    asked: list[Relation], model: Model, memory: int, ended: bool, scheme
) -> None:
    if ended:
        model = replace(model, evictions=lambda below: float(len(below)))
    chosen = gc(asked, model, memory, scheme)
    assert chosen.cost <= chosen.steps[0].cost
    assert chosen.cost == model.cost(chosen.configuration, chosen.table_sizes)
    assert set(chosen.configuration.queries) == set(asked)


@effort(20)
@given(queries(most=3), models(), st.booleans())
def test_epes_is_the_best_of_everything_on_its_grid(asked: list[Relation], model: Model, ended: bool) -> None:
    memory, steps = 10_000, 30
    if ended:
        model = replace(model, evictions=lambda below: 2.0 * len(below))
    best = epes(asked, model, memory, steps)
    for c in all_configurations(asked):
        assert best.cost <= model.cost(c, exhaustive_allocation(steps)(c, model, memory)) * (1 + 1e-12)


def test_gc_is_close_to_epes_and_gp_never_better() -> None:
    for text, statistics in (("A B C D", UNIFORM), ("AB BC BD CD", CLUSTERED)):
        for memory in range(20_000, 100_001, 20_000):
            asked, model = relations(text), Model(statistics)
            best, greedy = epes(asked, model, memory).cost, gc(asked, model, memory).cost
            assert greedy <= 1.05 * best
            for phi, printed in product(range(2, 31, 2), (False, True)):
                assert gp(asked, model, memory, phi / 10, printed).cost >= greedy


def test_gc_with_sl_takes_milliseconds() -> None:
    model, asked = Model(UNIFORM), relations("A B C D")
    took = []
    for _ in range(5):
        start = time.perf_counter()
        gc(asked, model, 60_000)
        took.append(time.perf_counter() - start)
    assert min(took) < 0.05


def test_different_epochs_change_the_choice() -> None:
    """Sharing evicts the phantom at every epoch's end: with few tuples in a cycle that costs more than it saves."""
    asked = relations("A B C D")
    epochs = Epochs(dict(zip(asked, (2, 3, 5, 6), strict=True)))
    many = gc(asked, Model(replace(UNIFORM, tuples=3e7), evictions=epochs), 60_000)
    few = gc(asked, Model(replace(UNIFORM, tuples=3e4), evictions=epochs), 60_000)
    assert many.configuration.phantoms and many.configuration != few.configuration


def test_the_engine_gets_costs_of_the_alternatives() -> None:
    asked = relations("AB#1 AB#2 BC#1 BD#1 CD#2")
    chosen = choose_configuration(asked, CLUSTERED, 40_000, Constants(1, 15), evictions=lambda below: 2 * len(below))
    assert chosen.cost == min(chosen.alternatives.values())
    assert set(chosen.alternatives) == {"no phantoms", "GCSL", "GCSL refined"}
    assert set(chosen.configuration.queries) == set(asked)
    assert all(r.tag is None for r in chosen.configuration.phantoms)
    assert sum(b * (len(r.attributes) + 1) for r, b in chosen.buckets.items()) <= 40_000
    alone = choose_configuration(asked, CLUSTERED, 40_000, forbid_phantoms=True)
    assert alone.configuration.phantoms == () and set(alone.alternatives) == {"no phantoms"}


@pytest.mark.parametrize("memory", [0, 1, 7])
def test_with_next_to_no_memory_each_relation_has_a_bucket(memory: int) -> None:
    chosen = choose_configuration(relations("A B AB"), UNIFORM, memory)
    assert set(chosen.buckets.values()) == {1}


def test_own_bucket_sizes_and_group_counts_of_a_tagged_leaf_are_used() -> None:
    asked = relations("A#1 A#2")
    statistics = Statistics(lambda r: 1000.0 if r == relation("A#1") else 10.0)
    chosen = choose_configuration(asked, statistics, 4000, sizes=lambda r: 10, forbid_phantoms=True)
    assert chosen.buckets[relation("A#1")] > 3 * chosen.buckets[relation("A#2")]
    assert sum(chosen.buckets.values()) == 400


def test_hundreds_of_leaves_are_planned_in_seconds() -> None:
    letters = "ABCD"
    sets = [frozenset(l for i, l in enumerate(letters) if mask >> i & 1) for mask in range(1, 16)]
    asked = [Relation(s, tag) for s in sets for tag in range(10)]
    start = time.perf_counter()
    chosen = choose_configuration(asked, CLUSTERED, 400_000)
    assert time.perf_counter() - start < 10
    assert chosen.cost < chosen.alternatives["no phantoms"]
