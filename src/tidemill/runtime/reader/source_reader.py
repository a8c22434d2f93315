"""Reads the pieces of sources that one reader has: decode, give rows their times, run the linear operators, split by
shard. Stateless: the same piece always gives the same messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tidemill.plan.physical import FOREVER, Exchange, Leaf, Op, Physical, ids
from tidemill.plan.sources import SourceSpec
from tidemill.runtime import fast_paths
from tidemill.runtime.arrow_ipc import ipc_pieces
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.evaluation.evaluate import Evaluation, route
from tidemill.runtime.evaluation.failures import guard, reason_of
from tidemill.runtime.messages.assignments import Work, spec_of
from tidemill.runtime.messages.message import Message
from tidemill.runtime.messages.operator_counts import Counts, OperatorCount, add_count, time_each
from tidemill.runtime.messages.source_counts import Tally
from tidemill.runtime.paths import Paths
from tidemill.runtime.reader.event_time import EventTime, Timed, stamp_rows
from tidemill.runtime.reader.needed_columns import narrow_spec, needed_columns
from tidemill.runtime.reader.put_aside import DeadLetters
from tidemill.runtime.share.reader.lfta import Lfta
from tidemill.runtime.sources.connector import Chunk
from tidemill.runtime.sources.registry import open_connector


class SourceReader:
    """The reader of one partition: what it reads, what it counts on the way, and what it puts aside."""

    def __init__(self, paths: Paths, plan: Physical, index: int = 0) -> None:
        self.paths, self.plan, self.index = paths, plan, index
        self.ops = {op.id: op for op in plan.reader}
        self.tallies: dict[str, Tally] = {}
        self.lfta: dict[str, list[dict[str, Any]]] = {}  # what the hash tables of each source did
        self.counts: Counts = {}  # what operators did
        self.dead = DeadLetters()
        self.failed: dict[str, str] = {}  # operators that failed, and why
        self.turn = 0
        self.feeding = ""  # the source whose rows are evaluated

    def read(self, work: Work) -> Iterator[Message]:
        """The messages of one piece; their bytes are counted as sent."""
        for message in self._read(work):
            self.tallies[work.source].sent += len(message[2])
            yield message

    def exchange(self, feed: str, rows: pa.Table) -> Iterator[Message]:
        """Every exchange that this feed reaches, evaluated and split."""
        self.feeding = feed.partition(".")[2]
        add_count(self.counts, feed, OperatorCount(rows.num_rows, rows.num_rows))
        evaluation = Evaluation(
            self.ops,
            {feed: Batch(rows, FOREVER)},
            on_row_error=self._on_row_error,
            failed=self.failed,
            seconds=self.plan.operator_seconds,
            counts=self.counts,
        )
        for edge in self.plan.exchanges:
            evaluation.readers[edge.source_op] += 1
        reached = _above(feed, self.plan.reader)
        for edge in self.plan.exchanges:
            if edge.source_op in reached and not isinstance(self.ops[edge.source_op], Leaf):
                found = evaluation.outcome(edge.source_op)
                if found is not None:
                    yield from guard(edge.source_op, self._split(edge, found.rows), self.failed)

    def _read(self, work: Work) -> Iterator[Message]:
        spec = spec_of(self.plan, work.source)
        if work.skip:
            self._skip(spec, work)
            return
        scan = ids.scan(work.source)
        tally = self.tallies.setdefault(work.source, Tally(top=work.top))
        times_of = EventTime(spec, self.plan.unit_us, work, tally, self.dead)
        narrow = narrow_spec(spec, needed_columns(self.plan, scan))
        connector = open_connector(narrow, self.paths.source(work.source))
        shared = self._shared(work.source)
        others = self._travels(scan)
        for chunk in connector.read(work.piece):
            tally.note(chunk)
            for rows, times in _timed_rows(times_of, chunk, None if others else shared):
                if len(times) and others:
                    yield from self.exchange(scan, stamp_rows(rows, times))
                if len(times) and shared is not None:
                    add_count(self.counts, shared.op.id, OperatorCount(rows_in=rows.num_rows))
                    yield from self._evict(shared, shared.push(rows, times))
        if shared is not None:
            yield from self._evict(shared, shared.finish())
        if shared is not None and shared.op.id not in self.failed:
            self.lfta.setdefault(work.source, []).append(shared.note())

    def _skip(self, spec: SourceSpec, work: Work) -> None:
        """Every record of the piece becomes a dead letter; where it cannot even be read, the piece becomes one."""
        tally = self.tallies.setdefault(work.source, Tally(top=work.top))
        lenient = replace(spec, on_error="dead_letter")
        try:
            for chunk in open_connector(lenient, self.paths.source(work.source)).read(work.piece):
                tally.bad += chunk.bad.num_rows + chunk.rows.num_rows
                self.dead.add_records(lenient, chunk.bad)
                self.dead.add_rows(lenient, chunk.rows, "skipped by hand")
        except Exception as error:
            tally.bad += 1
            self.dead.add_piece(spec, work, f"skipped by hand: {reason_of(error)}")

    def _travels(self, scan: str) -> bool:
        """True when something but the hash tables reads the rows of a scan."""
        reached = _above(scan, self.plan.reader)
        return any(e.source_op in reached and not isinstance(self.ops[e.source_op], Leaf) for e in self.plan.exchanges)

    def _shared(self, source: str) -> Lfta | None:
        """The hash tables of the source's window aggregates, empty."""
        op = self.plan.lfta_of(source)
        self.feeding = source
        return Lfta(op, self._on_row_error) if op is not None else None

    def _evict(self, shared: Lfta, rows: Iterator[tuple[str, pa.Table]]) -> Iterator[Message]:
        """What the leaves of the hash tables evict, split by shard."""
        if shared.op.id in self.failed:
            return
        spent = [0.0]
        for leaf, table in guard(shared.op.id, time_each(rows, spent), self.failed, self.plan.operator_seconds):
            add_count(self.counts, shared.op.id, OperatorCount(rows_out=table.num_rows))
            for edge in self.plan.exchanges:
                if edge.source_op == leaf:
                    yield from guard(leaf, self._split(edge, table), self.failed)
        add_count(self.counts, shared.op.id, OperatorCount(seconds=spent[0]))

    def _split(self, edge: Exchange, rows: pa.Table | None) -> Iterator[Message]:
        if rows is None or rows.num_rows == 0:
            return
        self.turn += 1
        schema = self.ops[edge.source_op].schema
        for shard, piece in route(edge, schema, rows, len(self.plan.shards), self.turn + self.index):
            for payload in ipc_pieces(piece):
                yield self.plan.shards[shard], edge.port, payload

    def _on_row_error(self, op: Op, rows: pa.Table, reason: str) -> None:
        self.dead.add_row_error(self.feeding, rows, reason)


def _timed_rows(times_of: EventTime, chunk: Chunk, alone: Lfta | None) -> list[Timed]:
    """The rows of a chunk with their times; piece by piece where only hash tables (`alone`) read them and all are in
    order.
    """
    if alone is not None and fast_paths.is_on("ordered_rows"):
        pieces = times_of.in_order(chunk, chunk.plain if alone.unfailing else chunk.rows)
        if pieces is not None:
            return pieces
    return [times_of.assign(chunk)]


def _above(feed: str, ops: tuple[Op, ...]) -> set[str]:
    reached = {feed}
    for op in ops:
        if set(op.inputs) & reached:
            reached.add(op.id)
    return reached
