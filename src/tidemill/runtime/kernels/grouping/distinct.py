"""How the number of different values changes as lists of values come and go."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def turn_values(order, start, cell, lists, n, count, turn):
    """turn[i] = by how much the number of cells with a positive count changes when list lists[i] comes n[i] times.

    Moves are taken in `order`; the values of list s are cell[start[s]:start[s + 1]], those below 0 are nothing. Turns
    of one time add up to what changes there, whatever their order. O(values of all moves).
    """
    for x in range(order.shape[0]):
        i = order[x]
        turned = 0
        for e in range(start[lists[i]], start[lists[i] + 1]):
            c = cell[e]
            if c < 0:
                continue
            before = count[c]
            count[c] = before + n[i]
            turned += (count[c] > 0) - (before > 0)
        turn[i] = turned
