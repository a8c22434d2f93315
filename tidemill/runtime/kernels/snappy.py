"""Snappy, for pages of 64-bit numbers of which each shares its high bytes with the one before: times, counters.

Such a page is a long row of pairs: some low bytes as they are (a literal), the others as in a number before (a copy).
A general decoder writes them one after the other and waits, at every copy, for bytes that it has just written in
pieces. Here a pair is one step that reads and writes whole numbers.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

DAMAGED, UNSUITABLE = -1, -2
TRIAL = 2048  # elements after which it is judged whether pairs are usual


@intrinsic
def load_word(typingctx, address):
    """The 8 bytes at an address, wherever it is."""

    def generate(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], cgutils.intp_t.as_pointer())
        word = builder.load(place)
        word.align = 1
        return word

    return types.uint64(types.int64), generate


@intrinsic
def store_word(typingctx, address, word):
    """Write 8 bytes at an address, wherever it is."""

    def generate(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], cgutils.intp_t.as_pointer())
        builder.store(arguments[1], place).align = 1
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), generate


@njit(nogil=True)
def element(data, at):
    """(length, offset, first byte behind the tag) of the element at data[at]; offset 0 for a literal, length -1 where
    the data end before the tag does.
    """
    tag, rest = np.int64(data[at]), len(data) - at - 1
    kind, high = tag & 3, tag >> 2
    extra = (high - 59) * (high > 59) if kind == 0 else kind + (kind == 3)
    if extra > rest:
        return -1, 0, at
    number = np.int64(0)
    for i in range(extra):
        number |= np.int64(data[at + 1 + i]) << 8 * i
    behind = at + 1 + extra
    if kind == 0:
        return (high if extra == 0 else number) + 1, 0, behind
    if kind == 1:
        return (high & 7) + 4, (tag >> 5) << 8 | number, behind
    return high + 1, number, behind


@njit(cache=True, nogil=True)
def decompress(data, at, out):
    """Decode the elements from data[at] on into `out`. Returns how many pairs there were. O(out).

    DAMAGED where they do not fill `out` exactly; UNSUITABLE where most elements are not in pairs: another decoder is
    faster then, and `out` is not complete.
    """
    source, target, end, size = data.ctypes.data, out.ctypes.data, len(data), len(out)
    done = pairs = others = 0
    while at < end:
        if at + 8 <= end and done <= size - 8:
            word = np.int64(load_word(source + at))  # type: ignore[call-arg]
            n = ((word & 0xC) >> 2) + 1  # bytes of the literal, where it is one
            copy = word >> 8 * n + 8
            offset = (copy & 0xE0) << 3 | copy >> 8 & 0xFF
            # A literal of 1 to 4 bytes, and what is missing to 8 of them from before they began.
            if word & 0xF3 == 0 and copy & 0x1F == 17 - 4 * n and 8 <= offset <= done:
                fresh = (1 << 8 * n) - 1
                before = np.int64(load_word(target + done - offset))  # type: ignore[call-arg]
                store_word(target + done, np.uint64(before & ~fresh | word >> 8 & fresh))
                at += n + 3
                done += 8
                pairs += 1
                continue
        length, offset, at = element(data, at)
        if length < 0 or done + length > size:
            return DAMAGED
        if offset == 0:
            if at + length > end or length == 0:
                return DAMAGED
            for i in range(length):
                out[done + i] = data[at + i]
            at += length
        else:
            if offset > done:
                return DAMAGED
            for i in range(done, done + length):
                out[i] = out[i - offset]
        done += length
        others += 1
        if others + pairs >= TRIAL and others > pairs:
            return UNSUITABLE
    return pairs if done == size else DAMAGED
