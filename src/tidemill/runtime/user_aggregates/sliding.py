"""Final aggregation of user aggregates: accumulators of fragments folded over sliding windows.

Windows come from the kernel that slides over the numbers (`kernels.share.sliding`): window i holds the fragments
[low, high), and `middle` is where a grid line of its length falls. As there, the older half is folded once backwards
from the line and the younger half once forwards, so each fragment is combined at most three times for each query, and
an answer depends on the fragments in the window and on the point only, wherever a run of points begins:

    answer = finish(combine(older[low], young))       older[j] = combine(vⱼ, older[j + 1]), young = combine(young, v)

With `invert`, and where accumulators are exact, one total slides: combine what enters, invert what leaves.
Accumulators of one fragment are sorted by their bytes, so that a replay gives the same answer.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.user_aggregates import UserAggregatePart
from tidemill.plan.windows import Window
from tidemill.runtime.duckdb import duck
from tidemill.runtime.kernels.share.sliding import CHANGES, LANDMARK, Others
from tidemill.runtime.kernels.share.sliding_rows import codes_of
from tidemill.runtime.user_aggregates.functions import (
    AggregateFunctions,
    copy_of,
    error_line,
    is_exact,
    load_functions,
    pack,
)


@dataclass(frozen=True)
class Failed:
    """Stands for an accumulator on which a user's function failed; anything combined with it has failed too."""

    why: str


class Answers:
    """The distinct answers of one part, numbered: equal answers have equal numbers, failures have negative ones."""

    def __init__(self, part: UserAggregatePart) -> None:
        self.fold, self.type = load_functions(part.body), arrow_type(part.type)
        self.values: list[Any] = [None]  # 0: no value in the window
        self.reasons: list[str] = []
        self.numbers: dict[bytes, int] = {pack(None): 0}

    def number(self, accumulator: Any) -> int:
        """The number of the answer of an accumulator."""
        if isinstance(accumulator, Failed):
            return self._failure(accumulator.why)
        try:
            answer = self.fold.answer(accumulator)
            key = pack(answer)
            if key not in self.numbers:
                self.values.append(pa.scalar(answer, self.type).as_py())
                self.numbers[key] = len(self.values) - 1
        except Exception as error:  # whatever a user's function raises is about this answer
            return self._failure(error_line(error))
        return self.numbers[key]

    def column(self, numbers: np.ndarray) -> pa.Array:
        """The answers with these numbers."""
        return pa.array(self.values, self.type).take(pa.array(numbers))

    def reason(self, number: int) -> str:
        """Why the answer with a negative number failed."""
        return self.reasons[-1 - number]

    def _failure(self, why: str) -> int:
        if why not in self.reasons:
            self.reasons.append(why)
        return -1 - self.reasons.index(why)


@lru_cache(maxsize=256)
def arrow_type(name: str) -> pa.DataType:
    """Arrow's type for a DuckDB type."""
    return duck.run(f"SELECT CAST(NULL AS {name}) AS x").schema.field("x").type


class WindowAccumulators:
    """Accumulators beside the fragment rows of one report, which are sorted by (group, start)."""

    def __init__(
        self,
        parts: Sequence[UserAggregatePart],
        keys: list[str],
        rows: pa.Table,
        codes: np.ndarray,
        starts: np.ndarray,
        stored: pa.Table,
    ) -> None:
        """`rows` in any order give the groups their numbers; `codes` and `starts` are of the sorted rows."""
        self.answers = {p.name: Answers(p) for p in parts}
        all_keys = pa.concat_tables([rows.select(keys), stored.select(keys).cast(rows.select(keys).schema)])
        own = codes_of([group_numbers(all_keys.column(k)) for k in keys])[0][rows.num_rows :].astype(np.int64)
        _, ranks = np.unique(np.concatenate([starts, stored.column("__time").to_numpy()]), return_inverse=True)
        width = np.int64(len(ranks) + 1)
        self.rows = codes.astype(np.int64) * width + ranks[: len(starts)]
        self.places = own * width + ranks[len(starts) :]
        self.stored = stored

    def folds(self, parts: Sequence[str], bit: int, window: Window, mode: int, first: int, last: int) -> Others:
        """The folds of a query's parts, for the kernel that finds its windows."""
        until = LANDMARK if window.until is None else window.until
        origin = first - window.slide if mode == CHANGES else first
        times = self.stored.column("__time").to_numpy()
        word = self.stored.column(f"__s{bit // 64}").to_numpy()
        seen = (times > origin - until) & (times <= last - window.after) & (word >> np.int64(bit % 64) & 1).astype(bool)

        def others(rows: np.ndarray | None, *windows: np.ndarray) -> np.ndarray:
            found = [
                self._numbers(part, seen, self.rows if rows is None else self.rows[rows], windows) for part in parts
            ]
            return np.array(found, np.int64).reshape(len(parts), len(windows[0]))

        return others

    def _numbers(self, part: str, seen: np.ndarray, rows: np.ndarray, windows: Sequence[np.ndarray]) -> list[int]:
        """The number of the answer of each window over the counted `rows`."""
        at = np.flatnonzero(seen & pc.equal(self.stored.column("__part"), part).to_numpy())
        blobs, places = self.stored.column("__pickle").take(pa.array(at)).to_pylist(), self.places[at]
        order = sorted(range(len(at)), key=lambda i: (places[i], blobs[i]))
        # Every accumulator has a counted row of its group and start, and windows never cut a start in two.
        before = np.append(np.searchsorted(places[order], rows), len(at)).astype(np.int64)
        low, middle, high = (before[w] for w in windows)
        return fold_windows([blobs[i] for i in order], low, middle, high, self.answers[part])


def fold_windows(
    blobs: list[bytes], low: np.ndarray, middle: np.ndarray, high: np.ndarray, answers: Answers
) -> list[int]:
    """The number of the answer of each window [low, high) over pickled accumulators."""
    windows = list(zip(low.tolist(), middle.tolist(), high.tolist(), strict=True))
    if answers.fold.invert is not None:
        try:
            return _fold_by_inverting(blobs, windows, answers)
        except Exception:  # inexact, or a function failed: the two stacks say where
            pass
    return _fold_by_stacks(blobs, windows, answers)


class _Inexact(Exception):
    """Inverting a combination would not restore the accumulator."""


def _fold_by_inverting(blobs: list[bytes], windows: list[tuple[int, int, int]], answers: Answers) -> list[int]:
    """Combine what enters, invert what leaves. O(fragments + windows)."""
    fold, found = answers.fold, []
    assert fold.invert is not None
    begin = end = 0
    total: Any = None
    for low, _, high in windows:
        if low >= end:
            begin = end = low  # nothing stays
        for j in range(end, high):
            value = _check_exact(pickle.loads(blobs[j]))
            total = value if j == begin else fold.combine(total, value)
        end = max(end, high)
        for j in range(begin, low):
            total = fold.invert(total, pickle.loads(blobs[j]))
        begin = low
        found.append(answers.number(_check_exact(total)) if low < high else 0)
    return found


def _check_exact(accumulator: Any) -> Any:
    if not is_exact(accumulator):
        raise _Inexact
    return accumulator


def _fold_by_stacks(blobs: list[bytes], windows: list[tuple[int, int, int]], answers: Answers) -> list[int]:
    """Two stacks that turn at grid lines. O(fragments + windows)."""
    fold, found = answers.fold, []
    older: list[Any] = []  # older[k] is the fold of [line - 1 - k, line)
    line, end, young = -1, 0, None
    for low, middle, high in windows:
        if middle != line:
            line, end, older = middle, middle, []
            for j in range(line - 1, low - 1, -1):
                value = _load(blobs[j])
                older.append(_combine(fold, value, older[-1]) if older else value)
        for j in range(end, high):
            value = _load(blobs[j])
            young = _combine(fold, young, value) if j > line else value
        end = max(end, high)
        if low == high:
            found.append(0)
        elif low == line:
            found.append(answers.number(young))
        else:
            whole = older[line - 1 - low]
            found.append(answers.number(_combine(fold, copy_of(whole), young) if end > line else whole))
    return found


def _load(blob: bytes) -> Any:
    try:
        return pickle.loads(blob)
    except Exception as error:
        return Failed(error_line(error))


def _combine(fold: AggregateFunctions, a: Any, b: Any) -> Any:
    """combine(a, b); a may be changed."""
    if isinstance(a, Failed) or isinstance(b, Failed):
        return a if isinstance(a, Failed) else b
    try:
        return fold.combine(a, b)
    except Exception as error:
        return Failed(error_line(error))


def group_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Group values as integers that are equal where the values are."""
    if pa.types.is_integer(column.type) and column.null_count == 0 and column.type != pa.uint64():
        return column.to_numpy().astype(np.int64, copy=False)
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
