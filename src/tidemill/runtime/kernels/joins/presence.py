"""When a value is present in the joined rows: times at which its own rows and their partners are both there.

Times are ranks, 0 is what was there before the batch. Only the state after all changes of a rank counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit


class Partners(NamedTuple):
    """The partners of each bucket, counted: `first` before the batch, `last` behind it, `moved` the last rank at which
    the count changes (0: none). At the ranks turn[begin[b]:begin[b + 1]] it becomes positive or falls to zero.
    """

    first: np.ndarray
    last: np.ndarray
    moved: np.ndarray
    begin: np.ndarray
    turn: np.ndarray


def room_for_partners(buckets: int, changes: int) -> Partners:
    """Arrays for `count_partners`."""
    first, last, moved = (np.zeros(buckets, np.int64) for _ in range(3))
    return Partners(first, last, moved, np.zeros(buckets + 1, np.int64), np.empty(changes, np.int64))


@njit(cache=True, nogil=True)
def count_partners(order, start, rank, n, partners):
    """Fill `partners` from changes n[i] at rank[i]; those of bucket b are order[start[b]:start[b + 1]], by rank.

    Returns whether no count is ever negative. O(changes).
    """
    first, last, moved, begin, turn = partners
    turns = 0
    for b in range(first.shape[0]):
        total, e = 0, start[b]
        while e < start[b + 1]:
            now, before = rank[order[e]], total
            while e < start[b + 1] and rank[order[e]] == now:
                total += n[order[e]]
                e += 1
            if total < 0:
                return False
            if now == 0:
                first[b] = total
                continue
            moved[b] = now
            if (total > 0) != (before > 0):
                turn[turns] = now
                turns += 1
        last[b], begin[b + 1] = total, turns
    return True


@njit(nogil=True)
def turns_until(turn, begin, end, rank):
    """The end of those of turn[begin:end], which rise, that are not after `rank`."""
    while begin < end:
        middle = (begin + end) // 2
        if turn[middle] <= rank:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(nogil=True)
def next_rank(own, at, upto, turn, e, end, rank, order):
    """The rank of a cell's next change, or of its partners' next turn if it has rows and that comes first."""
    if own > 0 and at < upto and (e == end or turn[at] < rank[order[e]]):
        return turn[at]
    return rank[order[e]]


@njit(nogil=True)
def add_told(told, used, cell, rank, change):
    """Write row `used`; returns the array, or a larger one with the same beginning where it is full."""
    if used == told.shape[0]:
        larger = np.empty((2 * used + 1, 3), np.int64)
        larger[:used] = told
        told = larger
    told[used, 0], told[used, 1], told[used, 2] = cell, rank, change
    return told


@njit(cache=True, nogil=True)
def tell_presence(order, start, rank, n, bucket, partners, room):
    """(whether no count is ever negative, rows (cell, rank, change)) for the counts c(t) = own(t) · partners(t).

    Cell x lies in bucket[x]; its own changes n[i] at rank[i] are order[start[x]:start[x + 1]], by rank. Changes add up
    to c(end) - c(0), and what they add up to until any rank is positive exactly where c is: a change of c that neither
    begins nor ends its presence is told with another one. `room` is a guess at the number of rows.
    O(own changes · log turns + rows).
    """
    first, last, moved, begin, turn = partners
    told, used = np.empty((room, 3), np.int64), 0
    for x in range(bucket.shape[0]):
        b, e, end = bucket[x], start[x], start[x + 1]
        own, at, upto = 0, begin[b], begin[b + 1]
        while e < end and rank[order[e]] == 0:
            own += n[order[e]]
            e += 1
        shown, came, now = own * first[b], -1, 0
        while own >= 0 and (e < end or (own > 0 and at < upto)):
            now = next_rank(own, at, upto, turn, e, end, rank, order)
            at = turns_until(turn, at, upto if own == 0 else min(at + 1, upto), now)
            while e < end and rank[order[e]] == now:
                own += n[order[e]]
                e += 1
            present = own > 0 and (first[b] > 0) == ((at - begin[b]) % 2 == 0)
            if present != (shown > 0):
                told = add_told(told, used, x, now, 1 if present else -shown)
                came = used if present else -1
                shown += told[used, 2]
                used += 1
        if own < 0:
            return False, told[:0]
        rest = own * last[b] - shown
        if rest != 0 and came >= 0:
            told[came, 2] += rest
        elif rest != 0:
            told = add_told(told, used, x, max(now, moved[b]), rest)
            used += 1
    return True, told[:used]
