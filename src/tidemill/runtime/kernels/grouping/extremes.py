"""Least and greatest value of each key as values come and go."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def slide_extremes(key, slot, change, first, last, count, least, most):
    """After each move i: least/most live slot of key[i], -1 if none is live.

    Slots of a key are the contiguous range [first[key], last[key]], ordered by value; moves are sorted by
    key, then time. O(moves + slots passed).
    """
    previous = -1
    low = high = live = 0
    for i in range(key.shape[0]):
        k = key[i]
        if k != previous:
            previous, live = k, 0
            low, high = last[k] + 1, first[k] - 1
        s = slot[i]
        before = count[s]
        count[s] = before + change[i]
        if before <= 0 and count[s] > 0:
            live += 1
            low, high = min(low, s), max(high, s)
        elif before > 0 and count[s] <= 0:
            live -= 1
            # Only the ends move: every slot outside [low, high] is dead.
            while low <= last[k] and count[low] <= 0:
                low += 1
            while high >= first[k] and count[high] <= 0:
                high -= 1
        least[i] = low if live > 0 else -1
        most[i] = high if live > 0 else -1
