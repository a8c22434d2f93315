"""Evicted entries of hash tables on their way to the fragment stores: equal entries are combined, or made into cells of
single queries, before they leave as rows of (group, fragment start in `__time`, signature words, parts).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.plan.fragments import FragmentPart
from tidemill.plan.physical import HashTables, LftaStore
from tidemill.plan.predicate_programs import columns_of
from tidemill.runtime.kernels.share.lfta import Emitted, Tables
from tidemill.runtime.kernels.share.sliding_rows import combine, different, hashes_of
from tidemill.runtime.share.reader.attribute_codes import AttributeCodes
from tidemill.runtime.share.reader.fragment_numbers import FragmentNumbers
from tidemill.runtime.share.reader.intercede import Finer, Intercede, Interceded, Route
from tidemill.runtime.share.reader.patterns import Patterns
from tidemill.runtime.thresholds import sizes

_KINDS = {"sum": 0, "min": 1, "max": 2}
_APART = 0.85  # combining does not pay when more than this share of the entries is distinct


@dataclass(frozen=True)
class Generation:
    """What codes, numbers and parts mean, from one flush of all tables to the next.

    `same` maps a part that is not in the tables to one with the same values.
    """

    tables: Tables
    patterns: Patterns
    coders: list[AttributeCodes]
    fragments: FragmentNumbers
    ints: tuple[FragmentPart, ...]
    floats: tuple[FragmentPart, ...]
    same: dict[str, str]
    order: tuple[str, ...]  # all parts, as stores have them

    @property
    def int_names(self) -> list[str]:
        return [p.name for p in self.ints]

    @property
    def float_names(self) -> list[str]:
        return [p.name for p in self.floats]

    @property
    def int_kinds(self) -> list[int]:
        return kinds(self.ints)

    @property
    def float_kinds(self) -> list[int]:
        return kinds(self.floats)


class Evictions:
    """Entries and cells by relation, for all relations that feed a store.

    A relation without buckets has no table: it takes its entries from those of the nearest table above it. `paths` has
    for each relation the way from that table down to the relation.
    """

    def __init__(self, tables: HashTables) -> None:
        self.relations, self.stores, self.attributes = tables.relations, tables.stores, tables.attributes
        self.tabled = [r for r, relation in enumerate(self.relations) if relation.buckets]
        self.paths = [self._path(r) for r in range(len(self.relations))]
        self.held: dict[int, Emitted] = {}  # evicted from emitting relations, by relation
        self.cells: dict[int, Interceded] = {}  # the same put together for each query, by relation
        looked_at = [_columns_read(p.program) or i for i, p in enumerate(tables.predicates)]
        self.intercede = {
            r: Intercede.of([tables.queries[q] for q in relation.own], self._store(r).words, looked_at)
            for r, relation in enumerate(self.relations)
            if relation.emits >= 0
        }

    def _path(self, r: int) -> list[int]:
        path = [r]
        while not self.relations[path[0]].buckets:
            path.insert(0, self.relations[path[0]].parent)
        return path

    def hold(self, now: Generation, patience: int = 1) -> None:
        """Take what the tables evicted and combine equal entries: a repeated eviction costs little here, and much when
        it is sent to a shard.
        """
        for number, emitted in now.tables.take().items():
            if not len(emitted.codes):
                continue
            table = self.tabled[number]
            below = [r for r in self.intercede if self.paths[r][0] == table]
            if below == [table] and self._are_distinct(table, emitted):
                self.held[table] = _append(self.held.get(table), emitted)
                continue
            finer = None
            if len(emitted.codes) >= sizes.few_entries and any(self.intercede[r] is not None for r in below):
                finer = Finer.of(emitted, now.fragments.starts(table), now.int_kinds)
            for r in below:
                self._hold_one(now, r, emitted, finer, patience)

    def _hold_one(self, now: Generation, r: int, emitted: Emitted, finer: Finer | None, patience: int) -> None:
        """Hold the entries of one relation, from its own table or from the nearest one above it."""
        route, intercede = self._route(now, r), self.intercede[r]
        if finer is not None and intercede is not None:
            cells = intercede.cells_of_finer(finer, route, self.cells.get(r), patience)
            if cells is not None:
                self.cells[r] = cells
                return
        own = emitted if len(self.paths[r]) == 1 else route.project(emitted)
        whole = _append(self.held.get(r), own)
        made = self._intercede(now, r, whole, patience) if finer is None else None
        if made is None:
            self.held[r] = _combine(now, whole)
        else:
            self.cells[r] = made
            self.held.pop(r, None)

    def _are_distinct(self, r: int, emitted: Emitted) -> bool:
        """True when combining the entries of a single query would hardly reduce them."""
        if len(self.relations[r].own) != 1:
            return False
        place = emitted.fragments.astype(np.int64) << 32 | emitted.codes
        return different(hashes_of([place, *map(np.ascontiguousarray, emitted.attrs)])) > _APART * len(place)

    def _route(self, now: Generation, r: int) -> Route:
        table, *below = self.paths[r]
        fragments, codes = np.arange(len(now.fragments.own[table]), dtype=np.int32), now.patterns.numbers(table)
        for step in below:
            fragments = now.fragments.maps[step][fragments]
            mapped = np.full(len(codes), -1, np.int32)
            mapped[codes >= 0] = now.patterns.maps[step][codes[codes >= 0]]
            codes = mapped
        held = self.relations[table].attributes
        return Route(
            [held.index(a) for a in self.relations[r].attributes],
            fragments,
            codes,
            now.fragments.starts(r),
            self._signatures(now, r),
        )

    @property
    def kept(self) -> int:
        """Number of cells of all relations; adding cells passes over all of them."""
        return sum(len(c.pane) for c in self.cells.values())

    @property
    def entries(self) -> int:
        """Number of entries of all relations that are not part of cells."""
        return sum(len(e.codes) for e in self.held.values())

    def _intercede(self, now: Generation, r: int, emitted: Emitted, patience: int) -> Interceded | None:
        intercede = self.intercede[r]
        if intercede is None or len(emitted.codes) < sizes.few_entries:
            return None
        kinds = (now.int_kinds, now.float_kinds)
        return intercede.cells(
            emitted, now.fragments.starts(r), self._signatures(now, r), self.cells.get(r), *kinds, patience
        )

    def _signatures(self, now: Generation, r: int) -> np.ndarray:
        return now.patterns.signatures(r, self._store(r).words)

    def _store(self, r: int) -> LftaStore:
        return self.stores[self.relations[r].emits]

    def leave(self, now: Generation) -> Iterator[tuple[str, pa.Table]]:
        """Yield (leaf, rows of its fragment store) of everything held."""
        tables: dict[int, list[pa.Table]] = {}
        for r, emitted in self.held.items():
            tables.setdefault(self.relations[r].emits, []).append(self._rows(now, r, emitted))
        for r, cells in self.cells.items():
            tables.setdefault(self.relations[r].emits, []).append(self._cells_table(now, r, cells))
        self.held, self.cells = {}, {}
        for store, pieces in tables.items():
            yield self.stores[store].op, pa.concat_tables(pieces)

    def leave_cells(self, now: Generation, cells: list[tuple[int, Interceded]]) -> Iterator[tuple[str, pa.Table]]:
        """Cells of running totals, as rows of the fragment stores."""
        for r, made in cells:
            yield self._store(r).op, self._cells_table(now, r, made)

    def _cells_table(self, now: Generation, r: int, cells: Interceded) -> pa.Table:
        intercede = self.intercede[r]
        assert intercede is not None
        words = intercede.words(cells, len(self._store(r).words))
        return self._table(now, r, cells.attrs, cells.panes[1][cells.pane], words, cells.ints, cells.floats)

    def _rows(self, now: Generation, r: int, emitted: Emitted) -> pa.Table:
        """Evicted entries of one relation as rows of its fragment store."""
        words = self._signatures(now, r)
        asked = np.any(words != 0, axis=1)
        if not asked.all():
            # Some rows passed only for the relations that this one feeds.
            kept = asked[emitted.codes]
            emitted = Emitted(*(column[..., kept] for column in emitted))
        starts = now.fragments.starts(r)[emitted.fragments]
        return self._table(now, r, emitted.attrs, starts, words[emitted.codes], emitted.ints, emitted.floats)

    def _table(
        self,
        now: Generation,
        r: int,
        attrs: np.ndarray,
        starts: np.ndarray,
        words: np.ndarray,
        ints: np.ndarray,
        floats: np.ndarray,
    ) -> pa.Table:
        """Rows of the store of one relation: (group, start, signature, parts)."""
        relation, store = self.relations[r], self._store(r)
        names = [self.attributes[a].name for a in relation.attributes]
        columns = {
            name: now.coders[a].decode(codes) for name, a, codes in zip(names, relation.attributes, attrs, strict=True)
        }
        columns["__time"] = pa.array(starts)
        for i, word in enumerate(store.words):
            columns[f"__s{word}"] = pa.array(words[:, i])
        given = dict(zip(now.int_names, ints, strict=True)) | dict(zip(now.float_names, floats, strict=True))
        given |= {name: given[other] for name, other in now.same.items()}
        for name in now.order:
            if name in store.parts and name in given:
                columns[name] = pa.array(given[name])
        return pa.table(columns)


def kinds(parts: Sequence[FragmentPart]) -> list[int]:
    """The kernels' codes for how these parts combine."""
    return [_KINDS[p.combine] for p in parts]


def _combine(now: Generation, emitted: Emitted) -> Emitted:
    if len(emitted.codes) < sizes.few_entries:
        return emitted
    place = emitted.fragments.astype(np.int64) << 32 | emitted.codes
    found = combine(
        [np.ascontiguousarray(c) for c in (place, *emitted.attrs)],
        [np.ascontiguousarray(c) for c in emitted.ints],
        now.int_kinds,
        [np.ascontiguousarray(c) for c in emitted.floats],
        now.float_kinds,
    )
    first = found.first
    return Emitted(emitted.fragments[first], emitted.codes[first], emitted.attrs[:, first], found.ints, found.floats)


def _append(before: Emitted | None, own: Emitted) -> Emitted:
    """The entries `own` appended to those `before`."""
    return (
        own if before is None else Emitted(*(np.concatenate(pair, axis=-1) for pair in zip(before, own, strict=True)))
    )


def _columns_read(program: list[Any] | None) -> tuple[str, ...] | None:
    """The columns that a predicate reads; None without a program."""
    return None if program is None else tuple(sorted(columns_of(program)))
