"""Sketches count groups within their standard error, and merging them is sketching all rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.runtime.kernels.share.sketch import estimate, merge, sketch


def rows_of(groups: int, rows: int, seed: int) -> np.ndarray:
    """Three coded attributes of `rows` random rows; exactly `groups` groups of the first two."""
    rng = np.random.default_rng(seed)
    numbers = np.concatenate([np.arange(groups), rng.integers(0, groups, max(rows - groups, 0))])
    side = math.isqrt(groups) + 1
    return np.stack([numbers % side, numbers // side, rng.integers(0, 9, len(numbers))])


@pytest.mark.parametrize("groups", [1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000])
def test_estimates_are_within_three_percent(groups):
    for seed in range(3):
        found = estimate(sketch(rows_of(groups, 2 * groups, seed), [seed % 2, 1 - seed % 2]))
        assert abs(found / groups - 1) < 0.03


@pytest.mark.parametrize("p", [8, 10, 12])
def test_error_is_as_announced_and_without_bias(p):
    """Over many numbers of groups the relative errors have mean 0 and deviation 1.04 / 2^(p/2), by four deviations."""
    announced, trials = 1.04 / 2 ** (p / 2), 200
    sizes = np.geomspace(2**p / 4, 2**p * 30, trials).astype(int)
    blocks = [np.arange(n) + (i << 40) for i, n in enumerate(sizes)]
    errors = np.array([estimate(sketch([block], [0], p)) / len(block) - 1 for block in blocks])
    assert abs(errors.mean()) < 4 * announced / math.sqrt(trials)
    assert math.sqrt((errors**2).mean()) < announced * (1 + 4 / math.sqrt(2 * trials))


@pytest.mark.parametrize("groups", [0, 1, 2, 5, 20, 50])
def test_few_groups_are_counted_almost_exactly(groups):
    assert abs(estimate(sketch([np.arange(groups)], [0])) - groups) < 1


@effort(100)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 5)), max_size=40), st.integers(0, 40))
def test_merging_is_sketching_all_rows(rows, cut):
    both = np.array(rows, np.int64).reshape(-1, 2).T
    merged = merge(sketch(both[:, :cut], [1, 0], 6), sketch(both[:, cut:], [1, 0], 6))
    assert merged.tolist() == sketch(both, [1, 0], 6).tolist()


def test_only_the_chosen_attributes_count():
    rows = rows_of(5000, 20_000, seed=1)
    assert sketch(rows, [0, 1]).tolist() == sketch([rows[0].astype(np.int32), rows[1]], [0, 1]).tolist()
    assert abs(estimate(sketch(rows, [2])) - 9) < 1
    assert abs(estimate(sketch(rows, [])) - 1) < 0.1


def test_no_rows_are_no_groups():
    assert estimate(sketch(np.empty((2, 0), np.int64), [0, 1])) == 0


def test_sizes_must_fit():
    with pytest.raises(ValueError, match="registers"):
        sketch([np.arange(3)], [0], 3)
    with pytest.raises(ValueError, match="one size"):
        merge(np.zeros(16, np.uint8), np.zeros(32, np.uint8))
