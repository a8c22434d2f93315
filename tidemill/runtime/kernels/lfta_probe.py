"""The hot loops of the LFTA: records probe a hash table and evict what they meet (paper 002, sections 2.2 to 3.2).

A record has int64 words `[tag][group attributes][parts]`.

- The tag is `fragment << 32 | signature code`; an empty bucket has tag -1.
- Parts are sorted by what combines them: sums, least, greatest of the integers, then of the floats (their bits).
  `ends` holds the six ends of these stretches, as numbers of parts.

A batch keeps word w of record j at `words[w * STRIDE + j]`, so that all passes but one run along columns. A table keeps the
words of a bucket together, in one cache line or two.
"""

from __future__ import annotations

import numpy as np
from numba import njit

EMPTY = -1
LOW = 0xFFFFFFFF
COLLISIONS, TURNOVERS = 0, 1
# Most records of a batch: small enough for the columns to stay in the nearest caches.
STEP = 2048
# Not a power of two: the words of a record would compete for the same few lines of the cache.
STRIDE = STEP + 40
# An unsigned index saves the test for a negative one.
at = np.uintp


@njit(cache=True, nogil=True)
def spread(x, buckets):
    """A 64-bit sum of products to a bucket: mix the high half into the low one, multiply, scale the high half."""
    x = (x ^ (x >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(((x >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def bucket_of(values, factors, buckets):
    """The bucket of (code, group attributes): their products with the relation's odd factors, summed and spread."""
    x = np.uint64(0)
    for k in range(values.shape[0]):
        x += np.uint64(values[k]) * factors[k]
    return spread(x, buckets)


@njit(cache=True, nogil=True)
def translate(tags, n, fragments, codes, weights, own):
    """own[j] = the relation's tag of a record with the parent's tag, negative if unwanted. Returns the weight wanted."""
    wanted = 0
    for j in range(n):
        own[j] = np.int64(fragments[at(tags[j] >> 32)]) << 32 | np.int64(codes[at(tags[j] & LOW)])
        wanted += weights[j] if own[j] >= 0 else 0
    return wanted


@njit(cache=True, nogil=True)
def place(words, picks, n, own, factors, buckets, width, keys, places):
    """places[j] = first word of the bucket of record j (see `bucket_of`); keys = its attributes, columns picks[k]."""
    sums = places.view(np.uint64)
    for j in range(n):
        sums[j] = np.uint64(own[j] & LOW) * factors[0]
    for k in range(picks.shape[0]):
        factor = factors[k + 1]
        column, key = words[picks[k] * STRIDE:picks[k] * STRIDE + n], keys[k * STRIDE:k * STRIDE + n]
        for j in range(n):
            key[j] = column[j]
            sums[j] += np.uint64(column[j]) * factor
    for j in range(n):
        places[j] = spread(sums[j], buckets) * width


@njit(cache=True, nogil=True)
def combine(table, e, parts, j, ends):
    """Fold the parts of record j into those from table[e] on, but for integer sums. NaN is the greatest, as in SQL."""
    for w in range(ends[0], ends[1]):
        table[e + w] = min(table[e + w], parts[w * STRIDE + j])
    for w in range(ends[1], ends[2]):
        table[e + w] = max(table[e + w], parts[w * STRIDE + j])
    held, values = table.view(np.float64), parts.view(np.float64)
    for w in range(ends[2], ends[3]):
        held[e + w] += values[w * STRIDE + j]
    for w in range(ends[3], ends[4]):
        value = values[w * STRIDE + j]
        if value < held[e + w] or np.isnan(held[e + w]):
            held[e + w] = value
    for w in range(ends[4], ends[5]):
        value = values[w * STRIDE + j]
        if value > held[e + w] or np.isnan(value):
            held[e + w] = value


def _probe_loop(fixed: int):
    """The probe for `fixed` group attributes (-1: any number). A known number makes it a third faster."""

    @njit(cache=True, nogil=True)
    def probe(n, own, places, keys, n_keys, parts, ends, table, evicted, count):
        sums, n_parts = ends[0], ends[5]
        n_attrs = n_keys if fixed < 0 else fixed
        collisions = m = 0
        for j in range(n):
            tag = own[at(j)]
            if tag < 0:
                continue
            e = places[at(j)]
            old = table[at(e)]
            differs = (old ^ tag) & LOW
            for k in range(n_attrs):
                differs |= table[at(e + 1 + k)] ^ keys[at(k * STRIDE + j)]
            first = e + 1 + n_attrs
            if differs | (old ^ tag) == 0:
                # One or two sums are the usual case: straight code for them.
                if sums > 0:
                    table[at(first)] += parts[at(j)]
                    if sums > 1:
                        table[at(first + 1)] += parts[at(STRIDE + j)]
                        for w in range(2, sums):
                            table[at(first + w)] += parts[at(w * STRIDE + j)]
                if sums < n_parts:
                    combine(table, first, parts, j, ends)
                continue
            if old != EMPTY:
                collisions += differs != 0
                evicted[at(m)] = old
                for k in range(1, 1 + n_attrs):
                    evicted[at(k * STRIDE + m)] = table[at(e + k)]
                for w in range(n_parts):
                    evicted[at((1 + n_attrs + w) * STRIDE + m)] = table[at(first + w)]
                m += 1
            table[at(e)] = tag
            for k in range(n_attrs):
                table[at(e + 1 + k)] = keys[at(k * STRIDE + j)]
            for w in range(n_parts):
                table[at(first + w)] = parts[at(w * STRIDE + j)]
        count[COLLISIONS] += collisions
        count[TURNOVERS] += m - collisions
        return m

    return probe


_probe_any, _probe_1, _probe_2, _probe_3, _probe_4 = (_probe_loop(fixed) for fixed in (-1, 1, 2, 3, 4))


@njit(cache=True, nogil=True)
def probe(n, own, places, keys, n_keys, parts, ends, table, evicted, count):
    """Probe one table with n records, in order; what they evict becomes the batch `evicted`. O(n).

    A record without a negative tag meets the bucket at its place. Same tag and keys: its parts are folded in. Else the
    old entry is evicted and the record takes the bucket: a collision, or a turnover if only the fragment differs.
    Adds to `count` and returns the number of evicted entries (at most n).
    """
    if n_keys == 1:
        return _probe_1(n, own, places, keys, n_keys, parts, ends, table, evicted, count)
    if n_keys == 2:
        return _probe_2(n, own, places, keys, n_keys, parts, ends, table, evicted, count)
    if n_keys == 3:
        return _probe_3(n, own, places, keys, n_keys, parts, ends, table, evicted, count)
    if n_keys == 4:
        return _probe_4(n, own, places, keys, n_keys, parts, ends, table, evicted, count)
    return _probe_any(n, own, places, keys, n_keys, parts, ends, table, evicted, count)


@njit(cache=True, nogil=True)
def sweep(table, width, first, last, evicted):
    """Empty buckets [first, last) in order; their entries become the batch `evicted`. Returns how many."""
    m = 0
    for e in range(first * width, last * width, width):
        if table[e] != EMPTY:
            for w in range(width):
                evicted[w * STRIDE + m] = table[e + w]
            table[e] = EMPTY
            m += 1
    return m


@njit(cache=True, nogil=True)
def emit(batch, n, width, output, room, filled):
    """Append the n records of a batch to the columns of an output, of `room` words each, behind `filled` records."""
    for w in range(width):
        column, source = output[w * room + filled:], batch[w * STRIDE:]
        for j in range(n):
            column[j] = source[j]
