"""The low level of shared aggregation (paper 002): rows of one source through a configuration of hash tables.

An `Lfta` lives for one reader's share of a micro-batch. For each chunk of rows it evaluates every distinct predicate
once (the row's *pattern*), finds the fragment of each row, codes the group attributes, and pushes all through the
tables. What leaves evict goes to the exchange, as rows of (group, fragment start in `__time`, signature words,
parts), made in `evictions`. Tables are flushed at the end of the share, or earlier where codes change their meaning;
flushing is always right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.plan.fragments import FragmentPart
from tidemill.plan.physical import Op
from tidemill.plan.relations import quoted
from tidemill.plan.scalars import columns_of
from tidemill.runtime.accumulators import Accumulators, Block
from tidemill.runtime.coding import Coder
from tidemill.runtime.evictions import Evictions, Generation, kinds
from tidemill.runtime.expressions import Evaluated, Expressions, integers
from tidemill.runtime.fragment_numbers import FragmentNumbers
from tidemill.runtime.intercede import classes
from tidemill.runtime.kernels.lfta import Tables, TableSpec
from tidemill.runtime.lifting import Lifted, lifted, nothing
from tidemill.runtime.patterns import Patterns
from tidemill.runtime.running import Running
from tidemill.runtime.running_layout import Layout
from tidemill.runtime.sketches import Sketches
from tidemill.runtime.thresholds import sizes

_PATIENCE = 2  # in the middle of a share, so many cells in the place of one entry

Complain = Callable[[Op, pa.Table, str], None]
Columns = list[np.ndarray | None]


class Lfta:
    """The tables of one source, from the parameters of an "lfta" operator."""

    def __init__(self, op: Op, complain: Complain | None = None) -> None:
        self.op, self.params = op, op.params
        self.parts = tuple(FragmentPart(**p) for p in self.params["parts"])
        self.relations = self.params["relations"]
        self.expressions = Expressions(op, complain)
        self.edges = [classes(r["edges"]) for r in self.relations]
        raw = [r for r in self.relations if r["parent"] < 0]
        self.finest = classes(sorted({tuple(e) for r in raw for e in r["edges"]}))
        self.mapped = (-1, -1)  # fragments and patterns that the tables know
        self.active: tuple[str, ...] = ()
        self.apart = False  # a value was missing: what counts rows and what counts values may differ
        self.now: Generation | None = None
        self.evictions = Evictions(self.params)
        self.totals = np.zeros((len(self.relations), 4), np.int64)
        self.rows = 0
        self.span: tuple[int, int] | None = None
        self.sketches = Sketches(self.params["candidates"])
        self.complain = complain
        self.accumulators = Accumulators(self.params) if self.params.get("objects") else None
        self.unfailing = self.accumulators is None and _unfailing(self.params)
        self.running: Running | None = None  # in the place of the tables, as long as that pays
        self.running_layout = Layout.of(self.params, self.finest) if self.unfailing else None

    # ---- in ------------------------------------------------------------------------------------

    def push(self, rows: pa.Table, times: np.ndarray,
             numbers: np.ndarray | None = None) -> Iterator[tuple[str, pa.Table]]:
        """Take a chunk in; (leaf operator, rows) of what had to leave.

        Fragments are by `numbers` where windows count rows, else by the event times.
        """
        if not len(times):
            return
        self._seen(times)
        yield from self._push(rows, times, numbers)

    def _push(self, rows: pa.Table, stamps: np.ndarray, numbers: np.ndarray | None) -> Iterator[tuple[str, pa.Table]]:
        found = self.expressions.evaluate(rows, stamps)
        times = stamps if numbers is None else numbers
        values = self._values(found.arguments)
        if self._means_something_else(values, found.attributes):
            yield from self._begin(values)
        now = self.now
        assert now is not None
        attributes = [coder.encode(column) for coder, column in zip(now.coders, found.attributes, strict=True)]
        self.sketches.add(attributes)
        ints, floats = ([_given(values, p, len(times)) for p in parts] for parts in (now.ints, now.floats))
        if self.running is not None:
            taken = self._run(now, self.running, rows, times, attributes, ints)
            if taken == len(times):
                if self.running.kept > sizes.kept_cells:
                    yield from self.evictions.made(now, self.running.take())
                return
            yield from self._leave(now)
            if taken:
                rest = None if numbers is None else numbers[taken:]
                yield from self._push(rows.slice(taken), stamps[taken:], rest)
                return
        self._probe(now, rows, found, now.fragments.of(times), attributes, ints, floats)
        if now.tables.pending > max(sizes.pending_entries, self.evictions.kept):
            self.evictions.hold(now, _PATIENCE)
            if self.evictions.entries > sizes.pending_entries or self.evictions.kept > sizes.kept_cells:
                yield from self.evictions.leave(now)
        if len(now.fragments) > sizes.fragments or (self.accumulators is not None and self.accumulators.full):
            yield from self._begin(values)

    def _means_something_else(self, values: Lifted, attributes: Sequence[pa.ChunkedArray]) -> bool:
        """Whether rows need codes or parts that the tables do not have."""
        now = self.now
        if now is None:
            return True
        self.apart = self.apart or any(values.get(n, 0) is not None for pair in now.same.items() for n in pair)
        return not set(values) <= set(self.active) or bool(self.apart and now.same) or any(
            coder.changes(column) for coder, column in zip(now.coders, attributes, strict=True))

    def _probe(self, now: Generation, rows: pa.Table, found: Evaluated, all_fragments: np.ndarray,
               attributes: list[np.ndarray], ints: Columns, floats: Columns) -> None:
        """Push rows through the tables, a block at a time."""
        for low in range(0, len(all_fragments), sizes.block_rows):
            block = slice(low, low + sizes.block_rows)
            fragments = all_fragments[block]
            truths, failures = [t[block] for t in found.truths], {e: f[block] for e, f in found.failures.items()}
            codes = now.patterns.codes(truths, failures, len(fragments))
            if self.accumulators is not None:
                part = Block(fragments, [a[block] for a in attributes],
                             {n: c[block] for n, c in found.arguments.items()}, now.fragments.maps)
                codes = self._accumulate(now, part, codes, truths, failures, rows[block])
            self._map(now)
            now.tables.push(_cut(attributes, block), codes, fragments, _cut(ints, block), _cut(floats, block))

    def _run(self, now: Generation, running: Running, rows: pa.Table, times: np.ndarray,
             attributes: list[np.ndarray], ints: Columns) -> int:
        """Add rows to the running totals; how many of them these took."""
        verdicts = running.layout.verdicts
        looked_at = {name: integers(rows.column(name)) for name in verdicts.cuts}
        columns = {name: column for name, column in looked_at.items() if column is not None}
        own = self.relations[0]["attributes"]
        coded = {running.layout.columns[i] for i, a in enumerate(own) if now.coders[a].values is not None}
        given = [attributes[a] for a in own]
        if coded & verdicts.grouping or not running.takes(times, given, columns):
            return 0
        return running.push(times, given, columns, ints)

    def _leave(self, now: Generation) -> Iterator[tuple[str, pa.Table]]:
        """No more running totals in this share: cells leave, and where there are only entries the tables take them."""
        running, self.running, self.running_layout = self.running, None, None
        if running is not None:
            yield from self._end(now, running)

    def _end(self, now: Generation, running: Running) -> Iterator[tuple[str, pa.Table]]:
        """All that running totals hold."""
        yield from self.evictions.made(now, running.finish())
        entries = running.entries()
        # Rows that became part of an entry are counted like probes that met their own group.
        self.totals[0] += [running.rows - (0 if entries is None else len(entries.starts)), 0, running.spilled, 0]
        if entries is None or not len(entries.starts):
            return
        fragments = now.fragments.of(entries.starts)
        codes = now.patterns.codes(entries.truths, {}, len(entries.starts))
        self._map(now)
        order = self.relations[0]["attributes"]
        attributes = [entries.attributes[order.index(a)] for a in range(len(order))]
        now.tables.push(attributes, codes, fragments, entries.parts)

    def _accumulate(self, now: Generation, block: Block, codes: np.ndarray, truths: list[np.ndarray],
                    failures: dict[int, np.ndarray], rows: pa.Table) -> np.ndarray:
        """Fold users' aggregates; codes of the patterns, in which rows on which one failed are marked."""
        accumulators = self.accumulators
        assert accumulators is not None
        while (folded := accumulators.fold(block, codes, now.patterns)).failed:
            for part, row, why in dict.fromkeys(folded.failed):
                marks = failures.setdefault(accumulators.expression + part, np.zeros(len(codes), bool))
                if not marks[row] and self.complain is not None:
                    self.complain(self.op, rows.slice(row, 1), why)
                marks[row] = True
            codes = now.patterns.codes(truths, failures, len(codes))
        accumulators.keep(folded)
        return codes

    def _map(self, now: Generation) -> None:
        """Tell the tables about fragments and patterns that are new."""
        known = (len(now.fragments), len(now.patterns.known))
        if known != self.mapped:
            tabled = self.evictions.tabled
            now.tables.map([now.fragments.maps[r] for r in tabled], [now.patterns.maps[r] for r in tabled])
            self.mapped = known

    def finish(self) -> Iterator[tuple[str, pa.Table]]:
        """The end-of-epoch update of the reader's share."""
        now = self.now
        if now is not None:
            if self.running is not None:
                yield from self._end(now, self.running)
            now.tables.flush()
            self.evictions.hold(now)
            yield from self.evictions.leave(now)
            if self.accumulators is not None:
                yield from self.accumulators.take(now.patterns, now.fragments.own, now.coders)
            self.totals[self.evictions.tabled] += np.array(now.tables.counters).T
            self.now = None

    def _values(self, arguments: dict[str, pa.ChunkedArray]) -> Lifted:
        values: Lifted = {}
        for name in dict.fromkeys(p.argument for p in self.parts):
            wanted = tuple(p for p in self.parts if p.argument == name)
            values |= lifted(wanted, None if name is None else arguments[name])
        return values

    def _begin(self, values: Lifted) -> Iterator[tuple[str, pa.Table]]:
        """New tables: after a flush, codes, fragments and parts may change their meaning."""
        yield from self.finish()
        needed = {*self.active, *values}
        self.active = tuple(p.name for p in self.parts if p.name in needed)
        ones = [] if self.apart else [p.name for p in self.parts if values.get(p.name, 0) is None]
        same = {name: ones[0] for name in ones[1:]}
        ints = tuple(p for p in self.parts if p.name in needed and p.type != "DOUBLE" and p.name not in same)
        floats = tuple(p for p in self.parts if p.name in needed and p.type == "DOUBLE")
        self.now = Generation(
            self._tables(ints, floats), Patterns(self.params), [Coder() for _ in self.params["attributes"]],
            FragmentNumbers(self.relations, self.edges, self.finest), ints, floats, same,
            tuple(p.name for p in self.parts),
        )
        self.mapped = (-1, -1)
        counting = [i for i, p in enumerate(ints) if values.get(p.name, 0) is None]
        summed = not floats and all(p.combine == "sum" for p in ints)
        self.running = None
        if self.running_layout is not None and summed and counting:
            self.running = Running(self.running_layout, len(ints), counting[0])

    def _tables(self, ints: Sequence[FragmentPart], floats: Sequence[FragmentPart]) -> Tables:
        emitting = {self.evictions.paths[r][0] for r, relation in enumerate(self.relations) if relation["emits"] >= 0}
        number = {r: i for i, r in enumerate(self.evictions.tabled)} | {-1: -1}
        specs = [
            TableSpec(number[relation["parent"]], tuple(relation["attributes"]), relation["buckets"], r in emitting)
            for r, relation in enumerate(self.relations) if relation["buckets"]
        ]
        return Tables(specs, len(self.params["attributes"]), kinds(ints), kinds(floats))

    # ---- statistics ----------------------------------------------------------------------------

    def _seen(self, times: np.ndarray) -> None:
        low, high = int(times.min()), int(times.max())
        self.span = (low, high) if self.span is None else (min(low, self.span[0]), max(high, self.span[1]))
        self.rows += len(times)

    def note(self) -> dict[str, Any]:
        """What happened in the tables, for the statistics: for each relation probes, collisions, turnovers, flushed
        entries.
        """
        first, last = self.span or (0, 0)
        return {"rows": self.rows, "first": first, "last": last, "relations": self.totals.tolist(),
                "tuples": self.sketches.rows, "sketches": self.sketches.texts()}


def _unfailing(params: dict[str, Any]) -> bool:
    """True when there is no row on which an expression fails: columns as they are, and comparisons of integers."""
    named = [e["sql"] for e in (*params["attributes"], *params["arguments"])]
    return all(p["program"] is not None for p in params["predicates"]) and all(
        sql in map(quoted, columns_of(sql)) for sql in named)


def _cut(columns: Sequence[np.ndarray | None], block: slice) -> Columns:
    return [None if c is None else c[block] for c in columns]


def _given(values: Lifted, part: FragmentPart, rows: int) -> np.ndarray | None:
    return values[part.name] if part.name in values else nothing(part, rows)
