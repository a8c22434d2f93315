"""Predicate signatures and their index (paper 003, section IV)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.share.weaving_drawn import windows
from tidemill.optimize.share.weaving import Acq, Signatures, sliding, triweave, unshared
from tidemill.optimize.share.weaving.inverted import InvertedSignatures, Wanted
from tidemill.optimize.share.weaving.plans import WeavePlan, weaved_group
from tidemill.optimize.share.weaving.signatures import split_words
from tidemill.plan.windows import Window

A, B = Acq("a", sliding(8, 5), predicate="ca"), Acq("b", sliding(5, 4), predicate="cb")


def wanted(acqs: list[Acq], bits: Signatures) -> Wanted:
    masks = {a.name: None if a.predicate is None else 1 << bits.bits[a.predicate] for a in acqs}
    return {n: (lambda s, m=mask: m is None or bool(s & m)) for n, mask in masks.items()}


def nodes(index: InvertedSignatures) -> dict[int, list[tuple[int, float, int]]]:
    return {s: [(n.time, n.value, n.references) for n in found] for s, found in index.entries.items()}


def test_example_3() -> None:
    bits = Signatures()
    bits.add("cb")
    bits.add("ca")  # the most significant bit
    index = InvertedSignatures(unshared([A, B], 1).mapping, wanted([A, B], bits))
    for time, signature, value in ((0, 0b01, 5), (0, 0b10, 2), (0, 0b11, 4), (1, 0b11, 1), (2, 0b01, 7), (2, 0b11, 3)):
        index.add(time, signature, value)
    index.add(0, 0b00, 99)
    assert nodes(index) == {0b01: [(1, 5, 1), (3, 7, 1)], 0b10: [(1, 2, 1)], 0b11: [(1, 4, 2), (3, 4, 2)]}
    assert index.due(1) == {1: {0b01: 5, 0b11: 4}}
    # q_b has consumed its fragment of signature 01; those of 11 still wait for q_a.
    assert nodes(index) == {0b01: [(3, 7, 1)], 0b10: [(1, 2, 1)], 0b11: [(1, 4, 1), (3, 4, 2)]}
    index.add(4, 0b11, 6)
    assert index.due(3) == {0: {0b10: 2, 0b11: 8}}
    assert nodes(index) == {0b01: [(3, 7, 1)], 0b11: [(3, 4, 1), (5, 6, 2)]}
    assert index.due(4) == {1: {0b01: 7, 0b11: 4}}
    assert nodes(index) == {0b11: [(5, 6, 2)]}


def test_dropping_the_top_predicate_halves_the_index() -> None:
    bits = Signatures()
    for acq in (B, A):
        bits.add(acq.predicate or "")
    index = InvertedSignatures(unshared([A, B], 1).mapping, wanted([A, B], bits))
    for signature in (0b01, 0b10, 0b11):
        index.add(0, signature, signature)
    assert bits.drop("ca")
    assert bits.width == 1
    index.switch(unshared([B], 1).mapping, wanted([B], bits), bits.mask)
    assert nodes(index) == {0b1: [(1, 0b01 + 0b11, 1)]}


def test_another_bit_is_free_once_it_has_drained() -> None:
    bits = Signatures()
    for acq in (B, A):
        bits.add(acq.predicate or "")
    index = InvertedSignatures(unshared([A, B], 1).mapping, wanted([A, B], bits))
    index.add(0, 0b11, 1)
    assert not bits.drop("cb")
    index.switch(unshared([A], 1).mapping, wanted([A], bits), 0b11)
    assert index.carries(0)
    assert bits.add("cx") == 2
    assert index.due(3) == {0: {0b11: 1}}
    assert not index.carries(0)
    bits.drained(0)
    assert bits.add("cy") == 0


def test_a_holder_that_cannot_fold_retires_the_top_bit() -> None:
    bits = Signatures()
    bits.add("p")
    bits.add("q")
    assert not bits.drop("q", folds=False)
    assert (bits.width, bits.retired) == (2, {1})
    bits.drained(1)
    assert bits.width == 1


def test_more_than_64_predicates() -> None:
    bits = Signatures()
    found = [bits.add(f"p{i}") for i in range(200)]
    assert found == list(range(200))
    assert bits.words == 4
    assert split_words(bits.signature(["p0", "p64", "p199"]), bits.words) == (1, 1, 0, 1 << 199 - 192)


@given(st.lists(st.tuples(st.sampled_from("pqrstu"), st.sampled_from(["add", "drop", "drain"])), max_size=60))
def test_no_two_predicates_have_the_same_bit(script: list[tuple[str, str]]) -> None:
    bits = Signatures()
    before: dict[str, int] = {}
    for predicate, action in script:
        if action == "add":
            bits.add(predicate)
        elif action == "drop" and predicate in bits.bits:
            bits.drop(predicate)
        elif action == "drain" and bits.retired:
            bits.drained(min(bits.retired))
        given_bits = list(bits.bits.values())
        assert len(set(given_bits) | bits.retired | bits.free) == len(given_bits) + len(bits.retired) + len(bits.free)
        assert all(bit < bits.width for bit in given_bits)
        assert all(bits.bits[p] == bit for p, bit in before.items() if p in bits.bits and bits.users[p])
        before = dict(bits.bits)


def answer(acq: Acq, point: int, fragments: list[tuple[int, int, dict[int, float]]], takes) -> float:
    """Final aggregation: the group's fragments [begin, end) inside the window, of the signatures the query takes."""
    first, last = acq.window.begin(point), acq.window.end(point)
    return sum(
        value
        for begin, end, by_signature in fragments
        if (first is None or begin >= first) and end <= last
        for signature, value in by_signature.items()
        if takes(signature)
    )


def run(plan: WeavePlan, acqs: list[Acq], rows: list[tuple[int, int]], bits: Signatures, until: int):
    """Sub-aggregation and intercede up to an edge: for each group its fragments."""
    takes = wanted(acqs, bits)
    index = InvertedSignatures(plan.mapping, takes)
    fragments: dict[int, list[tuple[int, int, dict[int, float]]]] = {g: [] for g in range(len(plan.groups))}
    waiting = sorted(rows)
    for time in range(until + 1):
        for group, found in index.due(time).items():
            fragments[group].append((plan.mapping.edge_before(group, time), time, found))
        while waiting and waiting[0][0] == time:
            index.add(*waiting.pop(0), 1)
    return fragments, takes


@given(
    st.lists(st.tuples(windows(6), st.sampled_from([None, "p", "q", "r"])), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 25), st.integers(0, 7)), max_size=25),
    st.sampled_from(["triweave", "unshared", "split"]),
)
def test_three_levels_answer_every_query(
    drawn: list[tuple[Window, str | None]], rows: list[tuple[int, int]], kind: str
) -> None:
    acqs = [Acq(f"q{i}", window, predicate=predicate) for i, (window, predicate) in enumerate(drawn)]
    bits = Signatures()
    for predicate in "pqr":
        bits.add(predicate)
    plan = unshared(acqs, 1) if kind == "unshared" else triweave(acqs, 1)
    if kind == "split":
        halves = [part for part in (acqs[::2], acqs[1::2]) if part]
        plan = WeavePlan(plan.acqs, tuple(map(weaved_group, halves)), plan.edges, plan.edge_rate, 1)
    fragments, takes = run(plan, acqs, rows, bits, until=40)
    for acq in acqs:
        for point in range(40):
            if (point - acq.window.offset) % acq.window.slide or acq.window.end(point) > 40:
                continue
            begin = acq.window.begin(point)
            expected = sum(
                takes[acq.name](signature)
                for time, signature in rows
                if (begin is None or begin <= time) and time < acq.window.end(point)
            )
            assert answer(acq, point, fragments[plan.mapping.group_of(acq.name)], takes[acq.name]) == expected


def test_dropping_twice_is_an_error() -> None:
    bits = Signatures()
    bits.add("p")
    bits.drop("p")
    with pytest.raises(KeyError):
        bits.drop("p")
