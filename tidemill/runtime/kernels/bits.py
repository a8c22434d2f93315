"""Truth values of many predicates as words: one bit for each predicate and row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import int64, njit, types, uint8


def packed(truths: Sequence[np.ndarray]) -> np.ndarray:
    """word[i] has bit b where truths[b][i] holds; at most 64 predicates. O(predicates · rows).

    >>> packed([np.array([True, False]), np.array([True, True])]).tolist()
    [3, 2]
    """
    words = np.zeros(len(truths[0]), np.int64)
    for b, truth in enumerate(truths):
        _set(np.ascontiguousarray(truth).view(np.uint8), b, words)
    return words


@njit(types.void(types.Array(uint8, 1, "C", readonly=True), int64, int64[::1]), cache=True, nogil=True)
def _set(truth, bit, words):
    """words[i] |= truth[i] << bit. A predicate at a time, so that rows go through the vector unit."""
    shift = np.int64(bit)
    for i in range(words.shape[0]):
        words[i] |= np.int64(truth[i]) << shift
