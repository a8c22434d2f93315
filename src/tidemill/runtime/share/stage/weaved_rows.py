"""The fragments that some queries of a store are answered from, made ready for the kernels."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidemill.runtime.kernels.share.bits import RowsByBit
from tidemill.runtime.kernels.share.sliding_rows import codes_of, order
from tidemill.runtime.user_aggregates.sliding import WindowAccumulators, group_numbers

_FEW = 4  # a query with less than one row in four is answered from a copy of its own rows
_ASKED = 2  # rows of no due query are dropped when at least every second row is such


def select_asked(rows: pa.Table, bits: set[int]) -> pa.Table:
    """The rows that have one of these bits; all rows where few have none."""
    asked = np.zeros(rows.num_rows, bool)
    for word in {b // 64 for b in bits}:
        mask = np.uint64(sum(1 << b % 64 for b in bits if b // 64 == word)).view(np.int64)
        asked |= rows.column(f"__s{word}").to_numpy() & mask != 0
    return rows if np.count_nonzero(asked) * _ASKED > len(asked) else rows.filter(pa.array(asked))


class Own(NamedTuple):
    """The rows of one query by (group, start): where those of each group begin, and which ones they are."""

    bounds: np.ndarray
    rows: np.ndarray


class WeavedRows:
    """Fragments with their groups numbered. Columns are sorted by (group, start) lazily."""

    def __init__(self, rows: pa.Table, keys: list[str]) -> None:
        self.rows = rows
        self.accumulators: WindowAccumulators | None = None
        self.numbers, firsts = codes_of([group_numbers(rows.column(k)) for k in keys])
        self.keys = rows.select(keys).take(pa.array(firsts))
        self._stored: dict[str, np.ndarray] = {}
        self._sorted: dict[str, np.ndarray] = {}
        self._masks: dict[int, np.ndarray | None] = {}

    def stored_column(self, name: str) -> np.ndarray:
        """A column in stored order."""
        if name not in self._stored:
            self._stored[name] = self.rows.column(name).to_numpy()
        return self._stored[name]

    # ---- rows of single queries ----------------------------------------------------------------

    @cached_property
    def _by_bit(self) -> RowsByBit:
        words = [n for n in self.rows.column_names if n[:3] == "__s" and n[3:].isdigit()]
        return RowsByBit({int(n[3:]): self.stored_column(n) for n in words}, _FEW)

    def own(self, bit: int) -> Own | None:
        """The rows that have this bit, where they are few among all; else None.

        Cells of single queries: to look at all rows for each query would cost queries · cells, and the cells of one
        query are sorted within the nearest caches.
        """
        few = self._by_bit.of(bit)
        if few is None:
            return None
        sorting, bounds = order(self.numbers.take(few), self.stored_column("__time").take(few), self.keys.num_rows)
        return Own(bounds, few.take(sorting))

    # ---- all rows ------------------------------------------------------------------------------

    @cached_property
    def _order(self) -> tuple[np.ndarray, np.ndarray]:
        return order(self.numbers, self.stored_column("__time"), self.keys.num_rows)

    @property
    def bounds(self) -> np.ndarray:
        """Where the rows of each group begin."""
        return self._order[1]

    @property
    def codes(self) -> np.ndarray:
        """The number of each row's group."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))

    @property
    def starts(self) -> np.ndarray:
        return self.column("__time")

    def column(self, name: str) -> np.ndarray:
        """A column by (group, start)."""
        if name not in self._sorted:
            self._sorted[name] = self.stored_column(name).take(self._order[0])
        return self._sorted[name]

    def mask(self, bit: int) -> np.ndarray | None:
        """Rows whose signature has this bit, by (group, start); None when all have it."""
        if bit not in self._masks:
            found = (self.column(f"__s{bit // 64}") >> np.int64(bit % 64) & 1).astype(np.uint8)
            self._masks[bit] = None if found.all() else found
        return self._masks[bit]
