"""The choice among the plans of an aggregation join: orders, rankings of the paper's figures, greedy and exhaustive."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.optimize.joins import (
    Constants,
    Graph,
    Model,
    PricedPlan,
    Stream,
    choose,
    derive_parameters,
    greedy,
    hash_join,
    nested_loop,
    plans,
    probe_order,
    worth_changing,
)

PAPER = Constants(1, 1, 1, 1, 1, byte_state=0, byte_network=0, B=1021)


def figure_4(
    λ1: float = 300, λ2: float = 300, w1: float = 5000, g1: float = 150, values: float = 10
) -> dict[str, float]:
    """The two-way hash join and default setting of figure 4."""
    inputs = [Stream(λ1, w1, g1, values), Stream(λ2, 5000, 1, values)]
    return {p.name: p.time for p in plans(Model(inputs, constants=PAPER))}


def test_figure_4a_a_set_stops_growing_with_its_window() -> None:
    at = {w1: figure_4(w1=w1) for w1 in (1000, 2000, 3000, 4000, 5000)}
    for name in ("LAP", "EAP01"):
        steps = [b[name] - a[name] for a, b in pairwise(at.values())]
        assert steps == pytest.approx([steps[0]] * 4) and steps[0] > 0
    for name in ("EAP10", "EAP11"):
        assert at[1000][name] < at[2000][name] == at[3000][name] == at[5000][name]
    for w1 in (3000, 4000, 5000):
        assert at[w1]["EAP11"] < at[w1]["EAP01"] < at[w1]["EAP10"] < at[w1]["LAP"]


def test_figure_4b_with_many_groups_the_early_aggregation_on_s1_is_in_vain() -> None:
    few, many, more = figure_4(g1=3), figure_4(g1=3**8), figure_4(g1=3**9)
    assert few["EAP10"] < 0.6 * few["LAP"] and few["EAP11"] < 0.02 * few["EAP01"]
    assert 1 < more["EAP10"] / more["LAP"] < 1.1
    assert 1 < more["EAP11"] / more["EAP01"] < 1.2
    assert many == more


def test_figure_4c_early_aggregation_on_s2_flattens_the_growth_with_the_rate_of_s1() -> None:
    at = [figure_4(λ1=rate, λ2=500) for rate in (100, 300, 500, 700, 900)]
    slope = {name: at[1][name] - at[0][name] for name in at[0]}
    for name, expected in slope.items():
        assert [b[name] - a[name] for a, b in pairwise(at)] == pytest.approx([expected] * 4)
    assert min(slope["LAP"], slope["EAP10"]) > 2 * max(slope["EAP01"], slope["EAP11"])


def test_figure_4d_costs_do_not_fall_with_the_selectivity_factor() -> None:
    at = [figure_4(values=values) for values in (2000, 200, 20, 2)]
    for name in at[0]:
        assert all(a[name] <= b[name] * (1 + 1e-12) for a, b in pairwise(at)), name
        assert at[0][name] < at[-1][name]
    assert at[-1]["EAP11"] == min(at[-1].values()) and at[-1]["LAP"] == max(at[-1].values())


def test_figure_5_a_third_input_magnifies_the_advantage() -> None:
    inputs = [Stream(200, 300, 20, 10), Stream(200, 300, 1, 10), Stream(200, 300, 1, 10)]
    two, three = ({p.name: p.time for p in plans(Model(inputs[:m], constants=PAPER))} for m in (2, 3))
    assert len(three) == 8
    assert three["LAP"] / three["EAP111"] > 10 * two["LAP"] / two["EAP11"]


@pytest.mark.parametrize(
    "g1, g2, winner", [(1, 1, "EAP11"), (1, 1000, "EAP10"), (1000, 1, "EAP01"), (1000, 1000, "LAP")]
)
def test_figure_6_each_plan_wins_somewhere(g1: float, g2: float, winner: str) -> None:
    """Nested loop; λ = 300, w = 1000, σ = 0.1 of both inputs."""
    inputs = [Stream(300, 1000, g1, 10), Stream(300, 1000, g2, 10)]
    ranked = plans(Model(inputs, constants=PAPER, method=nested_loop))
    assert ranked[0].name == winner
    assert ranked[0].cost < ranked[1].cost


# Orders


amounts = st.sampled_from([1.0, 3.0, 10.0, 100.0, 1000.0])
drawn_stream = st.builds(
    Stream,
    rate=st.sampled_from([0.0, 1.0, 10.0, 100.0]),
    window=amounts,
    groups=amounts,
    values=amounts,
    decrement=st.sampled_from([0, 1]),
    alike=st.booleans(),
    refresh=st.sampled_from([None, 1.0, 60.0]),
)


@st.composite
def drawn_join(draw: st.DrawFn, most: int) -> tuple[list[Stream], Graph]:
    """Inputs and a random tree of joined pairs."""
    inputs = draw(st.lists(drawn_stream, min_size=2, max_size=most))
    graph = frozenset((draw(st.integers(0, j - 1)), j) for j in range(1, len(inputs)))
    return inputs, graph


@settings(deadline=None)
@given(drawn_join(6), st.data())
def test_each_step_is_the_smallest_fan_out_among_joined_inputs(
    join: tuple[list[Stream], Graph], data: st.DataObject
) -> None:
    inputs, graph = join
    plan = data.draw(st.text("01", min_size=len(inputs), max_size=len(inputs)))
    k = data.draw(st.integers(0, len(inputs) - 1))
    known = derive_parameters(inputs, graph=graph)
    ordering = probe_order(k, known, plan)
    assert sorted((k, *ordering)) == list(range(len(inputs)))
    reached = {k}
    for j in ordering:
        open_ = {b if a in reached else a for a, b in graph if (a in reached) != (b in reached)}
        assert j in open_
        fan_outs = {i: known.n[i] if known.early(i, plan) else known.m[i] for i in open_}
        assert fan_outs[j] == min(fan_outs.values())
        reached.add(j)


def test_a_product_comes_last_and_all_of_it_matches() -> None:
    known = derive_parameters([Stream(1, 10), Stream(1, 2), Stream(1, 500)], graph=frozenset({(0, 2)}))
    assert probe_order(0, known, "000") == (2, 1)
    assert known.probed_table(1, "000", [0, 2]).fan_out == 2


def test_ties_are_broken_by_size_and_number() -> None:
    known = derive_parameters([Stream(1, 10), Stream(1, 8, 1, 8), Stream(1, 4, 1, 4), Stream(1, 4, 1, 4)])
    assert probe_order(0, known, "0000") == (2, 3, 1)


# Plans


def test_all_plans_are_there_once_and_sorted() -> None:
    inputs = [Stream(10, 100, g, 10) for g in (1, 5, 50)]
    ranked = plans(Model(inputs))
    assert sorted(p.plan for p in ranked) == [f"{i:03b}" for i in range(8)]
    assert [p.cost for p in ranked] == sorted(p.cost for p in ranked)


def test_bytes_decide_where_time_does_not() -> None:
    """A relation that nothing probes: late or early takes the same time, but the set is smaller, or its rows wider."""
    rent = Constants(1, 1, 1, 1, 1, byte_state=1, byte_network=0)
    still = Stream(0, 10, 1, 10)
    narrow, wide = (Stream(0, 100, 1, 10, late_width=8, early_width=width) for width in (16, 160))
    assert choose(Model([still, narrow], constants=rent)).name == "EAP01"
    assert choose(Model([still, wide], constants=rent)).name == "LAP"
    assert choose(Model([still, narrow], constants=PAPER)).name == "LAP"


def test_the_network_can_turn_the_choice() -> None:
    """Every row is its own group, so a set saves no time; but its rows are a tenth as wide."""
    inputs = [Stream(100, 50, 50, 50, late_width=400, early_width=40), Stream(100, 50, 1, 50)]
    assert choose(Model(inputs, constants=PAPER)).plan[0] == "0"
    dear = Constants(1, 1, 1, 1, 1, byte_state=0, byte_network=1)
    assert choose(Model(inputs, constants=dear)).plan[0] == "1"


def test_the_numbering_of_inputs_does_not_matter_where_as_is_hashed_on_the_whole_key() -> None:
    inputs = [Stream(10, 100, 3, 10), Stream(40, 900, 70, 10), Stream(7, 300, 1, 20)]
    best = {choose(Model([inputs[i] for i in turn], whole_key=True)).plan: turn for turn in permutations(range(3))}
    chosen = {frozenset(turn[i] for i, bit in enumerate(plan) if bit == "1") for plan, turn in best.items()}
    assert len(chosen) == 1


@settings(deadline=None, max_examples=60)
@given(drawn_join(5), st.sampled_from([nested_loop, hash_join]), st.booleans())
def test_greedy_is_never_worse_than_the_lap_and_keeps_only_what_pays(
    join: tuple[list[Stream], Graph], method: object, paper: bool
) -> None:
    inputs, graph = join
    model = Model(inputs, graph, PAPER if paper else Constants(), method)  # type: ignore[arg-type]
    path = greedy(model)
    assert path[0].name == "LAP"
    assert all(b.cost < a.cost for a, b in pairwise(path))
    assert len(path) <= 2 * len(inputs) + 1
    last = path[-1]
    for i, bit in enumerate(last.plan):
        if bit == "1":
            assert model.price(last.plan[:i] + "0" + last.plan[i + 1 :]).cost >= last.cost
    assert choose(model).cost <= last.cost


def test_greedy_finds_the_optimum_where_inputs_differ_plainly() -> None:
    inputs = [Stream(100, 1000, g, 10) for g in (1, 1000, 1, 1000, 1)]
    model = Model(inputs, constants=PAPER)
    assert greedy(model)[-1].plan == choose(model).plan == "10101"


def test_greedy_takes_out_what_no_longer_pays() -> None:
    """The first set pays while the other windows are probed, and costs four times the best plan once they are not."""
    inputs = [
        Stream(1000, 100, 10, 1, refresh=60),
        Stream(1, 100, 3, 1, decrement=0, refresh=1),
        Stream(0, 1, 10000, 10, decrement=0, refresh=1),
        Stream(1000, 1, 10000, 1, decrement=0, alike=True, refresh=1),
        Stream(1, 1000, 1, 10, refresh=60),
    ]
    chain = frozenset((i, i + 1) for i in range(4))
    found = [
        (greedy(model)[-1], choose(model), max(greedy(model), key=lambda p: p.plan.count("1")))
        for model in (Model(inputs, graph, PAPER) for graph in (None, chain))
    ]
    assert all(last.cost == best.cost for last, best, _ in found)
    assert any(most.cost > 3 * best.cost for _, best, most in found)


def test_many_inputs_are_planned_greedily() -> None:
    inputs = [Stream(10, 100, 1 if i % 2 else 100, 10) for i in range(12)]
    model = Model(inputs, frozenset((i, i + 1) for i in range(11)), PAPER)
    path = plans(model)
    assert len(path) == 7 and choose(model).plan == "01" * 6
    assert path[-1].name == "LAP"


def test_a_plan_changes_only_for_more_than_the_margin() -> None:
    def costing(plan: str, cost: float) -> PricedPlan:
        return PricedPlan(plan, (), cost, 0, 0, cost)

    assert worth_changing(costing("00", 100), costing("01", 79.9))
    assert not worth_changing(costing("00", 100), costing("01", 80.1))
    assert not worth_changing(costing("00", 100), costing("00", 10))
    with pytest.raises(ValueError):
        worth_changing(costing("00", 1), costing("01", 1), margin=1)


def test_plans_of_another_length_are_refused() -> None:
    model = Model([Stream(1, 1), Stream(1, 1)])
    for wrong in ("0", "000", "02", ""):
        with pytest.raises(ValueError):
            model.price(wrong)
