"""Rows to records: the raw batch of the LFTA, where neighbours of the same group, fragment and code become one record.

Columns stay where the caller has them: the loops get addresses, so that int32 and int64 columns, side by side in
memory or not, need neither a copy nor a compilation of their own.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from tidemill.runtime.kernels.lfta_probe import STRIDE

ONES, NARROW, WIDE = 0, 4, 8
SUM, LEAST, GREATEST = 0, 1, 2


@intrinsic
def pointer(typingctx, address):
    """The pointer with this address."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@njit(cache=True, nogil=True)
def tag_rows(codes, frags, tags, changes):
    """tags[i] = fragment << 32 | code; changes[i] is not 0 where it differs from the row before. O(rows)."""
    for i in range(codes.shape[0]):
        tags[i] = np.int64(frags[i]) << 32 | np.int64(codes[i])
    changes[0] = 1
    for i in range(1, codes.shape[0]):
        changes[i] = tags[i] ^ tags[i - 1]


@njit(cache=True, nogil=True)
def read_column(address, size, start, into):
    """Fill `into` with the rows from `start` on of the column at this address: int32, 8 bytes of any kind, or ones."""
    n = into.shape[0]
    if size == NARROW:
        narrow = carray(pointer(address + start * NARROW), n, np.int32)
        for i in range(n):
            into[i] = narrow[i]
    elif size == WIDE:
        wide = carray(pointer(address + start * WIDE), n, np.int64)
        for i in range(n):
            into[i] = wide[i]
    else:
        for i in range(n):
            into[i] = 1


@njit(cache=True, nogil=True)
def mark_changes(column, changes):
    """changes[i] gets a bit wherever the column differs from the row before."""
    for i in range(1, column.shape[0]):
        changes[i] |= column[i] ^ column[i - 1]


@njit(cache=True, nogil=True)
def find_runs(changes, n, heads):
    """First rows of the runs between changes, and n at the end. Returns the number of runs. O(n), no branches."""
    m = 0
    for i in range(n):
        heads[m] = i
        m += changes[i] != 0
    heads[m] = n
    return m


@njit(cache=True, nogil=True)
def keep_heads(column, heads, m):
    """In place: column[j] = its value at the first row of run j."""
    for j in range(m):
        column[j] = column[heads[j]]


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def fold_runs(column, changes, kind):
    """In place: column[j] = sum, least or greatest value of run j. NaN is the greatest, as in SQL. O(rows), no branches.

    The running value is written at every row: the last write of a run stays.
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def gather(columns, sizes, codes, frags, start, n, n_attrs, ends, words, changes, heads, weights):
    """The raw batch of rows [start, start + n): one record for each run. O(n). Returns the number of records.

    `columns` are the addresses of the attributes, then of the parts in the order of `ends`; `weights[j]` tells how many rows
    record j stands for.
    """
    tag_rows(codes[start:start + n], frags[start:start + n], words, changes)
    for w in range(1, columns.shape[0] + 1):
        column = words[w * STRIDE:w * STRIDE + n]
        read_column(columns[w - 1], sizes[w - 1], start, column)
        if w <= n_attrs:
            mark_changes(column, changes)
    m = find_runs(changes, n, heads)
    if 4 * m > 3 * n:
        # Few rows repeat the one before: folding the runs would cost more than it saves.
        weights[:n] = 1
        return n
    kind = 0
    for w in range(n_attrs + 1):
        keep_heads(words[w * STRIDE:w * STRIDE + n], heads, m)
    for w in range(n_attrs + 1, columns.shape[0] + 1):
        while w - n_attrs > ends[kind]:
            kind += 1
        fold_part(words[w * STRIDE:w * STRIDE + n], sizes[w - 1], kind, changes, heads, m)
    for j in range(m):
        weights[j] = heads[j + 1] - heads[j]
    return m
