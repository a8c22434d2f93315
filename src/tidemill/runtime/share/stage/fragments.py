"""The rows of a fragment store: (start, group, signature, parts), sorted by start; equal ones are combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.plan.physical import LftaQuery
from tidemill.plan.windows import Window
from tidemill.runtime.kernels.share.edges import ascending
from tidemill.runtime.kernels.share.lfta import Emitted
from tidemill.runtime.kernels.share.sliding_rows import codes_of, combine, different, hashes_of
from tidemill.runtime.share.reader.intercede import Intercede, Interceded
from tidemill.runtime.state.arrangements import Arrangement, Layout
from tidemill.runtime.state.segments import Segment
from tidemill.runtime.thresholds import sizes
from tidemill.runtime.user_aggregates.sliding import group_numbers

_KINDS = {"sum": 0, "min": 1, "max": 2}
_APART = 0.85  # combining does not pay when more than this share of the rows is distinct
_SHARED = 1 / 8  # interceding saves little when fewer rows than this are shared


class Fragments(Arrangement):
    """An arrangement by time whose rows are combined by kernels, fast enough for millions of rows in a batch.

    Every store counts rows, so no row has only zero sums.
    """

    def least(self) -> int | None:
        """The least start of all."""
        starts = [self.store.read(s).column("__time")[s.start].as_py() for s in self.segments]
        return min(starts, default=None)

    def append(self, table: pa.Table, different: bool = False) -> None:
        """Add rows. Large pieces that a reader has sorted and combined become segments without a merge; they are
        combined with stored rows only when the whole store is rewritten (`replace`).
        """
        table = self._concat([table])
        if table.num_rows < sizes.large_rows or table.schema.types != self.empty().schema.types:
            super().append(table, different)
            return
        large, rest = _split_ascending(table)
        self.segments += [Segment(piece.num_rows, table=piece.combine_chunks()) for piece in large]
        super().append(rest, different)

    def replace(self, rows: pa.Table) -> None:
        """These rows in place of all that is stored, in one segment."""
        super().replace(self.empty())
        super().append(rows)

    def compact(self) -> None:
        """Merge from the newest back while the older neighbour is less than twice as large; large ones only when there
        are many.
        """
        merged, total = 1, self.segments[-1].live if self.segments else 0
        while merged < len(self.segments) and (older := self.segments[-merged - 1].live) < 2 * total:
            if total + older >= sizes.large_rows and len(self.segments) <= sizes.large_segments:
                break
            merged, total = merged + 1, total + older
        if merged < 2:
            return
        own = self.segments[-merged:]
        table = self._combine([self.store.read(s).slice(s.start) for s in own], everything=merged == len(self.segments))
        del self.segments[-merged:]
        for segment in own:
            self.store.discard(segment)
        self.segments.append(Segment(table.num_rows, table=table))

    def _combine(self, tables: list[pa.Table], everything: bool) -> pa.Table:
        table = self._concat(tables)
        if table.schema.types != self.empty().schema.types:
            return super()._combine([table.combine_chunks()], everything)  # DuckDB converts between the types
        starts = table.column("__time").to_numpy()
        table = table.combine_chunks() if ascending(starts) else _sort_by_start(table, starts)
        if self._are_distinct(_sample_starts(table)):
            return table  # equal rows do no harm to windows, and the few here are combined by a later merge
        parts, identity = Parts.of(table, self.layout), self._identity(table)
        # Rows stay in the order of their first appearance, which is that of their starts.
        found = combine(identity, parts.ints, parts.int_kinds, parts.floats, parts.float_kinds)
        rest = table.select(["__time", *(c.name for c in self.layout.keys)]).take(pa.array(found.first))
        return with_parts(rest, self.layout, found.ints, found.floats).combine_chunks()

    def _identity(self, table: pa.Table) -> list[np.ndarray]:
        return [table.column("__time").to_numpy(), *(group_numbers(table.column(c.name)) for c in self.layout.keys)]

    def _are_distinct(self, table: pa.Table) -> bool:
        """True when combining would hardly reduce the rows."""
        return different(hashes_of(self._identity(table))) > _APART * table.num_rows


def _split_ascending(table: pa.Table) -> tuple[list[pa.Table], pa.Table]:
    """Large pieces whose starts ascend, cut where the rows of one message end and those of another begin; the rest."""
    runs: list[list[pa.RecordBatch]] = []
    rest: list[pa.RecordBatch] = []
    last = None
    for batch in table.to_batches():
        starts = batch.column("__time").to_numpy()
        if not len(starts):
            continue
        ordered = ascending(starts)
        if not ordered:
            rest.append(batch)
        elif last is not None and last <= starts[0]:
            runs[-1].append(batch)
        else:
            runs.append([batch])
        last = starts[-1] if ordered else None
    large = [sum(map(len, run)) >= sizes.large_rows for run in runs]
    rest += [batch for run, alone in zip(runs, large, strict=True) if not alone for batch in run]
    return (
        [pa.Table.from_batches(run) for run, alone in zip(runs, large, strict=True) if alone],
        pa.Table.from_batches(rest, table.schema),
    )


def _sample_starts(table: pa.Table) -> pa.Table:
    """A sample of whole starts of a table that is sorted by start: rows equal to a sampled row are in the sample."""
    if table.num_rows < sizes.sampled_rows:
        return table
    starts = table.column("__time").to_numpy()
    ends = np.append(np.flatnonzero(starts[1:] != starts[:-1]) + 1, len(starts))
    step = min(len(ends) // 8, table.num_rows // sizes.sampled_rows)
    if step < 2:
        return table
    begins = np.concatenate(([0], ends[:-1]))
    return pa.concat_tables(
        [table.slice(b, e - b) for b, e in zip(begins[::step].tolist(), ends[::step].tolist(), strict=True)]
    ).combine_chunks()


def _sort_by_start(table: pa.Table, starts: np.ndarray) -> pa.Table:
    """Sort by start, stable. Sorted inputs have long runs of equal starts: runs are moved as a whole.

    >>> _sort_by_start(pa.table({"a": [1, 2, 3]}), np.array([20, 10, 10])).column("a").to_pylist()
    [2, 3, 1]
    """
    begins = np.concatenate(([0], np.flatnonzero(starts[1:] != starts[:-1]) + 1))
    if len(begins) * sizes.run_rows > len(starts):
        return table.combine_chunks().take(pa.array(_sort_order(starts)))
    lengths = np.diff(begins, append=len(starts)).tolist()
    order = np.argsort(starts[begins], kind="stable").tolist()
    return pa.concat_tables([table.slice(int(begins[r]), lengths[r]) for r in order]).combine_chunks()


def _sort_order(starts: np.ndarray) -> np.ndarray:
    """The stable permutation that sorts by start. O(rows) where there are few different ones.

    >>> _sort_order(np.array([20, 10, 20, 10])).tolist()
    [1, 3, 0, 2]
    """
    codes, first = codes_of([starts])
    if len(first) > sizes.ranked_starts:
        return np.argsort(starts, kind="stable")
    rank = np.empty(len(first), np.uint16)
    rank[np.argsort(starts[first])] = np.arange(len(first), dtype=np.uint16)
    return np.argsort(rank[codes], kind="stable")


@dataclass(frozen=True)
class Parts:
    """The parts of some rows as arrays, integers and doubles, and how they combine."""

    ints: list[np.ndarray]
    int_kinds: list[int]
    floats: list[np.ndarray]
    float_kinds: list[int]

    @classmethod
    def of(cls, rows: pa.Table, layout: Layout) -> Parts:
        columns = [(c.type == "DOUBLE", rows.column(c.name).to_numpy(), _KINDS[how]) for c, how in layout.adds]
        return cls(
            [v for real, v, _ in columns if not real],
            [kind for real, _, kind in columns if not real],
            [v for real, v, _ in columns if real],
            [kind for real, _, kind in columns if real],
        )

    def at(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Integers and doubles of some rows: a row for each part."""
        return _rows_of(self.ints, places, np.int64), _rows_of(self.floats, places, np.float64)


def _rows_of(columns: list[np.ndarray], places: np.ndarray, kind: type) -> np.ndarray:
    return np.array([c[places] for c in columns], kind).reshape(len(columns), len(places))


def with_parts(rows: pa.Table, layout: Layout, ints: np.ndarray, floats: np.ndarray) -> pa.Table:
    """Rows with their parts in the order of the layout."""
    whole, real = iter(ints), iter(floats)
    for column, _ in layout.adds:
        rows = rows.append_column(column.name, pa.array(next(real if column.type == "DOUBLE" else whole)))
    return rows


@dataclass(frozen=True)
class Signatures:
    """The different signatures of some rows: `words` by number, `codes` say which one each row has."""

    codes: np.ndarray
    words: dict[int, np.ndarray]

    @classmethod
    def of(cls, rows: pa.Table, words: Sequence[int]) -> Signatures:
        """
        >>> found = Signatures.of(pa.table({"__s0": [3, 1, 3]}), [0])
        >>> found.codes.tolist(), found.has(1).tolist()
        ([0, 1, 0], [True, False])
        """
        columns = [rows.column(f"__s{word}").to_numpy() for word in words]
        codes, first = codes_of(columns)
        return cls(codes, {word: column[first] for word, column in zip(words, columns, strict=True)})

    def __len__(self) -> int:
        return len(next(iter(self.words.values())))

    def of_rows(self, kept: np.ndarray) -> Signatures:
        """The signatures of some of the rows."""
        return Signatures(self.codes[kept], self.words)

    def has(self, bit: int) -> np.ndarray:
        """Which of them have this bit."""
        return (self.words[bit // 64] >> np.int64(bit % 64) & 1).astype(bool)


def intercede_rows(
    rows: pa.Table, signatures: Signatures, layout: Layout, words: Sequence[int], windows: Mapping[int, Window]
) -> pa.Table:
    """Combine shared rows into cells of single queries, which have these bits and windows, if cells are fewer than
    rows; else return the rows as they are. Rows of no query are dropped if any are combined.
    """
    has = np.array([signatures.has(bit) for bit in windows])
    owners = has.sum(axis=0)[signatures.codes]
    shared, single = np.flatnonzero(owners > 1), np.flatnonzero(owners == 1)
    queries = [LftaQuery("", bit, -1, (), tuple((w.slide, phase) for phase in w.phases)) for bit, w in windows.items()]
    plan = Intercede.of(queries, words)
    if len(shared) <= _SHARED * rows.num_rows or plan is None:
        return rows
    parts, keys = Parts.of(rows, layout), [c.name for c in layout.keys[: len(layout.keys) - len(words)]]
    groups, firsts = _groups(rows, keys)
    starts, fragment = np.unique(rows.column("__time").to_numpy(), return_inverse=True)
    emitted = Emitted(
        fragment[shared].astype(np.int32), signatures.codes[shared], groups[shared][None], *parts.at(shared)
    )
    owner = has.argmax(axis=0)[signatures.codes[single]]
    pairs, pane = np.unique(owner * len(starts) + fragment[single], return_inverse=True)
    known = pairs // len(starts), starts[pairs % len(starts)]
    before = Interceded(known, pane.astype(np.int32), groups[single][None], *parts.at(single))
    cells = plan.cells(
        emitted,
        starts,
        np.stack(list(signatures.words.values()), axis=1),
        before,
        parts.int_kinds,
        parts.float_kinds,
        patience=1,
    )
    if cells is None:
        return rows
    made = rows.select(keys).take(pa.array(firsts[cells.attrs[0]]))
    made = made.append_column("__time", pa.array(cells.panes[1][cells.pane]))
    for word, column in zip(words, plan.words(cells, len(words)).T, strict=True):
        made = made.append_column(f"__s{word}", pa.array(np.ascontiguousarray(column)))
    return with_parts(made, layout, cells.ints, cells.floats)


def _groups(rows: pa.Table, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The number of each row's group, and each group's first row."""
    if not keys:
        return np.zeros(rows.num_rows, np.int64), np.zeros(1, np.int64)
    codes, firsts = codes_of([group_numbers(rows.column(k)) for k in keys])
    return codes.astype(np.int64), firsts
