"""Group-by tree and GTWeave (paper 003, sections V and VI)."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.experiments.weaving.workload import table_two
from tests.share.weaving_drawn import windows
from tidemill.optimize.share.weaving import Acq, GroupCounts, group_tree, gtweave, sliding, triweave
from tidemill.optimize.share.weaving.grouptree import Attributes, GroupNode, forest_cost, forest_memory

TABLE_1 = {
    acq.name: acq
    for acq in (
        Acq("a", sliding(8, 5), frozenset("A"), "ca"),
        Acq("b", sliding(5, 4), frozenset("BC"), "cb"),
        Acq("c", sliding(10, 1), frozenset("AC"), "cc"),
        Acq("d", sliding(5, 4), frozenset("CD"), "cd"),
    )
}
KNOWN = {"ABCD": 9000, "ABC": 2000, "AC": 1500, "A": 50, "BC": 1600, "CD": 5000}
COUNTS = GroupCounts({frozenset(k): v for k, v in KNOWN.items()})


def test_tree_of_example_4() -> None:
    tree = group_tree((a.group_by for a in TABLE_1.values()), COUNTS, rows=1e6)
    assert str(tree) == "ABCD(ABC(A AC BC) CD)"
    assert tree.root is not None
    assert [set(n.leaves) for n in tree.first_level] == [
        {frozenset("A"), frozenset("BC"), frozenset("AC")},
        {frozenset("CD")},
    ]
    assert tree.cost == 1e6 + 2 * 9000 + 3 * 2000


def test_no_internal_node_when_it_has_hardly_fewer_groups() -> None:
    near = GroupCounts({frozenset(k): v for k, v in {**KNOWN, "ABC": 8000, "AC": 7000, "BC": 8000}.items()})
    assert str(group_tree((a.group_by for a in TABLE_1.values()), near, rows=1e6)) == "ABCD(A AC BC CD)"


def test_the_root_is_split_when_it_does_not_compress() -> None:
    apart = GroupCounts({frozenset(k): v for k, v in {"A": 5, "B": 5, "C": 5, "AB": 9, "ABC": 10**9}.items()})
    assert str(group_tree(map(frozenset, ["A", "B", "C"]), apart, rows=1000)) == "AB(A B) C"


def test_example_4_is_one_group_cheaper_by_equation_4_than_in_its_figure() -> None:
    """The figure weaves {a, b} and {c}. With the example's windows (4) makes {a, b, c} cheaper, and (4) decides."""
    first = [TABLE_1[q] for q in "abc"]
    figure = 1 + 2 * 1.0 + 0.7 * 2.85 + 10
    chosen = triweave(first, rate=1)
    assert [sorted(g.queries) for g in chosen.groups] == [["a", "b", "c"]]
    assert chosen.triops == pytest.approx(1 + 1.0 + 12.85)
    assert chosen.triops < figure


def test_gtweave_on_the_running_example() -> None:
    plan = gtweave(TABLE_1.values(), rate=1e6, counts=COUNTS)
    assert plan.edge_rate == 1
    assert plan.group_of("d") != plan.group_of("b")  # identical windows, but not shared by the tree
    assert set(plan.costs) == {"GTWeave", "unshared", "Shared", "Weave Share", "TriWeave"}
    assert plan.costs["TriWeave"].triops <= min(cost.triops for name, cost in plan.costs.items() if name != "GTWeave")


def test_one_group_by_needs_no_tree() -> None:
    acqs = [Acq(q, TABLE_1[q].window, frozenset("A")) for q in "abc"]
    plan = gtweave(acqs, rate=10, counts=COUNTS)
    assert [g.queries for g in plan.groups] == [("a", "b", "c")]
    assert plan.costs["GTWeave"] == plan.costs["TriWeave"]


group_bys = st.sets(st.sampled_from("ABCD"), min_size=1).map(frozenset)


@st.composite
def grouped(draw: st.DrawFn) -> list[Acq]:
    predicates = st.sampled_from([None, "p", "q", "r"])
    return [Acq(f"q{i}", draw(windows()), draw(group_bys), draw(predicates)) for i in range(draw(st.integers(1, 8)))]


@st.composite
def counts(draw: st.DrawFn) -> GroupCounts:
    """Counts that grow with the attributes."""
    known: dict[Attributes, float] = {}
    for size in range(1, 5):
        for chosen in combinations("ABCD", size):
            below = max((n for k, n in known.items() if k < set(chosen)), default=1)
            known[frozenset(chosen)] = below * draw(st.floats(1, 20))
    return GroupCounts(known)


@given(st.lists(group_bys, min_size=1, max_size=8), counts(), st.floats(1, 1e7))
def test_a_tree_serves_every_group_by_and_costs_no_more_than_the_simple_ones(
    drawn: list[Attributes], known: GroupCounts, rows: float
) -> None:
    tree = group_tree(drawn, known, rows)
    assert sorted(map(sorted, (leaf for n in tree.fed for leaf in n.leaves))) == sorted(map(sorted, set(drawn)))
    assert tree.cost == pytest.approx(forest_cost(tree.fed, known, rows))
    leaves = [GroupNode(a) for a in set(drawn)]
    single = [GroupNode(frozenset().union(*drawn), tuple(leaves))] if len(leaves) > 1 else leaves
    assert tree.cost <= forest_cost(single, known, rows)
    todo = list(tree.fed)
    while todo:
        parent = todo.pop()
        assert all(c.attributes <= parent.attributes for c in parent.children)
        todo += parent.children


@given(st.lists(group_bys, min_size=1, max_size=6), counts(), st.floats(1, 1e6), st.floats(0, 1e5))
def test_a_tree_keeps_within_its_memory_and_uses_it(
    drawn: list[Attributes], known: GroupCounts, rows: float, memory: float
) -> None:
    """Without internal nodes nothing is kept, so there is always a tree that fits; it is never cheaper than a free one
    that fits as well.
    """

    def units(attributes: Attributes) -> float:
        return 2.0 + len(attributes)

    tree = group_tree(drawn, known, rows, memory, units)
    assert tree.memory == pytest.approx(forest_memory(tree.fed, known, rows, units))
    assert tree.memory <= memory
    assert sorted(map(sorted, (leaf for n in tree.fed for leaf in n.leaves))) == sorted(map(sorted, set(drawn)))
    assert tree.cost <= forest_cost([GroupNode(a) for a in set(drawn)], known, rows)
    free = group_tree(drawn, known, rows)
    if forest_memory(free.fed, known, rows, units) <= memory:
        assert tree.cost <= 2 * free.cost


def test_less_memory_gives_up_the_node_that_keeps_most() -> None:
    group_bys = [a.group_by for a in TABLE_1.values()]
    assert str(group_tree(group_bys, COUNTS, 1e6, memory=20_000)) == "ABCD(ABC(A AC BC) CD)"
    assert str(group_tree(group_bys, COUNTS, 1e6, memory=10_000)) == "ABCD(A AC BC CD)"
    assert str(group_tree(group_bys, COUNTS, 1e6, memory=3_000)) == "ABC(A AC BC) CD"
    assert str(group_tree(group_bys, COUNTS, 1e6, memory=100)) == "A AC BC CD"


@given(grouped(), counts(), st.sampled_from([0.5, 10.0, 1e4]))
def test_queries_share_only_what_tree_and_weaving_share(acqs: list[Acq], known: GroupCounts, rate: float) -> None:
    plan = gtweave(acqs, rate, known)
    assert sorted(q for g in plan.groups for q in g.queries) == sorted(a.name for a in acqs)
    level = {leaf: i for i, n in enumerate(plan.tree.first_level) for leaf in n.leaves}
    for group in plan.groups:
        assert len({level[plan.acqs[q].group_by] for q in group.queries}) == 1


def test_a_change_weaves_again_only_what_changed() -> None:
    acqs = [
        Acq(a.name, a.window, frozenset("A" if i % 2 else "B"), f"p{i % 5}")
        for i, a in enumerate(table_two(120, seed=2))
    ]
    apart = GroupCounts({frozenset("A"): 10, frozenset("B"): 10, frozenset("AB"): 100})
    old = gtweave(acqs[:-1], 1000, apart, compare=False)
    new = gtweave(acqs[5:], 1000, apart, previous=old, compare=False)
    fresh = gtweave(acqs[5:], 1000, apart)
    assert [p.changes for p in new.plans] != [0, 0]
    assert [p.changes for p in fresh.plans] == [0, 0]
    assert new.costs["GTWeave"].triops <= 1.05 * fresh.costs["GTWeave"].triops
