"""The hot loops of the LFTA: rows become records, records probe tables and evict what they meet (paper 002, section 2).

A record has int64 words `[tag][group attributes][parts]`.

- The tag is `fragment << 32 | signature code`; an empty bucket has tag -1.
- Parts are sorted by what combines them: sums, least, greatest of the integers, then of the floats (their bits).
  `ends` holds the six ends of these stretches, as numbers of parts.

A batch keeps word w of record j at `words[w * STRIDE + j]`, so that all passes but one run along columns. A table
keeps the words of a bucket together, in one cache line or two. Relations are numbered from 1, parents before
children; number 0 is the raw batch, whose records stand for runs of rows.

Why a whole batch may pass one relation before the next: a relation's buckets depend only on the sequence of entries
that its parent evicts, and no two relations share a bucket. So feeding a relation all evictions of a batch at once
leaves the same buckets, evictions and counts as sending each entry down the tree when it is evicted.

Where a new fragment begins, relations that feed others are emptied first, parents before children (paper 002: the
end-of-epoch update). If their old entries stayed until a newcomer evicts them, children would get entries of two
fragments in turns, and each of them would evict the one before. Leaves keep theirs: it makes no difference there.
Fragments of few rows are not worth the cuts: the tables are emptied once for several of them.

Columns of rows stay where the caller has them: the loops get addresses, so that int32 and int64 columns need neither a
copy nor a compilation of their own.

All loops are in this one file because numba's cache of an entry point watches only the entry point's own file.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

SUM, LEAST, GREATEST = 0, 1, 2
EMPTY, LOW = -1, 0xFFFFFFFF
# Size of an item in a column; a column of ones has no items.
ONES, NARROW, WIDE = 0, 4, 8
# Most records of a batch: small enough for its columns to stay in the nearest caches.
STEP = 2048
# Batches in which runs are not looked for after one that had few.
BLIND = 7
# Not a power of two: the words of a record would compete for the same few lines of the cache.
STRIDE = STEP + 40
PARENT, BUCKETS, WIDTH, TABLE, BATCH, EMITS, OUTPUT, PICKS, ATTRIBUTES, FRAGMENTS, CODES, USED, FEEDS = range(13)
PROBES, COLLISIONS, TURNOVERS, FLUSHED, IN_USE = range(5)
# Where a flush is: the relation, its next bucket. The greatest fragment of the rows so far, that of the last flush at
# the beginning of a fragment, the rows since then, and how many they must be for the next one.
RELATION, BUCKET, LATEST, EMPTIED, SINCE, LEAST_ROWS = range(6)
# A table with less than one bucket of SPARSE in use is emptied by the list of those; others bucket by bucket.
SPARSE = 8
# Rows of scratch, STRIDE words each: what one batch needs while it passes one relation.
CHANGES, HEADS, WEIGHTS, SINGLE, OWN, PLACES, KEYS = range(7)
# An unsigned index saves the test for a negative one.
at = np.uintp


class Rows(NamedTuple):
    """Rows to push: addresses and item sizes of their columns (attributes, then parts in the order of `ends`), codes of
    their patterns, numbers of their fragments.
    """

    columns: np.ndarray
    sizes: np.ndarray
    codes: np.ndarray
    frags: np.ndarray


class Forest(NamedTuple):
    """The tables of a configuration and the memory of the loops, as flat arrays; `relations` has the places of each
    relation in them. `step` records pass at a time, an output has room for `room` entries.
    """

    place: np.ndarray
    step: int
    counts: np.ndarray
    relations: np.ndarray
    picks: np.ndarray
    factors: np.ndarray
    maps: np.ndarray
    tables: np.ndarray
    used: np.ndarray
    words: np.ndarray
    ends: np.ndarray
    outputs: np.ndarray
    room: int
    filled: np.ndarray
    scratch: np.ndarray
    counters: np.ndarray


@intrinsic
def pointer(typingctx, address):
    """The pointer with this address."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@njit(nogil=True)
def tag_rows(codes, frags, tags):
    """tags[i] = fragment << 32 | code. O(rows)."""
    for i in range(codes.shape[0]):
        tags[i] = np.int64(frags[i]) << 32 | np.int64(codes[i])


@njit(nogil=True)
def find_changes(words, n, n_attrs, changes):
    """changes[i] is not 0 where row i differs from the row before in its tag or an attribute. O(n · attributes)."""
    changes[0] = 1
    for i in range(1, n):
        changes[i] = words[i] ^ words[i - 1]
    for w in range(1, 1 + n_attrs):
        mark_changes(words[w * STRIDE : w * STRIDE + n], changes)


@njit(nogil=True)
def read_column(address, size, start, into):
    """Fill `into` with the rows from `start` on of the column at this address: int32, 8 bytes of any kind, or ones."""
    n = into.shape[0]
    if size == NARROW:
        narrow = carray(pointer(address + start * NARROW), n, np.int32)  # type: ignore[call-arg]
        for i in range(n):
            into[i] = narrow[i]
    elif size == WIDE:
        wide = carray(pointer(address + start * WIDE), n, np.int64)  # type: ignore[call-arg]
        for i in range(n):
            into[i] = wide[i]
    else:
        for i in range(n):
            into[i] = 1


@njit(nogil=True)
def mark_changes(column, changes):
    """changes[i] gets a bit wherever the column differs from the row before."""
    for i in range(1, column.shape[0]):
        changes[i] |= column[i] ^ column[i - 1]


@njit(nogil=True)
def find_runs(changes, n, heads):
    """First rows of the runs between changes, and n at the end. Returns the number of runs. O(n), no branches."""
    m = 0
    for i in range(n):
        heads[m] = i
        m += changes[i] != 0
    heads[m] = n
    return m


@njit(nogil=True)
def keep_heads(column, heads, m):
    """In place: column[j] = its value at the first row of run j."""
    for j in range(m):
        column[j] = column[heads[j]]


@njit(nogil=True)
def add_runs(column, heads, m):
    """In place: column[j] = sum of run j, modulo 2^64: the difference of two sums from the first row on. O(rows)."""
    total = np.int64(0)
    for i in range(column.shape[0]):
        total += column[i]
        column[i] = total
    before = np.int64(0)
    for j in range(m):
        total = column[heads[j + 1] - 1]
        column[j] = total - before
        before = total


@njit(nogil=True)
def fold_runs(column, changes, kind):
    """In place: column[j] = sum, least or greatest value of run j. NaN is the greatest, as in SQL. O(rows).

    No branches: the running value is written at every row, and the last write of a run stays.
    """
    m = -1
    held = column[0]
    for i in range(column.shape[0]):
        value, first = column[i], changes[i] != 0
        m += first
        if kind == SUM:
            held = value if first else held + value
        elif kind == LEAST:
            held = value if first or value < held or held != held else held
        else:
            held = value if first or value > held or value != value else held
        column[m] = held


@njit(nogil=True)
def fold_part(column, size, kind, changes, heads, m):
    """In place: column[j] = the part of run j. Kinds 0 to 2 are integers, 3 to 5 the same for floats."""
    if kind >= 3:
        fold_runs(column.view(np.float64), changes, kind - 3)
    elif kind != SUM:
        fold_runs(column, changes, kind)
    elif size == ONES:
        for j in range(m):
            column[j] = heads[j + 1] - heads[j]
    else:
        add_runs(column, heads, m)


@njit(nogil=True)
def gather(rows, start, n, forest, looks):
    """The raw batch of rows [start, start + n): one record for each run, or for each row if it does not look for runs.
    O(n). Returns the number of records.

    The scratch row WEIGHTS has the number of rows that each record stands for.
    """
    columns, sizes, codes, frags = rows
    words, ends, n_attrs = forest.words, forest.ends, forest.relations[0, ATTRIBUTES]
    changes, heads = forest.scratch[CHANGES * STRIDE :], forest.scratch[HEADS * STRIDE :]
    weights = forest.scratch[WEIGHTS * STRIDE :]
    tag_rows(codes[start : start + n], frags[start : start + n], words)
    for w in range(1, columns.shape[0] + 1):
        read_column(columns[w - 1], sizes[w - 1], start, words[w * STRIDE : w * STRIDE + n])
    m = n
    if looks:
        find_changes(words, n, n_attrs, changes)
        m = find_runs(changes, n, heads)
    if 4 * m > 3 * n:
        # Few rows repeat the one before: folding the runs would cost more than it saves.
        weights[:n] = 1
        return n
    kind = 0
    for w in range(n_attrs + 1):
        keep_heads(words[w * STRIDE : w * STRIDE + n], heads, m)
    for w in range(n_attrs + 1, columns.shape[0] + 1):
        while w - n_attrs > ends[kind]:
            kind += 1
        fold_part(words[w * STRIDE : w * STRIDE + n], sizes[w - 1], kind, changes, heads, m)
    for j in range(m):
        weights[j] = heads[j + 1] - heads[j]
    return m


@njit(nogil=True)
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


@njit(nogil=True)
def translate(tags, n, fragments, codes, weights, own):
    """own[j] = the relation's tag for the parent's tag of record j, negative if unwanted. Returns the weight wanted."""
    wanted = 0
    for j in range(n):
        own[j] = np.int64(fragments[at(tags[j] >> 32)]) << 32 | np.int64(codes[at(tags[j] & LOW)])
        wanted += weights[j] if own[j] >= 0 else 0
    return wanted


@njit(nogil=True)
def place(words, picks, n, own, factors, buckets, width, places):
    """places[j] = first word of the bucket of record j (see `bucket_of`); its attributes are columns picks[k]."""
    sums = places.view(np.uint64)
    for j in range(n):
        sums[j] = np.uint64(own[j] & LOW) * factors[0]
    for k in range(picks.shape[0]):
        factor = factors[k + 1]
        column = words[picks[k] * STRIDE : picks[k] * STRIDE + n]
        for j in range(n):
            sums[j] += np.uint64(column[j]) * factor
    for j in range(n):
        places[j] = spread(sums[j], buckets) * width


@njit(nogil=True)
def side_by_side(words, picks, n, room):
    """The columns picks[k] of n records one after the other: where they are if they are so, else copied to `room`."""
    for k in range(1, picks.shape[0]):
        if picks[k] != picks[0] + k:
            for i in range(picks.shape[0]):
                column, key = words[picks[i] * STRIDE : picks[i] * STRIDE + n], room[i * STRIDE : i * STRIDE + n]
                for j in range(n):
                    key[j] = column[j]
            return room
    return words[picks[0] * STRIDE :] if picks.shape[0] else room


@njit(nogil=True)
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

    @njit(nogil=True)
    def probe(n, own, places, keys, n_keys, parts, ends, table, used, evicted, count):
        sums, n_parts = ends[0], ends[5]
        n_attrs = n_keys if fixed < 0 else fixed
        collisions = m = 0
        in_use = count[IN_USE]
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
            else:
                used[at(in_use)] = e
                in_use += 1
            table[at(e)] = tag
            for k in range(n_attrs):
                table[at(e + 1 + k)] = keys[at(k * STRIDE + j)]
            for w in range(n_parts):
                table[at(first + w)] = parts[at(w * STRIDE + j)]
        count[COLLISIONS] += collisions
        count[TURNOVERS] += m - collisions
        count[IN_USE] = in_use
        return m

    return probe


_probe_any, _probe_1, _probe_2, _probe_3, _probe_4 = (_probe_loop(fixed) for fixed in (-1, 1, 2, 3, 4))


@njit(nogil=True)
def probe(n, own, places, keys, n_keys, parts, ends, table, used, evicted, count):
    """Probe one table with n records, in order; what they evict becomes the batch `evicted`. O(n).

    A record without a negative tag meets the bucket at its place. Same tag and keys: its parts are folded in. Else the
    old entry is evicted and the record takes the bucket: a collision, or a turnover if only the fragment differs.
    A bucket that was empty is noted in `used`. Adds to `count` and returns the number of evicted entries (at most n).
    """
    if n_keys == 1:
        return _probe_1(n, own, places, keys, n_keys, parts, ends, table, used, evicted, count)
    if n_keys == 2:
        return _probe_2(n, own, places, keys, n_keys, parts, ends, table, used, evicted, count)
    if n_keys == 3:
        return _probe_3(n, own, places, keys, n_keys, parts, ends, table, used, evicted, count)
    if n_keys == 4:
        return _probe_4(n, own, places, keys, n_keys, parts, ends, table, used, evicted, count)
    return _probe_any(n, own, places, keys, n_keys, parts, ends, table, used, evicted, count)


@njit(nogil=True)
def sweep(table, width, used, first, last, listed, evicted):
    """Empty buckets [first, last) in order, or those that `used` has there; their entries become the batch `evicted`.
    Returns how many.
    """
    m = 0
    for i in range(first, last):
        e = np.int64(used[i]) if listed else i * width
        if table[e] != EMPTY:
            for w in range(width):
                evicted[w * STRIDE + m] = table[e + w]
            table[e] = EMPTY
            m += 1
    return m


@njit(nogil=True)
def emit(batch, n, width, output, room, filled):
    """Append the n records of a batch to the columns of an output, of `room` words each, behind `filled` records."""
    for w in range(width):
        column, source = output[w * room + filled :], batch[w * STRIDE :]
        for j in range(n):
            column[j] = source[j]


@njit(nogil=True)
def descend(top, forest):
    """Send the batch of relation `top` (0: raw) to its output and down its subtree. `counts[top]` records are in it."""
    counts, relations, picks, maps = forest.counts, forest.relations, forest.picks, forest.maps
    words, scratch, counters = forest.words, forest.scratch, forest.counters
    counts[:top] = 0
    counts[top + 1 :] = 0
    own, places = scratch[OWN * STRIDE :], scratch[PLACES * STRIDE : KEYS * STRIDE]
    for r in range(top, relations.shape[0]):
        spec = relations[r]
        batch, n_attrs = words[spec[BATCH] :], spec[ATTRIBUTES]
        if r > top and counts[spec[PARENT]] > 0:
            parent = relations[spec[PARENT]]
            n, source, a = counts[spec[PARENT]], words[parent[BATCH] :], spec[PICKS]
            own_picks, factors = picks[a : a + n_attrs], forest.factors[a + r - 1 :]
            weights = scratch[(WEIGHTS if spec[PARENT] == 0 else SINGLE) * STRIDE :]
            counters[r, PROBES] += translate(source, n, maps[spec[FRAGMENTS] :], maps[spec[CODES] :], weights, own)
            place(source, own_picks, n, own, factors, spec[BUCKETS], spec[WIDTH], places)
            keys = side_by_side(source, own_picks, n, scratch[KEYS * STRIDE :])
            parts = source[(1 + parent[ATTRIBUTES]) * STRIDE :]
            table, used = forest.tables[spec[TABLE] :], forest.used[spec[USED] :]
            counts[r] = probe(n, own, places, keys, n_attrs, parts, forest.ends, table, used, batch, counters[r])
        if spec[EMITS] and counts[r] > 0:
            emit(batch, counts[r], spec[WIDTH], forest.outputs[spec[OUTPUT] :], forest.room, forest.filled[r])
            forest.filled[r] += counts[r]


@njit(nogil=True)
def next_edge(frags, start, stop, place):
    """The first row of [start, stop) at which a fragment begins that is worth a cut, or `stop`. The rows before it are
    counted as seen.
    """
    for i in range(start, stop):
        if frags[i] > place[LATEST]:
            if place[SINCE] + i - start >= place[LEAST_ROWS]:
                stop = i
                break
            place[LATEST] = frags[i]
    place[SINCE] += stop - start
    return stop


@njit(nogil=True)
def fragment_ends(r, old, new, relations, maps):
    """True when the rows' fragments `old` and `new` are different ones of relation r, which feeds others."""
    if relations[r, FEEDS] == 0:
        return False
    path = np.empty(relations.shape[0], np.int64)
    depth = 0
    while r > 0:
        path[depth] = r
        depth += 1
        r = relations[r, PARENT]
    for i in range(depth - 1, -1, -1):
        start = relations[path[i], FRAGMENTS]
        old = maps[start + old] if old >= 0 else old
        new = maps[start + new] if new >= 0 else new
    return old != new


@njit(nogil=True)
def empty_some(forest):
    """Evict entries of up to `step` buckets of the relation at `place`, and go on with the next one after its last."""
    place, counts = forest.place, forest.counts
    r = place[RELATION]
    spec, count = forest.relations[r], forest.counters[r]
    listed = count[IN_USE] * SPARSE < spec[BUCKETS]
    last = count[IN_USE] if listed else spec[BUCKETS]
    stop = min(place[BUCKET] + forest.step, last)
    table, used, batch = forest.tables[spec[TABLE] :], forest.used[spec[USED] :], forest.words[spec[BATCH] :]
    counts[r] = sweep(table, spec[WIDTH], used, place[BUCKET], stop, listed, batch)
    count[FLUSHED] += counts[r]
    if counts[r] > 0:
        descend(r, forest)
    place[BUCKET] = stop
    if stop == last:
        count[IN_USE] = 0
        place[RELATION], place[BUCKET] = r + 1, 0


@njit(cache=True, nogil=True)
def push_rows(rows, start, forest):
    """Push rows from `start` on, `step` at a time, until the rows end or an output might overflow; returns how far."""
    place, relations, frags = forest.place, forest.relations, rows.frags
    n, blind, feeds = rows.codes.shape[0], 0, relations[1:, FEEDS].any()
    while start < n and forest.filled.max() + forest.step <= forest.room:
        stop = min(start + forest.step, n)
        if feeds:
            stop = next_edge(frags, start, stop, place)
        if stop == start:
            # A fragment begins: what is left of the one before goes down first.
            if place[RELATION] == relations.shape[0]:
                place[RELATION], place[LATEST], place[EMPTIED], place[SINCE] = 1, frags[start], frags[start], 0
            elif fragment_ends(place[RELATION], place[EMPTIED], np.int64(frags[start]), relations, forest.maps):
                empty_some(forest)
            else:
                place[RELATION] += 1
            continue
        records = gather(rows, start, stop - start, forest, blind == 0)
        forest.counts[0] = records
        # Rows probe alone or in runs with the same effect: where there were few runs, the next ones are not looked for.
        blind = blind - 1 if blind else (BLIND if records == stop - start else 0)
        descend(0, forest)
        start = stop
    return start


@njit(cache=True, nogil=True)
def flush_tables(forest):
    """End-of-epoch update from `place` on; stops like `push_rows`; returns True when all is done."""
    place = forest.place
    while place[RELATION] < forest.relations.shape[0]:
        if forest.filled.max() + forest.step > forest.room:
            return False
        empty_some(forest)
    place[RELATION] = 1
    return True
