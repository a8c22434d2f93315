"""Pushes the rows of one source through the hash tables of some of its queries, or into running totals instead.

A branch lives from one flush of all tables to the next: meanwhile codes, fragments and parts keep their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidemill.plan.fragments import FragmentPart
from tidemill.plan.physical import HashTables, LftaQuery, Op
from tidemill.runtime.kernels.share.lfta import Tables, TableSpec
from tidemill.runtime.share.part_values import PartValues, empty_part
from tidemill.runtime.share.reader.attribute_codes import AttributeCodes
from tidemill.runtime.share.reader.division import Share
from tidemill.runtime.share.reader.evictions import Evictions, Generation, kinds
from tidemill.runtime.share.reader.expressions import Evaluated, integers
from tidemill.runtime.share.reader.fragment_numbers import FragmentNumbers
from tidemill.runtime.share.reader.intercede import edge_classes
from tidemill.runtime.share.reader.memory import Limits
from tidemill.runtime.share.reader.patterns import Patterns
from tidemill.runtime.share.reader.running_totals.totals import RunningTotals
from tidemill.runtime.share.reader.user_accumulators import Block, UserAccumulators

_PATIENCE = 2  # in the middle of a share, two cells may replace one entry

OnRowError = Callable[[Op, pa.Table, str], None]
Columns = list[np.ndarray | None]
Watch = Callable[[list[np.ndarray], np.ndarray, dict[int, int], int], None]
Leaving = Iterator[tuple[str, pa.Table]]


@dataclass(frozen=True)
class Chunk:
    """Rows with their times (or numbers), codes of attributes, parts, and what expressions found. `rows` and `found`
    belong to a whole chunk; this object stands for its rows at `places` (None: all).
    """

    rows: pa.Table
    times: np.ndarray
    attributes: Sequence[np.ndarray]
    found: Evaluated
    ints: Columns
    floats: Columns
    places: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.times)

    def at(self, places: np.ndarray) -> Chunk:
        """Some of the rows of a whole chunk."""
        assert self.places is None
        return Chunk(
            self.rows,
            self.times[places],
            [a[places] for a in self.attributes],
            self.found,
            _cut(self.ints, places),
            _cut(self.floats, places),
            places,
        )

    def truth(self, predicate: int) -> np.ndarray:
        truth = self.found.truth(predicate)
        return truth if self.places is None else truth[self.places]

    def failures(self) -> dict[int, np.ndarray]:
        marks = self.found.failures
        return marks if self.places is None else {e: f[self.places] for e, f in marks.items()}


class Parts(NamedTuple):
    """The parts of a row: integers and doubles kept in tables; `same` maps a part that is not kept to one with the same
    values; `order` is the order of all parts in the stores, `counts` a part that counts rows.
    """

    ints: tuple[FragmentPart, ...]
    floats: tuple[FragmentPart, ...]
    same: dict[str, str]
    order: tuple[str, ...]
    counts: str | None

    def of(self, queries: Sequence[LftaQuery]) -> Parts:
        """The parts that the queries need, sums first."""
        needed = {n for q in queries for n in (self.order if q.parts is None else q.parts)}
        needed |= {self.same[n] for n in needed if n in self.same}
        ints, floats = (
            sorted((p for p in parts if p.name in needed), key=lambda p: p.combine != "sum")
            for parts in (self.ints, self.floats)
        )
        return self._replace(
            ints=tuple(ints), floats=tuple(floats), same={n: other for n, other in self.same.items() if n in needed}
        )


class Branch:
    """The tables, patterns and fragments of one share of the queries."""

    def __init__(
        self,
        op: HashTables,
        share: Share,
        parts: Parts,
        coders: list[AttributeCodes],
        running: bool,
        on_row_error: OnRowError | None,
        budget: int | None = None,
        branches: int = 1,
    ) -> None:
        """`budget`: bytes of all that is kept beside the tables, if there is a limit; then `branches` share the memory
        of the tables as well.
        """
        self.divisor = 1 if budget is None else branches
        self.op, self.on_row_error, tables = op, on_row_error, share.tables
        self.relations, self.numbers = tables.relations, share.relations
        self.picked = share.picked
        self.attributes = sorted({a for r in self.relations for a in r.attributes})
        accumulators = any(q.accumulators for q in tables.queries)
        self.accumulators = UserAccumulators(tables) if accumulators else None
        self.evictions = Evictions(tables)
        own = parts.of(tables.queries)
        words = 1 + len(self.attributes) + len(own.ints) + len(own.floats)
        self.limits = Limits.of(budget, words, sum(r.emits >= 0 for r in self.relations))
        self.now = self._begin(share, own, coders)
        self.mapped = (-1, -1)  # fragments and patterns that the tables know
        self.totals = np.zeros((len(self.relations), 4), np.int64)
        self.given_up = False  # running totals were abandoned
        self.watch: Watch | None = None  # gets the first rows that probe: attributes, codes of patterns, patterns
        self.running = self._make_running(share, own) if running else None  # in place of the tables while they pay

    def _begin(self, share: Share, own: Parts, coders: list[AttributeCodes]) -> Generation:
        """The first generation: empty tables, no patterns, no fragments."""
        edges = [edge_classes(r.edges) for r in self.relations]
        numbers = FragmentNumbers(self.relations, edges, share.finest)
        tables, patterns = self._tables(own), Patterns(share.tables)
        return Generation(tables, patterns, coders, numbers, own.ints, own.floats, own.same, own.order)

    def _make_running(self, share: Share, own: Parts) -> RunningTotals | None:
        """Running totals of integers, where rows are counted and there is memory for them."""
        if share.layout is None or own.floats or own.counts is None or self.limits.running is None:
            return None
        names = [p.name for p in own.ints]
        return RunningTotals(share.layout, kinds(own.ints), names.index(own.counts), names, self.limits)

    def _tables(self, parts: Parts) -> Tables:
        emitting = {self.evictions.paths[r][0] for r, relation in enumerate(self.relations) if relation.emits >= 0}
        number = {r: i for i, r in enumerate(self.evictions.tabled)} | {-1: -1}
        specs = [
            TableSpec(
                number[relation.parent],
                tuple(map(self.attributes.index, relation.attributes)),
                max(1, relation.buckets // self.divisor),
                r in emitting,
            )
            for r, relation in enumerate(self.relations)
            if relation.buckets
        ]
        return Tables(specs, len(self.attributes), kinds(parts.ints), kinds(parts.floats))

    @property
    def full(self) -> bool:
        """True when it is time for a new generation."""
        return self.accumulators is not None and self.accumulators.full

    def chunk(
        self, rows: pa.Table, times: np.ndarray, attributes: Sequence[np.ndarray], found: Evaluated, values: PartValues
    ) -> Chunk:
        """A chunk with the parts that this branch has."""
        ints, floats = (
            [values[p.name] if p.name in values else empty_part(p, len(times)) for p in parts]
            for parts in (self.now.ints, self.now.floats)
        )
        return Chunk(rows, times, attributes, found, ints, floats)

    def push(self, chunk: Chunk) -> Leaving:
        """Add a whole chunk; yield (leaf operator, rows) that leave."""
        taken = 0
        if self.running is not None:
            taken, aside = self._run(self.running, chunk)
            if len(aside):
                yield from self._probe(chunk.at(aside))
            if taken < len(chunk):
                yield from self._leave()
            elif self.running.kept > self.limits.cells:
                yield from self.evictions.leave_cells(self.now, self.running.take())
        if taken < len(chunk):
            yield from self._probe(chunk if not taken else chunk.at(np.arange(taken, len(chunk))))
        yield from self._spill()

    def _spill(self) -> Leaving:
        """Combine evicted entries when there are many; if that does not help, all leave."""
        if self.now.tables.pending > max(self.limits.pending, self.evictions.kept):
            self.evictions.hold(self.now, _PATIENCE)
            if self.evictions.entries > self.limits.pending or self.evictions.kept > self.limits.cells:
                yield from self.evictions.leave(self.now)

    @property
    def kept_bytes(self) -> int:
        """Bytes kept beside the tables: entries, cells, running totals."""
        words = 1 + len(self.attributes) + len(self.now.ints) + len(self.now.floats)
        entries = self.now.tables.pending + self.evictions.entries + self.evictions.kept
        return 8 * words * entries + (0 if self.running is None else self.running.bytes)

    # ---- running totals ------------------------------------------------------------------------

    def _run(self, running: RunningTotals, chunk: Chunk) -> tuple[int, np.ndarray]:
        """Add rows to the running totals; how many were taken, and which of those must go to the tables."""
        verdicts, none = running.layout.verdicts, np.empty(0, np.int64)
        columns = {name: chunk.truth(self.picked[p]).astype(np.int32) for name, p in verdicts.bits.items()}
        for name in verdicts.cuts.keys() - columns.keys():
            column = integers(chunk.rows.column(name))
            if column is not None:
                columns[name] = column
        own = self.relations[0].attributes
        coded = {running.layout.columns[i] for i, a in enumerate(own) if self.now.coders[a].values is not None}
        given = [chunk.attributes[a] for a in own]
        if coded & verdicts.grouping or not running.takes(given, columns):
            return 0, none
        aside = running.disorder(chunk.times)
        for failed in chunk.failures().values():
            aside = np.union1d(aside, np.flatnonzero(failed))
        taken = running.push(chunk.times, given, columns, chunk.ints, aside)
        aside = aside[aside < taken]
        running.rows -= len(aside)  # these are counted when they probe the tables
        return taken, aside

    def _leave(self) -> Leaving:
        """Abandon running totals in this share: cells leave; first rows that are still entries go to the tables."""
        running, self.running, self.given_up = self.running, None, True
        if running is not None:
            yield from self._end(running)

    def _end(self, running: RunningTotals) -> Leaving:
        """Emit everything that running totals hold."""
        now = self.now
        yield from self.evictions.leave_cells(now, running.finish())
        entries = running.entries()
        # Rows that became part of an entry are counted like probes that found their own group.
        self.totals[0] += [running.rows - (0 if entries is None else len(entries.starts)), 0, running.spilled, 0]
        if entries is None or not len(entries.starts):
            return
        fragments = now.fragments.of(entries.starts)
        codes = now.patterns.codes(entries.truths, {}, len(entries.starts))
        self._map()
        order = self.relations[0].attributes
        now.tables.push([entries.attributes[order.index(a)] for a in self.attributes], codes, fragments, entries.parts)

    # ---- tables --------------------------------------------------------------------------------

    def _probe(self, chunk: Chunk) -> Leaving:
        """Push rows through the tables, a block at a time."""
        now, all_fragments = self.now, self.now.fragments.of(chunk.times)
        all_truths, all_failures = [chunk.truth(p) for p in self.picked], chunk.failures()
        attributes = [chunk.attributes[a] for a in self.attributes]
        for low in range(0, len(all_fragments), self.limits.block):
            block = slice(low, low + self.limits.block)
            fragments = all_fragments[block]
            truths, failures = [t[block] for t in all_truths], {e: f[block] for e, f in all_failures.items()}
            codes = now.patterns.codes(truths, failures, len(fragments))
            if self.watch is not None:
                self.watch([a[block] for a in chunk.attributes], codes, now.patterns.known, now.patterns.predicates)
                self.watch = None
            if self.accumulators is not None:
                codes = self._accumulate(chunk, block, fragments, codes, truths, failures)
            self._map()
            now.tables.push(
                _cut(attributes, block), codes, fragments, _cut(chunk.ints, block), _cut(chunk.floats, block)
            )
            if self.limits.tight:
                yield from self._spill()

    def _accumulate(
        self,
        chunk: Chunk,
        block: slice,
        fragments: np.ndarray,
        codes: np.ndarray,
        truths: list[np.ndarray],
        failures: dict[int, np.ndarray],
    ) -> np.ndarray:
        """Add rows to user aggregates; codes of the patterns, in which rows on which one failed are marked."""
        accumulators, patterns = self.accumulators, self.now.patterns
        assert accumulators is not None and chunk.places is None
        part = Block(
            fragments,
            [a[block] for a in chunk.attributes],
            {n: c[block] for n, c in chunk.found.arguments.items()},
            self.now.fragments.maps,
        )
        rows = chunk.rows[block]
        while (folded := accumulators.accumulate(part, codes, patterns)).failed:
            for number, row, why in dict.fromkeys(folded.failed):
                marks = failures.setdefault(accumulators.expression + number, np.zeros(len(codes), bool))
                if not marks[row] and self.on_row_error is not None:
                    self.on_row_error(self.op, rows.slice(row, 1), why)
                marks[row] = True
            codes = patterns.codes(truths, failures, len(codes))
        accumulators.keep(folded)
        return codes

    def _map(self) -> None:
        """Tell the tables about fragments and patterns that are new."""
        now = self.now
        known = (len(now.fragments), len(now.patterns.known))
        if known != self.mapped:
            tabled = self.evictions.tabled
            now.tables.map([now.fragments.maps[r] for r in tabled], [now.patterns.maps[r] for r in tabled])
            self.mapped = known

    def finish(self) -> Leaving:
        """Emit everything that is held; no rows may follow."""
        now = self.now
        if self.running is not None:
            yield from self._end(self.running)
        now.tables.flush()
        self.evictions.hold(now)
        yield from self.evictions.leave(now)
        if self.accumulators is not None:
            yield from self.accumulators.take(now.patterns, now.fragments.own, now.coders)
        self.totals[self.evictions.tabled] += np.array(now.tables.counters).T


def _cut(columns: Sequence[np.ndarray | None], block: slice | np.ndarray) -> Columns:
    return [None if c is None else c[block] for c in columns]
