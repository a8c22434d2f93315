"""Arrangements: the rows that a stateful operator keeps, as immutable sorted segments.

The segments of one arrangement merge geometrically, so a batch writes O(its changes), amortised.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime.duckdb import duck
from tidemill.runtime.row_references import write_out, write_unless_one
from tidemill.runtime.state.different_rows import add_up, add_up_counts, find_alike, sort_rows
from tidemill.runtime.state.run_ends import EndSearch, expand
from tidemill.runtime.state.segments import Segment, SegmentStore

_NOTHING = {"sum": 0, "min": (1 << 63) - 1, "max": -(1 << 63)}


@dataclass(frozen=True)
class Layout:
    """How an arrangement is sorted and how its rows combine.

    Rows that agree on `keys` are one row whose `adds` columns are combined; a row whose sums are all zero
    is dropped. `alive` names the column that alone decides this when all segments are combined.
    Without `adds`, rows never combine. `then` is a second sort column, for `ends`.
    """

    order: Literal["__h", "__time"]
    keys: tuple[Column, ...]
    adds: tuple[tuple[Column, str], ...] = ()
    alive: str | None = None
    then: str | None = None

    def columns(self) -> tuple[Column, ...]:
        """Every stored column, the sort column first."""
        first = Column(self.order, "UBIGINT" if self.order == "__h" else "BIGINT")
        return (first, *self.keys, *(c for c, _ in self.adds))


@dataclass
class Arrangement:
    """Sorted segments of one layout, oldest first."""

    store: SegmentStore
    layout: Layout
    segments: list[Segment]

    def append(self, table: pa.Table, different: bool = False) -> None:
        """Add rows (columns as in the layout, any order); they are sorted and combined here. `different`: no two of
        them agree on the keys.
        """
        if table.num_rows:
            combine = self._sort_different if different and not self.layout.then else self._combine
            merged = combine([write_unless_one(table)], everything=not self.segments)
            if merged.num_rows:
                self.segments.append(Segment(merged.num_rows, table=write_out(merged)))

    def probe(self, hashes: np.ndarray) -> pa.Table:
        """All rows whose `__h` is among `hashes` (sorted, unique). O(hits + hashes · log rows)."""
        found = [self._probe_one(s, hashes) for s in self.segments]
        return self._concat([f for f in found if f is not None])

    def ends(self, hashes: np.ndarray, need: np.ndarray, low: bool, high: bool) -> pa.Table:
        """Enough rows of each hash to see its `need` least (low) and greatest (high) live values of `then`.

        Reads only the ends of each segment's run, deeper where values have been deleted, so the cost is proportional to
        the answer and not to the size of the group.
        """
        picks: list[list[np.ndarray]] = [[] for _ in self.segments]
        tables = [self.store.read(s) for s in self.segments]
        for front in [True] * low + [False] * high:
            for i, rows in enumerate(EndSearch(tables, str(self.layout.then), hashes, need, front).run()):
                picks[i].append(rows)
        found = []
        for segment, parts in zip(self.segments, picks, strict=True):
            rows = np.unique(np.concatenate(parts))
            if len(rows):
                found.append(self.store.read(segment).take(pa.array(rows)))
        return self._concat(found)

    def pop(self, before: int) -> pa.Table:
        """Take out the rows with `__time` < before; their segments shrink from the front."""
        taken = []
        for segment in self.segments:
            table = self.store.read(segment)
            times = table.column("__time").to_numpy()
            end = int(np.searchsorted(times, before, side="left"))
            if end > segment.start:
                taken.append(table.slice(segment.start, end - segment.start))
                segment.start = end
        for segment in [s for s in self.segments if not s.live]:
            self.store.discard(segment)
            self.segments.remove(segment)
        return self._concat(taken)

    def between(self, low: int | None, high: int | None) -> pa.Table:
        """The rows with low <= `__time` < high as they are stored, in no particular order; None is no bound."""
        found = []
        for segment in self.segments:
            table = self.store.read(segment)
            times = table.column("__time").to_numpy()
            begin = segment.start if low is None else max(segment.start, int(np.searchsorted(times, low)))
            end = segment.rows if high is None else int(np.searchsorted(times, high))
            if end > begin:
                found.append(table.slice(begin, end - begin))
        return self._concat(found)

    def replace(self, rows: pa.Table) -> None:
        """These rows in place of all that is stored."""
        for segment in self.segments:
            self.store.discard(segment)
        self.segments.clear()
        self.append(rows)

    def scan(self) -> pa.Table:
        """Every row, combined. O(state): for whole answers and tests only."""
        tables = [self.store.read(s).slice(s.start) for s in self.segments]
        return self._combine(tables, everything=True) if tables else self.empty()

    def rows(self) -> int:
        """Rows stored, before combining."""
        return sum(s.live for s in self.segments)

    def empty(self) -> pa.Table:
        """No rows, right columns."""
        return _empty(self.layout)

    def compact(self) -> None:
        """Merge from the newest back while the older neighbour is less than twice as large."""
        while len(self.segments) > 1 and self.segments[-2].live < 2 * self.segments[-1].live:
            pair = self.segments[-2:]
            whole = len(self.segments) == 2
            merged = self._combine([self.store.read(s).slice(s.start) for s in pair], everything=whole)
            del self.segments[-2:]
            for segment in pair:
                self.store.discard(segment)
            if merged.num_rows:
                self.segments.append(Segment(merged.num_rows, table=merged))

    def _probe_one(self, segment: Segment, hashes: np.ndarray) -> pa.Table | None:
        table = self.store.read(segment)
        column = table.column("__h").to_numpy()
        left = np.searchsorted(column, hashes, side="left")
        right = np.searchsorted(column, hashes, side="right")
        counts = right - left
        hit = counts > 0
        if not hit.any():
            return None
        left, counts = left[hit], counts[hit]
        return table.take(pa.array(expand(left, counts)))

    def _combine(self, tables: list[pa.Table], everything: bool) -> pa.Table:
        table = self._concat(tables)
        adds = [c for c, _ in self.layout.adds]
        plain = not adds or self.layout.then
        if not plain and [(c.type, how) for c, how in self.layout.adds] == [("BIGINT", "sum")]:
            columns = self.layout.columns()
            counted = add_up_counts(table, columns[:-1], adds[0].name)
            if counted is not None:
                return sort_rows(counted, self.layout.order)
        table = write_out(table)
        alike = None if plain else find_alike(table, self.layout.columns()[: -len(adds)])
        if alike is None:
            return self._combine_in_sql(table, everything)
        single, rest = add_up(table, alike, lambda rows: self._combine_in_sql(rows, everything))
        single = self._keep_something(single, everything)
        rows = pa.concat_tables([single, rest.cast(single.schema)]) if rest.num_rows else single
        return sort_rows(rows, self.layout.order)

    def _sort_different(self, tables: list[pa.Table], everything: bool) -> pa.Table:
        """The rows of tables of which no two are equal."""
        return sort_rows(self._keep_something(self._concat(tables), everything), self.layout.order)

    def _keep_something(self, rows: pa.Table, everything: bool) -> pa.Table:
        """Those of some rows that have no equal which stay, with the types of the layout."""
        kept = self._is_something(rows, everything)
        rows = rows if kept.all() else rows.filter(pa.array(kept))
        adds = [c.name for c, _ in self.layout.adds]
        for at, field in enumerate(self.empty().schema):
            if field.name in adds and rows.schema.field(at).type != field.type:
                rows = rows.set_column(at, field.name, rows.column(at).cast(field.type))
        return rows

    def _is_something(self, rows: pa.Table, everything: bool) -> np.ndarray:
        """Which of some rows that have no equal stay: those whose sums are not all zero."""
        layout = self.layout
        sums = [c.name for c, how in layout.adds if how == "sum"]
        deciding = [layout.alive] if everything and layout.alive else sums
        found = np.zeros(rows.num_rows, np.bool_)
        for name in deciding:
            found |= pc.fill_null(pc.not_equal(rows.column(name), 0), False).to_numpy()
        return found

    def _combine_in_sql(self, table: pa.Table, everything: bool) -> pa.Table:
        order, layout = self.layout.order, self.layout
        sorting = f"{order}, {quoted(layout.then)}" if layout.then else order
        inner = duck.source("rows", layout.columns())
        if not layout.adds:
            return duck.run(f"SELECT * FROM {inner} ORDER BY {sorting}", rows=table).combine_chunks()
        keys = ", ".join([order, *(quoted(c.name) for c in layout.keys)])
        adds = ", ".join(f"CAST({how}({quoted(c.name)}) AS {c.type}) AS {quoted(c.name)}" for c, how in layout.adds)
        nonzero = " OR ".join(f"sum({quoted(c.name)}) <> 0" for c, how in layout.adds if how == "sum")
        if everything and layout.alive:
            nonzero = f"sum({quoted(layout.alive)}) <> 0"
        sql = f"SELECT {keys}, {adds} FROM {inner} GROUP BY {keys} HAVING {nonzero} ORDER BY {sorting}"
        return duck.run(sql, rows=table).combine_chunks()

    def _concat(self, tables: list[pa.Table]) -> pa.Table:
        if not tables:
            return self.empty()
        names = [c.name for c in self.layout.columns()]
        tables = [(t if set(names) <= set(t.column_names) else self.widen(t)).select(names) for t in tables]
        return pa.concat_tables([t.cast(tables[0].schema) for t in tables]) if len(tables) > 1 else tables[0]

    def widen(self, table: pa.Table) -> pa.Table:
        """Rows stored before the layout had all its columns, with the neutral value in the new columns."""
        for column in (*self.layout.keys, *(c for c, _ in self.layout.adds)):
            if column.name not in table.column_names:
                how = next((h for c, h in self.layout.adds if c is column), "sum")
                kind = np.float64 if column.type == "DOUBLE" else np.int64
                blank = np.full(table.num_rows, _NOTHING[how], kind)
                table = table.append_column(column.name, pa.array(blank))
        return table


@lru_cache(maxsize=4096)
def _empty(layout: Layout) -> pa.Table:
    names = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in layout.columns())
    return duck.run(f"SELECT {names} LIMIT 0")
