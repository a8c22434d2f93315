"""Fragment rows made ready for sliding: dense keys, sorted by (key, start), equal ones combined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int32, int64, types, uint64

from tidemill.runtime.kernels.compiling.lazy import compiled
from tidemill.runtime.kernels.share.sliding_folds import MIN, SUM, add_rounded, ranks_of, unrank
from tidemill.runtime.thresholds import sizes

_READ_INTS = types.Array(int64, 1, "C", readonly=True)
_READ_CODES = types.Array(int32, 1, "C", readonly=True)
_READ_FLOATS = types.Array(float64, 1, "C", readonly=True)
_INTS = int64[::1]
_CODES = int32[::1]
_HASHES = uint64[::1]
_NEAR = 32  # different signatures of one fragment that are looked through one by one; more are hashed


class Combined(NamedTuple):
    """`first` is the first input row of each output row; `ints` and `floats` have one row for each part."""

    first: np.ndarray
    ints: np.ndarray
    floats: np.ndarray


def bounds_of(key: np.ndarray, keys: int) -> np.ndarray:
    """Where each key's rows begin, for keys that are sorted: key k has the rows [bounds[k], bounds[k + 1]). O(n).

    >>> bounds_of(np.array([0, 0, 2], np.int32), 3).tolist()
    [0, 2, 2, 3]
    """
    return np.concatenate((np.zeros(1, np.int64), np.bincount(key, minlength=keys).cumsum()))


@compiled(_CODES(_READ_INTS))
def _start_ranks(start):
    """The rank of each start among the different ones; empty if the starts are sorted as they are.

    Rows come in runs of equal starts, so only changes of the start need sorting. O(n + changes · log n).
    """
    n = start.shape[0]
    changes, ordered = 1, True
    for i in range(1, n):
        changes += start[i] != start[i - 1]
        ordered &= start[i] >= start[i - 1]
    if ordered:
        return np.empty(0, np.int32)
    heads = np.empty(changes, np.int64)
    heads[0], c = start[0], 1
    for i in range(1, n):
        if start[i] != start[i - 1]:
            heads[c] = start[i]
            c += 1
    different = np.unique(heads)
    out = np.empty(n, np.int32)
    rank = 0
    for i in range(n):
        if i == 0 or start[i] != start[i - 1]:
            # Most often the next start in time follows.
            rank += 1
            if rank >= different.shape[0] or different[rank] != start[i]:
                rank = np.searchsorted(different, start[i])
        out[i] = rank
    return out


@compiled(types.UniTuple(_INTS, 2)(_READ_CODES, _READ_INTS, int64))
def order(key, start, keys):
    """The stable permutation that sorts by (key, start), and the bounds of each key. Needs 0 <= key < keys.

    Two counting sorts: by the rank of the start, unless the rows come in that order, then by key. O(n + keys) for rows
    that come in a few runs with many rows for each start; O(n log n) at worst.
    """
    n = key.shape[0]
    ranks = _start_ranks(start)
    earlier = np.empty(ranks.shape[0], np.int64)
    if ranks.shape[0] > 0:
        heads = np.zeros(ranks.max() + 2, np.int64)
        for i in range(n):
            heads[ranks[i] + 1] += 1
        for r in range(1, heads.shape[0]):
            heads[r] += heads[r - 1]
        for i in range(n):
            earlier[heads[ranks[i]]] = i
            heads[ranks[i]] += 1
    bounds = np.zeros(keys + 1, np.int64)
    for i in range(n):
        bounds[key[i] + 1] += 1
    for k in range(keys):
        bounds[k + 1] += bounds[k]
    places = bounds[:keys].copy()
    rows = np.empty(n, np.int64)
    for i in range(n):
        row = earlier[i] if earlier.shape[0] > 0 else i
        rows[places[key[row]]] = row
        places[key[row]] += 1
    return rows, bounds


def codes_of(columns: Sequence[np.ndarray] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Equal rows of int64 columns get equal codes 0, 1, 2, … in order of appearance; also each code's first row. O(n).

    Rows are told apart by 64-bit hashes; then each row is compared with the first of its code. Should two different
    rows ever share a hash, another hash function is taken.

    >>> codes, first = codes_of([np.array([7, 7, 5, 7]), np.array([1, 2, 1, 1])])
    >>> codes.tolist(), first.tolist()
    ([0, 1, 2, 0], [0, 1, 2])
    """
    seed = 0
    while True:
        codes, first = _number_hashes(_hash_columns(columns, seed))
        # One column's hash is one to one.
        if len(columns) == 1 or all(_agrees(column, codes, first) for column in columns):
            return codes, first
        seed += 1


def _hash_columns(columns: Sequence[np.ndarray] | np.ndarray, seed: int) -> np.ndarray:
    hashes = np.full(len(columns[0]), seed, np.uint64)
    for column in columns:
        _mix(column, hashes)
    return hashes


@compiled(types.void(_READ_INTS, _HASHES))
def _mix(column, hashes):
    """hashes[i] = f(hashes[i] ^ column[i]) for a one-to-one f that spreads every bit (the last steps of splitmix64)."""
    for i in range(column.shape[0]):
        h = hashes[i] ^ np.uint64(column[i])
        h = h + np.uint64(0x9E3779B97F4A7C15)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes[i] = h ^ (h >> np.uint64(31))


@compiled(boolean(_READ_INTS, _CODES, _INTS))
def _agrees(column, codes, first):
    """True when each row has the value of its code's first row. O(n)."""
    different = 0
    for i in range(column.shape[0]):
        different += column[i] != column[first[codes[i]]]
    return different == 0


def different(hashes: np.ndarray) -> int:
    """About how many different ones there are, by those that end in six zeros; 0 where it is not worth knowing. O(n).

    >>> rows = np.arange(200_000, dtype=np.int64)
    >>> [different(hashes_of([rows // copies])) * copies // 20_000 for copies in (1, 2, 10)]
    [10, 10, 10]
    """
    if len(hashes) < sizes.counted_hashes:
        return 0
    return 64 * len(np.unique(hashes[hashes & np.uint64(63) == 0]))


def hashes_of(columns: Sequence[np.ndarray]) -> np.ndarray:
    """One 64-bit hash for each row."""
    return _hash_columns(columns, 0)


def _number_hashes(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Dense codes of hashes in order of appearance, and each code's first row.

    An open-addressing table with linear probing, which grows when it is half full. A slot is two words, the hash and
    its code + 1, side by side: one probe, one cache line. NumPy allocates it, for the sake of huge pages.
    """
    codes, first = np.empty(len(hashes), np.int32), np.empty(len(hashes), np.int64)
    table = np.zeros(max(2 * 1024, 4 << different(hashes).bit_length()), np.uint64)
    done, found = _number(hashes, 0, 0, table, codes, first)
    while done < len(hashes):
        table, narrow = np.zeros(4 * len(table), np.uint64), table
        _refill(narrow, table)
        done, found = _number(hashes, done, found, table, codes, first)
    return codes, first[:found]


@compiled(types.UniTuple(int64, 2)(_HASHES, int64, int64, _HASHES, _CODES, _INTS))
def _number(hashes, done, found, table, codes, first):
    """Codes of the rows from `done` on until the table is full; how many rows have one, and how many codes. O(n)."""
    last = table.shape[0] - 2
    most = table.shape[0] // 4
    for i in range(done, hashes.shape[0]):
        h = hashes[i]
        place = np.int64(h << np.uint64(1)) & last
        while table[place + 1] > 0 and table[place] != h:
            place = (place + 2) & last
        if table[place + 1] > 0:
            codes[i] = table[place + 1] - 1
            continue
        if found == most:
            return i, found
        codes[i], first[found] = found, i
        found += 1
        table[place], table[place + 1] = h, found
    return hashes.shape[0], found


@compiled(types.void(_HASHES, _HASHES))
def _refill(narrow, table):
    """Moves the entries of one table into a wider one. O(slots)."""
    last = table.shape[0] - 2
    for slot in range(0, narrow.shape[0], 2):
        if narrow[slot + 1] > 0:
            place = np.int64(narrow[slot] << np.uint64(1)) & last
            while table[place + 1] > 0:
                place = (place + 2) & last
            table[place], table[place + 1] = narrow[slot], narrow[slot + 1]


def combine(
    identity: Sequence[np.ndarray],
    ints: Sequence[np.ndarray] | np.ndarray,
    int_kinds: Sequence[int],
    floats: Sequence[np.ndarray] | np.ndarray,
    float_kinds: Sequence[int],
) -> Combined:
    """Rows with equal identity (key, start, signature words) become one, in order of first appearance. O(n).

    So rows sorted by (key, start) stay sorted, and they need no hash table: equal rows are close together.

    >>> merged = combine([np.array([0, 0, 1]), np.array([5, 5, 5])], [np.array([1, 2, 4])], [SUM], [], [])
    >>> merged.first.tolist(), merged.ints.tolist()
    ([0, 2], [[3, 4]])
    """
    codes, first = _nearby(identity) or codes_of(identity)
    out_ints = np.empty((len(ints), len(first)), np.int64)
    out_floats = np.empty((len(floats), len(first)), np.float64)
    for i, kind in enumerate(int_kinds):
        if kind == SUM:
            _add_up(ints[i], codes, out_ints[i])
        else:
            _extreme(ints[i], codes, first, kind == MIN, out_ints[i])
    for i, kind in enumerate(float_kinds):
        if kind == SUM:
            _add_up_floats(floats[i], codes, out_floats[i])
        else:
            ranks = ranks_of(floats[i].view(np.int64))
            _extreme(ranks, codes, first, kind == MIN, out_floats[i].view(np.int64))
            unrank(out_floats[i].view(np.int64))
    return Combined(first, out_ints, out_floats)


def _nearby(identity: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """Codes of rows that are sorted by the first two columns; None if they are not."""
    key, start, *words = identity
    hashes = _hash_columns(words, 0) if words else np.zeros(len(key), np.uint64)
    codes, first = _numbered_in_runs(key, start, hashes)
    if len(codes) < len(key) or (len(words) > 1 and not all(_agrees(word, codes, first) for word in words)):
        return None
    return codes, first


@compiled(types.Tuple((_CODES, _INTS))(_READ_INTS, _READ_INTS, _HASHES))
def _numbered_in_runs(key, start, hashes):
    """Dense codes of (key, start, hash) for rows sorted by (key, start); no codes if unsorted or with too many hashes.

    O(n · hashes of one (key, start)), and those are few.
    """
    n = key.shape[0]
    codes, first = np.empty(n, np.int32), np.empty(n, np.int64)
    found = run = 0
    for i in range(n):
        if i > 0 and (key[i] != key[i - 1] or start[i] != start[i - 1]):
            if key[i] < key[i - 1] or (key[i] == key[i - 1] and start[i] < start[i - 1]):
                return codes[:0], first[:0]
            run = found
        code = run
        while code < found and hashes[first[code]] != hashes[i]:
            code += 1
        if code == found:
            if found - run == _NEAR:
                return codes[:0], first[:0]
            first[found] = i
            found += 1
        codes[i] = code
    return codes, first[:found].copy()


@compiled(types.void(_READ_INTS, _READ_CODES, _INTS))
def _add_up(values, codes, out):
    """out[c] = Σ values of code c modulo 2^64. O(n)."""
    out[:] = 0
    for i in range(values.shape[0]):
        out[codes[i]] += values[i]


@compiled(types.void(_READ_FLOATS, _READ_CODES, float64[::1]))
def _add_up_floats(values, codes, out):
    """out[c] = Σ values of code c, with the rounding errors carried along. O(n)."""
    out[:] = 0.0
    lost = np.zeros(out.shape[0])
    for i in range(values.shape[0]):
        c = codes[i]
        out[c], lost[c] = add_rounded(out[c], lost[c], values[i])
    for c in range(out.shape[0]):
        out[c] += lost[c]


@compiled(types.void(_READ_INTS, _READ_CODES, _READ_INTS, boolean, _INTS))
def _extreme(values, codes, first, least, out):
    """out[c] = least (or greatest) value of code c. O(n)."""
    for c in range(out.shape[0]):
        out[c] = values[first[c]]
    for i in range(values.shape[0]):
        c = codes[i]
        out[c] = min(out[c], values[i]) if least else max(out[c], values[i])
