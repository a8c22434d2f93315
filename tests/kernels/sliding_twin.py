"""The slow twin of the sliding kernel: each window recomputed from its rows, one point after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.plan.windows import Window


@dataclass(frozen=True)
class Fragment:
    """One fragment row: what it is about, whether the query counts it, and its parts."""

    key: int
    start: int
    counted: bool
    ints: tuple[int, ...]
    floats: tuple[float, ...]


Answer = tuple[tuple[int, ...], tuple[float, ...]]


def wrapped(value: int) -> int:
    """A number as a signed 64-bit integer."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def float_rank(value: float) -> tuple[int, float, float]:
    """SQL's order of doubles: NaN last; -0 before +0."""
    return (1, 0.0, 0.0) if math.isnan(value) else (0, value, math.copysign(1.0, value))


def float_sum(values: Sequence[float]) -> float:
    """The exact sum, rounded once; NaN if infinities of both signs or a NaN take part."""
    special = [v for v in values if not math.isfinite(v)]
    if not special:
        return math.fsum(values) + 0.0
    return special[0] if all(v == special[0] for v in special) else math.nan


def combined_ints(kind: int, values: Sequence[int]) -> int:
    """Sum modulo 2^64, least or greatest."""
    return wrapped(sum(values)) if kind == 0 else min(values) if kind == 1 else max(values)


def combined_floats(kind: int, values: Sequence[float]) -> float:
    """Sum, least or greatest in SQL's order."""
    if kind == 0:
        return float_sum(values)
    return min(values, key=float_rank) if kind == 1 else max(values, key=float_rank)


def combined(rows: Sequence[Fragment], int_kinds: Sequence[int], float_kinds: Sequence[int]) -> Answer:
    """All parts of some rows combined."""
    return (
        tuple(combined_ints(kind, [r.ints[i] for r in rows]) for i, kind in enumerate(int_kinds)),
        tuple(combined_floats(kind, [r.floats[i] for r in rows]) for i, kind in enumerate(float_kinds)),
    )


def answer(
    rows: Sequence[Fragment], key: int, window: Window, point: int, int_kinds: Sequence[int], float_kinds: Sequence[int]
) -> Answer | None:
    """A key's answer at a point; None when its window is empty."""
    inside = [
        r
        for r in rows
        if r.key == key
        and r.counted
        and r.start + window.after <= point
        and (window.until is None or point < r.start + window.until)
    ]
    return combined(inside, int_kinds, float_kinds) if inside else None


def same(left: Answer | None, right: Answer | None) -> bool:
    """Equal answers; a NaN equals a NaN, and -0 is not +0."""
    return repr(left) == repr(right)


def whole(
    rows: Sequence[Fragment],
    keys: int,
    window: Window,
    first: int,
    last: int,
    int_kinds: Sequence[int],
    float_kinds: Sequence[int],
) -> list[tuple[int, int, int, Answer]]:
    """(point, key, +1, answer) for each point and key with an answer."""
    found = []
    for key in range(keys):
        for point in range(first, last + 1, window.slide):
            held = answer(rows, key, window, point, int_kinds, float_kinds)
            if held is not None:
                found.append((point, key, 1, held))
    return found


def changes(
    rows: Sequence[Fragment],
    keys: int,
    window: Window,
    first: int,
    last: int,
    int_kinds: Sequence[int],
    float_kinds: Sequence[int],
) -> list[tuple[int, int, int, Answer]]:
    """(point, key, ±1, answer) where an answer differs from the one a slide before."""
    found = []
    for key in range(keys):
        old = answer(rows, key, window, first - window.slide, int_kinds, float_kinds)
        for point in range(first, last + 1, window.slide):
            new = answer(rows, key, window, point, int_kinds, float_kinds)
            if not same(old, new):
                found += [(point, key, -1, old)] if old is not None else []
                found += [(point, key, 1, new)] if new is not None else []
            old = new
    return found
