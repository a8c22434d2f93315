"""The rows around those that change: all that functions of a bounded reach look at."""

from __future__ import annotations

import numpy as np
from numba import njit

from tidemill.runtime.kernels.grouping.ranks import Moves, add_to, find_place, sum_before

__all__ = ["Moves", "find_neighbours"]


@njit(nogil=True)
def _list_row(row, version, marked, listed, found):
    if marked[row] != version:
        marked[row], listed[found] = version, row
        found += 1
    return found


@njit(nogil=True)
def _list_around(tree, top, copies, at, reach, version, marked, listed, found):
    """List row `at` and those that have the `reach` copies before and behind it, each once for a version."""
    found = _list_row(at, version, marked, listed, found)
    first = sum_before(tree, at)
    last = first + copies[at]
    for low, high in ((max(first - reach, 0), first), (last, last + reach)):
        place = low
        while place < high:
            row = find_place(tree, top, place + 1)
            if row >= copies.shape[0]:
                break
            found = _list_row(row, version, marked, listed, found)
            place = sum_before(tree, row) + copies[row]
    return found


@njit(nogil=True)
def _write_rows(out, used, base, copies, rows, version, side):
    """Those of the rows that are there. Returns (entries, their number): the array grows where it is full."""
    if used + rows.shape[0] > out.shape[0]:
        larger = np.empty((2 * (used + rows.shape[0]), 4), np.int64)
        larger[:used] = out[:used]
        out = larger
    for row in rows:
        if copies[row] > 0:
            out[used, 0], out[used, 1], out[used, 2], out[used, 3] = base + row, version, side, copies[row]
            used += 1
    return out, used


@njit(nogil=True)
def _walk_partition(moves, e, end, base, reach, copies, old, tree, marked, listed, out, used):
    """The entries of one partition; its first row is `base`, its moves are e to end."""
    n, top, version = copies.shape[0], 1, 0
    while 2 * top <= n:
        top *= 2
    while e < end and moves.time[e] == moves.stored:
        copies[moves.row[e] - base] += moves.diff[e]
        add_to(tree, moves.row[e] - base, moves.diff[e])
        e += 1
    while e < end:
        f, found, version = e, 0, version + 1
        while f < end and moves.time[f] == moves.time[e]:
            found = _list_around(tree, top, copies, moves.row[f] - base, reach, version, marked, listed, found)
            f += 1
        before = found
        for i in range(before):
            old[listed[i]] = copies[listed[i]]
        for i in range(e, f):
            copies[moves.row[i] - base] += moves.diff[i]
            add_to(tree, moves.row[i] - base, moves.diff[i])
        for i in range(e, f):
            found = _list_around(tree, top, copies, moves.row[i] - base, reach, version, marked, listed, found)
        for i in range(before, found):
            old[listed[i]] = copies[listed[i]]  # only rows of the first list have changed
        rows = np.sort(listed[:found])
        out, used = _write_rows(out, used, base, old, rows, version, 0)
        out, used = _write_rows(out, used, base, copies, rows, version, 1)
        e = f
    return out, used


@njit(cache=True, nogil=True)
def find_neighbours(low, high, moves, reach):
    """Entries (row, version, side, copies): for each time of each partition, which is a version of it, the changed rows
    and those within `reach` copies of them, as they are before it (side 0) and after it (side 1), in their order.

    Partition k has the rows low[k] to high[k]. O(moves · reach · log rows).
    """
    most = 0
    for k in range(low.shape[0]):
        most = max(most, high[k] - low[k])
    copies, old = np.zeros(most, np.int64), np.zeros(most, np.int64)
    marked, listed = np.zeros(most, np.int64), np.zeros(most, np.int64)
    tree = np.zeros(most + 1, np.int64)
    out, used = np.empty((1024, 4), np.int64), 0
    for k in range(low.shape[0]):
        n = high[k] - low[k]
        copies[:n], marked[:n], tree[: n + 1] = 0, 0, 0
        out, used = _walk_partition(
            moves,
            moves.start[k],
            moves.start[k + 1],
            low[k],
            reach,
            copies[:n],
            old[:n],
            tree[: n + 1],
            marked[:n],
            listed,
            out,
            used,
        )
    return out[:used]
