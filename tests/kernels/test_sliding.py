"""Final aggregation over fragments: the kernel equals its twin, is O(1) for each fragment, and may be cut anywhere."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import sliding_twin as twin
from tests.kernels.sliding_twin import Fragment
from tests.properties.effort import effort
from tidemill.plan.windows import Window
from tidemill.runtime.kernels.share.sliding import CHANGES, WHOLE, Answers, slide
from tidemill.runtime.kernels.share.sliding_folds import MAX, MIN, SUM
from tidemill.runtime.kernels.share.sliding_rows import _hash_columns, bounds_of, codes_of, combine, order

KEYS = 4
INT_KINDS, FLOAT_KINDS = (SUM, SUM, MIN, MAX), (SUM, MIN, MAX)
BIG = (1 << 63) - 1
WORDS = st.one_of(st.integers(-3, 3), st.sampled_from([BIG, -BIG - 1]))
# Multiples of 1/4 add up exactly in any order, so the twin's answers must be met to the last bit.
EXACT = st.integers(-40, 40).map(lambda n: n / 4)
DOUBLES = st.one_of(EXACT, st.sampled_from([math.inf, -math.inf, math.nan, -0.0, 0.0]))


@st.composite
def windows(draw) -> Window:
    """Tumbling, hopping, overlapping, with gaps, landmark; rows after the point or before it."""
    step = draw(st.integers(1, 6))
    after = draw(st.integers(-5, 10))
    length = draw(st.one_of(st.none(), st.integers(1, 40)))
    return Window(step, draw(st.integers(0, step - 1)), after, None if length is None else after + length)


@st.composite
def fragments(draw, doubles=DOUBLES) -> list[Fragment]:
    row = st.builds(
        Fragment,
        st.integers(0, KEYS - 1),
        st.integers(-30, 30),
        st.sampled_from([True, True, True, False]),
        st.tuples(st.integers(1, 3), WORDS, WORDS, WORDS),
        st.tuples(doubles, doubles, doubles),
    )
    return sorted(draw(st.lists(row, max_size=25)), key=lambda r: (r.key, r.start))


@st.composite
def points(draw, window: Window) -> tuple[int, int]:
    """First and last point of a run; some runs have none."""
    first = window.first_point(draw(st.integers(-50, 40)))
    return first, first + draw(st.integers(-1, 30)) * window.slide


def run(rows: list[Fragment], window: Window, first: int, last: int, mode: int) -> Answers:
    key = np.array([r.key for r in rows], np.int32)
    ints = np.array([r.ints for r in rows], np.int64).reshape(-1, 4).T.copy()
    floats = np.array([r.floats for r in rows], np.float64).reshape(-1, 3).T.copy()
    start, counted = np.array([r.start for r in rows], np.int64), np.array([r.counted for r in rows], np.bool_)
    return slide(bounds_of(key, KEYS), start, counted, ints, INT_KINDS, floats, FLOAT_KINDS, window, first, last, mode)


def listed(found: Answers) -> list[str]:
    """Rows as text, so that a NaN equals a NaN and -0 is not +0."""
    parts = zip(found.ints.T.tolist(), found.floats.T.tolist(), strict=True)
    rows = zip(found.point.tolist(), found.key.tolist(), found.diff.tolist(), parts, strict=True)
    return [repr((p, k, d, (tuple(i), tuple(f)))) for p, k, d, (i, f) in rows]


@effort(400)
@given(st.data(), fragments(), windows())
def test_whole_answers_equal_the_twin(data, rows, window):
    first, last = data.draw(points(window))
    expected = twin.whole(rows, KEYS, window, first, last, INT_KINDS, FLOAT_KINDS)
    assert listed(run(rows, window, first, last, WHOLE)) == [repr(r) for r in expected]


@effort(400)
@given(st.data(), fragments(), windows())
def test_changes_equal_the_twin(data, rows, window):
    first, last = data.draw(points(window))
    expected = twin.changes(rows, KEYS, window, first, last, INT_KINDS, FLOAT_KINDS)
    assert listed(run(rows, window, first, last, CHANGES)) == [repr(r) for r in expected]


@effort(200)
@given(st.data(), fragments(st.floats()), windows(), st.sampled_from([WHOLE, CHANGES]))
def test_points_may_be_cut_anywhere_to_the_last_bit(data, rows, window, mode):
    """Any doubles; the second run has lost every fragment that it can no longer see."""
    first, last = data.draw(points(window))
    cut = first + data.draw(st.integers(0, 30)) * window.slide
    needed = cut - window.slide
    kept = [r for r in rows if window.until is None or r.start + window.until > needed]
    before = listed(run(rows, window, first, min(cut - window.slide, last), mode))
    after = listed(run(kept, window, cut, last, mode)) if cut <= last else []
    assert sorted(before + after) == sorted(listed(run(rows, window, first, last, mode)))


def test_float_sums_are_the_exact_sums_rounded_once():
    rng = np.random.default_rng(7)
    values = rng.normal(size=2000) * 10.0 ** rng.integers(-6, 6, 2000)
    found = slide(
        np.array([0, 2000]),
        np.arange(2000),
        None,
        np.ones((1, 2000), np.int64),
        [SUM],
        [values],
        [SUM],
        Window(1, 0, 1, 51),
        1,
        2050,
        WHOLE,
    )
    assert found.floats[0].tolist() == [math.fsum(values[max(p - 50, 0) : p]) for p in range(1, 2050)]


def test_an_infinity_leaves_the_window_with_its_row():
    start = np.arange(0, 60, 10)
    values = np.array([1.0, math.inf, 2.0, 3.0, 4.0, 5.0])
    counts = np.ones((1, 6), np.int64)
    found = slide(np.array([0, 6]), start, None, counts, [SUM], [values], [SUM], Window(10, 0, 1, 21), 10, 60, WHOLE)
    assert found.floats[0].tolist() == [1.0, math.inf, math.inf, 5.0, 7.0, 9.0]


def test_a_cancelled_giant_leaves_nothing_behind():
    values = np.array([[0.1, 1e300, -1e300, 0.2]])
    found = slide(
        np.array([0, 4]),
        np.arange(4),
        None,
        np.ones((1, 4), np.int64),
        [SUM],
        values,
        [SUM],
        Window(1, 0, 1, 4),
        3,
        5,
        WHOLE,
    )
    assert found.floats[0].tolist() == [0.1, 0.2, -1e300 + 0.2]


def test_a_nan_that_replaces_a_nan_is_no_change():
    """One of either sign, and one from ∞ − ∞: three different bit patterns."""
    values = np.array([math.nan, -math.nan, math.inf, -math.inf])
    assert np.signbit(values).tolist() == [False, True, False, True]
    bounds, start, counts = np.array([0, 4]), np.array([0, 10, 20, 21]), np.array([[2, 2, 1, 1]])
    for kind, ends in ((SUM, [10, 40]), (MAX, [10, 30, 30, 40])):
        found = slide(bounds, start, None, counts, [SUM], [values], [kind], Window(10, 0, 1, 11), 10, 40, CHANGES)
        assert found.point.tolist() == ends


def test_the_last_point_is_rounded_down_to_a_point():
    landmark = Window(10, 0, 1, None)
    found = slide(np.array([0, 1]), np.array([0]), None, np.array([[1]]), [SUM], [], [], landmark, 10, 39, WHOLE)
    assert found.point.tolist() == [10, 20, 30]


def test_a_cut_meets_the_same_double_where_the_two_folds_differ():
    """Too much cancellation even for doubled precision: forwards the sum is 1, backwards 0, and no cut may mix them."""
    values = np.array([[1e200, 1e100, -1e100, -1e200, 1.0]])
    counts, start, bounds, window = np.ones((1, 5), np.int64), np.arange(3, 8), np.array([0, 5]), Window(1, 0, 1, 11)

    def between(first: int, last: int) -> list[str]:
        return listed(slide(bounds, start, None, counts, [SUM], values, [SUM], window, first, last, CHANGES))

    whole = between(0, 20)
    assert any("(1.0,)" in row for row in whole) and any("(0.0,)" in row for row in whole)
    for cut in range(1, 20):
        assert between(0, cut) + between(cut + 1, 20) == whole


def test_columns_of_arrow_are_read_in_place():
    """Arrow lends its buffers read-only."""
    columns = [pa.array(c).to_numpy() for c in ([0, 3], [0, 10, 20], [1, 2, 4])]
    assert not any(c.flags.writeable for c in columns)
    bounds, start, counts = columns
    floats = [pa.array([1.0, 2.0, 4.0]).to_numpy()] * 2
    window = Window(10, 0, 1, 21)
    found = slide(bounds, start, None, [counts, counts], [SUM, MAX], floats, [SUM, MIN], window, 30, 30, WHOLE)
    assert found.ints.tolist() == [[6], [4]] and found.floats.tolist() == [[6.0], [2.0]]
    assert codes_of([start, counts])[0].tolist() == [0, 1, 2]
    merged = combine([start, start], [counts, counts], [SUM, MIN], floats, [SUM, MAX])
    assert merged.ints.tolist() == [[1, 2, 4]] * 2 and merged.floats.tolist() == [[1.0, 2.0, 4.0]] * 2


@pytest.mark.parametrize("mode", [WHOLE, CHANGES])
@pytest.mark.parametrize("overlap", [1, 2, 3, 10, 100, 1000])
def test_work_for_a_fragment_does_not_depend_on_the_overlap(overlap, mode):
    rng = np.random.default_rng(overlap)
    keys, each = 3, 3000
    start = np.tile(np.arange(each), keys)
    # Falling values make a least-so-far useless: each newcomer replaces all of them.
    ints = np.stack([np.ones(keys * each, np.int64), -start, rng.integers(-9, 9, keys * each)])
    floats = rng.normal(size=(2, keys * each))
    found = slide(
        np.arange(keys + 1) * each,
        start,
        None,
        ints,
        [SUM, MIN, MAX],
        floats,
        [SUM, MAX],
        Window(1, 0, 1, 1 + overlap),
        0,
        each + overlap,
        mode,
    )
    assert len(found.point) >= keys * each
    assert found.operations <= 5 * 3 * (keys * each + len(found.point))


def test_empty_stretches_and_unchanged_answers_cost_nothing():
    """Two fragments a trillion points apart, one that stays for a trillion points: a handful of operations."""
    far = 10**12
    bounds, start, counts = np.array([0, 2]), np.array([0, far]), np.array([[1, 2]])
    gap = slide(bounds, start, None, counts, [SUM], [], [], Window(1, 0, 1, 6), 0, 2 * far, WHOLE)
    assert gap.point.tolist() == [1, 2, 3, 4, 5, *range(far + 1, far + 6)]
    stay = slide(bounds, start, None, counts, [SUM], [], [], Window(1, 0, 1, None), 0, 2 * far, CHANGES)
    assert list(zip(stay.point.tolist(), stay.diff.tolist(), stay.ints[0].tolist(), strict=True)) == [
        (1, 1, 1),
        (far + 1, -1, 1),
        (far + 1, 1, 3),
    ]
    assert gap.operations + stay.operations <= 10


@effort(200)
@given(st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(-20, 20)), max_size=80))
def test_order_is_the_stable_sort_by_key_and_start(rows):
    key = np.array([r[0] for r in rows], np.int32)
    start = np.array([r[1] for r in rows], np.int64)
    permutation, bounds = order(key, start, KEYS)
    assert permutation.tolist() == np.lexsort((start, key)).tolist()
    assert bounds.tolist() == bounds_of(np.sort(key), KEYS).tolist()


@effort(200)
@given(st.lists(st.tuples(WORDS, st.integers(0, 2), WORDS), max_size=80), st.integers(1, 3))
def test_equal_rows_have_equal_codes_in_order_of_appearance(rows, width):
    columns = [np.array([r[c] for r in rows], np.int64) for c in range(width)]
    codes, first = codes_of(columns)
    seen: dict[tuple, int] = {}
    expected = [seen.setdefault(r[:width], len(seen)) for r in rows]
    assert codes.tolist() == expected
    assert first.tolist() == [expected.index(c) for c in range(len(seen))]


def test_codes_survive_a_growing_table():
    values = np.random.default_rng(1).integers(-BIG, BIG, 50_000)
    rows = np.concatenate([values, values[::-1]])
    codes, first = codes_of([rows, rows >> 7])
    assert codes.tolist() == [*range(50_000), *reversed(range(50_000))]
    assert first.tolist() == list(range(50_000))


def test_different_rows_with_one_hash_get_different_codes():
    """The second column makes up for the difference that the first has made to the hash."""
    first = np.array([1, 2])
    second = _hash_columns([first], 0).view(np.int64)
    assert _hash_columns([first, second], 0)[0] == _hash_columns([first, second], 0)[1]
    assert codes_of([first, second])[0].tolist() == [0, 1]
    merged = combine([np.zeros(2, np.int64), np.zeros(2, np.int64), first, second], [first], [SUM], [], [])
    assert merged.ints.tolist() == [[1, 2]]


def test_many_signatures_of_one_fragment_combine_by_hash():
    words = np.tile(np.arange(100), 3)
    zeros = np.zeros(300, np.int64)
    merged = combine([zeros, zeros, words], [np.ones(300, np.int64)], [SUM], [], [])
    assert merged.ints.tolist() == [[3] * 100]


@effort(200)
@given(fragments().flatmap(lambda rows: st.one_of(st.just(rows), st.permutations(rows))))
def test_combined_rows_hold_the_parts_of_all_equal_rows(rows):
    ints = np.array([r.ints for r in rows], np.int64).reshape(-1, 4).T.copy()
    floats = np.array([r.floats for r in rows], np.float64).reshape(-1, 3).T.copy()
    identity = [
        np.array([f(r) for r in rows], np.int64) for f in (lambda r: r.key, lambda r: r.start, lambda r: int(r.counted))
    ]
    merged = combine(identity, ints, INT_KINDS, floats, FLOAT_KINDS)
    groups: dict[tuple, list[Fragment]] = {}
    for r in rows:
        groups.setdefault((r.key, r.start, r.counted), []).append(r)
    assert [(rows[i].key, rows[i].start, rows[i].counted) for i in merged.first.tolist()] == list(groups)
    found = zip(merged.ints.T.tolist(), merged.floats.T.tolist(), strict=True)
    expected = [twin.combined(g, INT_KINDS, FLOAT_KINDS) for g in groups.values()]
    assert [repr((tuple(i), tuple(f))) for i, f in found] == [repr(e) for e in expected]
