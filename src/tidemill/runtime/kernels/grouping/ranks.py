"""Which rows are among the first of their partition, and with which rank, as rows come and go.

Rows are numbered in the order of their partitions, and within a partition in the total order of its rows; equal rows
have one number and a count. Two Fenwick trees hold the counts of the rows and which groups of peers have a row, so that
a change costs O(log rows) and the rows whose rank it moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

ROW_NUMBER, RANK, DENSE_RANK = 0, 1, 2


class Rows(NamedTuple):
    """Partition k has the rows first[k] to first[k + 1]. `peer` numbers the groups of peers of a partition from 0,
    `head` is the first row of a row's group, counted from the first of the partition.
    """

    first: np.ndarray
    head: np.ndarray
    peer: np.ndarray


class Moves(NamedTuple):
    """Partition k has the moves start[k] to start[k + 1], by rising time: `diff` more of row `row`. Those at the time
    `stored` are what was there before.
    """

    start: np.ndarray
    row: np.ndarray
    time: np.ndarray
    diff: np.ndarray
    stored: int


class Wanted(NamedTuple):
    """Ranks of a kind in (after, last]; whether they are shown, and whether rows behind `last` are forgotten."""

    kind: int
    after: int
    last: int
    shown: bool
    bounded: bool


class _Live(NamedTuple):
    """The rows of one partition that are there."""

    copies: np.ndarray
    tree: np.ndarray
    in_group: np.ndarray
    groups: np.ndarray
    head: np.ndarray
    peer: np.ndarray
    top: int


@njit(nogil=True)
def add_to(tree, at, change):
    """Position `at` of a Fenwick tree gets `change` more."""
    i = at + 1
    while i < tree.shape[0]:
        tree[i] += change
        i += i & -i


@njit(nogil=True)
def sum_before(tree, at):
    """The sum of the positions before `at`."""
    total = 0
    while at > 0:
        total += tree[at]
        at -= at & -at
    return total


@njit(nogil=True)
def find_place(tree, top, wanted):
    """The first position up to which the sum is `wanted` or more; the number of positions where there is none."""
    at, step = 0, top
    while step > 0:
        after = at + step
        if after < tree.shape[0] and tree[after] < wanted:
            at = after
            wanted -= tree[after]
        step >>= 1
    return at


@njit(nogil=True)
def _move(live, at, change, dense):
    """`change` more of a row."""
    live.copies[at] += change
    add_to(live.tree, at, change)
    if dense:
        group = live.peer[at]
        before = live.in_group[group]
        live.in_group[group] = before + change
        add_to(live.groups, group, (before + change > 0) - (before > 0))


@njit(nogil=True)
def _list_shown(live, low, stop, wanted, entries):
    """Entries (row, first rank, copies) of the rows from `low` to `stop` whose rank is wanted; how many they are."""
    n, found, group, rank = live.copies.shape[0], 0, -1, 0
    before = sum_before(live.tree, low)
    at = find_place(live.tree, live.top, before + 1)
    while at < n and at <= stop:
        copies = live.copies[at]
        if wanted.kind == ROW_NUMBER:
            if before >= wanted.last:
                break
            rank = max(before, wanted.after) + 1
            copies = min(before + copies, wanted.last) - rank + 1
        elif live.peer[at] != group:
            group = live.peer[at]
            if wanted.kind == RANK:
                rank = sum_before(live.tree, live.head[at]) + 1
            else:
                rank = sum_before(live.groups, group) + 1
            if rank > wanted.last:
                break
        if copies > 0 and rank > wanted.after:
            entries[found, 0], entries[found, 1], entries[found, 2] = at, rank, copies
            found += 1
        before += live.copies[at]
        at = find_place(live.tree, live.top, before + 1)
    return found


@njit(nogil=True)
def _write(out, used, row, rank, copies, time):
    """One more change; `copies` below 0 go. Returns (changes, their number): the array grows where it is full."""
    if copies == 0:
        return out, used
    if used == out.shape[0]:
        larger = np.empty((2 * used, 4), np.int64)
        larger[:used] = out
        out = larger
    out[used, 0], out[used, 1], out[used, 2], out[used, 3] = row, rank, copies, time
    return out, used + 1


@njit(nogil=True)
def _write_ranges(out, used, row, old, new, time):
    """Copies with ranks one after the other: what is in both ranges stays."""
    low, high = max(old[1], new[1]), min(old[1] + old[2], new[1] + new[2])
    if low >= high:
        out, used = _write(out, used, row, old[1], -old[2], time)
        return _write(out, used, row, new[1], new[2], time)
    out, used = _write(out, used, row, old[1], old[1] - low, time)
    out, used = _write(out, used, row, high, high - old[1] - old[2], time)
    out, used = _write(out, used, row, new[1], low - new[1], time)
    return _write(out, used, row, high, new[1] + new[2] - high, time)


@njit(nogil=True)
def _write_changes(out, used, base, olds, news, wanted, time):
    """The difference between two lists of entries, both in the order of rows."""
    i = j = 0
    while i < olds.shape[0] or j < news.shape[0]:
        if j == news.shape[0] or (i < olds.shape[0] and olds[i, 0] < news[j, 0]):
            out, used = _write(out, used, base + olds[i, 0], olds[i, 1], -olds[i, 2], time)
            i += 1
        elif i == olds.shape[0] or news[j, 0] < olds[i, 0]:
            out, used = _write(out, used, base + news[j, 0], news[j, 1], news[j, 2], time)
            j += 1
        else:
            row = base + news[j, 0]
            if wanted.shown and wanted.kind == ROW_NUMBER:
                out, used = _write_ranges(out, used, row, olds[i], news[j], time)
            elif wanted.shown and olds[i, 1] != news[j, 1]:
                out, used = _write(out, used, row, olds[i, 1], -olds[i, 2], time)
                out, used = _write(out, used, row, news[j, 1], news[j, 2], time)
            else:
                out, used = _write(out, used, row, news[j, 1], news[j, 2] - olds[i, 2], time)
            i += 1
            j += 1
    return out, used


@njit(nogil=True)
def _last_touched(live, high, net, kind):
    """The last row whose rank may change where rows up to `high` do: where as many come as go, none behind them."""
    n = live.copies.shape[0]
    if net != 0 or kind == DENSE_RANK:
        return n
    while kind == RANK and high + 1 < n and live.peer[high + 1] == live.peer[high]:
        high += 1
    return high


@njit(nogil=True)
def _forget(live, wanted, kept):
    """kept[i] = how many copies of row i can still be wanted when rows only come."""
    before, dense = 0, 0
    for at in range(live.copies.shape[0]):
        kept[at] = live.copies[at]
        if wanted.bounded and live.copies[at] > 0:
            if wanted.kind == ROW_NUMBER:
                kept[at] = max(min(live.copies[at], wanted.last - before), 0)
            elif wanted.kind == RANK:
                kept[at] = live.copies[at] if sum_before(live.tree, live.head[at]) < wanted.last else 0
            else:
                dense = sum_before(live.groups, live.peer[at])
                kept[at] = live.copies[at] if dense < wanted.last else 0
        before += live.copies[at]


@njit(nogil=True)
def _walk_partition(live, base, moves, e, end, wanted, olds, news, out, used):
    """The changes of one partition; its first row is `base`, its moves are e to end."""
    dense = wanted.kind == DENSE_RANK
    while e < end and moves.time[e] == moves.stored:
        _move(live, moves.row[e] - base, moves.diff[e], dense)
        e += 1
    while e < end:
        f, low, high, net = e, live.copies.shape[0], 0, 0
        while f < end and moves.time[f] == moves.time[e]:
            at = moves.row[f] - base
            low, high, net = min(low, at), max(high, at), net + moves.diff[f]
            f += 1
        stop = _last_touched(live, high, net, wanted.kind)
        before = _list_shown(live, low, stop, wanted, olds)
        for i in range(e, f):
            _move(live, moves.row[i] - base, moves.diff[i], dense)
        after = _list_shown(live, low, stop, wanted, news)
        out, used = _write_changes(out, used, base, olds[:before], news[:after], wanted, moves.time[e])
        e = f
    return out, used


@njit(cache=True, nogil=True)
def walk_ranks(rows, moves, wanted, kept):
    """Changes (row, rank, copies, time) of the rows whose rank is wanted, after each time of each partition.

    Copies below 0 go. Where ranks of ROW_NUMBER are shown, several copies have ranks one after the other from `rank`
    on. Afterwards kept[i] copies of row i are to be kept. O(moves · log rows + rows whose rank is wanted and moves).
    """
    most = 0
    for k in range(rows.first.shape[0] - 1):
        most = max(most, rows.first[k + 1] - rows.first[k])
    count, in_group = np.zeros(most, np.int64), np.zeros(most, np.int64)
    tree, groups = np.zeros(most + 1, np.int64), np.zeros(most + 1, np.int64)
    olds, news = np.empty((most, 3), np.int64), np.empty((most, 3), np.int64)
    out, used = np.empty((1024, 4), np.int64), 0
    for k in range(rows.first.shape[0] - 1):
        low, high = rows.first[k], rows.first[k + 1]
        n, top = high - low, 1
        while 2 * top <= n:
            top *= 2
        count[:n], in_group[:n], tree[: n + 1], groups[: n + 1] = 0, 0, 0, 0
        live = _Live(
            count[:n], tree[: n + 1], in_group[:n], groups[: n + 1], rows.head[low:high], rows.peer[low:high], top
        )
        out, used = _walk_partition(live, low, moves, moves.start[k], moves.start[k + 1], wanted, olds, news, out, used)
        _forget(live, wanted, kept[low:high])
    return out[:used]
