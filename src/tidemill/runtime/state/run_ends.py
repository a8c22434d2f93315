"""Reads the ends of sorted runs: enough rows of a group to find its least or greatest live values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.plan.relations import quoted
from tidemill.runtime.duckdb import duck


class EndSearch:
    """Finds how many rows of each segment's run of a hash must be read for enough live values at one end."""

    def __init__(self, tables: list[pa.Table], column: str, hashes: np.ndarray, need: np.ndarray, front: bool) -> None:
        """`tables` are the segments, sorted by `__h` and then by `column`, whose values are looked for."""
        self.tables, self.column, self.front = tables, column, front
        self.hashes, self.need = hashes, need
        columns = [t.column("__h").to_numpy() for t in self.tables]
        self.left = [np.searchsorted(c, hashes, side="left") for c in columns]
        self.size = [np.searchsorted(c, hashes, side="right") - l for c, l in zip(columns, self.left, strict=True)]
        self.depth = need.copy()

    def run(self) -> list[np.ndarray]:
        """Row numbers to take from each segment."""
        todo = np.arange(len(self.hashes))
        while len(todo):
            short = self._find_short(todo)
            todo = todo[short]
            self.depth[todo] *= 2
        return [self._rows(i, np.arange(len(self.hashes))) for i in range(len(self.tables))]

    def _rows(self, segment: int, which: np.ndarray) -> np.ndarray:
        count = np.minimum(self.depth[which], self.size[segment][which])
        start = self.left[segment][which]
        if not self.front:
            start = start + self.size[segment][which] - count
        return expand(start, count)

    def _find_short(self, todo: np.ndarray) -> np.ndarray:
        """Which of `todo` have too few live values among the rows read so far."""
        pieces = []
        for i, table in enumerate(self.tables):
            count = np.minimum(self.depth[todo], self.size[i][todo])
            rows = table.take(pa.array(self._rows(i, todo)))
            edge = np.zeros(len(rows), bool)
            ends = np.cumsum(count) - (1 if self.front else count)
            open_runs = (count < self.size[i][todo]) & (count > 0)
            edge[ends[open_runs]] = True
            pieces.append(rows.append_column("__edge", pa.array(edge)))
        if not pieces:
            return np.zeros(len(todo), bool)
        value = quoted(self.column)
        bound, inside = ("min", "<=") if self.front else ("max", ">=")
        rows = pa.concat_tables(pieces)
        enough = duck.run(
            f"""WITH bounds AS (SELECT __h, {bound}({value}) FILTER (WHERE __edge) AS __bound, bool_or(__edge) AS __open
                  FROM rows GROUP BY __h),
                live AS (SELECT __h, {value} FROM rows GROUP BY __h, {value} HAVING sum(__n) > 0),
                shown AS (SELECT b.__h, b.__open, count(l.__h) AS __live FROM bounds b LEFT JOIN live l ON l.__h = b.__h
                  AND (NOT b.__open OR l.{value} {inside} b.__bound) GROUP BY ALL)
                SELECT __h, __live, __open FROM shown""",
            rows=rows,
        )
        shown = dict(
            zip(
                enough.column("__h").to_pylist(),
                zip(enough.column("__live").to_pylist(), enough.column("__open").to_pylist(), strict=True),
                strict=True,
            )
        )
        short = np.zeros(len(todo), bool)
        for i, j in enumerate(todo):
            live, open_ = shown.get(int(self.hashes[j]), (0, False))
            short[i] = open_ and live < self.need[j]
        return short


def expand(start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """All row numbers of the ranges [start, start + count)."""
    inside = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(start, count) + inside
