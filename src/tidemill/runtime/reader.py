"""One reader partition of one micro-batch: decode, put late and bad records aside, run the linear
operators, split by shard. Stateless: the same assignment always gives the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.physical import BEGINNING, FOREVER, Exchange, Op, Physical
from tidemill.plan.relations import STATIC_TIME
from tidemill.plan.scalars import columns_of
from tidemill.plan.sources import APPLY, DELETES, UPSERTS, SourceSpec
from tidemill.runtime import inbox
from tidemill.runtime.damage import arrow_file, missing, verify
from tidemill.runtime.evaluate import Evaluation, route
from tidemill.runtime.failures import guarded, reason_of
from tidemill.runtime.kernels.edges import ascending
from tidemill.runtime.layout import Paths, load_plan, read_feedback
from tidemill.runtime.letters import dead_letters, places_of, row_texts
from tidemill.runtime.lfta import Lfta
from tidemill.runtime.limits import memory_limited
from tidemill.runtime.operators.base import Batch
from tidemill.runtime.planner import Assignment, Work, spec_of
from tidemill.runtime.sources.columns import is_wall_time
from tidemill.runtime.sources.connector import Chunk, event_time_us
from tidemill.runtime.sources.opening import open_connector
from tidemill.runtime.sources.records import refuse
from tidemill.runtime.state import from_ipc, ipc_bytes, ipc_pieces
from tidemill.runtime.tally import Tally
from tidemill.runtime.thresholds import sizes

TICK, DEAD = "tick", "dead"
_OPERATIONS = pa.array([*UPSERTS, *DELETES], pa.string())
Message = tuple[int, str, bytes]  # (shard label, port, payload)
Timed = tuple[pa.Table, np.ndarray]  # rows and the times at which they come
EVENT = "__event"  # the event times, where rows come later


@dataclass
class Reader:
    """Reads one assignment and yields messages for the shards."""

    root: str
    assignment: Assignment
    plan: Physical = field(init=False)
    tallies: dict[str, Tally] = field(default_factory=dict)
    turn: int = 0
    feeding: str = ""
    lfta: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.paths = Paths(self.root)
        self.plan = load_plan(self.paths.plan(self.assignment.plan))
        self.ops = {op.id: op for op in self.plan.reader}
        self.dead: list[pa.Table] = []
        self.failed: dict[str, str] = {}  # operators that failed, and why

    def messages(self) -> Iterator[Message]:
        """Rows first, then dead letters, then one tick for every shard."""
        with memory_limited(self.plan.operator_memory):
            yield from self._messages()

    def _messages(self) -> Iterator[Message]:
        notes: dict[str, Any] = {"loops": {}, "seeds": {}, "peeks": {}}
        for batch in self.assignment.feedback:
            yield from self._feedback(batch, notes)
        for work in self.assignment.work:
            yield from inbox.posted(self.paths.inbox, self._counted(work))
        if self.dead:
            yield self.plan.shards[0], DEAD, ipc_bytes(pa.concat_tables(self.dead))
        tick = {
            **self.assignment.notes, **notes, "plan": self.plan.version, "index": self.assignment.index,
            "tallies": {name: vars(t) for name, t in self.tallies.items()}, "failed": self.failed,
        }
        for shard in self.plan.shards:
            # What the hash tables did is for the statistics: one shard passes it on.
            counted = {"lfta": self.lfta} if shard == self.plan.shards[0] else {}
            yield shard, TICK, json.dumps({**tick, **counted}).encode()

    def _counted(self, work: Work) -> Iterator[Message]:
        for message in self._source(work):
            self.tallies[work.source].sent += len(message[2])
            yield message

    def _feedback(self, batch: int, notes: dict[str, Any]) -> Iterator[Message]:
        """What the stages sent back at the end of an earlier batch, and contents of views for later readers."""
        path = self.paths.feedback_notes(batch)
        found = read_feedback(self.paths, batch)
        if found is None:
            raise missing(path, "this batch takes in what it names")
        notes["loops"].update(found["loops"])
        notes["seeds"].update(found["seeds"])
        notes["peeks"].update(found.get("peeks", {}))
        if not found["rows"]:
            return
        path = self.paths.feedback_rows(batch)
        verify(path, found["rows"]["size"], found["rows"]["sum"])
        with arrow_file(path), pa.memory_map(path) as source:
            table = pa.ipc.open_file(source).read_all()
        for shard, port, payload in zip(*(table.column(i).to_pylist() for i in range(3)), strict=True):
            if port in self.ops:
                yield from self._exchanged(port, from_ipc(payload))
            else:
                yield shard, port, payload

    def _source(self, work: Work) -> Iterator[Message]:
        spec = spec_of(self.plan, work.source)
        if work.skip:
            self._skip(spec, work)
            return
        scan = f"scan.{work.source}"
        tally = self.tallies.setdefault(work.source, Tally(top=work.top))
        narrow = _narrowed(spec, self._needed(scan))
        connector = open_connector(narrow, self.paths.source(work.source))
        shared = self._shared(work.source)
        others = self._travels(scan)
        for chunk in connector.read(work.piece):
            tally.note(chunk)
            pieces = None if others or shared is None else self._in_order(
                spec, chunk, chunk.plain if shared.unfailing else chunk.rows, work, tally)
            for rows, times in [self._timed(spec, chunk, work, tally)] if pieces is None else pieces:
                if len(times) and others:
                    yield from self._exchanged(scan, _stamped(rows, times))
                if len(times) and shared is not None:
                    yield from self._evicted(shared, shared.push(rows, times))
        if shared is not None:
            yield from self._evicted(shared, shared.finish())
        if shared is not None and shared.op.id not in self.failed:
            self.lfta.setdefault(work.source, []).append(shared.note())

    def _skip(self, spec: SourceSpec, work: Work) -> None:
        """Every record of the piece becomes a dead letter; where it cannot even be read, the piece becomes one."""
        tally = self.tallies.setdefault(work.source, Tally(top=work.top))
        lenient = replace(spec, on_error="dead_letter")
        try:
            for chunk in open_connector(lenient, self.paths.source(work.source)).read(work.piece):
                tally.bad += chunk.bad.num_rows + chunk.rows.num_rows
                self._bury(lenient, chunk.bad)
                self._bury_rows(lenient, chunk.rows, "skipped by hand")
        except Exception as error:
            tally.bad += 1
            place = json.dumps([work.piece.start, work.piece.end])
            nothing, where = pa.array([b""], pa.binary()), pa.array([place], pa.string())
            self.dead.append(dead_letters(spec.name, f"skipped by hand: {reason_of(error)}", nothing, where))

    def _travels(self, scan: str) -> bool:
        """True when something but the hash tables reads the rows of a scan."""
        reached = _above(scan, self.plan.reader)
        return any(e.source_op in reached and self.ops[e.source_op].kind != "leaf" for e in self.plan.exchanges)

    def _shared(self, source: str) -> Lfta | None:
        """The hash tables of the source's window aggregates, empty."""
        op = self.ops.get(f"lfta.{source}")
        self.feeding = source
        return Lfta(op, self._complain) if op is not None else None

    def _evicted(self, shared: Lfta, rows: Iterator[tuple[str, pa.Table]]) -> Iterator[Message]:
        if shared.op.id in self.failed:
            return
        for leaf, table in guarded(shared.op.id, rows, self.failed, self.plan.operator_seconds):
            for edge in self.plan.exchanges:
                if edge.source_op == leaf:
                    yield from guarded(leaf, self._split(edge, table), self.failed)

    def _needed(self, scan: str) -> set[str]:
        """Columns of a source that some operator reads; all of them when raw rows travel."""
        wanted: set[str] = set()
        whole = {scan}
        for op in self.plan.reader:
            if set(op.inputs) & whole:
                wanted |= _reads(op)
                if op.kind in ("filter", "temporal", "synchronize", "latest"):
                    whole.add(op.id)
        if any(e.source_op in whole for e in self.plan.exchanges):
            wanted |= {c.name for c in self.ops[scan].schema}
        return wanted

    def _in_order(self, spec: SourceSpec, chunk: Chunk, table: pa.Table, work: Work,
                  tally: Tally) -> list[Timed] | None:
        """The rows of a chunk piece by piece as they lie in memory, where none is without time or late; else None."""
        if chunk.bad.num_rows or spec.static or spec.operation or not spec.timestamp or not table.num_rows:
            return None
        if table.num_rows < sizes.reader_piece_rows * table.column(0).num_chunks:
            table = table.combine_chunks()
        pieces, top, kind = [], tally.top, _type(spec, spec.timestamp)
        for batch in table.to_batches():
            rows = pa.Table.from_batches([batch])
            stamp = event_time_us(rows.column(spec.timestamp), kind, self.plan.unit_us)
            if stamp.null_count:
                return None
            times = stamp.to_numpy()
            latest = None if not len(times) else _punctual_end(times, top, spec.lateness_us, work.floor)
            if latest is None or latest > self._believed(spec, work, top, int(times[0])):
                return None
            top = max(top, latest)
            pieces.append((rows, times))
        tally.rows, tally.top = tally.rows + table.num_rows, top
        tally.first = int(pieces[0][1][0]) if tally.first is None else tally.first
        return pieces

    def _timed(self, spec: SourceSpec, chunk: Chunk, work: Work, tally: Tally) -> tuple[pa.Table, np.ndarray]:
        """Rows with their event time; rows without one, and rows behind the frontier, go to the dead letters."""
        if chunk.bad.num_rows:
            tally.bad += chunk.bad.num_rows
            self._bury(spec, chunk.bad)
        rows = chunk.rows
        if spec.static:
            times = np.full(rows.num_rows, STATIC_TIME, np.int64)
            tally.rows += rows.num_rows
            return rows, times
        if spec.timestamp:
            stamp = event_time_us(rows.column(spec.timestamp), _type(spec, spec.timestamp), self.plan.unit_us)
            if stamp.null_count:
                missing = pc.is_null(stamp)
                self._bury_rows(spec, rows.filter(missing), f'no event time in column "{spec.timestamp}"')
                tally.bad += stamp.null_count
                rows, stamp = rows.filter(pc.invert(missing)), stamp.drop_null()
            rows, times = self._believable(spec, rows, stamp.to_numpy(), work, tally)
        else:
            times = rows.column("__arrival").to_numpy()
        return self._operated(spec, *self._punctual(spec, rows, times, work.floor, tally), tally)

    def _operated(self, spec: SourceSpec, rows: pa.Table, times: np.ndarray,
                  tally: Tally) -> tuple[pa.Table, np.ndarray]:
        """A row whose operation is none of the known words cannot be applied: it is a bad record.

        It has moved the clock like any other, so that what is late does not depend on how the input is cut.
        """
        if spec.operation is None or not len(times):
            return rows, times
        words = rows.column(spec.operation).cast(pa.string())
        known = pc.is_in(pc.utf8_lower(words), value_set=_OPERATIONS)
        if pc.all(known).as_py():
            return rows, times
        unknown = pc.invert(known)
        if spec.on_error == "fail":
            raise refuse(spec, f'column "{spec.operation}" has no known operation', f'"{words.filter(unknown)[0]}"')
        if spec.on_error == "dead_letter":
            self._bury_rows(spec, rows.filter(unknown), f'column "{spec.operation}" has no known operation')
        good = known.to_numpy()
        tally.bad, tally.rows = tally.bad + int((~good).sum()), tally.rows - int((~good).sum())
        return rows.filter(known), times[good]

    def _believed(self, spec: SourceSpec, work: Work, top: int, first: int) -> int:
        """The latest event time that is believed when `top` is the newest one so far; the very first row is, where
        there is nothing to compare it with.
        """
        if spec.ahead_us is None:
            return FOREVER
        assert spec.timestamp is not None
        known = max(top, work.seen) if is_wall_time(_type(spec, spec.timestamp)) else top
        return (known if known > BEGINNING else first) + spec.ahead_us

    def _believable(self, spec: SourceSpec, rows: pa.Table, times: np.ndarray, work: Work,
                    tally: Tally) -> tuple[pa.Table, np.ndarray]:
        """Rows too far ahead of their time go to the dead letters and do not move the clock."""
        if not len(times) or int(times.max()) <= self._believed(spec, work, tally.top, int(times[0])):
            return rows, times
        good, top = np.ones(len(times), bool), tally.top
        for i, at in enumerate(times.tolist()):
            good[i] = at <= self._believed(spec, work, top, at)
            top = max(top, at) if good[i] else top
        if not good.all():
            self._bury_rows(spec, rows.filter(pa.array(~good)), "too far ahead of its time: option ahead")
            tally.bad += int((~good).sum())
        return rows.filter(pa.array(good)), times[good]

    def _punctual(self, spec: SourceSpec, rows: pa.Table, times: np.ndarray, floor: int,
                  tally: Tally) -> tuple[pa.Table, np.ndarray]:
        """A row is late when it is behind the frontier or more than the lateness behind a row before it."""
        if not len(times):
            return rows, times
        if times[0] >= max(tally.top - spec.lateness_us, floor) and ascending(times):
            tally.rows, tally.top = tally.rows + len(times), max(tally.top, int(times[-1]))
            tally.first = int(times[0]) if tally.first is None else tally.first
            return rows, times
        running = np.maximum.accumulate(times)
        before = np.maximum(np.concatenate([[BEGINNING], running[:-1]]), tally.top)
        late = times < np.maximum(before - spec.lateness_us, floor)
        tally.top = max(tally.top, int(running[-1]))
        if late.any() and spec.options.get("late") == APPLY:
            # They come as soon as their source allows it, which any cut into batches agrees about.
            rows = rows.append_column(EVENT, pa.array(times))
            times = np.where(late, np.maximum(before - spec.lateness_us, floor), times)
        elif late.any():
            self._bury_rows(spec, rows.filter(pa.array(late)), "late: behind the frontier of its source")
            tally.late += int(late.sum())
            tally.behind = max(tally.behind, int((np.maximum(before, floor + spec.lateness_us) - times)[late].max()))
            rows, times = rows.filter(pa.array(~late)), times[~late]
        tally.rows += len(times)
        if tally.first is None and len(times):
            tally.first = int(times[0])
        return rows, times

    def _exchanged(self, feed: str, rows: pa.Table) -> Iterator[Message]:
        """Every exchange that this feed reaches, evaluated and split."""
        self.feeding = feed.partition(".")[2]
        evaluation = Evaluation(self.ops, {feed: Batch(rows, FOREVER)}, complain=self._complain, failed=self.failed,
                                seconds=self.plan.operator_seconds)
        for edge in self.plan.exchanges:
            evaluation.readers[edge.source_op] += 1
        reached = _above(feed, self.plan.reader)
        for edge in self.plan.exchanges:
            if edge.source_op in reached and self.ops[edge.source_op].kind != "leaf":
                found = evaluation.outcome(edge.source_op)
                if found is not None:
                    yield from guarded(edge.source_op, self._split(edge, found.rows), self.failed)

    def _split(self, edge: Exchange, rows: pa.Table | None) -> Iterator[Message]:
        if rows is None or rows.num_rows == 0:
            return
        self.turn += 1
        schema = self.ops[edge.source_op].schema
        for index, piece in route(edge, schema, rows, len(self.plan.shards), self.turn + self.assignment.index):
            for payload in ipc_pieces(piece):
                yield self.plan.shards[index], edge.port, payload

    def _complain(self, op: Op, rows: pa.Table, reason: str) -> None:
        """An expression failed on a row: it is kept with the source it came from."""
        self.dead.append(dead_letters(self.feeding, reason, row_texts(rows), places_of(rows)))

    def _bury(self, spec: SourceSpec, bad: pa.Table) -> None:
        if spec.on_error == "dead_letter":
            reasons, raws, places = (bad.column(i) for i in range(3))
            sources = pa.repeat(pa.scalar(spec.name, pa.string()), bad.num_rows)
            self.dead.append(pa.table({
                "source": sources, "reason": reasons.cast(pa.string()), "raw": raws.cast(pa.binary()),
                "position": places.cast(pa.string()),
            }))

    def _bury_rows(self, spec: SourceSpec, rows: pa.Table, reason: str) -> None:
        visible = [c.name for c in spec.columns if c.name in rows.column_names]
        raws, places = row_texts(rows.select(visible)), places_of(rows)
        # A late row is good data: it is kept whatever on_error says of records that cannot be read.
        self.dead.append(dead_letters(spec.name, reason, raws, places))


def _punctual_end(times: np.ndarray, top: int, lateness: int, floor: int) -> int | None:
    """The greatest of these times, where none of them is late behind `top` and one another; else None.

    >>> _punctual_end(np.array([5, 9, 7]), 6, 2, 0), _punctual_end(np.array([5, 9, 6]), 6, 2, 0)
    (9, None)
    """
    if ascending(times):
        return int(times[-1]) if times[0] >= max(top - lateness, floor) else None
    running = np.maximum(np.maximum.accumulate(times), top)
    late = lateness == 0 or int((running - times).max()) > lateness or int(times.min()) < floor
    return None if late else int(running[-1])


def _stamped(rows: pa.Table, times: np.ndarray) -> pa.Table:
    time = pa.array(times, pa.int64())
    stamp = rows.column(EVENT) if EVENT in rows.column_names else time
    rows = rows.drop_columns([n for n in ("__arrival", EVENT) if n in rows.column_names])
    ones = pa.array(np.ones(len(times), np.int64))
    return rows.append_column("__ts", stamp).append_column("__time", time).append_column("__diff", ones)


def _narrowed(spec: SourceSpec, needed: set[str]) -> SourceSpec:
    """Decode only what is read; text needs all its columns to find the fields and to judge the record."""
    if spec.kind == "port" or spec.format in ("csv", "json") or spec.format is None:
        return spec
    judged = (spec.timestamp, spec.operation)
    kept = tuple(c for c in spec.columns if c.name in needed or c.name in judged) or spec.columns[:1]
    return replace(spec, columns=kept, unread=tuple(c for c in spec.columns if c not in kept))


def _reads(op: Op) -> set[str]:
    params = op.params
    if op.kind == "lfta":
        parts = ("attributes", "arguments", "predicates")
        return {c for part in parts for e in params[part] for c in columns_of(e["sql"])}
    texts = [v for v in params.values() if isinstance(v, str)]
    texts += [sql for _, sql in params.get("items", ())] + [sql for _, sql in params.get("parts", ())]
    named = {*params.get("keys", ()), *params.get("from", ())}
    if "value" in params:
        named.add(params["value"])
    return named | {c for text in texts for c in columns_of(text)}


def _above(feed: str, ops: tuple[Op, ...]) -> set[str]:
    reached = {feed}
    for op in ops:
        if set(op.inputs) & reached:
            reached.add(op.id)
    return reached


def _type(spec: SourceSpec, name: str) -> str:
    return next(c.type for c in spec.columns if c.name == name)
