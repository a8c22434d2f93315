"""Rows made ready to meet: values numbered, rows ordered, their changes run up to versions, wide sums in digits.

A HUGEINT is two words here, (low, high), as in memory. To add many products of it in 64 bits it is cut into digits,
x = Σ dₖ · 2^(k·base): sums of digits are digits of the sum, whatever their size.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


@njit(nogil=True)
def _match_in_place(held, sought, low, high, held_ids, sought_ids, first):
    """The number of a value is at its place between `low` and `high`."""
    slots = np.full(np.uint64(high) - np.uint64(low) + np.uint64(1), -1, np.int64)
    count = 0
    for i in range(held.shape[0]):
        h = held[i] - low
        if slots[h] < 0:
            slots[h] = count
            first[count] = i
            count += 1
        held_ids[i] = slots[h]
    for i in range(sought.shape[0]):
        inside = low <= sought[i] <= high
        sought_ids[i] = slots[sought[i] - low] if inside else -1
    return count


@njit(nogil=True)
def _match_by_hash(held, sought, held_ids, sought_ids, first):
    """The numbers of values are in a hash table with open addressing, at most half full."""
    bits = 4
    while (1 << bits) < 2 * held.shape[0]:
        bits += 1
    slots = np.full(1 << bits, -1, np.int64)
    shift, mask = np.uint64(64 - bits), np.uint64((1 << bits) - 1)
    count = 0
    for i in range(held.shape[0]):
        h = (np.uint64(held[i]) * _SPREAD) >> shift
        while slots[h] >= 0 and held[first[slots[h]]] != held[i]:
            h = (h + np.uint64(1)) & mask
        if slots[h] < 0:
            slots[h] = count
            first[count] = i
            count += 1
        held_ids[i] = slots[h]
    for i in range(sought.shape[0]):
        h = (np.uint64(sought[i]) * _SPREAD) >> shift
        while slots[h] >= 0 and held[first[slots[h]]] != sought[i]:
            h = (h + np.uint64(1)) & mask
        sought_ids[i] = slots[h]
    return count


@njit(cache=True, nogil=True)
def match_values(held, sought, held_ids, sought_ids, first):
    """Number the values of `held` in order of appearance and look those of `sought` up (-1: not there).

    first[id] is the first row of `held` with this value. Returns how many there are. O(rows), expected; values from a
    narrow range are looked up in place, others in a hash table.
    """
    n = held.shape[0]
    if n == 0:
        sought_ids[:] = -1
        return 0
    low, high = held[0], held[0]
    for i in range(n):
        low, high = min(low, held[i]), max(high, held[i])
    # The difference of two words may not fit a word; as an unsigned one it does.
    width = np.uint64(high) - np.uint64(low)
    if width < np.uint64(4 * n + 1024):
        return _match_in_place(held, sought, low, high, held_ids, sought_ids, first)
    return _match_by_hash(held, sought, held_ids, sought_ids, first)


@njit(nogil=True)
def _mix(h):
    """A word whose every bit depends on all bits of h (the finalizer of splitmix64)."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@njit(cache=True, nogil=True)
def hash_words(words, hashes):
    """Takes one more column of words into the hashes of its rows. Hashes are stored: never change this function."""
    for i in range(words.shape[0]):
        hashes[i] = _mix(hashes[i] + _SPREAD + _mix(np.uint64(words[i]) + _SPREAD))


@njit(cache=True, nogil=True)
def hash_texts(offsets, data, hashes):
    """The same for texts: text i is data[offsets[i]:offsets[i + 1]]."""
    for i in range(hashes.shape[0]):
        h = np.uint64(0xCBF29CE484222325)
        for k in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(data[k])) * np.uint64(0x100000001B3)
        hashes[i] = _mix(hashes[i] + _SPREAD + _mix(h + np.uint64(offsets[i + 1] - offsets[i])))


@njit(cache=True, nogil=True)
def order_rows(major, minor, majors, minors, start):
    """The rows with major >= 0 by (major, minor), stable; those of major m are [start[m], start[m + 1]) of them.

    Needs major < majors and 0 <= minor < minors. O(rows + majors + minors): two counting sorts.
    """
    n = major.shape[0]
    by_minor = np.empty(n, np.int64)
    if minors > 1:
        begin = np.zeros(minors + 1, np.int64)
        for i in range(n):
            begin[minor[i] + 1] += 1
        for m in range(minors):
            begin[m + 1] += begin[m]
        for i in range(n):
            by_minor[begin[minor[i]]] = i
            begin[minor[i]] += 1
    else:
        for i in range(n):
            by_minor[i] = i
    start[:] = 0
    for i in range(n):
        if major[i] >= 0:
            start[major[i] + 1] += 1
    for m in range(majors):
        start[m + 1] += start[m]
    order = np.empty(start[majors], np.int64)
    at = start.copy()
    for x in range(n):
        i = by_minor[x]
        if major[i] >= 0:
            order[at[major[i]]] = i
            at[major[i]] += 1
    return order


@njit(nogil=True)
def add_row(i, j, n, words, floats, lows):
    """Add row j to row i: counts and floats by sum, words as 128-bit numbers with a carry, lows by the least."""
    n[i] += n[j]
    for c in range(0, words.shape[1], 2):
        low = np.uint64(words[i, c]) + np.uint64(words[j, c])
        carry = 1 if low < np.uint64(words[j, c]) else 0
        words[i, c] = np.int64(low)
        words[i, c + 1] += words[j, c + 1] + carry
    for c in range(floats.shape[1]):
        floats[i, c] += floats[j, c]
    for c in range(lows.shape[1]):
        lows[i, c] = min(lows[i, c], lows[j, c])


@njit(cache=True, nogil=True)
def run_versions(order, row, time, n, words, floats, lows, kept, step):
    """Changes become versions: the annotations of a row are added up over its times, in place.

    `order` lists the changes by (row, time); kept[i] tells that i is the last one of its row and time, whose sums are
    the version; step[i] is by how much the count has changed at this time. Words are added as 128-bit numbers, lows are
    compared. O(changes).
    """
    for x in range(order.shape[0]):
        i = order[x]
        kept[i], step[i] = True, n[i]
        if x == 0 or row[order[x - 1]] != row[i]:
            continue
        j = order[x - 1]
        if time[j] == time[i]:
            kept[j] = False
            step[i] += step[j]
        add_row(i, j, n, words, floats, lows)


@njit(cache=True, nogil=True)
def add_rows(ids, n, words, floats, lows):
    """Rows of one id added up, in place: those of id k end in row k, what lies behind the ids is left over.

    Needs ids in order of first appearance, so that row k is read before anything of id k or later is written there. As
    in `run_versions`, words are 128-bit numbers and lows are compared. O(rows).
    """
    seen = 0
    for i in range(ids.shape[0]):
        k = ids[i]
        if k == seen:
            seen += 1
            if k < i:
                n[k] = n[i]
                words[k, :] = words[i, :]
                floats[k, :] = floats[i, :]
                lows[k, :] = lows[i, :]
            continue
        add_row(k, i, n, words, floats, lows)


@njit(cache=True, nogil=True)
def scale_words(words, n):
    """Every 128-bit number of row i times n[i], in place, modulo 2^128."""
    for i in range(words.shape[0]):
        if n[i] == 1:
            continue
        factor = np.uint64(n[i])
        for c in range(0, words.shape[1], 2):
            low = np.uint64(words[i, c])
            a, b = low & _LOW_HALF, low >> _HALF
            d, e = factor & _LOW_HALF, factor >> _HALF
            middle = b * d + ((a * d) >> _HALF)
            other = a * e + (middle & _LOW_HALF)
            high = b * e + (middle >> _HALF) + (other >> _HALF)
            # A negative factor is 2^64 too large as an unsigned one.
            wrapped = np.int64(high) + words[i, c + 1] * n[i]
            if n[i] < 0:
                wrapped -= words[i, c]
            words[i, c], words[i, c + 1] = np.int64(low * factor), wrapped


@njit(cache=True, nogil=True)
def split_words(low, high, base, digits):
    """digits[i, k] = bits [k·base, (k + 1)·base) of the 128-bit number i; the last one takes the rest and the sign."""
    count = digits.shape[1]
    mask = (np.int64(1) << base) - 1
    for i in range(low.shape[0]):
        for k in range(count):
            s = k * base
            if s == 0:
                word = low[i]
            elif s < 64:
                word = np.int64(np.uint64(low[i]) >> np.uint64(s)) | (high[i] << (64 - s))
            else:
                word = high[i] >> (s - 64)
            digits[i, k] = word & mask if k < count - 1 else word


@njit(cache=True, nogil=True)
def join_words(digits, base, low, high):
    """The 128-bit number Σ digits[i, k] · 2^(k·base), for digits of any size and sign."""
    for i in range(digits.shape[0]):
        lo, hi = np.uint64(0), np.int64(0)
        for k in range(digits.shape[1]):
            s, d = k * base, digits[i, k]
            if s == 0:
                add_lo, add_hi = np.uint64(d), d >> 63
            elif s < 64:
                add_lo, add_hi = np.uint64(d) << np.uint64(s), d >> (64 - s)
            else:
                add_lo, add_hi = np.uint64(0), d << (s - 64)
            lo += add_lo
            hi += add_hi + (1 if lo < add_lo else 0)
        low[i], high[i] = np.int64(lo), hi
