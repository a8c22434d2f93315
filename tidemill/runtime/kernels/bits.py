"""Truth values of many predicates as words: one bit for each predicate and row."""

from __future__ import annotations

import numpy as np
from numba import njit


def packed(truths: np.ndarray) -> np.ndarray:
    """word[i] has bit b where truths[b, i] holds; at most 64 predicates. O(predicates · rows).

    >>> packed(np.array([[True, False], [True, True]])).tolist()
    [3, 2]
    """
    words = np.zeros(truths.shape[1], np.int64)
    _pack(truths.view(np.uint8), words)
    return words


@njit("void(uint8[:, ::1], int64[::1])", cache=True, nogil=True)
def _pack(truths, words):
    """words[i] |= truths[b, i] << b. Column by column, so that rows go through the vector unit."""
    for b in range(truths.shape[0]):
        row, shift = truths[b], np.int64(b)
        for i in range(words.shape[0]):
            words[i] |= np.int64(row[i]) << shift
