"""One reader partition of one micro-batch: feedback and pieces of sources in, messages for the shards out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from tidemill.plan.measured.windows import ReaderCounts
from tidemill.runtime import fast_paths
from tidemill.runtime.arrow_ipc import from_ipc, ipc_bytes
from tidemill.runtime.duckdb.user_functions import declare
from tidemill.runtime.evaluation.limits import memory_limited
from tidemill.runtime.integrity import arrow_file, missing, verify
from tidemill.runtime.messages import inbox
from tidemill.runtime.messages.assignments import Assignment
from tidemill.runtime.messages.message import DEAD, TICK, Message
from tidemill.runtime.messages.ticks import ReaderTick, encode_tick
from tidemill.runtime.paths import Paths, load_plan, read_feedback
from tidemill.runtime.reader.source_reader import SourceReader


class Reader:
    """Reads one assignment and yields messages for the shards."""

    def __init__(self, root: str, assignment: Assignment) -> None:
        self.paths = Paths(root)
        self.assignment = assignment
        self.plan = load_plan(self.paths.plan(assignment.plan))
        declare(self.plan.functions)
        self.sources = SourceReader(self.paths, self.plan, assignment.index)

    @property
    def lfta(self) -> dict[str, list[ReaderCounts]]:
        """What the hash tables of each source did."""
        return self.sources.lfta

    def messages(self) -> Iterator[Message]:
        """Rows first, then dead letters, then one tick for every shard."""
        with fast_paths.without(self.plan.fast_paths_off), memory_limited(self.plan.operator_memory):
            yield from self._messages()

    def _messages(self) -> Iterator[Message]:
        found = self.sources
        tick = ReaderTick(
            self.assignment.index, self.plan.version, self.assignment.note, found.tallies, failed=found.failed
        )
        for batch in self.assignment.feedback:
            yield from self._feedback(batch, tick)
        for work in self.assignment.work:
            yield from inbox.send(self.paths.inbox, found.read(work))
        if found.dead.tables:
            yield self.plan.shards[0], DEAD, ipc_bytes(pa.concat_tables(found.dead.tables))
        for shard in self.plan.shards:
            # What hash tables and operators did is for the statistics: one shard passes it on.
            is_first = shard == self.plan.shards[0]
            counted = replace(tick, lfta=found.lfta, operators=found.counts, measures=found.measures)
            yield shard, TICK, encode_tick(counted if is_first else tick)

    def _feedback(self, batch: int, tick: ReaderTick) -> Iterator[Message]:
        """What the stages sent back at the end of an earlier batch, and contents of views for later readers."""
        path = self.paths.feedback_notes(batch)
        found = read_feedback(self.paths, batch)
        if found is None:
            raise missing(path, "this batch takes in what it names")
        tick.loops.update(found["loops"])
        tick.seeds.update(found["seeds"])
        tick.peeks.update(found.get("peeks", {}))
        if not found["rows"]:
            return
        path = self.paths.feedback_rows(batch)
        verify(path, found["rows"]["size"], found["rows"]["sum"])
        with arrow_file(path), pa.memory_map(path) as source:
            table = pa.ipc.open_file(source).read_all()
        for shard, port, payload in zip(*(table.column(i).to_pylist() for i in range(3)), strict=True):
            if port in self.sources.ops:
                yield from self.sources.exchange(port, from_ipc(payload))
            else:
                yield shard, port, payload
