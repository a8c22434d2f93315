"""Batches fall through the forest: raw rows when they come, whole tables at the end of an epoch.

Relations are numbered from 1, parents before children; number 0 is the raw batch.

Why a whole batch may pass one relation before the next: a relation's buckets depend only on the sequence of entries
that its parent evicts, and no two relations share a bucket. So feeding a relation all evictions of a batch at once leaves
the same buckets, evictions and counts as sending each entry down the tree when it is evicted.
"""

from __future__ import annotations

from numba import njit

from tidemill.runtime.kernels.lfta_probe import STRIDE, emit, place, probe, sweep, translate
from tidemill.runtime.kernels.lfta_rows import gather

PARENT, BUCKETS, WIDTH, TABLE, BATCH, EMITS, OUTPUT, PICKS, ATTRIBUTES, FRAGMENTS, CODES = range(11)
COLLISIONS, TURNOVERS, PROBES, FLUSHED = range(4)
# Rows of scratch, STRIDE words each: what one batch needs while it passes one relation.
CHANGES, HEADS, WEIGHTS, SINGLE, OWN, PLACES, KEYS = range(7)


@njit(cache=True, nogil=True)
def descend(top, counts, relations, picks, factors, maps, tables, words, ends, outputs, room, filled, scratch, counters):
    """Send the batch of relation `top` (0: raw) to its output and down its subtree. `counts[top]` records are in it."""
    counts[:top] = 0
    counts[top + 1:] = 0
    own, places, keys = scratch[OWN * STRIDE:], scratch[PLACES * STRIDE:KEYS * STRIDE], scratch[KEYS * STRIDE:]
    for r in range(top, relations.shape[0]):
        spec = relations[r]
        batch, n_attrs = words[spec[BATCH]:], spec[ATTRIBUTES]
        if r > top and counts[spec[PARENT]] > 0:
            parent = relations[spec[PARENT]]
            n, source, a = counts[spec[PARENT]], words[parent[BATCH]:], spec[PICKS]
            weights = scratch[(WEIGHTS if spec[PARENT] == 0 else SINGLE) * STRIDE:]
            counters[r, PROBES] += translate(source, n, maps[spec[FRAGMENTS]:], maps[spec[CODES]:], weights, own)
            place(source, picks[a:a + n_attrs], n, own, factors[a + r - 1:], spec[BUCKETS], spec[WIDTH], keys, places)
            parts = source[(1 + parent[ATTRIBUTES]) * STRIDE:]
            counts[r] = probe(n, own, places, keys, n_attrs, parts, ends, tables[spec[TABLE]:], batch, counters[r])
        if spec[EMITS] and counts[r] > 0:
            emit(batch, counts[r], spec[WIDTH], outputs[spec[OUTPUT]:], room, filled[r])
            filled[r] += counts[r]


@njit(cache=True, nogil=True)
def push_rows(columns, sizes, codes, frags, start, step, counts, relations, picks, factors, maps, tables, words, ends,
              outputs, room, filled, scratch, counters):
    """Push rows from `start` on, `step` at a time, until the rows end or an output might overflow; returns how far."""
    n, n_attrs = codes.shape[0], relations[0, ATTRIBUTES]
    while start < n and filled.max() + step <= room:
        stop = min(start + step, n)
        counts[0] = gather(columns, sizes, codes, frags, start, stop - start, n_attrs, ends, words,
                           scratch[CHANGES * STRIDE:], scratch[HEADS * STRIDE:], scratch[WEIGHTS * STRIDE:])
        descend(0, counts, relations, picks, factors, maps, tables, words, ends, outputs, room, filled, scratch, counters)
        start = stop
    return start


@njit(cache=True, nogil=True)
def flush_tables(r, bucket, step, counts, relations, picks, factors, maps, tables, words, ends, outputs, room, filled,
                 scratch, counters):
    """End-of-epoch update from `bucket` of relation r on; stops like `push_rows`; returns where (relation, bucket)."""
    while r < relations.shape[0]:
        spec = relations[r]
        while bucket < spec[BUCKETS]:
            if filled.max() + step > room:
                return r, bucket
            stop = min(bucket + step, spec[BUCKETS])
            counts[r] = sweep(tables[spec[TABLE]:], spec[WIDTH], bucket, stop, words[spec[BATCH]:])
            counters[r, FLUSHED] += counts[r]
            descend(r, counts, relations, picks, factors, maps, tables, words, ends, outputs, room, filled, scratch, counters)
            bucket = stop
        r, bucket = r + 1, 0
    return r, bucket
