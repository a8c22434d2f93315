"""The low level of shared aggregation (paper 002): rows of one source through a configuration of hash tables.

An `Lfta` lives for one reader's share of a micro-batch. For each chunk of rows it evaluates every distinct predicate
once (the row's *pattern*), finds the fragment of each row, codes the group attributes, and pushes all through the
tables. What leaves evict goes to the exchange, as rows of (group, fragment start in `__time`, signature words,
parts). Tables are flushed at the end of the share, or earlier where codes change their meaning; flushing is always
right.
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
from tidemill.runtime import predicates
from tidemill.runtime.accumulators import Accumulators, Block
from tidemill.runtime.coding import Coder
from tidemill.runtime.expressions import Expressions, integers
from tidemill.runtime.intercede import Finer, Intercede, Interceded, Route, classes
from tidemill.runtime.kernels.edges import floor_edges, fragment_runs
from tidemill.runtime.kernels.lfta import Emitted, Tables, TableSpec
from tidemill.runtime.kernels.sliding_rows import combine, different, hashes_of
from tidemill.runtime.lifting import Lifted, lifted, nothing
from tidemill.runtime.patterns import Patterns
from tidemill.runtime.running import Running
from tidemill.runtime.running_layout import Layout
from tidemill.runtime.sketches import Sketches

_KINDS = {"sum": 0, "min": 1, "max": 2}
_PENDING = 1 << 20  # entries that leave before the share of the batch is done
_CELLS = 1 << 22  # cells of queries that stay until then: what comes later is added to them
_PATIENCE = 2  # in the middle of a share, so many cells in the place of one entry
_FEW = 1 << 12  # entries that are not worth putting together
_APART = 0.85  # nor are those of one query of which so many are different
_BLOCK = 1 << 16  # rows at a time: what is computed of them stays in the cache
_FRAGMENTS = 1 << 18  # fragments of one generation of tables

Complain = Callable[[Op, pa.Table, str], None]


class Lfta:
    """The tables of one source, from the parameters of an "lfta" operator."""

    def __init__(self, op: Op, complain: Complain | None = None) -> None:
        self.op, self.params = op, op.params
        self.parts = tuple(FragmentPart(**p) for p in self.params["parts"])
        self.relations = self.params["relations"]
        self.stores = self.params["stores"]
        self.expressions = Expressions(op, complain)
        self.coders = [Coder() for _ in self.params["attributes"]]
        self.edges = [classes(r["edges"]) for r in self.relations]
        raw = [r for r in self.relations if r["parent"] < 0]
        self.finest = classes(sorted({tuple(e) for r in raw for e in r["edges"]}))
        # A relation without buckets has no table: it gets its entries when those of the table above it are held.
        self.tabled = [r for r, relation in enumerate(self.relations) if relation["buckets"]]
        self.paths = [self._path(r) for r in range(len(self.relations))]
        self.mapped = (-1, -1)  # fragments and patterns that the tables know
        self.active: tuple[str, ...] = ()
        self.same: dict[str, str] = {}  # parts that are not in the tables, by another one that has the same values
        self.apart = False  # a value was missing: what counts rows and what counts values may differ
        self.tables: Tables | None = None
        self.totals = np.zeros((len(self.relations), 4), np.int64)
        self.rows = 0
        self.held: dict[int, Emitted] = {}  # evicted from emitting relations, by relation
        self.cells: dict[int, Interceded] = {}  # the same put together for each query, by relation
        looked_at = [_looked_at(p["program"]) or i for i, p in enumerate(self.params["predicates"])]
        self.intercede = {
            r: Intercede.of(relation, self.params["queries"], self.stores[relation["emits"]]["words"], looked_at)
            for r, relation in enumerate(self.relations) if relation["emits"] >= 0
        }
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
        self.apart = self.apart or any(values.get(n, 0) is not None for pair in self.same.items() for n in pair)
        if self.tables is None or not set(values) <= set(self.active) or (self.apart and self.same) or any(
            coder.changes(column) for coder, column in zip(self.coders, found.attributes, strict=True)
        ):
            yield from self._begin(values)
        assert self.tables is not None
        attributes = [
            coder.encode(column) for coder, column in zip(self.coders, found.attributes, strict=True)
        ]
        self.sketches.add(attributes)
        by_name = {p.name: p for p in self.parts}
        ints = [_given(values, by_name[n], len(times)) for n in self.int_names]
        floats = [_given(values, by_name[n], len(times)) for n in self.float_names]
        if self.running is not None:
            taken = self._run(self.running, rows, times, attributes, ints)
            if taken == len(times):
                if self.running.kept > _CELLS:
                    yield from self._made(self.running.take())
                return
            yield from self._leave()
            if taken:
                rest = None if numbers is None else numbers[taken:]
                yield from self._push(rows.slice(taken), stamps[taken:], rest)
                return
        all_fragments = self._fragments(times)
        for low in range(0, len(times), _BLOCK):
            block = slice(low, low + _BLOCK)
            fragments = all_fragments[block]
            truths, failures = [t[block] for t in found.truths], {e: f[block] for e, f in found.failures.items()}
            codes = self.patterns.codes(truths, failures, len(fragments))
            if self.accumulators is not None:
                part = Block(fragments, [a[block] for a in attributes],
                             {n: c[block] for n, c in found.arguments.items()}, self.fragment_maps)
                codes = self._accumulate(part, codes, truths, failures, rows[block])
            self._map()
            self.tables.push(_cut(attributes, block), codes, fragments, _cut(ints, block), _cut(floats, block))
        if self.tables.pending > max(_PENDING, self._kept):
            self._hold(_PATIENCE)
            if sum(len(e.codes) for e in self.held.values()) > _PENDING or self._kept > _CELLS:
                yield from self._emitted()
        if len(self.places) > _FRAGMENTS or (self.accumulators is not None and self.accumulators.full):
            yield from self._begin(values)

    def _run(self, running: Running, rows: pa.Table, times: np.ndarray, attributes: list[np.ndarray],
             ints: list[np.ndarray | None]) -> int:
        """Add rows to the running totals; how many of them these took."""
        verdicts = running.layout.verdicts
        looked_at = {name: integers(rows.column(name)) for name in verdicts.cuts}
        columns = {name: column for name, column in looked_at.items() if column is not None}
        own = self.relations[0]["attributes"]
        coded = {running.layout.columns[i] for i, a in enumerate(own) if self.coders[a].values is not None}
        given = [attributes[a] for a in own]
        if coded & verdicts.grouping or not running.takes(times, given, columns):
            return 0
        return running.push(times, given, columns, ints)

    def _leave(self) -> Iterator[tuple[str, pa.Table]]:
        """No more running totals in this share: cells leave, and where there are only entries the tables take them."""
        running, self.running, self.running_layout = self.running, None, None
        if running is not None:
            yield from self._end(running)

    def _end(self, running: Running) -> Iterator[tuple[str, pa.Table]]:
        """All that running totals hold."""
        yield from self._made(running.finish())
        entries = running.entries()
        # Rows that became part of an entry are counted like probes that met their own group.
        self.totals[0] += [running.rows - (0 if entries is None else len(entries.starts)), 0, running.spilled, 0]
        if entries is None or not len(entries.starts):
            return
        assert self.tables is not None
        fragments, codes = self._fragments(entries.starts), self.patterns.codes(entries.truths, {}, len(entries.starts))
        self._map()
        order = self.relations[0]["attributes"]
        attributes = [entries.attributes[order.index(a)] for a in range(len(order))]
        self.tables.push(attributes, codes, fragments, entries.parts)

    def _accumulate(self, block: Block, codes: np.ndarray, truths: list[np.ndarray], failures: dict[int, np.ndarray],
                    rows: pa.Table) -> np.ndarray:
        """Fold users' aggregates; codes of the patterns, in which rows on which one failed are marked."""
        accumulators = self.accumulators
        assert accumulators is not None
        while (folded := accumulators.fold(block, codes, self.patterns)).failed:
            for part, row, why in dict.fromkeys(folded.failed):
                marks = failures.setdefault(accumulators.expression + part, np.zeros(len(codes), bool))
                if not marks[row] and self.complain is not None:
                    self.complain(self.op, rows.slice(row, 1), why)
                marks[row] = True
            codes = self.patterns.codes(truths, failures, len(codes))
        accumulators.keep(folded)
        return codes

    def _map(self) -> None:
        """Tell the tables about fragments and patterns that are new."""
        known = (len(self.places), len(self.patterns.known))
        if known != self.mapped:
            assert self.tables is not None
            self.tables.map([self.fragment_maps[r] for r in self.tabled], [self.patterns.maps[r] for r in self.tabled])
            self.mapped = known

    def finish(self) -> Iterator[tuple[str, pa.Table]]:
        """The end-of-epoch update of the reader's share."""
        if self.tables is not None:
            if self.running is not None:
                yield from self._end(self.running)
            self.tables.flush()
            self._hold()
            yield from self._emitted()
            if self.accumulators is not None:
                yield from self.accumulators.take(self.patterns, self.own, self.coders)
            self._count()
            self.tables = None

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
        self.same = {name: ones[0] for name in ones[1:]}
        ints = [p for p in self.parts if p.name in needed and p.type != "DOUBLE" and p.name not in self.same]
        floats = [p for p in self.parts if p.name in needed and p.type == "DOUBLE"]
        self.int_names, self.float_names = [p.name for p in ints], [p.name for p in floats]
        emitting = {self.paths[r][0] for r, relation in enumerate(self.relations) if relation["emits"] >= 0}
        number = {r: i for i, r in enumerate(self.tabled)} | {-1: -1}
        specs = [
            TableSpec(number[relation["parent"]], tuple(relation["attributes"]), relation["buckets"], r in emitting)
            for r, relation in enumerate(self.relations) if relation["buckets"]
        ]
        int_kinds, float_kinds = ([_KINDS[p.combine] for p in group] for group in (ints, floats))
        self.tables = Tables(specs, len(self.coders), int_kinds, float_kinds)
        counting = [i for i, p in enumerate(ints) if values.get(p.name, 0) is None]
        summed = not floats and all(kind == _KINDS["sum"] for kind in int_kinds)
        self.running = None
        if self.running_layout is not None and summed and counting:
            self.running = Running(self.running_layout, len(ints), counting[0])
        self.patterns = Patterns(self.params)
        self.coders = [Coder() for _ in self.coders]
        self.places: dict[int, int] = {}  # start of a finest fragment → its number
        self.mapped = (-1, -1)
        self.own: list[dict[int, int]] = [{} for _ in self.relations]
        self.fragment_maps: list[np.ndarray] = [np.zeros(0, np.int32) for _ in self.relations]

    # ---- fragments -----------------------------------------------------------------------------

    def _fragments(self, times: np.ndarray) -> np.ndarray:
        """The number of each row's finest fragment."""
        # Pages of an array that nobody touches cost nothing, and there are few runs where rows are in order.
        room = np.empty((2, len(times)), np.int64)
        runs = fragment_runs(times, *self.finest, *room)
        begins, starts = room[0, :runs], room[1, :runs]
        distinct, which = np.unique(starts, return_inverse=True)
        fresh = [int(s) for s in distinct if int(s) not in self.places]
        if fresh:
            for start in fresh:
                self.places[start] = len(self.places)
            self._coarsen(np.array(fresh, np.int64))
        numbers = np.array([self.places[int(s)] for s in distinct], np.int32)[which]
        return np.repeat(numbers, np.diff(begins, append=len(times)))

    def _coarsen(self, fresh: np.ndarray) -> None:
        """Each relation's fragments are unions of its parent's: the intercede aggregation of paper 003 happens here."""
        added: list[np.ndarray] = []  # for each relation the starts of its new fragments
        for r, relation in enumerate(self.relations):
            above = fresh if relation["parent"] < 0 else added[relation["parent"]]
            starts = np.empty_like(above)
            floor_edges(above, *self.edges[r], starts)
            own, new, places = self.own[r], [], np.empty(len(starts), np.int32)
            for i, start in enumerate(starts.tolist()):
                if start not in own:
                    own[start] = len(own)
                    new.append(start)
                places[i] = own[start]
            self.fragment_maps[r] = np.concatenate([self.fragment_maps[r], places])
            added.append(np.array(new, np.int64))

    # ---- out -----------------------------------------------------------------------------------

    def _hold(self, patience: int = 1) -> None:
        """Take what the tables evicted and put together what belongs together: an eviction that comes back costs
        little here and much on its way to a shard.
        """
        assert self.tables is not None
        for number, emitted in self.tables.take().items():
            if not len(emitted.codes):
                continue
            table = self.tabled[number]
            below = [r for r in self.intercede if self.paths[r][0] == table]
            if below == [table] and self._apart(table, emitted):
                self.held[table] = _after(self.held.get(table), emitted)
                continue
            finer = None
            if len(emitted.codes) >= _FEW and any(self.intercede[r] is not None for r in below):
                finer = Finer.of(emitted, np.array(list(self.own[table]), np.int64), self._kinds()[0])
            for r in below:
                self._hold_one(r, emitted, finer, patience)

    def _hold_one(self, r: int, emitted: Emitted, finer: Finer | None, patience: int) -> None:
        """What is for one relation of the entries of the table that it has, or of the one above it."""
        route, intercede = self._route(r), self.intercede[r]
        if finer is not None and intercede is not None:
            cells = intercede.cells_of_finer(finer, route, self.cells.get(r), patience)
            if cells is not None:
                self.cells[r] = cells
                return
        own = emitted if len(self.paths[r]) == 1 else route.projected(emitted)
        whole = _after(self.held.get(r), own)
        made = self._interceded(r, whole, patience) if finer is None else None
        if made is None:
            self.held[r] = self._combined(whole)
        else:
            self.cells[r] = made
            self.held.pop(r, None)

    def _apart(self, r: int, emitted: Emitted) -> bool:
        """True when entries for a single query would hardly be fewer if they were put together."""
        if len(self.relations[r]["own"]) != 1:
            return False
        place = emitted.fragments.astype(np.int64) << 32 | emitted.codes
        return different(hashes_of([place, *map(np.ascontiguousarray, emitted.attrs)])) > _APART * len(place)

    def _path(self, r: int) -> list[int]:
        """The relations from the table that holds the entries of this one down to itself."""
        path = [r]
        while not self.relations[path[0]]["buckets"]:
            path.insert(0, self.relations[path[0]]["parent"])
        return path

    def _route(self, r: int) -> Route:
        table, *below = self.paths[r]
        fragments, codes = np.arange(len(self.own[table]), dtype=np.int32), self.patterns.numbers(table)
        for step in below:
            fragments = self.fragment_maps[step][fragments]
            codes = np.where(codes >= 0, self.patterns.maps[step][codes], np.int32(-1))
        held = self.relations[table]["attributes"]
        return Route([held.index(a) for a in self.relations[r]["attributes"]], fragments, codes,
                     np.array(list(self.own[r]), np.int64),
                     self.patterns.signatures(r, self.stores[self.relations[r]["emits"]]["words"]))

    @property
    def _kept(self) -> int:
        """Cells of all relations; they are gone through whenever some are added."""
        return sum(len(c.pane) for c in self.cells.values())

    def _interceded(self, r: int, emitted: Emitted, patience: int) -> Interceded | None:
        intercede = self.intercede[r]
        if intercede is None or len(emitted.codes) < _FEW:
            return None
        signatures = self.patterns.signatures(r, self.stores[self.relations[r]["emits"]]["words"])
        starts = np.array(list(self.own[r]), np.int64)
        return intercede.cells(emitted, starts, signatures, self.cells.get(r), *self._kinds(), patience)

    def _kinds(self) -> tuple[list[int], list[int]]:
        kinds = {p.name: _KINDS[p.combine] for p in self.parts}
        return [kinds[n] for n in self.int_names], [kinds[n] for n in self.float_names]

    def _combined(self, emitted: Emitted) -> Emitted:
        if len(emitted.codes) < _FEW:
            return emitted
        place = emitted.fragments.astype(np.int64) << 32 | emitted.codes
        int_kinds, float_kinds = self._kinds()
        found = combine(
            [np.ascontiguousarray(c) for c in (place, *emitted.attrs)],
            [np.ascontiguousarray(c) for c in emitted.ints], int_kinds,
            [np.ascontiguousarray(c) for c in emitted.floats], float_kinds,
        )
        first = found.first
        return Emitted(
            emitted.fragments[first], emitted.codes[first], emitted.attrs[:, first], found.ints, found.floats)

    def _emitted(self) -> Iterator[tuple[str, pa.Table]]:
        """All that is held, as rows of the fragment stores."""
        tables: dict[int, list[pa.Table]] = {}
        for r, emitted in self.held.items():
            tables.setdefault(self.relations[r]["emits"], []).append(self._rows(r, emitted))
        for r, cells in self.cells.items():
            tables.setdefault(self.relations[r]["emits"], []).append(self._cells_table(r, cells))
        self.held, self.cells = {}, {}
        for store, pieces in tables.items():
            yield self.stores[store]["op"], pa.concat_tables(pieces)

    def _made(self, cells: list[tuple[int, Interceded]]) -> Iterator[tuple[str, pa.Table]]:
        """Cells of running totals, as rows of the fragment stores."""
        for r, made in cells:
            yield self.stores[self.relations[r]["emits"]]["op"], self._cells_table(r, made)

    def _cells_table(self, r: int, cells: Interceded) -> pa.Table:
        intercede = self.intercede[r]
        assert intercede is not None
        words = intercede.words(cells, len(self.stores[self.relations[r]["emits"]]["words"]))
        return self._table(r, cells.attrs, cells.panes[1][cells.pane], words, cells.ints, cells.floats)

    def _rows(self, r: int, emitted: Emitted) -> pa.Table:
        """Evicted entries of one relation as rows of its fragment store."""
        words = self.patterns.signatures(r, self.stores[self.relations[r]["emits"]]["words"])
        asked = np.any(words != 0, axis=1)
        if not asked.all():
            # Some rows passed only for the relations that this one feeds.
            kept = asked[emitted.codes]
            emitted = Emitted(*(column[..., kept] for column in emitted))
        starts = np.array(list(self.own[r]), np.int64)[emitted.fragments]
        return self._table(r, emitted.attrs, starts, words[emitted.codes], emitted.ints, emitted.floats)

    def _table(self, r: int, attrs: np.ndarray, starts: np.ndarray, words: np.ndarray, ints: np.ndarray,
               floats: np.ndarray) -> pa.Table:
        """Rows of the store of one relation: (group, start, signature, parts)."""
        relation = self.relations[r]
        store = self.stores[relation["emits"]]
        names = [self.params["attributes"][a]["name"] for a in relation["attributes"]]
        columns = {
            name: self.coders[a].decode(codes)
            for name, a, codes in zip(names, relation["attributes"], attrs, strict=True)
        }
        columns["__time"] = pa.array(starts)
        for i, word in enumerate(store["words"]):
            columns[f"__s{word}"] = pa.array(words[:, i])
        given = dict(zip(self.int_names, ints, strict=True)) | dict(zip(self.float_names, floats, strict=True))
        given |= {name: given[other] for name, other in self.same.items()}
        for part in self.parts:
            if part.name in store["parts"] and part.name in given:
                columns[part.name] = pa.array(given[part.name])
        return pa.table(columns)

    def _count(self) -> None:
        assert self.tables is not None
        self.totals[self.tabled] += np.array(self.tables.counters).T

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


def _looked_at(program: list[Any] | None) -> tuple[str, ...] | None:
    """The columns that a predicate reads; None if that is not known."""
    return None if program is None else tuple(sorted(predicates.columns_of(program)))


def _unfailing(params: dict[str, Any]) -> bool:
    """True when there is no row on which an expression fails: columns as they are, and comparisons of integers."""
    named = [e["sql"] for e in (*params["attributes"], *params["arguments"])]
    return all(p["program"] is not None for p in params["predicates"]) and all(
        sql in map(quoted, columns_of(sql)) for sql in named)


def _after(before: Emitted | None, own: Emitted) -> Emitted:
    """Entries behind others."""
    return own if before is None else Emitted(
        *(np.concatenate(pair, axis=-1) for pair in zip(before, own, strict=True)))


def _cut(columns: Sequence[np.ndarray | None], block: slice) -> list[np.ndarray | None]:
    return [None if c is None else c[block] for c in columns]


def _given(values: Lifted, part: FragmentPart, rows: int) -> np.ndarray | None:
    return values[part.name] if part.name in values else nothing(part, rows)
