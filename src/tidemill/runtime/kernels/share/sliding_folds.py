"""One column of partial aggregates folded over sliding windows: amortised O(1) for each row and each window.

Window i holds the rows [low[i], high[i]), and `low`, `middle` and `high` never decrease. `middle` comes from a grid of
times whose lines are a window's length apart, so exactly one line falls into each window: rows before the line are the
older half, rows from the line on are the younger one.

    rows   . . . a b c | d e . . .       older half:   a⊕b⊕c, b⊕c, c      folded once, backwards from the line
                 ▲     ▲     ▲           younger half: d, d⊕e, …          folded once, forwards from the line
                low  middle high         window: a⊕b⊕c ⊕ d⊕e

That is the two-stack queue with its turning points tied to the clock instead of the history: an answer depends on the
rows in the window and on the point only, to the last bit, wherever a run of points begins.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, int32, int64, njit, types

from tidemill.runtime.kernels.compiling.lazy import compiled

SUM, MIN, MAX = 0, 1, 2

_READ_INTS = types.Array(int64, 1, "C", readonly=True)
_READ_FLOATS = types.Array(float64, 1, "C", readonly=True)
_INTS = int64[::1]
_PLACES = int32[::1]
_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_INFINITY = np.int64(0x7FF0000000000000)
_NAN = np.int64(0x7FF8000000000000)


@compiled(int64(_READ_INTS, _PLACES, _PLACES, _INTS))
def slide_sums(values, low, high, out):
    """out[i] = Σ values[low[i]:high[i]] modulo 2^64: add what comes, subtract what goes. O(rows + windows).

    Returns the number of additions and subtractions.
    """
    total = np.int64(0)
    begin = end = operations = 0
    for i in range(low.shape[0]):
        if low[i] >= end:
            # Nothing stays: begin again, past the rows that no window holds.
            total, begin, end = np.int64(0), low[i], low[i]
        operations += high[i] - end + low[i] - begin
        while end < high[i]:
            total += values[end]
            end += 1
        while begin < low[i]:
            total -= values[begin]
            begin += 1
        out[i] = total
    return operations


@compiled(int64(_READ_INTS, boolean, _PLACES, _PLACES, _PLACES, _INTS))
def slide_extremes(values, least, low, middle, high, out):
    """out[i] = least (or greatest) of values[low[i]:high[i]], which must not be empty. O(rows + windows).

    Returns the number of comparisons.
    """
    older = np.empty(values.shape[0], np.int64)
    line = base = end = operations = 0
    young = np.int64(0)
    for i in range(low.shape[0]):
        if middle[i] != line:
            line, base, end = middle[i], low[i], middle[i]
            operations += line - base
            for j in range(line - 1, base - 1, -1):
                value = values[j]
                if j < line - 1:
                    value = min(value, older[j + 1 - base]) if least else max(value, older[j + 1 - base])
                older[j - base] = value
        operations += high[i] - end + 1
        while end < high[i]:
            value = values[end]
            if end > line:
                value = min(value, young) if least else max(value, young)
            young = value
            end += 1
        if low[i] >= line:
            out[i] = young
        elif end == line:
            out[i] = older[low[i] - base]
        else:
            old = older[low[i] - base]
            out[i] = min(old, young) if least else max(old, young)
    return operations


@njit(nogil=True)
def add_rounded(total, error, value):
    """total + value rounded, and the error so far with what the rounding lost (Knuth's two-sum)."""
    whole = total + value
    if not np.isfinite(whole):
        return whole, error
    part = whole - total
    return whole, error + ((total - (whole - part)) + (value - part))


@compiled(int64(_READ_FLOATS, _PLACES, _PLACES, _PLACES, float64[::1]))
def slide_float_sums(values, low, middle, high, out):
    """out[i] = Σ values[low[i]:high[i]] in doubled precision, then rounded. O(rows + windows).

    Nothing is ever subtracted: an infinity or a NaN leaves the answer with its row. Rounding errors are carried along,
    so that both ways to fold the same rows round to the same double unless Σ is about 2^-50 of Σ|v|. Zeros are +0
    (the folds begin with one) and NaNs alike, so that equal answers have equal bits. Returns the number of additions.
    """
    older = np.empty((values.shape[0] + 1, 2), np.float64)
    line = base = end = operations = 0
    young = lost = 0.0
    for i in range(low.shape[0]):
        if middle[i] != line:
            line, base, end = middle[i], low[i], middle[i]
            young = lost = 0.0
            operations += line - base
            total = error = 0.0
            for j in range(line - 1, base - 1, -1):
                total, error = add_rounded(total, error, values[j])
                older[j - base, 0], older[j - base, 1] = total, error
        operations += high[i] - end + 1
        while end < high[i]:
            young, lost = add_rounded(young, lost, values[end])
            end += 1
        if low[i] < line:
            whole, error = add_rounded(older[low[i] - base, 0], older[low[i] - base, 1] + lost, young)
            answer = whole + error
        else:
            answer = young + lost
        out[i] = np.nan if np.isnan(answer) else answer
    return operations


@compiled(_INTS(_READ_INTS))
def ranks_of(bits):
    """The bits of doubles as integers of the same order: NaN is the greatest (as in SQL), -0 is below +0. O(n)."""
    out = np.empty(bits.shape[0], np.int64)
    for i in range(bits.shape[0]):
        b = bits[i]
        if (b & _SIGN) > _INFINITY:
            b = _NAN
        out[i] = b ^ ((b >> 63) & _SIGN)
    return out


@compiled(types.void(_INTS))
def unrank(ranks):
    """Turns ranks back into the bits of doubles. O(n)."""
    for i in range(ranks.shape[0]):
        ranks[i] ^= (ranks[i] >> 63) & _SIGN


def fold_ints(
    values: np.ndarray, kind: int, low: np.ndarray, middle: np.ndarray, high: np.ndarray, out: np.ndarray
) -> int:
    """The integers of each window combined by `kind` into `out`; the number of aggregate operations."""
    if kind == SUM:
        return slide_sums(values, low, high, out)
    return slide_extremes(values, kind == MIN, low, middle, high, out)


def fold_floats(
    values: np.ndarray, kind: int, low: np.ndarray, middle: np.ndarray, high: np.ndarray, out: np.ndarray
) -> int:
    """The doubles of each window combined by `kind` into `out`; the number of aggregate operations."""
    if kind == SUM:
        return slide_float_sums(values, low, middle, high, out)
    operations = slide_extremes(ranks_of(values.view(np.int64)), kind == MIN, low, middle, high, out.view(np.int64))
    unrank(out.view(np.int64))
    return operations
