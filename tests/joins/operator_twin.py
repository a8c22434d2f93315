"""What an aggregation join must give, the slow way: the whole join again at every time, in a few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

Row = dict[str, Any]
Change = tuple[Row, int, int]  # row, time, diff


def same(a: Any, b: Any) -> bool:
    """Equal in a join: NULL is equal to nothing, NaN to NaN."""
    return a is not None and b is not None and (a == b or (a != a and b != b))


def joined(contents: list[Counter], on: list[tuple[int, str, int, str]]) -> Iterator[tuple[Row, int]]:
    """Every joined row with its multiplicity; contents hold rows as sorted tuples of items."""
    for rows in product(*(list(c.items()) for c in contents)):
        parts = [dict(row) for row, _ in rows]
        if all(same(parts[i][a], parts[j][b]) for i, a, j, b in on):
            count = 1
            for _, n in rows:
                count *= n
            yield {k: v for part in parts for k, v in part.items()}, count


def partials(
    inputs: list[list[Change]],
    on: list[tuple[int, str, int, str]],
    keep: Callable[[Row], bool],
    key: Callable[[Row], tuple],
    terms: Callable[[Row], Iterable[Any]],
) -> dict[tuple, tuple]:
    """(key, time) → change of (count, sums of the terms) at that time; terms that are None add nothing."""
    contents: list[Counter] = [Counter() for _ in inputs]
    before: dict[tuple, list] = {}
    out: dict[tuple, tuple] = {}
    for time in sorted({t for changes in inputs for _, t, _ in changes}):
        for held, changes in zip(contents, inputs, strict=True):
            for row, at, diff in changes:
                if at == time:
                    held[tuple(sorted(row.items()))] += diff
            for row in [r for r, n in held.items() if n == 0]:
                del held[row]
        now: dict[tuple, list] = {}
        for row, count in joined(contents, on):
            if keep(row):
                values = [1, *terms(row)]
                sums = now.setdefault(key(row), [0] * len(values))
                for i, value in enumerate(values):
                    sums[i] += 0 if value is None else value * count
        for group in set(now) | set(before):
            old, new = before.get(group), now.get(group)
            width = len(old or new or [])
            change = tuple(b - a for a, b in zip(old or [0] * width, new or [0] * width, strict=True))
            if any(change):
                out[(*group, time)] = change
        before = now
    return out
