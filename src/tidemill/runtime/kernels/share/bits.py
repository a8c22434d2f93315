"""Truth values of many predicates as words, one bit for each predicate and row; and the rows that have a bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numba import int64, types, uint8

from tidemill.runtime.kernels.compiling.lazy import compiled

NEVER = np.iinfo(np.int64).max
_WORD = types.Array(int64, 1, "C", readonly=True)
_FACTOR = np.uint64(0x03F79D71B4CB0A89)  # a De Bruijn sequence: the top six bits of its multiples by 2^b all differ
_PLACES = np.zeros(64, np.int64)
_PLACES[[(int(_FACTOR) << b & (1 << 64) - 1) >> 58 for b in range(64)]] = np.arange(64)


def pack(truths: Sequence[np.ndarray]) -> np.ndarray:
    """word[i] has bit b where truths[b][i] holds; at most 64 predicates. O(predicates · rows).

    >>> pack([np.array([True, False]), np.array([True, True])]).tolist()
    [3, 2]
    """
    words = np.zeros(len(truths[0]), np.int64)
    for b, truth in enumerate(truths):
        _set(np.ascontiguousarray(truth).view(np.uint8), b, words)
    return words


@compiled(types.void(types.Array(uint8, 1, "C", readonly=True), int64, int64[::1]))
def _set(truth, bit, words):
    """words[i] |= truth[i] << bit. A predicate at a time, so that rows go through the vector unit."""
    shift = np.int64(bit)
    for i in range(words.shape[0]):
        words[i] |= np.int64(truth[i]) << shift


class RowsByBit:
    """The rows that have a bit, for many bits at once, where they are few among all.

    >>> found = RowsByBit({0: np.array([1, 2, 1, 3, 2, 2, 2, 2])}, one_in=2)
    >>> found.of(0).tolist(), found.of(1)
    ([0, 2, 3], None)
    """

    def __init__(self, words: Mapping[int, np.ndarray], one_in: int) -> None:
        """`words` by number. A set with fewer than one row of `one_in` counts as small."""
        self.words, self.counts = words, {number: _counts(word) for number, word in words.items()}
        rows = len(next(iter(words.values()), ()))
        self.most = rows // one_in
        # To have all bits at once is one pass; where rows have many of them it would take much memory.
        self.together = sum(int(c[c <= self.most].sum()) for c in self.counts.values()) <= 4 * rows
        self.found: dict[int, np.ndarray] = {}

    def of(self, bit: int) -> np.ndarray | None:
        """The rows that have this bit, in order; None where they are not few."""
        number, place = divmod(bit, 64)
        if self.counts[number][place] > self.most:
            return None
        if bit not in self.found:
            wanted = self.counts[number] <= self.most if self.together else np.arange(64) == place
            counts = np.where(wanted, self.counts[number], 0)
            ends = np.cumsum(counts)
            rows = np.empty(int(ends[-1]), np.int64)
            mask = int(np.packbits(wanted, bitorder="little").view(np.int64)[0])
            _rows_of_bits(self.words[number], mask, ends - counts, rows)
            for b in np.flatnonzero(wanted).tolist():
                self.found[64 * number + b] = rows[ends[b] - counts[b] : ends[b]]
        return self.found[bit]


@compiled(int64[::1](_WORD))
def _counts(word):
    """How many rows have each bit. O(rows + bits that are set)."""
    counts = np.zeros(64, np.int64)
    for i in range(word.shape[0]):
        rest = np.uint64(word[i])
        while rest:
            lowest = rest & (~rest + np.uint64(1))
            counts[_PLACES[(lowest * _FACTOR) >> np.uint64(58)]] += 1
            rest ^= lowest
    return counts


@compiled(int64[::1](_WORD, _WORD))
def least_by_bit(word, values):
    """The least value of the rows that have each bit; NEVER where none has it. O(rows + bits that are set).

    >>> least_by_bit(np.array([1, 3, 2]), np.array([7, 5, 4]))[:3].tolist() == [5, 4, NEVER]
    True
    """
    least = np.full(64, NEVER)
    for i in range(word.shape[0]):
        rest = np.uint64(word[i])
        while rest:
            lowest = rest & (~rest + np.uint64(1))
            b = _PLACES[(lowest * _FACTOR) >> np.uint64(58)]
            least[b] = min(least[b], values[i])
            rest ^= lowest
    return least


@compiled(types.void(_WORD, int64, int64[::1], int64[::1]))
def _rows_of_bits(word, mask, places, rows):
    """The rows with each bit of the mask, those of bit b from places[b] on. O(rows + bits that are set)."""
    for i in range(word.shape[0]):
        rest = np.uint64(word[i] & mask)
        while rest:
            lowest = rest & (~rest + np.uint64(1))
            b = _PLACES[(lowest * _FACTOR) >> np.uint64(58)]
            rows[places[b]] = i
            places[b] += 1
            rest ^= lowest
