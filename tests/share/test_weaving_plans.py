"""Weaved plans (paper 003, section III): equations, Algorithm 1, and what no plan may violate."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.experiments.weaving.workload import table_two
from tests.share.weaving_drawn import counted_rate, queries
from tidemill.optimize.share.weaving import (
    Acq,
    Weaving,
    add_query,
    amortised_factor,
    edges_of,
    remove_query,
    shared,
    sliding,
    triweave,
    unshared,
    weave_share,
)
from tidemill.optimize.share.weaving.changes import SMALL
from tidemill.optimize.share.weaving.cost import merge_gain, overlap_factor, tree_cost, triops_cost, twoops_cost
from tidemill.optimize.share.weaving.plans import WeavePlan, weaved_group
from tidemill.plan.windows import Window

RUNNING = [Acq("a", sliding(8, 5)), Acq("b", sliding(5, 4)), Acq("c", sliding(10, 1)), Acq("d", sliding(5, 4))]
RATES = st.sampled_from([0.25, 1.0, 3.0, 50.0, 10_000.0])


def names(plan: WeavePlan) -> set[tuple[str, ...]]:
    return {tuple(sorted(group.queries)) for group in plan.groups}


def test_equations_on_the_running_example() -> None:
    ab, c = weaved_group(RUNNING[:2]), weaved_group(RUNNING[2:3])
    assert (ab.rate, ab.overlap) == pytest.approx((0.7, 8 / 5 + 5 / 4))
    assert (c.rate, c.overlap) == pytest.approx((1.0, 10.0))
    assert tree_cost(100, ab) == pytest.approx(100 + 0.7 * 2.85)
    assert twoops_cost(100, [ab, c]) == pytest.approx(2 * 100 + 0.7 * 2.85 + 10)
    assert triops_cost(100, 1.0, [ab, c]) == pytest.approx(100 + 2 * 1 + 0.7 * 2.85 + 10)


def test_a_landmark_window_takes_up_a_fragment_once() -> None:
    assert overlap_factor(Acq("l", Window(5, 0, 0, None))) == 1


def test_queries_with_the_same_edges_are_in_one_group() -> None:
    assert any({"b", "d"} <= set(group) for group in names(triweave(RUNNING, rate=1000)))


def test_shared_costs_more_by_triops_because_its_only_group_is_interceded() -> None:
    plan = shared(RUNNING, rate=50)
    assert plan.triops == pytest.approx(plan.twoops + plan.edge_rate)


@given(queries(), RATES)
def test_a_plan_is_a_partition_and_its_costs_follow_the_equations(acqs: list[Acq], rate: float) -> None:
    whole = counted_rate([acq.window for acq in acqs])
    for plan in (unshared(acqs, rate), shared(acqs, rate), weave_share(acqs, rate), triweave(acqs, rate)):
        assert sorted(q for g in plan.groups for q in g.queries) == sorted(acq.name for acq in acqs)
        final = sum(
            counted_rate([plan.acqs[q].window for q in g.queries])
            * sum(overlap_factor(plan.acqs[q]) for q in g.queries)
            for g in plan.groups
        )
        assert plan.edge_rate == pytest.approx(whole)
        assert plan.twoops == pytest.approx(len(plan.groups) * rate + final)
        assert plan.triops == pytest.approx(rate + len(plan.groups) * whole + final)


@given(queries(), RATES, st.sampled_from([overlap_factor, amortised_factor]))
def test_triweave_is_the_cheapest_by_triops(acqs: list[Acq], rate: float, factor) -> None:
    weaving = Weaving(acqs, factor=factor)
    best = weaving.triweave(rate).triops * (1 - 1e-9)
    assert best <= weaving.weave_share(rate).triops
    assert best <= weaving.shared(rate).triops
    assert best <= weaving.unshared(rate).triops


@given(queries(), RATES)
def test_weave_share_is_cheaper_than_unshared_by_twoops(acqs: list[Acq], rate: float) -> None:
    assert weave_share(acqs, rate).twoops <= unshared(acqs, rate).twoops * (1 + 1e-9)


@given(queries(), RATES)
def test_merge_gain_is_the_difference_of_costs(acqs: list[Acq], rate: float) -> None:
    groups = [weaved_group([acq]) for acq in acqs]
    whole = weaved_group(acqs).rate
    for one, other in combinations(range(len(acqs)), 2):
        both = weaved_group([acqs[one], acqs[other]])
        merged = [g for i, g in enumerate(groups) if i not in (one, other)] + [both]
        assert merge_gain(rate, groups[one], groups[other], both.rate) == pytest.approx(
            twoops_cost(rate, groups) - twoops_cost(rate, merged), abs=1e-6
        )
        assert merge_gain(whole, groups[one], groups[other], both.rate) == pytest.approx(
            triops_cost(rate, whole, groups) - triops_cost(rate, whole, merged), abs=1e-6
        )


@given(queries())
def test_every_merge_loses_as_little_as_any_pair_would(acqs: list[Acq]) -> None:
    """Against the full search of Algorithm 1, lines 8 to 15."""
    distinct = {edges_of([a.window]): a for a in acqs}
    weaving = Weaving(distinct.values())
    groups = {i: [distinct[edges]] for i, edges in enumerate(sorted(distinct))}
    for merge in weaving.order.merges_until(float("inf")):
        least = min(
            -merge_gain(0.0, weaved_group(one), weaved_group(other), counted_rate([a.window for a in one + other]))
            for one, other in combinations(groups.values(), 2)
        )
        assert merge.loss == pytest.approx(least, abs=1e-9)
        groups[merge.first] += groups.pop(merge.second)
        assert merge.rate == pytest.approx(counted_rate([a.window for a in groups[merge.first]]))
    assert len(groups) == 1


# Two merges of these queries lose equally much.
EVEN = [Acq("q0", sliding(1, 1)), Acq("q1", sliding(21, 4)), Acq("q2", sliding(1, 12)), Acq("q3", sliding(3, 12))]


@example(EVEN, 0.25, 9)
@given(queries(), RATES, st.integers(1, 1000))
def test_the_clock_does_not_matter(acqs: list[Acq], rate: float, tick: int) -> None:
    """A thousand times finer time units, rates still by the old unit."""
    finer = [Acq(a.name, sliding((a.window.range or 3) * tick, a.window.slide * tick)) for a in acqs]
    coarse = [Acq(a.name, sliding(a.window.range or 3, a.window.slide)) for a in acqs]
    assert triweave(finer, rate, unit=tick).triops == pytest.approx(triweave(coarse, rate).triops)


@pytest.mark.parametrize("whole", [True, False])
def test_a_thousand_queries_need_few_unions(whole: bool) -> None:
    weaving = Weaving(table_two(1000, seed=1, whole=whole))
    plan = weaving.triweave(rate=1)
    assert 50 < len(plan.groups) < 400
    assert weaving.order.evaluated < 1000
    assert plan.triops < 0.8 * min(weaving.shared(1).triops, weaving.unshared(1).triops)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.booleans(), st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_changed_plan_costs_at_most_five_percent_more_than_a_fresh_one(
    seed: int, whole: bool, comes: list[bool]
) -> None:
    acqs = table_two(SMALL * 3 + len(comes), seed, whole)
    rate = 0.1  # so small that it cannot hide the difference
    plan = triweave(acqs[: SMALL * 3], rate)
    drifted = 0
    for i, come in enumerate(comes):
        plan = (
            add_query(plan, acqs[SMALL * 3 + i])
            if come
            else remove_query(plan, sorted(plan.acqs)[seed % len(plan.acqs)])
        )
        fresh = triweave(plan.acqs.values(), rate)
        assert plan.triops <= 1.05 * fresh.triops
        drifted += plan.changes > 0
        again = Weaving(plan.acqs.values())
        assert plan.edge_rate == pytest.approx(again.edge_rate)
        assert sorted(q for g in plan.groups for q in g.queries) == sorted(plan.acqs)
        for group in plan.groups:
            assert group == weaved_group([plan.acqs[q] for q in group.queries])
    assert drifted, "no plan was changed in place"


@pytest.mark.parametrize("seed", range(4))
def test_a_new_query_goes_where_it_costs_least(seed: int) -> None:
    acqs = table_two(2 * SMALL + 8, seed)
    plan = triweave(acqs[: 2 * SMALL], rate=1)
    placed = 0
    for acq in acqs[2 * SMALL :]:
        found = add_query(plan, acq)
        if found.changes == plan.changes + 1:
            placed += 1
            parts = [[plan.acqs[q] for q in group.queries] for group in plan.groups]
            choices = [[*parts[:i], [*part, acq], *parts[i + 1 :]] for i, part in enumerate(parts)] + [[*parts, [acq]]]
            costs = [triops_cost(1, found.edge_rate, map(weaved_group, choice)) for choice in choices]
            assert found.triops == pytest.approx(min(costs))
        plan = found
    assert placed


@given(queries(), RATES)
def test_a_small_plan_is_made_afresh(acqs: list[Acq], rate: float) -> None:
    plan = add_query(triweave(acqs[1:], rate), acqs[0])
    assert plan.triops == pytest.approx(triweave(acqs, rate).triops)
    assert remove_query(plan, acqs[0].name).triops == pytest.approx(triweave(acqs[1:], rate).triops)


@given(queries(), RATES, st.randoms())
def test_the_order_of_queries_does_not_matter(acqs: list[Acq], rate: float, random) -> None:
    mixed = list(acqs)
    random.shuffle(mixed)
    assert names(triweave(mixed, rate)) == names(triweave(acqs, rate))
    assert names(weave_share(mixed, rate)) == names(weave_share(acqs, rate))


def test_names_are_checked() -> None:
    with pytest.raises(ValueError, match="same name"):
        Weaving([RUNNING[0], RUNNING[0]])
    with pytest.raises(ValueError, match="already a query a"):
        add_query(triweave(RUNNING, 1), RUNNING[0])
