"""The algorithms of paper 001, line by line: all six find the same rows, and where the text as printed fails."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.sites.twins import COUNT_BYTES, TWINS, Item, MultiWay, Step, Stream, Wire, run_sequences
from tests.sites.twins.algorithms import SMS2

TAU, DELTA = 10, 8
EDGES = {"chain": [(0, 1), (1, 2)], "star": [(0, 1), (0, 2)], "cycle": [(0, 1), (1, 2), (0, 2)]}


@st.composite
def streams_of(draw, number, edges=1, most=10):
    times = sorted(draw(st.lists(st.integers(1, 60), max_size=most)))
    items = [
        Item(t, ((number, i),), ((number, tuple(draw(st.integers(0, 2)) for _ in range(edges))),), 100)
        for i, t in enumerate(times)
    ]
    return Stream(number, items, draw(st.integers(1, 40)), 100, 5)


def brute_force(streams, edges, head):
    """All rows in which a tuple of the head stream meets tuples of all others in their windows before it."""
    found = []

    def extend(row, left):
        if not left:
            found.append(frozenset(row.members))
            return
        k = left[0]
        for s in streams[k].tuples:
            near = [(e, a if b == k else b) for e, (a, b) in enumerate(edges) if k in (a, b)]
            done = [(e, o) for e, o in near if o == head or o not in left]
            if row.ts - streams[k].window <= s.ts < row.ts and all(row.value(o, e) == s.value(k, e) for e, o in done):
                extend(row.joined(s), left[1:])

    for s in streams[head].tuples:
        extend(s, [k for k in range(len(streams)) if k != head])
    return sorted(found, key=sorted)


def rows_of(items):
    return sorted((frozenset(i.members) for i in items), key=sorted)


@effort(60)
@given(first=streams_of(0), second=streams_of(1))
def test_all_six_find_what_a_nested_loop_finds(first, second):
    expected = brute_force([first, second], [(0, 1)], 0)
    for name in TWINS:
        join = MultiWay(Wire(), [first, second], [(0, 1)], 0, [Step(1, name)], DELTA + TAU)
        assert rows_of(run_sequences([join], 120, TAU)) == expected, name


@effort(40)
@given(
    streams=st.tuples(*(streams_of(i, 3, 6) for i in range(3))),
    shape=st.sampled_from(sorted(EDGES)),
    names=st.lists(st.sampled_from(sorted(TWINS)), min_size=6, max_size=6),
    turn=st.integers(0, 1),
)
def test_sequences_of_any_order_and_algorithm_find_the_same(streams, shape, names, turn):
    edges, sequences, expected = EDGES[shape], [], []
    for head in range(3):
        orders = [o for o in permutations({0, 1, 2} - {head}) if _connected(edges, head, o)]
        order = orders[turn % len(orders)]
        steps = [Step(k, names[2 * head + i]) for i, k in enumerate(order)]
        sequences.append(MultiWay(Wire(), streams, edges, head, steps, DELTA + TAU))
        expected += brute_force(streams, edges, head)
    assert rows_of(run_sequences(sequences, 120, TAU)) == sorted(expected, key=sorted)


def _connected(edges, head, order):
    done = {head}
    for k in order:
        if not any({a, b} & done and k in (a, b) for a, b in edges):
            return False
        done.add(k)
    return True


def _item(number, index, ts, value):
    return Item(ts, ((number, index),), ((number, (value,)),), 100)


def test_example_4_updates_v2_and_m2_as_figure_5_shows():
    c, a, e, d, f = range(5)
    wire = Wire()
    twin = SMS2(wire, 0, 1, 1000, 0, lambda i: i.value(0), lambda i: i.value(1), 5, 5)
    cy, ax, ay, eu = (_item(1, n, t, j) for n, (t, j) in enumerate([(1, c), (2, a), (990, a), (995, e)]))
    twin.destination(1000, [cy, ax, ay, eu])
    twin.source(1000, [_item(0, 0, 1000, c), _item(0, 1, 1000, a)])  # fetches the tuples of c and a
    assert [x.full for x in twin.m2.values()] == [[cy], [ax, ay], None]
    wire.bytes.clear()
    dx, az, fw = (_item(1, n, 1500, j) for n, j in ((4, d), (5, a), (6, f)))
    twin.destination(1500, [dx, az, fw])  # c's tuple and a's first one expire
    # v_C has five counts (c's is 0), v_J the values d and f, s_F the tuple of a.
    assert wire.bytes == {(1, 0, "vC vJ sF"): 5 * COUNT_BYTES + 2 * 5 + 100}
    assert {j: x.full for j, x in twin.m2.items()} == {a: [ay, az], e: None, d: None, f: None}
    assert {j: (x.count, x.sent) for j, x in twin.v2.items()} == {
        a: (2, True),
        e: (1, False),
        d: (1, False),
        f: (1, False),
    }


def test_a_tuple_is_shipped_once():
    first = Stream(0, [_item(0, i, 5 + 10 * i, 1) for i in range(9)], 50, 100, 5)
    second = Stream(1, [_item(1, 0, 1, 1)], 100, 100, 5)
    for name in ("SM-S1", "SM-S2", "SP-S"):
        wire = Wire()
        run_sequences([MultiWay(wire, [first, second], [(0, 1)], 0, [Step(1, name)], DELTA + TAU)], 90, TAU)
        assert sum(n for (*_, what), n in wire.bytes.items() if what in ("dW2'", "B2")) == 100


# ---- faults of the text as printed ---------------------------------------------------------------


@pytest.mark.parametrize("name", TWINS)
def test_tuples_of_equal_time_never_pair(name):
    """s2.ts < s1.ts in one direction and s1.ts < s2.ts in the other."""
    streams = [Stream(i, [_item(i, 0, 5, 1)], 50, 100, 5) for i in range(2)]
    joins = [MultiWay(Wire(), streams, [(0, 1)], h, [Step(1 - h, name)], DELTA + TAU) for h in range(2)]
    assert run_sequences(joins, 60, TAU) == []


@pytest.mark.parametrize("name", TWINS)
def test_removals_delayed_by_delta_alone_lose_pairs_of_batches(name):
    """A tuple may be τ old when it probes: with δ < τ, as in all of the paper's experiments, its partner has gone."""
    first, second = Stream(0, [_item(0, 0, 51, 1)], 40, 100, 5), Stream(1, [_item(1, 0, 11, 1)], 40, 100, 5)

    def found(grace):
        join = MultiWay(Wire(), [first, second], [(0, 1)], 0, [Step(1, name)], grace)
        return len(run_sequences([join], 80, TAU))

    assert found(DELTA + TAU) == 1
    assert found(DELTA) == 0


def test_line_36_of_algorithm_9_removes_a_negative_number_of_tuples():
    """A partial entry has c = 0 and no new full tuples, and p >= 1 tuples in W2: k = c + q - p < 0."""
    c, q, p = 0, 0, 1
    assert c + q - p < 0
