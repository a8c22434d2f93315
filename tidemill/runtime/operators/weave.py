"""The high level of shared aggregation (paper 003): one fragment store, and the final aggregation of every query over it.

State: rows (fragment start, signature, group, parts), and for each query the last point that it has reported. A query counts the rows whose signature has its
bit. A fragment with that bit was made while the query was in the plan, so none of the query's edges lies inside it; hence its start alone decides to which
windows it belongs, and any plan may take over at any batch: nothing that is stored depends on how it was made.

Law: at every point p the answer of a query is finish(combine of the parts of its rows inside the window at p); the output is each answer as a whole, or the
difference between consecutive answers. Combining is associative, so any cut into batches gives the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.fragments import LEAST, MOST
from tidemill.plan.sources import Column
from tidemill.plan.windows import Window
from tidemill.runtime import duck
from tidemill.runtime.kernels.sliding import CHANGES, WHOLE, slide
from tidemill.runtime.kernels.sliding_rows import codes_of, order
from tidemill.runtime.lifting import doubles_from_order
from tidemill.runtime.operators.base import Batch, Operator
from tidemill.runtime.state import Arrangement, Layout, Shelf

PARTIALS = 2
_MODES = {"whole": WHOLE, "changes": CHANGES, "partials": PARTIALS}
_KINDS = {"sum": 0, "min": 1, "max": 2}
_NOTHING = {"sum": 0, "min": MOST, "max": LEAST}
_PRUNE_ROWS = 50_000


@dataclass(frozen=True)
class Query:
    """One query of a store in one mode: two select lists make its rows from (group, __time, __diff, parts)."""

    id: str
    bit: int
    window: Window
    mode: int
    parts: tuple[str, ...]
    inner: str
    outer: str

    def due(self, first: int, frontier: int) -> tuple[int, int] | None:
        """The first and last point to report before the frontier."""
        last = frontier - 1 - (frontier - 1 - self.window.offset) % self.window.slide
        return (first, last) if first <= last else None

    def oldest(self, point: int) -> int | None:
        """The least start of a fragment that is needed to report this point."""
        return self.window.begin(point - self.window.slide if self.mode == CHANGES else point)


class Weave(Operator):
    """Input: fragments from the readers. Output: for each query and mode a table, picked by the operators above."""

    def __init__(self, op: Any, first: bool = True) -> None:
        super().__init__(op, first)
        self.keys = tuple(Column(n, t) for n, t in self.params["keys"])
        self.words = tuple(Column(f"__s{w}", "BIGINT") for w in self.params["words"])
        self.combines = {n: how for n, _, how in self.params["parts"]}
        self.parts = tuple((Column(n, t), how) for n, t, how in self.params["parts"])
        self.decoded = set(self.params["decoded"])
        self.layout = Layout("__time", (*self.keys, *self.words), self.parts)
        self.queries = [
            Query(q["id"], q["bit"], Window(*q["window"]), _MODES[q["mode"]], tuple(q["parts"]), q["inner"], q["outer"])
            for q in self.params["queries"]
        ]
        self.landmarks = [q for q in self.queries if q.mode == PARTIALS]
        self.queries = [q for q in self.queries if q.mode != PARTIALS]

    def step(self, inputs: list[Batch], shelf: Shelf) -> Batch:
        batch = inputs[0]
        fragments = self.arrangement(shelf, "fragments", self.layout)
        passed: dict[str, pa.Table] = {}
        if batch.rows is not None and batch.rows.num_rows:
            rows = fragments.widened(self._filled(batch.rows))
            passed = self._passed_on(rows)
            if self.queries:
                fragments.append(rows)
                fragments.compact()
        value = shelf.value(self.id)
        lasts = {q.id: p for q in self.queries if (p := value.get("last", {}).get(q.id)) is not None}
        picks = self._report(fragments, lasts, batch.frontier)
        value["last"] = lasts
        self._forget(fragments, lasts, value)
        return Batch(None, batch.frontier, passed | picks)

    def _passed_on(self, rows: pa.Table) -> dict[str, pa.Table]:
        """Landmark windows: what came goes on to a grouping that only grows; nothing of it is kept here."""
        found = {}
        for query in self.landmarks:
            mask = self._mask(rows, query)
            own = rows if mask.all() else rows.filter(pa.array(mask))
            if own.num_rows:
                found[query.id] = self._selected(query, own.append_column("__diff", pa.array(np.ones(len(own), np.int64))))
        return found

    def _selected(self, query: Query, table: pa.Table) -> pa.Table:
        for name in self.decoded & set(table.column_names):
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.array(doubles_from_order(table.column(name).to_numpy())))
        source = duck.source("answers", [
            *self.keys, *(Column(n, "") for n in table.column_names if n not in {c.name for c in self.keys})])
        return duck.run(f"SELECT {query.outer} FROM (SELECT {query.inner} FROM {source})", answers=table)

    def _filled(self, rows: pa.Table) -> pa.Table:
        """A reader leaves out parts to which nothing contributed."""
        for column, how in self.parts:
            if column.name in rows.column_names and rows.column(column.name).null_count:
                at = rows.column_names.index(column.name)
                rows = rows.set_column(at, column.name, pc.fill_null(rows.column(column.name), _NOTHING[how]))
        return rows

    # ---- reporting -----------------------------------------------------------------------------

    def _report(self, fragments: Arrangement, lasts: dict[str, int], frontier: int) -> dict[str, pa.Table]:
        """Every point before the frontier that was not reported yet."""
        firsts = {q.id: lasts[q.id] + q.window.slide for q in self.queries if q.id in lasts}
        self._first_points(fragments, firsts)
        due = {q.id: span for q in self.queries if q.id in firsts and (span := q.due(firsts[q.id], frontier))}
        if not due:
            return {}
        asked = [q for q in self.queries if q.id in due]
        oldest = [q.oldest(due[q.id][0]) for q in asked]
        low = None if None in oldest else min(o for o in oldest if o is not None)
        rows = fragments.between(low, max(q.window.end(due[q.id][1]) for q in asked))
        lasts |= {q.id: due[q.id][1] for q in asked}
        return self._final(rows, asked, due) if rows.num_rows else {}

    def _first_points(self, fragments: Arrangement, firsts: dict[str, int]) -> None:
        """A query that has reported nothing yet begins with its first fragment."""
        fresh = [q for q in self.queries if q.id not in firsts]
        if not fresh or not fragments.segments:
            return
        rows = fragments.between(None, None)
        starts = rows.column("__time").to_numpy()
        for query in fresh:
            wanted = starts[self._mask(rows, query)]
            if len(wanted):
                firsts[query.id] = query.window.first_point(int(wanted.min()))

    def _mask(self, rows: pa.Table, query: Query) -> np.ndarray:
        word = rows.column(f"__s{query.bit // 64}").to_numpy()
        return (word >> np.int64(query.bit % 64) & 1).astype(bool)

    def _final(self, rows: pa.Table, asked: list[Query], due: dict[str, tuple[int, int]]) -> dict[str, pa.Table]:
        groups = [_number(rows.column(c.name)) for c in self.keys]
        codes, firsts = codes_of(groups)
        starts = rows.column("__time").to_numpy()
        permutation, bounds = order(codes, starts, len(firsts))
        columns = {c.name: rows.column(c.name).to_numpy()[permutation] for c, _ in self.parts}
        words = {c.name: rows.column(c.name).to_numpy()[permutation] for c in self.words}
        starts = starts[permutation]
        masks: dict[int, np.ndarray] = {}
        keys = rows.select([c.name for c in self.keys]).take(pa.array(firsts))
        shapes: dict[tuple[str, str], list[tuple[Query, Any]]] = {}
        for query in asked:
            if query.bit not in masks:
                word = words[f"__s{query.bit // 64}"]
                masks[query.bit] = (word >> np.int64(query.bit % 64) & 1).astype(np.uint8)
            ints = [n for n in query.parts if columns[n].dtype == np.int64]
            floats = [n for n in query.parts if columns[n].dtype != np.int64]
            answers = slide(
                bounds, starts, masks[query.bit], [columns[n] for n in ints], [_KINDS[self.combines[n]] for n in ints],
                [columns[n] for n in floats], [_KINDS[self.combines[n]] for n in floats],
                query.window, *due[query.id], query.mode,
            )
            shapes.setdefault((query.inner, query.outer), []).append((query, (answers, ints, floats)))
        return dict(pick for found in shapes.values() for pick in self._finished(found, keys))

    def _finished(self, found: list[tuple[Query, Any]], keys: pa.Table) -> list[tuple[str, pa.Table]]:
        """The answers of all queries of one shape in one statement, cut apart again."""
        counts = [len(a.point) for _, (a, _, _) in found]
        if not sum(counts):
            return []
        _, ints, floats = found[0][1]
        key = np.concatenate([a.key for _, (a, _, _) in found])
        table = keys.take(pa.array(key))
        table = table.append_column("__time", pa.array(np.concatenate([a.point for _, (a, _, _) in found])))
        diffs = np.concatenate([a.diff for _, (a, _, _) in found]).astype(np.int64)
        table = table.append_column("__diff", pa.array(diffs))
        for names, which in ((ints, 3), (floats, 4)):
            for i, name in enumerate(names):
                values = np.concatenate([a[which][i] for _, (a, _, _) in found])
                table = table.append_column(name, pa.array(values))
        whole = self._selected(found[0][0], table)
        ends = np.cumsum(counts)
        return [
            (query.id, whole.slice(int(end - count), count))
            for (query, _), end, count in zip(found, ends, counts, strict=True) if count
        ]

    # ---- forgetting ----------------------------------------------------------------------------

    def _forget(self, fragments: Arrangement, lasts: dict[str, int], value: dict[str, Any]) -> None:
        """Only fragments that an open window still needs stay: the oldest go at once, those between by and by."""
        if not fragments.segments:
            return
        needs = {q: q.oldest(lasts[q.id] + q.window.slide) for q in self.queries if q.id in lasts}
        if len(needs) == len(self.queries) and None not in needs.values():
            fragments.pop(min(n for n in needs.values() if n is not None))
        stored = fragments.rows()
        if stored < max(_PRUNE_ROWS, 2 * value.get("pruned", 0)):
            return
        rows = fragments.between(None, None)
        starts, keep = rows.column("__time").to_numpy(), np.zeros(rows.num_rows, bool)
        for query in self.queries:
            since = needs.get(query)
            keep |= self._mask(rows, query) & (True if since is None else starts >= since)
        if not keep.all():
            fragments.replace(rows.filter(pa.array(keep)))
        value["pruned"] = fragments.rows()


def _number(column: pa.ChunkedArray) -> np.ndarray:
    """Group values as integers that are equal where the values are."""
    if pa.types.is_integer(column.type) and column.null_count == 0 and column.type != pa.uint64():
        return column.to_numpy().astype(np.int64, copy=False)
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    return coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
