"""The high level of shared aggregation (paper 003): one fragment store, and the final aggregation of every query over
it.

State: rows (fragment start, signature, group, parts), and for each query the last point that it has reported. A query
counts the rows whose signature has its bit. A fragment with that bit was made while the query was in the plan, so
none of the query's edges lies inside it; hence its start alone decides to which windows it belongs, and any plan may
take over at any batch: nothing that is stored depends on how it was made.

Law: at every point p the answer of a query is finish(combine of the parts of its rows inside the window at p); the
output is each answer as a whole, or the difference between consecutive answers. Combining is associative, so any cut
into batches gives the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan import physical as p
from tidemill.plan.fragments import LEAST, MOST
from tidemill.plan.row_programs import freeze
from tidemill.plan.sources import Column
from tidemill.plan.user_aggregates import ACCUMULATOR
from tidemill.plan.windows import Window
from tidemill.runtime import fast_paths
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.duckdb import duck
from tidemill.runtime.kernels.share.bits import NEVER, least_by_bit
from tidemill.runtime.kernels.share.sliding import CHANGES, WHOLE, Answers, slide
from tidemill.runtime.share.part_values import doubles_from_order
from tidemill.runtime.share.stage.fragments import Fragments, Signatures, intercede_rows
from tidemill.runtime.share.stage.row_templates import RowTemplate
from tidemill.runtime.share.stage.weaved_rows import WeavedRows, select_asked
from tidemill.runtime.state.arrangements import Arrangement, Layout
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes
from tidemill.runtime.user_aggregates.sliding import WindowAccumulators

PARTIALS = 2
_MODES = {"whole": WHOLE, "changes": CHANGES, "partials": PARTIALS}
_KINDS = {"sum": 0, "min": 1, "max": 2}
_NOTHING = {"sum": 0, "min": MOST, "max": LEAST}
_LITTLE = 8  # rewriting a store pays when more than one row of this many has left it


@dataclass(frozen=True)
class Query:
    """One query of a store in one mode, as it is picked by one operator; `layers` make its rows from (group, parts)."""

    id: str
    query: str  # the query and its mode: several operators may pick different rows of the same answers
    bit: int
    window: Window
    mode: int
    parts: tuple[str, ...]
    layers: tuple[p.Layer, ...]
    accumulators: tuple[str, ...] = ()  # parts that are accumulators of users' aggregates

    def due(self, first: int, frontier: int) -> tuple[int, int] | None:
        """The first and last point to report before the frontier."""
        last = frontier - 1 - (frontier - 1 - self.window.offset) % self.window.slide
        return (first, last) if first <= last else None

    def oldest(self, point: int) -> int | None:
        """The least start of a fragment that is needed to report this point."""
        return self.window.begin(point - self.window.slide if self.mode == CHANGES else point)


class Weave(Operator[p.Weave]):
    """Input: fragments from the readers. Output: for each query and mode a table, picked by the operators above."""

    def __init__(self, op: p.Weave, first: bool = True) -> None:
        super().__init__(op, first)
        self.keys = op.keys
        self.words = tuple(Column(f"__s{w}", "BIGINT") for w in op.words)
        self.combines = {n: how for n, _, how in op.parts}
        self.parts = tuple((Column(n, t), how) for n, t, how in op.parts)
        self.decoded = set(op.decoded)
        self.layout = Layout("__time", (*self.keys, *self.words), self.parts)
        self.queries = [
            Query(q.id, q.query, q.bit, q.window, _MODES[q.mode], q.parts, q.layers, q.accumulators) for q in op.queries
        ]
        self.user_aggregate_parts = list(op.accumulators)
        self.accumulator_layout = Layout("__time", (*self.keys, *self.words, *ACCUMULATOR))
        self.landmarks = [q for q in self.queries if q.mode == PARTIALS]
        self.queries = [q for q in self.queries if q.mode != PARTIALS]

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        batch = inputs[0]
        fragments = Fragments(state.store, self.layout, self.arrangement(state, "fragments", self.layout).segments)
        passed: dict[str, pa.Table] = {}
        if batch.rows is not None and batch.rows.num_rows:
            rows = fragments.widen(self._fill_missing_parts(batch.rows))
            passed = self._pass_on(rows)
            if self.queries:
                fragments.append(rows)
                fragments.compact()
        accumulators = self.arrangement(state, "objects", self.accumulator_layout)
        if len(inputs) > 1 and not inputs[1].empty:
            accumulators.append(accumulators.widen(inputs[1].rows))
            accumulators.compact()
        value = state.value(self.id)
        lasts = {q.query: p for q in self.queries if (p := value.get("last", {}).get(q.query)) is not None}
        picks = self._report(fragments, accumulators, lasts, batch.frontier)
        value["last"] = lasts
        self._forget(fragments, lasts, value, "pruned")
        self._forget(accumulators, lasts, value, "pruned objects")
        return Batch(None, batch.frontier, passed | picks)

    def _pass_on(self, rows: pa.Table) -> dict[str, pa.Table]:
        """Landmark windows: new fragments pass on to an append-only grouping; the store does not keep them."""
        found: dict[str, pa.Table] = {}
        for query in self.landmarks:
            mask = self._mask(rows, query)
            own = rows if mask.all() else rows.filter(pa.array(mask))
            if own.num_rows:
                found |= self._make_rows([query], own, [own.num_rows])
        return found

    def _fill_missing_parts(self, rows: pa.Table) -> pa.Table:
        """Fill in parts that a reader left out because no row contributed to them."""
        for column, how in self.parts:
            if column.name in rows.column_names and rows.column(column.name).null_count:
                at = rows.column_names.index(column.name)
                rows = rows.set_column(at, column.name, pc.fill_null(rows.column(column.name), _NOTHING[how]))
        return rows

    # ---- reporting -----------------------------------------------------------------------------

    def _report(
        self, fragments: Fragments, accumulators: Arrangement, lasts: dict[str, int], frontier: int
    ) -> dict[str, pa.Table]:
        """Report every point before the frontier that was not reported yet."""
        firsts = {q.query: lasts[q.query] + q.window.slide for q in self.queries if q.query in lasts}
        self._first_points(fragments, firsts, frontier)
        due = {q.query: span for q in self.queries if q.query in firsts and (span := q.due(firsts[q.query], frontier))}
        if not due:
            return {}
        asked = [q for q in self.queries if q.query in due]
        oldest = [q.oldest(due[q.query][0]) for q in asked]
        low = None if None in oldest else min(o for o in oldest if o is not None)
        high = max(q.window.end(due[q.query][1]) for q in asked)
        rows = select_asked(fragments.between(low, high), {q.bit for q in asked})
        lasts |= {name: last for name, (_, last) in due.items()}
        return self._aggregate(rows, accumulators.between(low, high), asked, due) if rows.num_rows else {}

    def _first_points(self, fragments: Fragments, firsts: dict[str, int], frontier: int) -> None:
        """Set the first point of queries that have reported nothing yet: that of their first fragment, once it is
        before the frontier.
        """
        least = fragments.least()
        fresh = [
            q
            for q in self.queries
            if q.query not in firsts and least is not None and q.due(q.window.first_point(least), frontier)
        ]
        if not fresh:
            return
        rows = fragments.between(None, None)
        starts = rows.column("__time").to_numpy()
        begins = {w: least_by_bit(rows.column(f"__s{w}").to_numpy(), starts) for w in {q.bit // 64 for q in fresh}}
        for query in fresh:
            begin = int(begins[query.bit // 64][query.bit % 64])
            if begin != NEVER:
                firsts[query.query] = query.window.first_point(begin)

    def _mask(self, rows: pa.Table, query: Query) -> np.ndarray:
        word = rows.column(f"__s{query.bit // 64}").to_numpy()
        return (word >> np.int64(query.bit % 64) & 1).astype(bool)

    def _aggregate(
        self, rows: pa.Table, accumulators: pa.Table, asked: list[Query], due: dict[str, tuple[int, int]]
    ) -> dict[str, pa.Table]:
        """Final aggregation of all due queries; queries with the same parts and layers share one SQL statement."""
        woven = WeavedRows(rows, [c.name for c in self.keys])
        if self.user_aggregate_parts:
            woven.accumulators = WindowAccumulators(
                self.user_aggregate_parts, [c.name for c in self.keys], rows, woven.codes, woven.starts, accumulators
            )
        answers: dict[str, Answers] = {}
        alike: dict[tuple[Any, ...], list[Query]] = {}
        for query in asked:
            if query.query not in answers:
                answers[query.query] = self._slide(woven, query, *due[query.query])
            if len(answers[query.query].point):
                alike.setdefault((query.parts, query.accumulators, query.layers), []).append(query)
        picks: dict[str, pa.Table] = {}
        for queries in alike.values():
            found = [answers[q.query] for q in queries]
            picks |= self._make_rows(queries, self._table(queries[0], found, woven), [len(a.point) for a in found])
        return picks

    def _slide(self, rows: WeavedRows, query: Query, first: int, last: int) -> Answers:
        names = self._split(query)
        kinds = [[_KINDS[self.combines[n]] for n in group] for group in names]
        accumulators, others = rows.accumulators, None
        if accumulators is not None and query.accumulators:
            others = accumulators.folds(query.accumulators, query.bit, query.window, query.mode, first, last)
        own = rows.own(query.bit) if others is None else None
        mask: np.ndarray | None = None
        if own is not None:
            bounds, starts = own.bounds, rows.stored_column("__time").take(own.rows)
            ints, floats = ([rows.stored_column(n).take(own.rows) for n in group] for group in names)
        else:
            bounds, starts, mask = rows.bounds, rows.starts, rows.mask(query.bit)
            ints, floats = ([rows.column(n) for n in group] for group in names)
        found = slide(
            bounds, starts, mask, ints, kinds[0], floats, kinds[1], query.window, first, last, query.mode, others
        )
        return found if others is None else self._drop_failed(found, rows, query)

    def _drop_failed(self, found: Answers, rows: WeavedRows, query: Query) -> Answers:
        """Drop answers on which a user aggregate failed, and report them."""
        accumulators, failed = rows.accumulators, np.zeros(len(found.point), bool)
        assert accumulators is not None
        for name, numbers in zip(
            query.accumulators, found.ints[len(found.ints) - len(query.accumulators) :], strict=True
        ):
            failed |= numbers < 0
            for i in np.flatnonzero((numbers < 0) & (found.diff > 0)):
                if self.on_row_error is not None:
                    group = rows.keys.slice(int(found.key[i]), 1)
                    self.on_row_error(
                        replace(self.op, id=query.id), group, accumulators.answers[name].reason(int(numbers[i]))
                    )
        if not failed.any():
            return found
        kept = ~failed
        return Answers(
            found.point[kept],
            found.key[kept],
            found.diff[kept],
            found.ints[:, kept],
            found.floats[:, kept],
            found.operations,
        )

    def _split(self, query: Query) -> tuple[list[str], list[str]]:
        """The parts of a query: integers and doubles."""
        doubles = {c.name for c, _ in self.parts if c.type == "DOUBLE"}
        return [n for n in query.parts if n not in doubles], [n for n in query.parts if n in doubles]

    def _table(self, query: Query, found: list[Answers], rows: WeavedRows) -> pa.Table:
        """Answers of queries with the same parts, one after the other, with their groups."""
        table = rows.keys.take(pa.array(_concat([a.key for a in found])))
        table = table.append_column("__time", pa.array(_concat([a.point for a in found])))
        table = table.append_column("__diff", pa.array(_concat([a.diff for a in found]).astype(np.int64)))
        integers, doubles = self._split(query)
        columns = [(name, [a.ints[i] for a in found]) for i, name in enumerate(integers)]
        columns += [(name, [a.floats[i] for a in found]) for i, name in enumerate(doubles)]
        for name, pieces in columns:
            table = table.append_column(name, pa.array(_concat(pieces)))
        for i, name in enumerate(query.accumulators, -len(query.accumulators)):
            assert rows.accumulators is not None
            answers = rows.accumulators.answers[name].column(_concat([a.ints[i] for a in found]))
            table = table.append_column(name, answers)
        return table

    # ---- shaping -------------------------------------------------------------------------------

    def _make_rows(self, queries: list[Query], table: pa.Table, counts: list[int]) -> dict[str, pa.Table]:
        """The rows of queries with the same layers, made in one statement and cut apart again."""
        for name in self.decoded & set(table.column_names):
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.array(doubles_from_order(table.column(name).to_numpy())))
        table = table.append_column("__q", pa.array(np.repeat(np.arange(len(queries), dtype=np.int32), counts)))
        made = self._select(queries[0], table)
        ends = np.searchsorted(made.column("__q").to_numpy(), np.arange(len(queries) + 1))
        made = made.drop_columns(["__q"])
        pieces = {q.id: made.slice(int(a), int(b - a)) for q, (a, b) in zip(queries, pairwise(ends), strict=True)}
        return {name: piece for name, piece in pieces.items() if piece.num_rows}

    def _select(self, query: Query, table: pa.Table) -> pa.Table:
        hidden = ("__time", "__diff", "__q") if query.mode != PARTIALS else ("__q",)
        made = None
        if fast_paths.is_on("row_templates"):
            template = RowTemplate.of(tuple(freeze(layer.program) for layer in query.layers), hidden)
            made = None if template is None else template.table(table)
        return self._compute(query, hidden, table) if made is None else made

    def _compute(self, query: Query, hidden: tuple[str, ...], table: pa.Table) -> pa.Table:
        keys = {c.name for c in self.keys}
        sql = duck.source("feed", [*self.keys, *(Column(n, "") for n in table.column_names if n not in keys)])
        others = ", ".join(hidden)
        for layer in query.layers:
            chosen = f"(SELECT {layer.sql}, {others} FROM {sql})"
            sql = f"(SELECT * FROM {sql} WHERE {layer.sql})" if layer.what == "where" else chosen
        on_row_error = self.on_row_error and partial(self.on_row_error, self.op)
        return duck.run_put_aside(sql[1:-1], table, on_row_error)

    # ---- forgetting ----------------------------------------------------------------------------

    def _forget(self, fragments: Arrangement, lasts: dict[str, int], value: dict[str, Any], pruned: str) -> None:
        """Drop fragments that no open window needs: the oldest at once, others when the store has grown."""
        if not fragments.segments:
            return
        if not self.queries:  # only landmark windows are left, which read nothing of the past
            fragments.replace(fragments.empty())
            return
        needs = {q: q.oldest(lasts[q.query] + q.window.slide) for q in self.queries if q.query in lasts}
        if len(needs) == len(self.queries) and None not in needs.values():
            fragments.pop(min(n for n in needs.values() if n is not None))
        stored = fragments.rows()
        if stored < max(sizes.prune_rows, sizes.kept_growth * value.get(pruned, 0)):
            return
        rows = fragments.between(None, None)
        signatures = Signatures.of(rows, self.op.words)
        keep = self._find_needed(rows, signatures, {q: n for q in self.queries if (n := needs.get(q)) is not None})
        kept = rows
        if _rewrite_pays(keep, len(fragments.segments)):
            kept, signatures = rows.filter(pa.array(keep)), signatures.of_rows(keep)
        if pruned == "pruned" and not self.user_aggregate_parts:
            bits = {q.bit: q.window for q in self.queries}
            kept = intercede_rows(kept, signatures, self.layout, self.op.words, bits)
        if kept is not rows:
            fragments.replace(kept)
        value[pruned] = fragments.rows()

    def _find_needed(self, rows: pa.Table, signatures: Signatures, needs: dict[Query, int]) -> np.ndarray:
        """Which rows are counted by a query that still needs their fragments; a query without history needs all."""
        since = np.full(len(signatures), np.iinfo(np.int64).max)
        for query in self.queries:
            counted = signatures.has(query.bit)
            since[counted] = np.minimum(since[counted], needs.get(query, np.iinfo(np.int64).min))
        return rows.column("__time").to_numpy() >= since[signatures.codes]


def _rewrite_pays(keep: np.ndarray, segments: int) -> bool:
    """True when rewriting the store pays: enough rows go, or there are many segments whose equal rows were never
    combined.
    """
    gone = len(keep) - int(np.count_nonzero(keep))
    return segments > sizes.prune_segments or gone * _LITTLE > len(keep)


def _concat(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
