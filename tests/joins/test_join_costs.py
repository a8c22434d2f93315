"""The cost model of aggregation joins against the equations of paper 000, and against rows that are really counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidemill.optimize.joins import (
    Constants,
    Model,
    Operations,
    Stream,
    Table,
    derive_parameters,
    hash_join,
    nested_loop,
    network_bytes,
    probe_order,
    probe_orders,
    state_bytes,
    unit_time_cost,
)
from tidemill.optimize.joins.cost import TOGETHER
from tidemill.optimize.joins.parameters import AS

PLANS = ("00", "10", "01", "11")

numbers = st.integers(1, 5000).map(float)
streams = st.builds(Stream, rate=numbers, window=numbers, groups=numbers, values=numbers)
costs = st.builds(Constants, *[st.floats(0.1, 100)] * 5, B=st.integers(1, 2000).map(float))


def written_out(first: Stream, second: Stream, c: Constants) -> dict[str, dict[str, float]]:
    """Appendix A and (19) to (26) as the paper has them, but m_1 = σ_1 w_1 and (20) as corrected."""
    λ1, w1, g1, σ1 = first.rate, first.window, first.groups, 1 / first.values  # type: ignore[operator]
    λ2, w2, g2, σ2 = second.rate, second.window, second.groups, 1 / second.values  # type: ignore[operator]
    P_n, P_h, U_n, U_h, U_g, B = c.P_n, c.P_h, c.U_n, c.U_h, c.U_g, c.B
    α = min(w1, g1) * min(w2, g2)
    α1, α2 = min(w1, g1 * (1 / σ1)), min(w2, g2 * (1 / σ2))
    m1, m2 = σ1 * w1, σ2 * w2
    n1, n2 = min(w1 * σ1, g1), min(w2 * σ2, g2)
    B1, B2, B_g = min(1 / σ1, B), min(1 / σ2, B), min(g1, B)
    nested = {
        "00": λ1 * (2 * w2 * P_n + 2 * U_n + 2 * m2 * α / B_g * U_g)
        + λ2 * (2 * w1 * P_n + 2 * U_n + 2 * m1 * α / B_g * U_g),
        "10": λ1 * (2 * w2 * P_n + 2 * U_n + 2 * α1 / B1 * U_g + 2 * m2 * α / B_g * U_g)
        + λ2 * (2 * α1 * P_n + 2 * U_n + 2 * n1 * α / B_g * U_g),
        "01": λ1 * (2 * α2 * P_n + 2 * U_n + 2 * n2 * α / B_g * U_g)
        + λ2 * (2 * w1 * P_n + 2 * U_n + 2 * m1 * α / B_g * U_g + 2 * α2 / B2 * U_g),
        "11": λ1 * (2 * α2 * P_n + 2 * U_n + 2 * α1 / B1 * U_g + 2 * n2 * α / B_g * U_g)
        + λ2 * (2 * α1 * P_n + 2 * U_n + 2 * α2 / B2 * U_g + 2 * n1 * α / B_g * U_g),
    }
    hashed = {
        "00": λ1 * (2 * w2 / B2 * P_h + 2 * U_h + 2 * m2 * α / B_g * U_g)
        + λ2 * (2 * w1 / B1 * P_h + 2 * U_h + 2 * m1 * α / B_g * U_g),
        "10": λ1 * (2 * w2 / B2 * P_h + 2 * U_h + 2 * α1 / B1 * U_g + 2 * m2 * α / B_g * U_g)
        + λ2 * (2 * α1 / B1 * P_h + 2 * U_h + 2 * n1 * α / B_g * U_g),
        "01": λ1 * (2 * α2 / B2 * P_h + 2 * U_h + 2 * n2 * α / B_g * U_g)
        + λ2 * (2 * w1 / B1 * P_h + 2 * U_h + 2 * α2 / B2 * U_g + 2 * m1 * α / B_g * U_g),
        "11": λ1 * (2 * α2 / B2 * P_h + 2 * U_h + 2 * α1 / B1 * U_g + 2 * n2 * α / B_g * U_g)
        + λ2 * (2 * α1 / B1 * P_h + 2 * U_h + 2 * α2 / B2 * U_g + 2 * n1 * α / B_g * U_g),
    }
    return {"nested loop": nested, "hash": hashed}


@settings(deadline=None)
@given(streams, streams, costs)
def test_two_inputs_cost_what_equations_19_to_26_say(first: Stream, second: Stream, c: Constants) -> None:
    known = derive_parameters([first, second], c.B)
    for name, method in (("nested loop", nested_loop), ("hash", hash_join)):
        for plan in PLANS:
            expected = written_out(first, second, c)[name][plan]
            assert unit_time_cost(known, plan, method(c)) == pytest.approx(expected, rel=1e-9)


def test_equation_20_as_printed_is_something_else() -> None:
    """α_1/B_g and α/B_2 instead of α_1/B_1 and α/B_g: the misprint is not harmless."""
    first, second, c = Stream(1, 100, 5, 10), Stream(1, 100, 3, 20), Constants(1, 1, 1, 1, 1)
    p = derive_parameters([first, second])
    printed = 2 * (100 + 1 + p.alphas[0] / p.B_g + p.m[1] * p.alpha / p.buckets[1]) + 2 * (
        p.alphas[0] + 1 + p.n[0] * p.alpha / p.B_g
    )
    assert printed == 2 * (100 + 1 + 10 + 3.75) + 2 * (50 + 1 + 15)
    assert unit_time_cost(p, "10", nested_loop(c)) == 2 * (100 + 1 + 5 + 15) + 2 * (50 + 1 + 15)


def test_generic_costs_are_equations_15_to_18() -> None:
    """Every operation has its own price, a different prime, so a wrong term cannot hide."""
    uw = {0: 2.0, 1: 3.0}
    fmt = {(0, False): 5.0, (1, False): 7.0, (0, True): 11.0, (1, True): 13.0}
    iau = {AS: 17.0, 0: 19.0, 1: 23.0}
    operations = Operations(lambda k: uw[k], lambda t: fmt[t.input, t.early], lambda t: iau[t.input])
    # A landmark window has no decrement: C is then that of a tuple, as the generic equations mean it.
    p = derive_parameters([Stream(29, 600, 2, 10, decrement=0), Stream(31, 800, 3, 10, decrement=0)])
    (λ1, λ2), (m1, m2), (n1, n2) = (29, 31), p.m, p.n
    assert (m1, m2, n1, n2) == (60, 80, 2, 3)
    late1, early1 = 2 + 7 + m2 * 17, 2 + 13 + n2 * 17
    late2, early2 = 3 + 5 + m1 * 17, 3 + 11 + n1 * 17
    assert unit_time_cost(p, "00", operations) == λ1 * late1 + λ2 * late2
    assert unit_time_cost(p, "10", operations) == λ1 * (late1 + 19) + λ2 * early2
    assert unit_time_cost(p, "01", operations) == λ1 * early1 + λ2 * (late2 + 23)
    assert unit_time_cost(p, "11", operations) == λ1 * (early1 + 19) + λ2 * (early2 + 23)


def test_a_change_pays_each_step_with_the_fan_outs_before_it() -> None:
    """Three inputs, only the first moves: 1 for the window, 40 rows, 4 times 90 rows, 4 times 9 updates of AS."""
    p = derive_parameters([Stream(1, 10, 1, 10, decrement=0), Stream(0, 40, 1, 10), Stream(0, 90, 1, 10)])
    ones = nested_loop(Constants(1, 1, 1, 1, 1))
    assert probe_order(0, p, "000") == (1, 2)
    assert unit_time_cost(p, "000", ones) == 1 + 40 + 4 * 90 + 36
    # AS_2 has ten groups, of which one matches; it comes first now, and it stands still, so no update is paid.
    assert probe_order(0, p, "001") == (2, 1)
    assert unit_time_cost(p, "001", ones) == 1 + 10 + 1 * 40 + 4


def test_a_joined_row_in_the_group_of_the_row_before_costs_less() -> None:
    """W_1 has 20 rows of each join value in 4 groups, W_2 has 30 in one: a change finds 1 + 19 · 3/4 and 1 runs."""
    p = derive_parameters([Stream(1, 40, 4, 2, decrement=0), Stream(1, 60, 1, 2, decrement=0)])
    c = Constants(P_n=1, P_h=1, U_n=1, U_h=1, U_g=100, U_r=10)
    finds, runs = 1 + (20 + 30 + 1), 15.25 + 1
    assert unit_time_cost(p, "00", hash_join(c)) == finds + runs * 100 + (20 + 30 - runs) * 10
    # Sets have a row for each group: AS_1 4 of them, AS_2 one, and every row looks for its own.
    assert unit_time_cost(p, "11", hash_join(c)) == 2 + (4 + 1) + (4 + 1) * 100 + (4 + 1) * 100
    # In W_2 all rows are alike: an early aggregation saves 29 rows found and updated. That of S_1 saves most groups.
    late, first, second = (unit_time_cost(p, plan, hash_join(c)) for plan in ("00", "10", "01"))
    assert late - second == 29 * (1 + 10) - 100 and first < second


@settings(deadline=None)
@given(streams, streams, costs)
def test_runs_cost_nothing_else_where_every_update_costs_the_same(first: Stream, second: Stream, c: Constants) -> None:
    known = derive_parameters([first, second], whole_key=True)  # a bucket for each group: C_iau = U_g
    for plan, method in product(PLANS, (nested_loop, hash_join)):
        same = unit_time_cost(known, plan, method(replace(c, U_r=c.U_g)))
        assert same == pytest.approx(unit_time_cost(known, plan, method(c)), rel=1e-9)


def test_without_decrements_all_costs_halve() -> None:
    sliding = [Stream(7, 50, 3, 5), Stream(11, 80, 2, 5)]
    landmark = [Stream(7, 50, 3, 5, decrement=0), Stream(11, 80, 2, 5, decrement=0)]
    for plan, method in product(PLANS, (nested_loop, hash_join)):
        whole = unit_time_cost(derive_parameters(sliding), plan, method(Constants()))
        assert unit_time_cost(derive_parameters(landmark), plan, method(Constants())) == pytest.approx(whole / 2)


def test_a_relation_probes_nothing_and_its_set_is_fixed() -> None:
    p, c = derive_parameters([Stream(5, 100, 1, 10), Stream(0, 100, 1, 10)]), Constants(1, 1, 1, 1, 1)
    assert unit_time_cost(p, "00", hash_join(c)) == 5 * 2 * (10 + 1 + 10)
    assert unit_time_cost(p, "01", hash_join(c)) == 5 * 2 * (1 + 1 + 1)


def _rows(stream: Stream) -> list[tuple[dict[str, int], int]]:
    """A window with every combination of join values and groups, each equally often."""
    names = sorted(stream.attributes)
    combinations = list(product(*(range(int(stream.attributes[n])) for n in names), range(int(stream.groups))))
    copies = int(stream.window) // len(combinations)
    assert copies * len(combinations) == stream.window
    return [(dict(zip(names, c[:-1], strict=True)), c[-1]) for c in combinations] * copies


def _counted(inputs: list[Stream], plan: str, k: int, ordering: tuple[int, ...]) -> list[float]:
    """Mean number of combinations after each step of one change of k, by joining."""
    tables = []
    for s, bit in zip(inputs, plan, strict=True):
        kept = Counter((tuple(sorted(keys.items())), g) for keys, g in _rows(s))
        tables.append([dict(keys) for keys, _ in (kept if bit == "1" else kept.elements())])
    changes = [keys for keys, _ in _rows(inputs[k])]
    current, counts = changes, []
    for j in ordering:
        current = [
            left | right
            for left in current
            for right in tables[j]
            if all(left.get(name, value) == value for name, value in right.items())
        ]
        counts.append(len(current) / len(changes))
    return counts


@pytest.mark.parametrize("plan", ["".join(bits) for bits in product("01", repeat=3)])
@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param([Stream(1, 12, 2, 3), Stream(1, 6, 1, 3), Stream(1, 24, 4, 3)], id="one attribute"),
        pytest.param(
            [
                Stream(1, 8, 2, values={"auction": 4}),
                Stream(1, 24, 1, values={"auction": 4, "seller": 3}),
                Stream(1, 6, 1, values={"seller": 3}),
            ],
            id="chain",
        ),
    ],
)
def test_fan_outs_are_those_of_rows_really_joined(inputs: list[Stream], plan: str) -> None:
    p = derive_parameters(inputs)
    for k, ordering in enumerate(probe_orders(p, plan)):
        predicted, reached, fan_out = [], [k], 1.0
        for j in ordering:
            fan_out *= p.probed_table(j, plan, reached).fan_out
            reached.append(j)
            predicted.append(fan_out)
        assert predicted == pytest.approx(_counted(inputs, plan, k, ordering))


def test_set_sizes_are_those_of_rows_really_grouped() -> None:
    inputs = [Stream(1, 48, 2, values={"a": 4, "s": 3}), Stream(1, 8, 4, values={"a": 2})]
    p = derive_parameters(inputs)
    for i, s in enumerate(inputs):
        assert p.alphas[i] == len({(tuple(keys.items()), g) for keys, g in _rows(s)})
    assert p.alpha == 8


def test_measured_numbers_replace_the_appendix() -> None:
    s = Stream(1, 1000, 10, 100, matches=50, set_matches=4, set_size=70)
    p = derive_parameters([s, Stream(1, 10)], alpha=33)
    assert (p.m[0], p.n[0], p.alphas[0], p.alpha) == (50, 4, 70, 33)
    # With only the size of the set known, n is its share of a join value.
    assert derive_parameters([Stream(1, 1000, 10, 100, set_size=200)]).n == (2.0,)
    # A bucket holds at least what matches, though 1000 rows in 100 buckets would be ten.
    skewed = derive_parameters([Stream(0, 1000, 1, 100, matches=50), Stream(1, 10, 1, 100, decrement=0)])
    assert unit_time_cost(skewed, "00", hash_join(Constants(1, 1, 1, 1, 1))) == 50 + 1 + 50


def test_grouping_by_the_join_attribute_adds_no_groups_to_the_set() -> None:
    p = derive_parameters([Stream(1, 1000, groups=100, values=100, per_value=1), Stream(1, 10, 1, 10)])
    assert (p.alphas[0], p.n[0], p.alpha) == (100, 1, 100)


def test_a_table_on_the_whole_key_has_a_bucket_for_each_group() -> None:
    inputs = [Stream(1, 5000, 1, 10), Stream(1, 5000, 150, 10)]
    paper, whole = derive_parameters(inputs, 1021), derive_parameters(inputs, 1021, whole_key=True)
    assert (paper.answer.buckets, whole.answer.buckets) == (1, 150)
    assert (paper.updated_set(1).buckets, whole.updated_set(1).buckets) == (10, 1021)
    assert paper.probed_table(1, "00", [0]) == whole.probed_table(1, "00", [0]) == Table(1, False, 5000, 10, 500)


@settings(deadline=None)
@given(st.lists(streams, min_size=2, max_size=4), st.data())
def test_an_input_whose_forms_are_alike_costs_the_same_in_both(inputs: list[Stream], data: st.DataObject) -> None:
    i = data.draw(st.integers(0, len(inputs) - 1))
    s = inputs[i]
    inputs[i] = Stream(s.rate, s.window, s.groups, s.values, alike=True, early_width=10, late_width=90, refresh=5)
    plan = data.draw(st.text("01", min_size=len(inputs), max_size=len(inputs)))
    model = Model(inputs)
    late, early = (model.price(plan[:i] + bit + plan[i + 1 :]) for bit in "01")
    assert (late.time, late.space, late.network, late.orders) == (early.time, early.space, early.network, early.orders)


def test_a_set_that_is_shipped_once_for_each_refresh() -> None:
    """100 rows a second are ten groups every five seconds: rows pay for the set, its changes for the join."""
    s = Stream(100, 1000, 1, 10, decrement=0, refresh=5, early_width=20, late_width=30)
    p, c = derive_parameters([s, Stream(0, 100, 1, 10)]), Constants(1, 1, 1, 1, 1)
    assert [p.shipped_changes(0, plan) for plan in ("00", "10")] == [100, 2]
    assert [network_bytes(p, plan) for plan in ("00", "10")] == [3000, 40]
    assert unit_time_cost(p, "00", hash_join(c)) == 100 * (1 + 10 + 10)
    assert unit_time_cost(p, "10", hash_join(c)) == 2 * (1 + 10 + 10) + 100 * 1
    measured = Stream(100, 1000, 1, 10, shipped=7)
    assert derive_parameters([measured, s]).shipped_changes(0, "10") == 7


def test_state_is_one_form_of_each_input_and_the_answer() -> None:
    p = derive_parameters([Stream(1, 100, 2, 5, late_width=8, early_width=12), Stream(1, 50, 3, 5, late_width=4)])
    assert [state_bytes(p, plan, 10) for plan in PLANS] == [1060, 380, 1820, 1140]


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": -1},
        {"window": float("inf")},
        {"groups": 0},
        {"values": 0.5},
        {"values": {"a": 0}},
        {"decrement": 2},
        {"refresh": 0},
        {"set_size": -1},
        {"matches": float("nan")},
    ],
)
def test_impossible_inputs_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        Stream(**{"rate": 1.0, "window": 1.0, **wrong})  # type: ignore[arg-type]


def test_impossible_joins_are_refused() -> None:
    a, s = Stream(1, 1, values={"a": 2}), Stream(1, 1, values={"s": 2})
    for inputs, graph in (([a, s], {(0, 1)}), ([a, a], {(0, 2)}), ([a, a], {(1, 1)}), ([], set())):
        with pytest.raises(ValueError):
            derive_parameters(inputs, graph=frozenset(graph))
    with pytest.raises(ValueError):
        derive_parameters([a], B=0)
    with pytest.raises(ValueError):
        Constants(P_h=0)


# ---- micro-batches -------------------------------------------------------------------------------


def fetching(inputs: list[Stream], plan: str, batch: float | None) -> float:
    """What is spent on finding rows in a unit of time, in units of P_h."""
    tiny = 1e-13  # times millions of pairs, that is still nothing
    spent = Constants(tiny, 1, tiny, tiny, tiny, U_r=tiny)
    return unit_time_cost(derive_parameters(inputs, batch=batch, whole_key=True), plan, hash_join(spent))


@example(first=Stream(1, 2985, 1, 1), second=Stream(3359, 1, 1, 1), plan="00", batch=997)
@given(first=streams, second=streams, plan=st.sampled_from(PLANS), batch=st.floats(0.001, 1000))
def test_a_row_is_fetched_at_most_once_for_each_micro_batch_and_each_change_that_finds_it(first, second, plan, batch):
    second = replace(second, values=first.values)
    p, each = derive_parameters([first, second], whole_key=True), fetching([first, second], plan, None)
    found = fetching([first, second], plan, batch) / TOGETHER
    stored = p.probed_table(0, plan, [1]).size + p.probed_table(1, plan, [0]).size
    assert found <= each * (1 + 1e-6) + 1e-3
    assert found <= stored / batch * (1 + 1e-6) + 1e-3


def test_changes_that_come_one_by_one_fetch_what_they_find_and_many_together_all_there_is():
    inputs = [Stream(100, 500, 1, 10), Stream(100, 500, 1, 10)]
    one, many = (fetching(inputs, "00", batch) / TOGETHER for batch in (1 / 200, 100))
    assert one == pytest.approx(fetching(inputs, "00", None)) == pytest.approx(400 * 50)
    assert many == pytest.approx(1000 / 100)  # both windows, once in 100 units of time


def test_a_chain_fetches_by_the_values_that_joined_rows_bring():
    """A change of the first input knows one value of a; what it finds has many values of s."""
    middle = Stream(0, 100, 1, {"a": 5, "s": 50})
    p = derive_parameters([Stream(1, 10, 1, {"a": 5}, decrement=0), middle, Stream(0, 500, 1, {"s": 50})], batch=1)
    second, third = p.probed_table(1, "000", [0]), p.probed_table(2, "000", [0, 1])
    assert p.first_share(0, "000", second, [0], 1) == 1
    assert p.first_share(0, "000", third, [0, 1], 20) == pytest.approx(50 * (1 - (1 - 1 / 50) ** 20) / 20)


def test_a_change_that_finds_nothing_fetches_nothing_behind_it():
    inputs = [Stream(9, 10, 1, 5), Stream(9, 100, 1, 5, matches=0), Stream(9, 100, 1, 5)]
    assert (
        derive_parameters(inputs, batch=1).first_share(
            0, "000", derive_parameters(inputs).probed_table(2, "000", [0, 1]), [0, 1], 0
        )
        == 1
    )
    assert 0 < fetching(inputs, "000", 1) < fetching(inputs, "000", None) * TOGETHER


def test_a_nested_loop_compares_whatever_the_batch():
    inputs, ones = [Stream(100, 500, 1, 10), Stream(100, 500, 3, 10)], Constants(1, 1, 1, 1, 1)
    whole, batched = (unit_time_cost(derive_parameters(inputs, batch=b), "10", nested_loop(ones)) for b in (None, 7))
    assert whole == batched
