"""Reads the pieces of sources that one reader has: decode, give rows their times, run the linear operators, split by
shard. Stateless: the same piece always gives the same messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidemill.errors import SourceProblem
from tidemill.plan.measured.windows import ReaderCounts
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
from tidemill.runtime.reader import ordered_rows
from tidemill.runtime.reader.event_time import EventTime, Timed, stamp_rows
from tidemill.runtime.reader.needed_columns import narrow_spec, needed_columns
from tidemill.runtime.reader.put_aside import DeadLetters
from tidemill.runtime.share.reader.lfta import Lfta
from tidemill.runtime.sites.join_values import MEASURED, Measure, measure_rows
from tidemill.runtime.sources.connector import Chunk
from tidemill.runtime.sources.registry import open_connector


@dataclass(frozen=True)
class _Feed:
    """What reads the rows of a piece: the operators over a scan, and the hash tables of window aggregates."""

    source: str
    scan: str
    travels: bool  # something but the hash tables reads the rows
    shared: Lfta | None


class SourceReader:
    """The reader of one partition: what it reads, what it counts on the way, and what it puts aside."""

    def __init__(self, paths: Paths, plan: Physical, index: int = 0) -> None:
        self.paths, self.plan, self.index = paths, plan, index
        self.ops = {op.id: op for op in plan.reader}
        self.tallies: dict[str, Tally] = {}
        self.lfta: dict[str, list[ReaderCounts]] = {}  # what the hash tables of each source did
        self.counts: Counts = {}  # what operators did
        self.measures: dict[str, Measure] = {}  # join values of sources that are measured
        self.dead = DeadLetters()
        self.failed: dict[str, str] = {}  # operators that failed, and why
        self.turn = 0
        self.feeding = ""  # the source whose rows are evaluated

    def read(self, work: Work) -> Iterator[Message]:
        """The messages of one piece; their bytes are counted as sent."""
        for message in self._read_second(work) if self._spec(work).rereads else self._read(work):
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

    def _spec(self, work: Work) -> SourceSpec:
        return spec_of(self.plan, work.source)

    def _read_second(self, work: Work) -> Iterator[Message]:
        """The messages of a piece that was read before. What cannot be read any more stops the views that need it: it
        fails their scan, and the others go on.
        """
        try:
            yield from self._read(work)
        except SourceProblem as problem:
            self.failed[ids.scan(work.source)] = f"{problem.code} {problem.message}: {problem.detail}"

    def _read(self, work: Work) -> Iterator[Message]:
        spec = self._spec(work)
        if work.skip:
            self._skip(spec, work)
            return
        tally = self.tallies.setdefault(work.source, Tally(top=work.top))
        # The first reading has put aside the same records.
        times_of = EventTime(spec, self.plan.unit_us, work, tally, DeadLetters() if spec.rereads else self.dead)
        feeds = [self._feed(name) for name in (work.source, *work.also) if ids.scan(name) in self.ops]
        wanted = () if spec.rereads else spec.options.get(MEASURED, ())
        needed = set().union(*wanted, *(needed_columns(self.plan, feed.scan) for feed in feeds))
        connector = open_connector(narrow_spec(spec, needed), self.paths.source(spec.origin_name))
        for chunk in connector.read(work.piece):
            tally.note(chunk)
            for rows, times in _timed_rows(times_of, chunk, feeds):
                if len(times):
                    if wanted:
                        measured = measure_rows(rows, wanted)
                        self.measures[work.source] = self.measures.get(work.source, Measure()).add(measured)
                    yield from self._push(feeds, rows, times)
        for feed in feeds:
            yield from self._finish(feed)

    def _push(self, feeds: list[_Feed], rows: pa.Table, times: np.ndarray) -> Iterator[Message]:
        stamped = stamp_rows(rows, times) if any(feed.travels for feed in feeds) else None
        for feed in feeds:
            if feed.travels and stamped is not None:
                yield from self.exchange(feed.scan, stamped)
            if feed.shared is not None:
                self.feeding = feed.source
                add_count(self.counts, feed.shared.op.id, OperatorCount(rows_in=rows.num_rows))
                yield from self._evict(feed.shared, feed.shared.push(rows, times))

    def _finish(self, feed: _Feed) -> Iterator[Message]:
        """The last evictions of the hash tables of a source."""
        if feed.shared is None:
            return
        self.feeding = feed.source
        yield from self._evict(feed.shared, feed.shared.finish())
        if feed.shared.op.id not in self.failed:
            self.lfta.setdefault(feed.source, []).append(feed.shared.counts())

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

    def _feed(self, source: str) -> _Feed:
        """What reads a source, with the hash tables of its window aggregates, empty."""
        scan = ids.scan(source)
        reached = _above(scan, self.plan.reader)
        edges = (e for e in self.plan.exchanges if e.source_op in reached)
        travels = any(not isinstance(self.ops[e.source_op], Leaf) for e in edges)
        op = self.plan.lfta_of(source)
        self.feeding = source
        return _Feed(source, scan, travels, Lfta(op, self._on_row_error) if op is not None else None)

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


def _timed_rows(times_of: EventTime, chunk: Chunk, feeds: list[_Feed]) -> list[Timed]:
    """The rows of a chunk with their times; piece by piece where only hash tables read them and all are in order."""
    tables = [feed.shared for feed in feeds if feed.shared is not None and not feed.travels]
    if feeds and len(tables) == len(feeds) and fast_paths.is_on("ordered_rows"):
        unfailing = all(shared.unfailing for shared in tables)
        pieces = ordered_rows.cut_in_order(times_of, chunk, chunk.plain if unfailing else chunk.rows)
        if pieces is not None:
            return pieces
    return [times_of.assign(chunk)]


def _above(feed: str, ops: tuple[Op, ...]) -> set[str]:
    reached = {feed}
    for op in ops:
        if set(op.inputs) & reached:
            reached.add(op.id)
    return reached
