"""Spool records: lines of text framed by their arrival and length, and found again.

Nothing outside of the given arrays is read or written, whatever the data are.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tidemill.runtime.kernels.text.memory import copy_bytes, get_byte, get_word, put_byte, put_word

HEADER_BYTES = 12  # arrival micros, 8 bytes; length, 4 bytes, its top bit marks a record that was too long
_LF, _CR = 10, 13


@njit(cache=True, nogil=True)
def frame_lines(data, arrival, limit, out):
    """Write every line of `data` as a spool record into `out`: arrival, length, bytes without the line end.

    `data` ends with a line end; empty lines are no records. Returns the bytes written, or -1 when a line has more than
    `limit` bytes. `out` has room for the data and, for every second byte of it, a header. O(bytes).
    """
    first, begin = np.int64(data.ctypes.data), np.int64(out.ctypes.data)
    start, target = first + 0, begin + 0
    for at in range(first, first + data.shape[0]):
        if get_byte(at) != _LF:
            continue
        length = at - start
        if length > 0 and get_byte(at - 1) == _CR:
            length -= 1
        if length > limit:
            return -1
        if length > 0:
            put_word(target, arrival)
            _copy_length(target + 8, length)
            target = copy_bytes(start, target + HEADER_BYTES, length)
        start = np.int64(at + 1)
    return target - begin


@njit(nogil=True)
def _copy_length(target, length):
    for k in range(4):
        put_byte(target + k, length >> (8 * k))


@njit(cache=True, nogil=True)
def find_records(data, limit, arrival, begin, end, cut):
    """The complete spool records from the start of `data`, at most `limit` (all for -1): how many there are.

    With arrays that are not empty, the arrival, first byte and end of each are put there, and whether it was cut short.
    A record of length 0 is what a crashed machine leaves where bytes were allotted but not written: it ends the walk.
    """
    base, size, at, count, keep = np.int64(data.ctypes.data), data.shape[0], 0, 0, arrival.shape[0] > 0
    while at + HEADER_BYTES <= size and count != limit:
        length = 0
        for k in range(4):
            length |= get_byte(base + at + 8 + k) << (8 * k)
        marked = length >> 31 == 1
        length &= (1 << 31) - 1
        behind = at + HEADER_BYTES + length
        if length == 0 or behind > size:
            break
        if keep:
            arrival[count], begin[count], end[count] = get_word(base + at), at + HEADER_BYTES, behind
            cut[count] = marked
        at = behind
        count += 1
    return count
