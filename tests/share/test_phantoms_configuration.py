"""Notation, feeding graph and enumeration of configurations (paper 002, sections 2.6 and 3.1)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given

from tests.properties.effort import effort
from tests.share.phantoms_drawn import LONG, configurations, queries
from tidemill.optimize.share.phantoms.configuration import Configuration, Relation, relation, relations
from tidemill.optimize.share.phantoms.enumeration import all_configurations
from tidemill.optimize.share.phantoms.feeding import CANDIDATES, FeedingGraph, assemble, candidate_sets


def _size(r: Relation) -> float:
    return len(r.attributes)


FIGURE_3 = ("ABC(AB BC) BD CD", "AB BCD(BC BD CD)", "ABCD(AB BCD(BC BD CD))")
PRINTED = (
    *FIGURE_3,
    "AB(A B)",
    "ABCD(AB(A B) CD(C D))",
    "ABCD(AC(A C) BD(B D))",
    "ABC(AC(A C) B)",
    "ABCD(ABC(AB BC) BD CD)",
    "dip·dp·sip·sp(dip·sip dp)",
    "AB(AB#1 AB#2)",
    "AB!(A B#3) C",
    "∅",
)


@pytest.mark.parametrize("text", PRINTED)
def test_the_papers_notation_is_read_and_printed(text: str) -> None:
    assert str(Configuration.parse(text)) == text


@effort(200)
@given(configurations(names=LONG))
def test_reading_what_was_printed_gives_the_same_configuration(configuration: Configuration) -> None:
    assert Configuration.parse(str(configuration)) == configuration


@pytest.mark.parametrize("text", ["AB(A B", "AB A)", "(A)", "A(B)", "AB(A A)", "AB#1(A)", "A(A)"])
def test_what_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Configuration.parse(text)


def test_the_configuration_of_figure_3c() -> None:
    c = Configuration.parse("ABCD(AB BCD(BC BD CD))")
    assert [str(c.relations[i]) for i in c.raw] == ["ABCD"]
    assert [str(c.relations[i]) for i in c.leaves] == ["AB", "BC", "BD", "CD"]
    assert c.ancestors(relation("BD")) == relations("BCD ABCD")
    assert c.descendants(relation("BCD")) == relations("BC BD CD")
    assert c.feeder(relation("ABCD")) is None and c.depth(relation("CD")) == 3
    assert c.phantoms == relations("ABCD BCD")
    assert c.answered[c.position[relation("BCD")]] == frozenset(relations("BC BD CD"))


def test_raw_relations_of_figure_3a() -> None:
    c = Configuration.parse("ABC(AB BC) BD CD")
    assert [str(c.relations[i]) for i in c.raw] == ["ABC", "BD", "CD"]


def test_a_query_that_feeds_is_answered_by_itself() -> None:
    c = Configuration.parse("AB!(A B)")
    assert c.phantoms == () and c.answered[0] == frozenset(relations("AB A B"))
    assert Configuration.parse("AB(A B)").answered[0] == frozenset(relations("A B"))


def test_the_feeding_graph_of_figure_4() -> None:
    graph = FeedingGraph.of(relations("AB BC BD CD"))
    assert graph.phantoms == relations("ABC ABD BCD ABCD")
    assert {(str(a), str(b)) for a, b in graph.edges} == {
        ("ABC", "AB"), ("ABC", "BC"), ("ABD", "AB"), ("ABD", "BD"), ("BCD", "BC"), ("BCD", "BD"), ("BCD", "CD"),
        ("ABCD", "ABC"), ("ABCD", "ABD"), ("ABCD", "BCD"),
    }  # fmt: skip


def test_the_feeding_graph_of_figure_14() -> None:
    assert FeedingGraph.of(relations("A B C")).phantoms == relations("AB AC BC ABC")


def test_leaves_of_several_weaved_groups_can_share_a_phantom_of_the_same_attributes() -> None:
    graph = FeedingGraph.of(relations("AB#1 AB#2"))
    assert graph.phantoms == relations("AB")
    assert str(assemble(graph.queries, graph.candidates, _size)) == "AB(AB#1 AB#2)"


def test_a_query_is_a_candidate_to_feed_another_query() -> None:
    graph = FeedingGraph.of(relations("AB A"))
    assert graph.phantoms == () and graph.candidates == relations("AB")


@effort(100)
@given(queries())
def test_candidates_are_the_unions_of_two_or_more_queries(asked: list[Relation]) -> None:
    unions = set()
    for chosen in product([False, True], repeat=len(asked)):
        members = [q.attributes for q, taken in zip(asked, chosen, strict=True) if taken]
        if len(members) > 1:
            unions.add(frozenset().union(*members))
    assert {r.attributes for r in FeedingGraph.of(asked).candidates} == unions


def test_many_queries_have_a_bounded_number_of_candidates() -> None:
    letters = [chr(ord("A") + i) for i in range(20)]
    sets = [frozenset({a, b}) for a in letters for b in letters if a < b]
    found = candidate_sets(sets)
    assert len(found) == CANDIDATES and frozenset(letters) in found


@effort(100)
@given(queries(), queries(most=4))
def test_a_phantom_feeds_at_least_two_relations(asked: list[Relation], feeders: list[Relation]) -> None:
    c = assemble(asked, feeders, _size)
    assert set(c.queries) == set(asked)
    assert all(len(c.children[c.position[p]]) > 1 for p in c.phantoms)


@pytest.mark.parametrize(("text", "count"), [("A", 1), ("A B", 2), ("A B C", 8), ("A B C D", 52), ("A B C D E", 472)])
def test_disjoint_queries_have_as_many_configurations_as_phylogenetic_forests(text: str, count: int) -> None:
    assert len(all_configurations(relations(text))) == count


def test_figure_3_is_among_all_configurations() -> None:
    assert {Configuration.parse(t) for t in FIGURE_3} <= set(all_configurations(relations("AB BC BD CD")))


@effort(30)
@given(queries(most=4))
def test_every_enumerated_configuration_is_the_union_of_what_it_feeds(asked: list[Relation]) -> None:
    for c in all_configurations(asked):
        assert set(c.queries) == set(asked)
        for i, below in enumerate(c.children):
            fed = frozenset().union(*(c.relations[j].attributes for j in below))
            assert not below or c.emits[i] or fed == c.relations[i].attributes


def test_too_many_queries_for_enumeration_are_refused() -> None:
    with pytest.raises(ValueError, match="limit"):
        all_configurations(relations("A B C D E F G H"))
