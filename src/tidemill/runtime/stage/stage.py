"""One shard for one micro-batch: messages in, operators over its state, messages out. No Spark here."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pyarrow as pa

from tidemill.plan.measured.joins import JoinCounts
from tidemill.plan.measured.sources import Sources
from tidemill.plan.measured.windows import ReaderCounts, SourceCounts
from tidemill.plan.physical import FOREVER, Op, Physical, ids
from tidemill.runtime import fast_paths
from tidemill.runtime.answer_files import write
from tidemill.runtime.arrow_ipc import from_ipc, ipc_bytes
from tidemill.runtime.checkpoint.progress import read_seed
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.duckdb.user_functions import declare
from tidemill.runtime.evaluation.evaluate import Evaluation
from tidemill.runtime.evaluation.failures import guard, is_of_operator, operators_above
from tidemill.runtime.evaluation.limits import memory_limited
from tidemill.runtime.integrity import foreign, misfit, missing
from tidemill.runtime.messages import inbox, outbox
from tidemill.runtime.messages.dead_letters import make_dead_letters, row_texts
from tidemill.runtime.messages.message import DEAD, LOOP, PEEK, PEEK_LOOP, TICK, Message
from tidemill.runtime.messages.operator_counts import ShedCount, add_counts
from tidemill.runtime.messages.source_counts import Tally
from tidemill.runtime.messages.ticks import ReaderTick, ShardTick, decode_reader_tick, encode_tick
from tidemill.runtime.paths import Paths, load_plan
from tidemill.runtime.share.sketches import merge_counts
from tidemill.runtime.sites.join_values import merge_measures
from tidemill.runtime.stage.frontiers import advance, clock_begin, clock_of, has_ended
from tidemill.runtime.stage.ports import frontier_of, loop_frontiers, port_feeds, route_loop
from tidemill.runtime.stage.provisional import Ended, Provisional
from tidemill.runtime.state.forks import pack_state, unpack_state
from tidemill.runtime.state.shard_state import ShardState, state_store


class Stage:
    """What one shard does with the messages of one micro-batch."""

    def __init__(self, root: str, shard: int, blob: bytes | None) -> None:
        self.paths = Paths(root)
        self.shard = shard
        blob = read_seed(self.paths, shard) if blob is None else blob
        own, self.forks = unpack_state(blob, self.paths.shard(shard))
        self.state = ShardState.load(own, self.paths.shard(shard))
        self.is_new = blob is None
        self.inbox = inbox.Inbox(self.paths.inbox)
        self.out: list[Message] = []
        self.began = time.perf_counter()

    def step(self, messages: Iterable[tuple[str, bytes]]) -> tuple[bytes, list[Message]]:
        """The shard's new state and what it sends to the outlet."""
        ticks, arrived = self._receive(messages)
        self._follow(ticks[0].note.batch)
        self.plan = load_plan(self.paths.plan(max(t.plan for t in ticks)))
        declare(self.plan.functions)
        with fast_paths.without(self.plan.fast_paths_off):
            return self._step(ticks, arrived), self.out

    def _step(self, ticks: list[ReaderTick], arrived: dict[str, list[pa.Table]]) -> bytes:
        """Run the operators of the plan and send what they give; the shard's new state."""
        plan, note = self.plan, ticks[0].note
        if note.sweep:
            self.state.check_files()
            self.state.sweep(self.forks.files(self.state.directory))
        if self.forks.serial != note.peek:
            self.forks.discard(self.state)
        self.state.keep(op.id for op in plan.stage)
        sources = advance(self.state.sources(), plan, ticks)
        clock = self.state.value("@clock")
        if clock.get("begin") is None:
            clock["begin"] = clock_begin(plan, sources)
        clock |= {"ended": has_ended(plan, clock, ticks), "closed": clock_of(plan, sources)}
        failed = {op: reason for tick in ticks for op, reason in tick.failed.items()}
        evaluation = Evaluation(
            {op.id: op for op in plan.stage},
            self._feeds(plan, ticks, arrived, sources, failed),
            self.state,
            (plan.shards.index(self.shard), len(plan.shards)),
            self._on_row_error,
            failed=failed,
            lost=operators_above(plan, failed) if failed else set(),
            seconds=plan.operator_seconds,
        )
        evaluation.readers.update([e.source_op for e in plan.loops] + [o.op for o in plan.outputs])
        with memory_limited(plan.operator_memory):
            evaluation.run()
        self._send_loops(plan, evaluation)
        self._send_views(plan, evaluation)
        ended = self.state.value("@peek")
        going_on, ended["serial"] = ended.get("serial") == note.peek, note.peek
        # Copies of the state that go on need the files that it had when they were made.
        blob = self.state.dump(collect=not self.forks.blobs)
        ends = self._provisional(blob, ticks, arrived, going_on) if note.peek else {}
        self._send_tick(plan, evaluation, ticks, sources, ends)
        return pack_state(blob, self.forks)

    def _provisional(
        self, blob: bytes, ticks: list[ReaderTick], arrived: dict[str, list[pa.Table]], going_on: bool
    ) -> dict[str, Ended]:
        """What the views of this shard would also show if the input ended here."""
        serial = ticks[0].note.peek
        # A new end begins with new copies: the loop frontiers of the last end do not hold for them.
        loops = {name: ports for tick in ticks for name, ports in tick.peeks.items()} if going_on else {}
        prefix = f"{PEEK_LOOP}{serial} "
        looped = {port[len(prefix) :]: tables for port, tables in arrived.items() if port.startswith(prefix)}
        shard = Provisional(self.plan, self.shard, self.state.directory)
        self.forks, ends = shard.end(self.forks if going_on else shard.fork(blob, serial), looped, loops)
        for end in ends.values():
            self.out += [(shard, f"{PEEK_LOOP}{serial} {port}", payload) for shard, port, payload in end.loops]
        shown = self._pack_blocks([pair for end in ends.values() for pair in end.outputs], {})
        self.out += [(self.shard, PEEK + port, payload) for port, payload in outbox.send(self.paths.outbox, shown)]
        return ends

    def _follow(self, batch: int | None) -> None:
        """Check that the state is that of this shard after the batch before this one."""
        before, prefix = self.state.origin, self.paths.database
        where = state_store(self.state.directory)
        if batch is not None:
            if self.is_new and batch > 0:
                raise missing(where, f"shard {self.shard} has no state, and batch {batch} follows others")
            if before and before["database"] != prefix:
                raise foreign(where, before["database"], prefix)
            if before and (before["shard"], before["batch"]) != (self.shard, batch - 1):
                raise misfit(
                    where,
                    f"shard {self.shard} has the state of shard {before['shard']} after batch"
                    f" {before['batch']}, and batch {batch} shall follow",
                )
            self.state.origin = {"database": prefix, "shard": self.shard, "batch": batch}

    def _receive(self, messages: Iterable[tuple[str, bytes]]) -> tuple[list[ReaderTick], dict[str, list[pa.Table]]]:
        ticks: list[ReaderTick] = []
        arrived: dict[str, list[pa.Table]] = {}
        for name, sent in messages:
            port, payload = self.inbox.receive(name, sent)
            if port == TICK:
                ticks.append(decode_reader_tick(payload))
            elif port == DEAD:
                self.out.append((self.shard, DEAD, bytes(payload)))
            else:
                arrived.setdefault(port, []).append(from_ipc(payload))
        return sorted(ticks, key=lambda t: t.index), arrived

    def _feeds(
        self,
        plan: Physical,
        ticks: list[ReaderTick],
        arrived: dict[str, list[pa.Table]],
        sources: Sources,
        failed: dict[str, str],
    ) -> dict[str, Batch]:
        """The input of each port; a port whose tables cannot be concatenated is noted in `failed`."""
        ports = self.state.value("@ports")
        for tick in ticks:
            ports.update(tick.loops)
            ports.update({ids.seed_origin(name): FOREVER for name in tick.seeds})
        known = {e.port for e in plan.loops} | {e.origin for e in plan.exchanges}
        for stale in [p for p in ports if p not in known]:
            del ports[stale]
        return port_feeds(plan, sources, ports, arrived, failed)

    def _send_loops(self, plan: Physical, evaluation: Evaluation) -> None:
        for edge in plan.loops:
            sent = ((shard, LOOP + edge.port, payload) for shard, payload in route_loop(plan, evaluation, edge))
            self.out += guard(edge.source_op, sent, evaluation.failed or {})

    def _send_views(self, plan: Physical, evaluation: Evaluation) -> None:
        outcomes = [(o, evaluation.outcome(o.op)) for o in plan.outputs]
        outputs = {o.op: (o.append_only, found.rows) for o, found in outcomes if found is not None}
        found = [
            (output, grows, rows) for output, (grows, rows) in outputs.items() if rows is not None and rows.num_rows
        ]
        growing = ((output, rows) for output, grows, rows in found if grows)
        least = plan.sealed_rows if fast_paths.is_on("answer_files") else 0
        files, rest = write.write_files(self.paths.answer_files, growing, least)
        sent = self._pack_blocks(
            [*rest, *((output, rows) for output, grows, rows in found if not grows)], evaluation.failed or {}
        )
        messages = [*write.send(files), *outbox.send(self.paths.outbox, sent)]
        self.out += [(self.shard, port, payload) for port, payload in messages]

    def _pack_blocks(self, rows: list[tuple[str, pa.Table]], failed: dict[str, str]) -> list[pa.Table]:
        """Change blocks of outputs; outputs whose tables cannot be packed fail, the others are packed one by one."""
        try:
            return outbox.pack_blocks(rows)
        except Exception as error:
            if not is_of_operator(error):
                raise
        blocks: list[pa.Table] = []
        for output, table in rows:
            blocks += guard(output, (p for one in ((output, table),) for p in outbox.pack_blocks([one])), failed)
        return blocks

    def _send_tick(
        self, plan: Physical, evaluation: Evaluation, ticks: list[ReaderTick], sources: Sources, ends: dict[str, Ended]
    ) -> None:
        rows, size = self.state.size()
        tick = ShardTick(
            plan=plan.version,
            offset=ticks[0].note.offset,
            final=ticks[0].note.final,
            sources=sources,
            tallies=_total_tallies(ticks),
            loops=loop_frontiers(plan.loops, evaluation),
            outputs=[frontier_of(evaluation, o.op) for o in plan.outputs],
            failed=evaluation.failed or {},
            state_rows=rows,
            state_bytes=size,
            state_files=self.state.live_files(),
            seconds=time.perf_counter() - self.began,
            waits=self.state.next_times(),
            clock=clock_of(plan, sources),
            lfta=_merge_table_counts(ticks),
            joins={op: note for op, note in evaluation.notes.items() if isinstance(note, JoinCounts)},
            shed={op: note for op, note in evaluation.notes.items() if isinstance(note, ShedCount)},
            inbox=sorted(self.inbox.files),
            peek=ticks[0].note.peek,
            operators=add_counts(evaluation.counts, *(t.operators for t in ticks)),
            peeks={name: end.frontiers for name, end in ends.items()},
            ends={output: reached for end in ends.values() for output, reached in end.ends.items()},
            measures=merge_measures(t.measures for t in ticks),
        )
        self.out.append((self.shard, TICK, encode_tick(tick)))

    def _on_row_error(self, op: Op, rows: pa.Table, reason: str) -> None:
        """An expression failed on a derived row: it is kept with the first view that would have shown it."""
        table = make_dead_letters(f"view:{self._reader_of(op.id)}", reason, row_texts(rows))
        self.out.append((self.shard, DEAD, ipc_bytes(table)))

    def _reader_of(self, op: str) -> str:
        """The id of a view that the operator feeds, directly or through a loop."""
        reached, ports = {op}, {e.port: e.source_op for e in self.plan.loops}
        for other in (*self.plan.stage, *self.plan.stage):
            if any(i in reached or ports.get(i) in reached for i in other.inputs):
                reached.add(other.id)
        return next((o.view for o in self.plan.outputs if o.op in reached), op)


def _total_tallies(ticks: list[ReaderTick]) -> dict[str, Tally]:
    """The tally of each source over all readers."""
    totals: dict[str, Tally] = {}
    for tick in ticks:
        for name, tally in tick.tallies.items():
            totals.setdefault(name, Tally()).add(tally)
    return totals


def _merge_table_counts(ticks: list[ReaderTick]) -> dict[str, SourceCounts]:
    """What the hash tables of each source did in this batch, all readers together."""
    counts: dict[str, list[ReaderCounts]] = {}
    for tick in ticks:
        for source, found in tick.lfta.items():
            counts.setdefault(source, []).extend(found)
    return {source: merge_counts(found) for source, found in counts.items()}
