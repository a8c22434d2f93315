"""Which changes meet which versions of another input's rows, over row numbers only.

A *version* is what a row of the probed input is from one time on, until its next version; a version that is not alive
is no row. Versions and probes lie in buckets of equal join values. Inside a bucket both are walked by time with a list
of the versions that are alive now, so a probe sees the rows of its moment and no others, and the cost is
O(probes + versions + pairs).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

NOTHING = (1 << 63) - 1  # the rank of an extreme of nothing; every other rank is less
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Probes(NamedTuple):
    """`order` lists the probes by bucket and time. A probe sees versions that began before its `until`."""

    order: np.ndarray
    bucket: np.ndarray
    code: np.ndarray
    until: np.ndarray


class Versions(NamedTuple):
    """Versions of rows: those of bucket b are order[start[b]:start[b + 1]], by time. All versions of a row share it."""

    order: np.ndarray
    start: np.ndarray
    code: np.ndarray
    time: np.ndarray
    row: np.ndarray
    alive: np.ndarray
    worth: np.ndarray


class Walk(NamedTuple):
    """Where a walk is: `at` = (bucket, next version, rows alive, their worth), `active` the versions alive."""

    at: np.ndarray
    active: np.ndarray
    place: np.ndarray


class Terms(NamedTuple):
    """What a pair (p, v) adds: n(p)·n(v), ints(p)·n(v), n(p)·ints(v), the same for floats; lows are compared."""

    probe_n: np.ndarray
    probe_ints: np.ndarray
    probe_floats: np.ndarray
    probe_lows: np.ndarray
    version_n: np.ndarray
    version_ints: np.ndarray
    version_floats: np.ndarray
    version_lows: np.ndarray


class Groups(NamedTuple):
    """The group of a pair is probe[p]·width + version[v]; `table` finds its slot, `keys` has the group of each slot."""

    probe: np.ndarray
    version: np.ndarray
    width: int
    direct: bool
    table: np.ndarray
    keys: np.ndarray


class Sums(NamedTuple):
    """One row for each slot. ints: the count, the probes' columns, the versions' columns; floats and lows likewise."""

    ints: np.ndarray
    floats: np.ndarray
    lows: np.ndarray


def walk(rows: int) -> Walk:
    """The beginning of a walk over versions of `rows` rows."""
    return Walk(np.array([-1, 0, 0, 0], np.int64), np.empty(rows, np.int64), np.full(rows, -1, np.int64))


@njit(nogil=True)
def reach(b, until, order, start, time, row, alive, worth, at, active, place):
    """Bring the walk to a probe of bucket b; returns the number of rows alive there. Amortised O(versions passed)."""
    if at[0] != b:
        at[0], at[1], at[2], at[3] = b, start[b], 0, 0
    e, live, total = at[1], at[2], at[3]
    while e < start[b + 1]:
        v = order[e]
        if time[v] >= until:
            break
        r = row[v]
        here = place[r]
        if here >= 0:
            total -= worth[active[here]]
        elif alive[v]:
            here = live
            place[r] = here
            live += 1
        if alive[v]:
            active[here] = v
            total += worth[v]
        elif here >= 0:
            live -= 1
            active[here] = active[live]
            place[row[active[here]]] = here
            place[r] = -1
        e += 1
    at[1], at[2], at[3] = e, live, total
    return live


@njit(nogil=True)
def matching(live, code, codes, active, matched):
    """The nested loop: of the rows alive those with this code, one by one."""
    found = 0
    for a in range(live):
        if codes[active[a]] == code:
            matched[found] = active[a]
            found += 1
    return found


@njit(cache=True, nogil=True)
def count_pairs(probes, versions, walk, nested, counts):
    """counts[x] = how many versions probe order[x] meets; returns their worth. `nested` compares code by code."""
    probe_order, bucket, code, until = probes
    order, start, codes, time, row, alive, worth = versions
    at, active, place = walk
    matched = np.empty(active.shape[0] if nested else 0, np.int64)
    total = 0
    for x in range(probe_order.shape[0]):
        p = probe_order[x]
        live = reach(bucket[p], until[p], order, start, time, row, alive, worth, at, active, place)
        if nested:
            counts[x] = matching(live, code[p], codes, active, matched)
            for a in range(counts[x]):
                total += worth[matched[a]]
        else:
            counts[x] = live
            total += at[3]
    return total


@njit(cache=True, nogil=True)
def find_pairs(first, last, probes, versions, walk, nested, probe, version):
    """The pairs (probe, version) of the probes order[first:last]; the walk goes on from the piece before."""
    probe_order, bucket, code, until = probes
    order, start, codes, time, row, alive, worth = versions
    at, active, place = walk
    met = np.empty(active.shape[0], np.int64) if nested else active
    count = 0
    for x in range(first, last):
        p = probe_order[x]
        live = reach(bucket[p], until[p], order, start, time, row, alive, worth, at, active, place)
        if nested:
            live = matching(live, code[p], codes, active, met)
        for a in range(live):
            probe[count], version[count] = p, met[a]
            count += 1
    return count


@njit(nogil=True)
def find_slot(key, slots, direct, table, keys):
    """The slot of a group, or the next free one (= slots), which is then its own."""
    if direct:
        if table[key] == 0:
            table[key] = slots + 1
            keys[slots] = key
        return table[key] - 1
    mask = np.uint64(table.shape[0] - 1)
    h = ((np.uint64(key) * _SPREAD) >> np.uint64(20)) & mask
    while True:
        slot = table[h] - 1
        if slot < 0:
            table[h] = slots + 1
            keys[slots] = key
            return slots
        if keys[slot] == key:
            return slot
        h = (h + np.uint64(1)) & mask


@njit(nogil=True)
def add_words(slot, p, met, begin, end, probe_n, probe_ints, version_n, version_ints, ints):
    """Add the pairs of probe p with a run of versions of one group (Definition 5); returns their count.

    Σ ints(p)·n(v) = ints(p)·Σ n(v): the versions' side is added up row by row, the probe's side once.
    """
    total = 0
    for a in range(begin, end):
        total += version_n[met[a]]
    ints[slot, 0] += probe_n[p] * total
    width = probe_ints.shape[1]
    for c in range(width):
        ints[slot, 1 + c] += probe_ints[p, c] * total
    for c in range(version_ints.shape[1]):
        whole = 0
        for a in range(begin, end):
            whole += version_ints[met[a], c]
        ints[slot, 1 + width + c] += probe_n[p] * whole
    return total


@njit(nogil=True)
def add_floats(slot, p, met, begin, end, total, probe_n, probe_floats, version_floats, floats):
    """The same for doubles; `total` is the count of the run."""
    width = probe_floats.shape[1]
    for c in range(width):
        floats[slot, c] += probe_floats[p, c] * total
    for c in range(version_floats.shape[1]):
        real = 0.0
        for a in range(begin, end):
            real += version_floats[met[a], c]
        floats[slot, width + c] += probe_n[p] * real


@njit(nogil=True)
def add_lows(slot, p, met, begin, end, probe_lows, version_lows, lows):
    """Extremes are not scaled: the least rank of the run."""
    width = probe_lows.shape[1]
    for c in range(width):
        lows[slot, c] = min(lows[slot, c], probe_lows[p, c])
    for c in range(version_lows.shape[1]):
        for a in range(begin, end):
            lows[slot, width + c] = min(lows[slot, width + c], version_lows[met[a], c])


@njit(cache=True, nogil=True)
def add_pairs(first, last, probes, versions, walk, nested, terms, groups, sums):
    """Meet and aggregate at once: every pair of the probes order[first:last] is added to its group.

    Needs room for as many slots as there are pairs or groups, zeros in `table` and the sums, NOTHING in the lows, and
    sums that fit. Returns the number of slots. O(pairs).
    """
    probe_order, bucket, code, until = probes
    order, start, codes, time, row, alive, worth = versions
    at, active, place = walk
    probe_group, version_group, width, direct, table, keys = groups
    probe_n, probe_ints, probe_floats, probe_lows, version_n, version_ints, version_floats, version_lows = terms
    ints, floats, lows = sums
    met = np.empty(active.shape[0], np.int64) if nested else active
    slots = 0
    for x in range(first, last):
        p = probe_order[x]
        live = reach(bucket[p], until[p], order, start, time, row, alive, worth, at, active, place)
        if nested:
            live = matching(live, code[p], codes, active, met)
        begin = 0
        while begin < live:
            group = version_group[met[begin]]
            end = begin + 1
            while end < live and version_group[met[end]] == group:
                end += 1
            slot = find_slot(probe_group[p] * width + group, slots, direct, table, keys)
            slots = max(slots, slot + 1)
            total = add_words(slot, p, met, begin, end, probe_n, probe_ints, version_n, version_ints, ints)
            if floats.shape[1]:
                add_floats(slot, p, met, begin, end, total, probe_n, probe_floats, version_floats, floats)
            if lows.shape[1]:
                add_lows(slot, p, met, begin, end, probe_lows, version_lows, lows)
            begin = end
    return slots
