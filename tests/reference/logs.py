"""Change logs: replaying them, and comparing multisets of rows with a tolerance for floats."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Change:
    """One tagged tuple: '+' adds `row`, '-' removes it, 'u' puts it in the place of `old`."""

    time: int
    tag: str
    row: Row
    old: Row | None = None


def canonical(value: Any) -> Any:
    """Equal for equal values: NaN equals NaN, −0.0 is 0.0.

    >>> canonical(-0.0), canonical(float("nan"))
    (0.0, 'NaN')
    """
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(canonical(v) for v in value.values())
    return value


def canonical_row(row: Iterable[Any]) -> Row:
    return tuple(canonical(v) for v in row)


def replay(log: Iterable[Change], moments: Iterable[int]) -> Iterator[tuple[int, Counter[Row]]]:
    """The relation after each moment, from the changes up to and including it."""
    waiting = sorted(log, key=lambda c: c.time)
    held: Counter[Row] = Counter()
    at = 0
    for moment in sorted(moments):
        while at < len(waiting) and waiting[at].time <= moment:
            same = [c for c in waiting[at:] if c.time == waiting[at].time]
            _apply(same, held)
            at += len(same)
        yield moment, Counter(held)


def _apply(changes: list[Change], held: Counter[Row]) -> None:
    """All changes of one time: what leaves must have been there."""
    for change in changes:
        gone = change.row if change.tag == "-" else change.old if change.tag == "u" else None
        if gone is not None:
            assert held[gone] > 0, f"{change} takes away a row that is not there"
            held[gone] -= 1
            if not held[gone]:
                del held[gone]
    for change in changes:
        if change.tag != "-":
            held[change.row] += 1


def check_minimal(log: Iterable[Change], keys: list[int] | None) -> None:
    """Never a change that changes nothing; with keys (column positions) one change for each key and time."""
    seen: dict[tuple[int, Row], Change] = {}
    came: Counter[tuple[int, Row]] = Counter()
    went: Counter[tuple[int, Row]] = Counter()
    for change in log:
        assert change.tag in ("+", "-", "u") and (change.old is not None) == (change.tag == "u"), change
        assert change.row != change.old, f"{change} changes nothing"
        (went if change.tag == "-" else came)[change.time, change.row] += 1
        if change.old is not None:
            went[change.time, change.old] += 1
        if keys is not None:
            key = (change.time, tuple(change.row[k] for k in keys))
            # In a full join a row of NULLs alone may stand for one of each side.
            alone = key not in seen or set(key[1]) == {None}
            assert alone, f"two changes of one key at one time: {seen[key]} and {change}"
            seen[key] = change
            assert change.old is None or tuple(change.old[k] for k in keys) == key[1], f"{change} mixes two keys"
    both = came & went
    assert not both, f"rows that come and go at the same time: {list(both)[:3]}"


def same_rows(found: Counter[Row], expected: Counter[Row]) -> bool:
    """Equal multisets, floats up to a relative error of 1e-9."""
    if found == expected:
        return True
    left, right = list((found - expected).elements()), list((expected - found).elements())
    if len(left) != len(right):
        return False
    for row in left:
        match = next((i for i, other in enumerate(right) if close_rows(row, other)), None)
        if match is None:
            return False
        del right[match]
    return True


def close_rows(left: Row, right: Row) -> bool:
    return len(left) == len(right) and all(_close(a, b) for a, b in zip(left, right, strict=True))


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-12)
    if isinstance(a, (int, Decimal)) and isinstance(b, (int, Decimal)):
        return a == b
    return bool(a == b)
