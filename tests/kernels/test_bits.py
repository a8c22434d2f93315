"""Rows by the bits of their words, against looking at every row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.runtime.kernels.share.bits import NEVER, RowsByBit, least_by_bit


@effort(80)
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(0, 60),
    one_in=st.sampled_from([1, 2, 4]),
    density=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
)
def test_rows_with_a_bit_are_found_in_order(seed, rows, one_in, density):
    chance = np.random.default_rng(seed)
    has = chance.random((rows, 128)) < density
    words = np.packbits(has, axis=1, bitorder="little").view(np.int64).reshape(rows, 2)
    found = RowsByBit({3: np.ascontiguousarray(words[:, 0]), 7: np.ascontiguousarray(words[:, 1])}, one_in)
    for i, number in enumerate((3, 7)):
        for b in range(64):
            expected = np.flatnonzero(has[:, 64 * i + b])
            rows_of = found.of(64 * number + b)
            assert (rows_of is None) == (len(expected) > rows // one_in)
            assert rows_of is None or rows_of.tolist() == expected.tolist()


@pytest.mark.parametrize("bit", [0, 1, 31, 63])
def test_every_bit_has_its_place(bit):
    word = np.array([1 << bit, 0], np.uint64).view(np.int64)
    assert RowsByBit({0: word}, 1).of(bit).tolist() == [0]


@effort(50)
@given(seed=st.integers(0, 2**32), rows=st.integers(0, 30), density=st.sampled_from([0.02, 0.5]))
def test_least_values_by_bit(seed, rows, density):
    chance = np.random.default_rng(seed)
    has, values = chance.random((rows, 64)) < density, chance.integers(-99, 99, rows)
    word = np.packbits(has, axis=1, bitorder="little").view(np.int64).reshape(rows)
    assert least_by_bit(word, values).tolist() == [min(values[has[:, b]].tolist(), default=NEVER) for b in range(64)]
