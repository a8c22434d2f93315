"""Final aggregation: the answers of one window query from the fragments of one store, O(1) for each fragment.

Fragment rows are sorted by (key, start); the rows of key k are [bounds[k], bounds[k + 1]). A row is inside at point p
when start + after <= p < start + until. A *stretch* is a maximal series of points at which a key's window holds the
same rows: at most three for each fragment row, however many points there are, and the work is done once for each.

    points      p₀   p₁   p₂   p₃   p₄   p₅   p₆
    fragments   ├─────a─────────┤                        a is inside at p₀ p₁ p₂
                          ├──────b────────┤              b is inside at p₂ p₃ p₄
    stretches   [ a     ] [ab ] [ b      ]               none at p₅ p₆: empty windows cost nothing
    WHOLE       +a   +a   +ab   +b   +b
    CHANGES     +a        −a+ab −ab+b     −b

Three fragments of one key, at 0, 10 and 20; a window of two fragments, looked at every 10:

>>> counts = np.array([[1, 2, 4]])
>>> window = Window(slide=10, offset=0, after=1, until=21)
>>> found = slide(np.array([0, 3]), np.array([0, 10, 20]), None, counts, [0], [], [], window, 10, 50, WHOLE)
>>> list(zip(found.point.tolist(), found.ints[0].tolist()))
[(10, 1), (20, 3), (30, 6), (40, 4)]

`_walk` takes its 14 arguments one by one: as a NamedTuple of arrays they take 7 µs instead of 2 µs to unpack at
each call, more than the call itself often takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numba import boolean, int8, int32, int64, njit, types, uint8

from tidemill.plan.windows import Window
from tidemill.runtime.kernels.compiling.lazy import compiled
from tidemill.runtime.kernels.share.sliding_folds import fold_floats, fold_ints

WHOLE, CHANGES = 0, 1
LANDMARK = 1 << 62  # `until` of a window that nothing leaves; event times stay below 2^61

_READ_INTS = types.Array(int64, 1, "C", readonly=True)
_READ_BYTES = types.Array(uint8, 1, "C", readonly=True)
_INTS = int64[::1]
_CODES = int32[::1]
_NEVER = np.int64((1 << 63) - 1)


# Other folds: (counted rows or None for all, low, middle, high) of the windows to one row of numbers for each part,
# equal where answers are.
Others = Callable[[np.ndarray | None, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class Answers(NamedTuple):
    """Rows sorted by (key, point), an old answer before the new one; `ints` and `floats` have one row for each part."""

    point: np.ndarray
    key: np.ndarray
    diff: np.ndarray
    ints: np.ndarray
    floats: np.ndarray
    operations: int


class _Stretches(NamedTuple):
    key: np.ndarray
    point: np.ndarray
    points: np.ndarray
    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray


def slide(
    bounds: np.ndarray,
    start: np.ndarray,
    mask: np.ndarray | None,
    ints: Sequence[np.ndarray] | np.ndarray,
    int_kinds: Sequence[int],
    floats: Sequence[np.ndarray] | np.ndarray,
    float_kinds: Sequence[int],
    window: Window,
    first: int,
    last: int,
    mode: int,
    others: Others | None = None,
) -> Answers:
    """The answers of a window at the points first, first + slide, …, last.

    WHOLE: one row for each point and key whose window holds a counted row. CHANGES: what differs from the point before,
    and at `first` from first - slide. `mask` says which fragment rows the query counts (None: all); a counted row
    stands for at least one raw row, so a window is empty exactly when it holds no counted row. What `others` folds
    comes behind the integers.
    O(keys · log rows + fragment rows that the points see + output rows).
    """
    until = LANDMARK if window.until is None else window.until
    last -= (last - first) % window.slide
    origin = first - window.slide if mode == CHANGES else first
    begins, ends, seen = _find_bounds(bounds, start, origin - until, last - window.after)
    rows, time = None, start
    if mask is not None:
        rows, bounds = _count_masked(begins, ends, seen, mask)
        begins, ends, seen, time = bounds[:-1], bounds[1:], len(rows), start.take(rows)
    stretches, total = _stretches(begins, ends, seen, time, window.slide, window.after, until, origin, last)
    int_answers, int_operations = _fold(fold_ints, ints, int_kinds, rows, stretches, np.int64)
    float_answers, float_operations = _fold(fold_floats, floats, float_kinds, rows, stretches, np.float64)
    operations = int_operations + float_operations
    if others is not None:
        int_answers = np.concatenate([int_answers, others(rows, *stretches[3:])])
    if mode == CHANGES:
        return _changes(stretches, int_answers, float_answers, window.slide, first, last, operations)
    return _whole(stretches, int_answers, float_answers, window.slide, total, operations)


def _fold(
    fold: Callable[..., int],
    parts: Sequence[np.ndarray] | np.ndarray,
    kinds: Sequence[int],
    rows: np.ndarray | None,
    stretches: _Stretches,
    kind_of_answer: type,
) -> tuple[np.ndarray, int]:
    """The parts of every stretch, and the operations that took."""
    answers: np.ndarray = np.empty((len(parts), len(stretches.key)), kind_of_answer)
    operations = 0
    for i, kind in enumerate(kinds):
        operations += fold(_take_rows(parts[i], rows), kind, *stretches[3:], answers[i])
    return answers, operations


def _take_rows(column: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    return column if rows is None else column.take(rows)


@compiled(types.Tuple((_INTS, _INTS, int64))(_READ_INTS, _READ_INTS, int64, int64))
def _find_bounds(bounds, start, after, until):
    """Where the rows with after < start <= until begin and end for each key, and how many there are.

    O(keys · log rows).
    """
    keys = bounds.shape[0] - 1
    begins, ends = np.empty(keys, np.int64), np.empty(keys, np.int64)
    seen = 0
    for k in range(keys):
        begin, end = bounds[k], bounds[k + 1]
        if begin < end and start[begin] <= after:
            begin += np.searchsorted(start[begin:end], after, side="right")
        if begin < end and start[end - 1] > until:
            end = begin + np.searchsorted(start[begin:end], until, side="right")
        begins[k], ends[k] = begin, end
        seen += end - begin
    return begins, ends, seen


def _count_masked(begins: np.ndarray, ends: np.ndarray, seen: int, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the rows in [begins, ends) that `mask` counts, and the bounds of each key among them."""
    rows, bounds = np.empty(seen + 1, np.int64), np.empty(len(begins) + 1, np.int64)
    return rows[: _count(begins, ends, mask.view(np.uint8), rows, bounds)], bounds


@compiled(int64(_INTS, _INTS, _READ_BYTES, _INTS, _INTS))
def _count(begins, ends, mask, rows, bounds):
    """Fills `rows` and `bounds` of `_count_masked`; the number of rows. O(rows seen)."""
    n = 0
    for k in range(begins.shape[0]):
        bounds[k] = n
        for i in range(begins[k], ends[k]):
            # No branch: a mask is as good as random to the processor.
            rows[n] = i
            n += mask[i] != 0
    bounds[begins.shape[0]] = n
    return n


def _stretches(
    begins: np.ndarray,
    ends: np.ndarray,
    seen: int,
    time: np.ndarray,
    slide: int,
    after: int,
    until: int,
    origin: int,
    last: int,
) -> tuple[_Stretches, int]:
    """The stretches, and how many points they have in all."""
    most = min(3 * seen, len(begins) * max((last - origin) // slide + 1, 0))
    key, low, middle, high = (np.empty(most, np.int32) for _ in range(4))
    point, points = np.empty(most, np.int64), np.empty(most, np.int64)
    n, total = _walk(begins, ends, time, slide, after, until, origin, last, key, point, points, low, middle, high)
    return _Stretches(key[:n], point[:n], points[:n], low[:n], middle[:n], high[:n]), total


@njit(nogil=True)
def _pass_line(time, half, stop, line):
    """The first row from `line` on, which is in (p - until, p - after]: all rows before are in the window already."""
    while half < stop and time[half] < line:
        half += 1
    return half


@compiled(
    types.UniTuple(int64, 2)(
        _INTS, _INTS, _READ_INTS, int64, int64, int64, int64, int64, _CODES, _INTS, _INTS, _CODES, _CODES, _CODES
    )
)
def _walk(begins, ends, time, slide, after, until, origin, last, key, point, points, low, middle, high):
    """The stretches of all keys with at least one row inside, from `origin` to `last`; how many, and their points.

    A stretch also ends where its window passes a grid line, for the folds' sake. Division only where the next event is
    more than a slide away. O(rows).
    """
    n = total = 0
    length = until - after
    for k in range(begins.shape[0]):
        begin = end = half = begins[k]
        stop = ends[k]
        if begin == stop:
            continue
        p = origin
        enter, leave, cross = time[begin] + after, time[begin] + until, p
        while p <= last:
            while enter <= p:
                end += 1
                enter = time[end] + after if end < stop else _NEVER
            # A row that has not come yet leaves after p, so `begin` never passes `end`.
            while leave <= p:
                begin += 1
                leave = time[begin] + until if begin < stop else _NEVER
            if cross <= p:
                line = (p - after) // length * length
                cross = line + until
                half = _pass_line(time, half, stop, line)
            event = enter
            if begin < end:
                event = min(enter, leave, cross)
            elif begin == stop:
                break
            passed = 1 if event <= p + slide else -((p - min(event, last + slide)) // slide)
            if begin < end:
                key[n], point[n], points[n] = k, p, passed
                low[n], middle[n], high[n] = begin, half, end
                n += 1
                total += passed
            p += passed * slide
    return n, total


def _whole(
    stretches: _Stretches, ints: np.ndarray, floats: np.ndarray, slide: int, total: int, operations: int
) -> Answers:
    """Each stretch's answer at each of its points."""
    key, point, points = stretches[:3]
    diff = np.ones(total, np.int8)
    if total == len(key):
        return Answers(point, key, diff, ints, floats, operations)
    spread = Answers(
        np.empty(total, np.int64),
        np.empty(total, np.int32),
        diff,
        np.empty((len(ints), total), np.int64),
        np.empty((len(floats), total), np.float64),
        operations,
    )
    _spread(key, point, points, slide, spread.key, spread.point)
    _repeat(ints, points, spread.ints)
    _repeat(floats.view(np.int64), points, spread.floats.view(np.int64))
    return spread


@compiled(types.void(_CODES, _INTS, _INTS, int64, _CODES, _INTS))
def _spread(key, point, points, slide, out_key, out_point):
    """The key and the point of each point of each stretch. O(output rows)."""
    n = 0
    for i in range(point.shape[0]):
        for j in range(points[i]):
            out_key[n], out_point[n] = key[i], point[i] + j * slide
            n += 1


@compiled(types.void(int64[:, ::1], _INTS, int64[:, ::1]))
def _repeat(answers, points, out):
    """Each stretch's answers as often as it has points. O(parts · output rows)."""
    for row in range(answers.shape[0]):
        n = 0
        for i in range(points.shape[0]):
            for _ in range(points[i]):
                out[row, n] = answers[row, i]
                n += 1


def _changes(
    stretches: _Stretches, ints: np.ndarray, floats: np.ndarray, slide: int, first: int, last: int, operations: int
) -> Answers:
    """−old and +new where an answer begins, ends or differs from the one before."""
    differs = np.zeros(len(stretches.key), np.bool_)
    for answers in (*ints, *floats.view(np.int64)):
        _mark(answers, differs)
    most = 2 * len(differs)  # a stretch begins once and ends once
    source, point, diff = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int8)
    n = _turn(*stretches[:3], differs, slide, first, last, source, point, diff)
    source = source[:n]
    key = stretches.key.take(source)
    return Answers(point[:n], key, diff[:n], _take_columns(ints, source), _take_columns(floats, source), operations)


def _take_columns(answers: np.ndarray, source: np.ndarray) -> np.ndarray:
    """answers[:, source]; row by row, which is faster."""
    out = np.empty((len(answers), len(source)), answers.dtype)
    for i, row in enumerate(answers):
        row.take(source, out=out[i], mode="clip")
    return out


@compiled(types.void(_INTS, boolean[::1]))
def _mark(answers, differs):
    """differs[i] where an answer has other bits than the one before it. O(n)."""
    for i in range(1, answers.shape[0]):
        differs[i] |= answers[i] != answers[i - 1]


@compiled(int64(_CODES, _INTS, _INTS, boolean[::1], int64, int64, int64, _INTS, _INTS, int8[::1]))
def _turn(key, point, points, differs, slide, first, last, source, at, diff):
    """The changes in order: which stretch's answer, at which point, −1 or +1; how many there are. O(stretches)."""
    stretches = key.shape[0]
    n = 0
    for i in range(stretches):
        goes_on = i > 0 and key[i] == key[i - 1] and point[i - 1] + points[i - 1] * slide == point[i]
        if point[i] >= first and (differs[i] or not goes_on):
            if goes_on:
                source[n], at[n], diff[n] = i - 1, point[i], -1
                n += 1
            source[n], at[n], diff[n] = i, point[i], 1
            n += 1
        end = point[i] + points[i] * slide
        followed = i + 1 < stretches and key[i + 1] == key[i] and point[i + 1] == end
        if not followed and end <= last:
            source[n], at[n], diff[n] = i, end, -1
            n += 1
    return n
