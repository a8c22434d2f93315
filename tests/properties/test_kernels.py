"""Each numba kernel equals its slow twin."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.runtime.kernels.grouping.extremes import slide_extremes


def extremes_twin(moves):
    """Least and greatest live slot of the key after each move."""
    held: dict[int, dict[int, int]] = {}
    found = []
    for key, slot, change in moves:
        counts = held.setdefault(key, {})
        counts[slot] = counts.get(slot, 0) + change
        live = [s for s, n in counts.items() if n > 0]
        found.append((min(live, default=-1), max(live, default=-1)))
    return found


@st.composite
def moves(draw):
    """Moves sorted by key; the slots of key k are the range [5k, 5k + 4]."""
    move = st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([-2, -1, 1, 1, 2]))
    drawn = draw(st.lists(move, max_size=60))
    return [(key, 5 * key + slot, change) for key, slot, change in sorted(drawn, key=lambda m: m[0])]


@effort(150)
@given(moves())
def test_slide_extremes_equals_its_twin(given_moves):
    key, slot, change = (np.array([m[i] for m in given_moves], np.int64) for i in range(3))
    first = np.arange(4, dtype=np.int64) * 5
    least, most = np.empty(len(key), np.int64), np.empty(len(key), np.int64)
    slide_extremes(key, slot, change, first, first + 4, np.zeros(20, np.int64), least, most)
    assert list(zip(least.tolist(), most.tolist(), strict=True)) == extremes_twin(given_moves)
