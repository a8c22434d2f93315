"""Rows into sums, one for each group and class: what running totals (`kernels.share.intercede_running`) cost for
every row.

Rows of one *class* satisfy the same predicates over columns that are no group attributes.

`fold_rows` takes its 14 arguments one by one: as a NamedTuple of arrays they take 7 µs instead of 2 µs to unpack at
each call, more than the call itself often takes.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, carray, int32, int64, njit, types, uint8

from tidemill.runtime.kernels.compiling.lazy import compiled
from tidemill.runtime.kernels.share.lfta_loops import NARROW, ONES, WIDE, pointer, read_column

MOST = (1 << 63) - 1
STEP = 2048  # rows at a time: what is computed of them stays in the nearest caches
at = np.uintp  # an unsigned index saves the test for a negative one

_INTS = int64[::1]
_CODES = int32[::1]
_ROWS = int64[:, ::1]
_READ_INTS = types.Array(int64, 1, "C", readonly=True)


@njit(nogil=True)
def _read_pair(high, low, start, into):
    """Two columns of 32 bits as one of 64."""
    n = into.shape[0]
    left = carray(pointer(high + start * NARROW), n, np.int32)  # type: ignore[call-arg]
    right = carray(pointer(low + start * NARROW), n, np.uint32)
    for i in range(n):
        into[i] = np.int64(left[i]) << 32 | np.int64(right[i])


@njit(nogil=True)
def _place(words, n, bits, places):
    """places[j] = where record j of words[w, j] begins to look in a table of 2^bits slots."""
    hashes = places.view(np.uint64)
    for j in range(n):
        hashes[j] = np.uint64(0)
    for w in range(words.shape[0]):
        column = words[w]
        for j in range(n):
            x = (hashes[j] ^ np.uint64(column[j])) * np.uint64(0x9E3779B97F4A7C15)
            hashes[j] = x ^ (x >> np.uint64(32))
    shift = np.uint64(64 - bits)
    for j in range(n):
        hashes[j] = (hashes[j] * np.uint64(0xD6E8FEB86659FD93)) >> shift


def _number_loop(fixed: int):
    """The look-up of records of `fixed` words (-1: any number)."""

    @njit(nogil=True)
    def number(words, n, places, slots, keys, count, numbers):
        width = words.shape[0] if fixed < 0 else fixed
        last = slots.shape[0] - 1
        for j in range(n):
            place = places[at(j)]
            while True:
                found = slots[at(place)]
                if found < 0:
                    if count == keys.shape[0]:
                        return j, count
                    for w in range(width):
                        keys[at(count), at(w)] = words[at(w), at(j)]
                    slots[at(place)] = count
                    found = np.int32(count)
                    count += 1
                    break
                differs = keys[at(found), at(0)] ^ words[at(0), at(j)] if width else np.int64(0)
                for w in range(1, width):
                    differs |= keys[at(found), at(w)] ^ words[at(w), at(j)]
                if differs == 0:
                    break
                place = (place + 1) & last
            numbers[at(j)] = found
        return n, count

    return number


_number_any, _number_1, _number_2, _number_3, _number_4 = (_number_loop(fixed) for fixed in (-1, 1, 2, 3, 4))


@njit(nogil=True)
def _number(words, n, places, slots, keys, count, numbers):
    """numbers[j] = the number of record j, new ones in order of appearance; stops where there is no room for a new one.
    Returns how far it came, and how many numbers there are.
    """
    width = words.shape[0]
    if width == 1:
        return _number_1(words, n, places, slots, keys, count, numbers)
    if width == 2:
        return _number_2(words, n, places, slots, keys, count, numbers)
    if width == 3:
        return _number_3(words, n, places, slots, keys, count, numbers)
    if width == 4:
        return _number_4(words, n, places, slots, keys, count, numbers)
    return _number_any(words, n, places, slots, keys, count, numbers)


@compiled(types.UniTuple(int64, 2)(_ROWS, _CODES, _ROWS, int64, _CODES))
def number_records(records, slots, keys, count, numbers):
    """The numbers of records[w, j] among `keys`, of which `count` are known; `slots` are 2^bits, -1 where empty.
    O(records). Returns how far it came, and how many keys there are.
    """
    bits = 0
    while 1 << bits < slots.shape[0]:
        bits += 1
    places = np.empty(records.shape[1], np.int64)
    _place(records, records.shape[1], bits, places)
    return _number(records, records.shape[1], places, slots, keys, count, numbers)


def _add_loop(fixed: int):
    """The addition of `fixed` parts (-1: any number)."""

    @njit(nogil=True)
    def add(n, numbers, classes, parts, n_sums, sums):
        width, own = sums.shape[1], parts.shape[0]
        added = n_sums if fixed < 0 else fixed
        flat = sums.reshape(-1)
        for j in range(n):
            place = at(numbers[at(j)]) * at(width) + at(classes[at(j)]) * at(own)
            for p in range(added):
                flat[place + at(p)] += parts[at(p), at(j)]

    return add


_add_any, _add_1, _add_2, _add_3 = (_add_loop(fixed) for fixed in (-1, 1, 2, 3))


@njit(nogil=True)
def _add(n, numbers, classes, parts, n_sums, sums):
    """sums[number, class] += the first `n_sums` parts of each row."""
    if n_sums == 1:
        _add_1(n, numbers, classes, parts, n_sums, sums)
    elif n_sums == 2:
        _add_2(n, numbers, classes, parts, n_sums, sums)
    elif n_sums == 3:
        _add_3(n, numbers, classes, parts, n_sums, sums)
    else:
        _add_any(n, numbers, classes, parts, n_sums, sums)


@njit(nogil=True)
def _lessen(n, numbers, classes, parts, n_sums, flips, sums):
    """sums[number, class] = the least of itself and the other parts of each row, exclusive-or `flips`."""
    width, own = sums.shape[1], parts.shape[0]
    flat = sums.reshape(-1)
    for j in range(n):
        place = at(numbers[at(j)]) * at(width) + at(classes[at(j)]) * at(own)
        for p in range(n_sums, own):
            value = parts[at(p), at(j)] ^ flips[at(p - n_sums)]
            if value < flat[place + at(p)]:
                flat[place + at(p)] = value


@njit(nogil=True)
def _prepare(low, high, parts, n_sums, sums):
    """No rows of groups [low, high) were seen: nothing is the least of them."""
    for g in range(low, high):
        for c in range(sums.shape[1] // parts):
            for p in range(n_sums, parts):
                sums[g, c * parts + p] = MOST


@njit(nogil=True)
def _mark(numbers, n, met, count_met, marked):
    """Groups that were not met before are met now; how many are."""
    for j in range(n):
        if not marked[at(numbers[at(j)])]:
            marked[at(numbers[at(j)])] = True
            met[at(count_met)] = numbers[at(j)]
            count_met += 1
    return count_met


@njit(nogil=True)
def _count_columns(pairs):
    """How many columns the words of a key are made of."""
    count = 0
    for w in range(pairs.shape[0]):
        count += 1 + (pairs[w, 1] >= 0)
    return count


@njit(nogil=True)
def _read_words(columns, sizes, pairs, start, n, words):
    """The words of the keys of rows [start, start + n)."""
    for w in range(pairs.shape[0]):
        a, b = pairs[w]
        if b >= 0:
            _read_pair(columns[a], columns[b], start, words[w, :n])
        else:
            read_column(columns[a], sizes[a], start, words[w, :n])


@compiled(
    types.Tuple((int64, int64, int64))(
        _INTS,
        _INTS,
        _ROWS,
        types.Array(uint8, 1, "C", readonly=True),
        int64,
        int64,
        _INTS,
        _CODES,
        _ROWS,
        int64,
        _ROWS,
        _CODES,
        int64,
        boolean[::1],
    )
)
def fold_rows(columns, sizes, pairs, classes, start, stop, flips, slots, keys, count, sums, met, count_met, marked):
    """Put rows [start, stop) to the sums of their groups and classes. O(rows).

    `columns` and `sizes` tell where the columns are, the parts last; pairs[w] are the one or two columns of word w of
    a group's key. Parts add up, except for as many at the end as there are `flips`: of value ^ flip the least is kept
    (with -1 for a flip that is ~ of the greatest). The numbers of the groups that have rows are in `met` and `marked`,
    unless there is no room for any.
    Returns how far it came (there may be no room for another group), how many groups there are, how many were met.
    """
    n_words, n_attributes = pairs.shape[0], _count_columns(pairs)
    n_parts = columns.shape[0] - n_attributes
    n_sums = n_parts - flips.shape[0]
    bits, marking = 0, met.shape[0] > 0
    while 1 << bits < slots.shape[0]:
        bits += 1
    words, parts = np.empty((n_words, STEP), np.int64), np.empty((n_parts, STEP), np.int64)
    places, numbers = np.empty(STEP, np.int64), np.empty(STEP, np.int32)
    while start < stop:
        n = min(STEP, stop - start)
        _read_words(columns, sizes, pairs, start, n, words)
        for p in range(n_parts):
            read_column(columns[n_attributes + p], sizes[n_attributes + p], start, parts[p, :n])
        _place(words, n, bits, places)
        known = count
        done, count = _number(words, n, places, slots, keys, count, numbers)
        if marking:
            count_met = _mark(numbers, done, met, count_met, marked)
        _add(done, numbers, classes[start : start + done], parts, n_sums, sums)
        if n_sums < n_parts:
            _prepare(known, count, n_parts, n_sums, sums)
            _lessen(done, numbers, classes[start : start + done], parts, n_sums, flips, sums)
        start += done
        if done < n:
            break
    return start, count, count_met


@compiled(
    types.void(
        types.Array(int32, 1, "C", readonly=True), int64, types.Array(uint8, 1, "C", readonly=True), uint8, uint8[::1]
    )
)
def _classify_narrow(column, least, table, scale, out):
    top = np.int64(table.shape[0] - 1)
    for i in range(column.shape[0]):
        out[i] += scale * table[at(min(max(np.int64(column[i]) - least, np.int64(0)), top))]


@compiled(types.void(_READ_INTS, int64, types.Array(uint8, 1, "C", readonly=True), uint8, uint8[::1]))
def _classify_wide(column, least, table, scale, out):
    top = np.int64(table.shape[0] - 1)
    for i in range(column.shape[0]):
        out[i] += scale * table[at(min(max(column[i], least), least + top) - least)]


def classify(column: np.ndarray, least: int, table: np.ndarray, scale: int, out: np.ndarray) -> None:
    """out[i] += scale · table[column[i] − least], where values beyond the ends of the table count as its ends.

    >>> out = np.zeros(3, np.uint8)
    >>> classify(np.array([-9, 4, 99]), 3, np.array([0, 1, 2], np.uint8), 5, out)
    >>> out.tolist()
    [0, 5, 10]
    """
    kernel = _classify_narrow if column.dtype == np.int32 else _classify_wide
    kernel(column, least, table, np.uint8(scale), out)


__all__ = ["MOST", "NARROW", "ONES", "STEP", "WIDE", "classify", "fold_rows", "number_records"]
