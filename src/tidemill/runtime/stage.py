"""One shard for one micro-batch: messages in, operators over the shelf, messages out. No Spark here."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from tidemill.plan.physical import FOREVER, Op, Physical
from tidemill.runtime import inbox, outbox, sealing
from tidemill.runtime.checkpoint import read_seed
from tidemill.runtime.damage import foreign, misfit, missing
from tidemill.runtime.evaluate import Evaluation
from tidemill.runtime.failures import above, guarded, is_of_operator
from tidemill.runtime.forks import packed, unpacked
from tidemill.runtime.frontiers import advance, clock_begin, clock_of, has_ended
from tidemill.runtime.layout import Paths, load_plan
from tidemill.runtime.letters import dead_letters, row_texts
from tidemill.runtime.limits import memory_limited
from tidemill.runtime.operators.base import Batch
from tidemill.runtime.ports import feeds, frontier_of, loop_frontiers, sent_round
from tidemill.runtime.provisional import Ended, Provisional
from tidemill.runtime.reader import DEAD, TICK, Message
from tidemill.runtime.sketches import merged
from tidemill.runtime.state import Shelf, from_ipc, ipc_bytes, state_store

LOOP = "loop:"
PEEK, PEEK_LOOP = "peek:", "peek-loop:"  # of the provisional end of the input


class Stage:
    """What one shard does with the messages of one micro-batch."""

    def __init__(self, root: str, shard: int, blob: bytes | None) -> None:
        self.paths = Paths(root)
        self.shard = shard
        blob = read_seed(self.paths, shard) if blob is None else blob
        own, self.forks = unpacked(blob, self.paths.shard(shard))
        self.shelf = Shelf.load(own, self.paths.shard(shard))
        self.is_new = blob is None
        self.inbox = inbox.Inbox(self.paths.inbox)
        self.out: list[Message] = []
        self.began = time.perf_counter()

    def step(self, messages: Iterable[tuple[str, bytes]]) -> tuple[bytes, list[Message]]:
        """The shard's new state and what it sends to the outlet."""
        ticks, arrived = self._sorted(messages)
        self._follow(ticks[0].get("batch"))
        self.plan = plan = load_plan(self.paths.plan(max(t["plan"] for t in ticks)))
        if ticks[0]["sweep"]:
            self.shelf.check_files()
            self.shelf.sweep(self.forks.files(self.shelf.directory))
        if self.forks.serial != ticks[0]["peek"]:
            self.forks.leave(self.shelf)
        self.shelf.keep(op.id for op in plan.stage)
        sources = advance(self.shelf.value("@sources"), plan, ticks)
        clock = self.shelf.value("@clock")
        if clock.get("begin") is None:
            clock["begin"] = clock_begin(plan, sources)
        clock |= {"ended": has_ended(clock, ticks), "closed": clock_of(plan, sources)}
        failed = {op: reason for tick in ticks for op, reason in tick.get("failed", {}).items()}
        evaluation = Evaluation(
            {op.id: op for op in plan.stage}, self._feeds(plan, ticks, arrived, sources, failed), self.shelf,
            (plan.shards.index(self.shard), len(plan.shards)), self._complain,
            failed=failed, lost=above(plan, failed) if failed else set(), seconds=plan.operator_seconds,
        )
        evaluation.readers.update([e.source_op for e in plan.loops] + [o.op for o in plan.outputs])
        with memory_limited(plan.operator_memory):
            evaluation.run()
        self._send_loops(plan, evaluation)
        self._send_views(plan, evaluation)
        ended = self.shelf.value("@peek")
        going_on, ended["serial"] = ended.get("serial") == ticks[0]["peek"], ticks[0]["peek"]
        # Copies of the state that go on need the files that it had when they were made.
        blob = self.shelf.dump(collect=not self.forks.blobs)
        ends = self._provisional(blob, ticks, arrived, going_on) if ticks[0]["peek"] else {}
        self._send_tick(plan, evaluation, ticks, sources, {name: end.frontiers for name, end in ends.items()})
        return packed(blob, self.forks), self.out

    def _provisional(self, blob: bytes, ticks: list[dict[str, Any]],
                     arrived: dict[str, list[pa.Table]], going_on: bool) -> dict[str, Ended]:
        """What the views of this shard would also show if the input ended here."""
        serial = ticks[0]["peek"]
        # A new end begins with new copies: how far those of the last one were closed says nothing about them.
        loops = {name: ports for tick in ticks for name, ports in tick["peeks"].items()} if going_on else {}
        mine = f"{PEEK_LOOP}{serial} "
        looped = {port[len(mine):]: tables for port, tables in arrived.items() if port.startswith(mine)}
        shard = Provisional(self.plan, self.shard, self.shelf.directory)
        self.forks, ends = shard.end(self.forks if going_on else shard.forked(blob, serial), looped, loops)
        for end in ends.values():
            self.out += [(shard, f"{PEEK_LOOP}{serial} {port}", payload) for shard, port, payload in end.loops]
        shown = self._parcels([pair for end in ends.values() for pair in end.gates], {})
        self.out += [(self.shard, PEEK + port, payload) for port, payload in outbox.send(self.paths.outbox, shown)]
        return ends

    def _follow(self, batch: int | None) -> None:
        """The state must be what the batch before this one left of this shard; it is known by what is in it."""
        before, mine = self.shelf.origin, self.paths.database
        where = state_store(self.shelf.directory)
        if batch is not None:
            if self.is_new and batch > 0:
                raise missing(where, f"shard {self.shard} has no state, and batch {batch} follows others")
            if before and before["database"] != mine:
                raise foreign(where, before["database"], mine)
            if before and (before["shard"], before["batch"]) != (self.shard, batch - 1):
                raise misfit(where, f"shard {self.shard} has the state of shard {before['shard']} after batch"
                             f" {before['batch']}, and batch {batch} shall follow")
            self.shelf.origin = {"database": mine, "shard": self.shard, "batch": batch}

    def _sorted(self, messages: Iterable[tuple[str, bytes]]) -> tuple[list[dict[str, Any]], dict[str, list[pa.Table]]]:
        ticks, arrived = [], {}  # type: ignore[var-annotated]
        for name, sent in messages:
            port, payload = self.inbox.opened(name, sent)
            if port == TICK:
                ticks.append(json.loads(payload))
            elif port == DEAD:
                self.out.append((self.shard, DEAD, bytes(payload)))
            else:
                arrived.setdefault(port, []).append(from_ipc(payload))
        return sorted(ticks, key=lambda t: t["index"]), arrived

    def _feeds(
        self, plan: Physical, ticks: list[dict[str, Any]], arrived: dict[str, list[pa.Table]], sources: dict[str, Any],
        failed: dict[str, str],
    ) -> dict[str, Batch]:
        """What comes in at each port; one whose rows cannot be put together is noted in `failed`."""
        ports = self.shelf.value("@ports")
        for tick in ticks:
            ports.update(tick["loops"])
            ports.update({f"seed:{name}": FOREVER for name in tick["seeds"]})
        known = {e.port for e in plan.loops} | {e.origin for e in plan.exchanges}
        for stale in [p for p in ports if p not in known]:
            del ports[stale]
        return feeds(plan, sources, ports, arrived, failed)

    def _send_loops(self, plan: Physical, evaluation: Evaluation) -> None:
        for edge in plan.loops:
            sent = ((shard, LOOP + edge.port, payload) for shard, payload in sent_round(plan, evaluation, edge))
            self.out += guarded(edge.source_op, sent, evaluation.failed or {})

    def _send_views(self, plan: Physical, evaluation: Evaluation) -> None:
        outcomes = [(o, evaluation.outcome(o.op)) for o in plan.outputs]
        gates = {o.op: (o.grows, found.rows) for o, found in outcomes if found is not None}
        found = [(gate, grows, rows) for gate, (grows, rows) in gates.items() if rows is not None and rows.num_rows]
        growing = ((gate, rows) for gate, grows, rows in found if grows)
        notes, rest = sealing.seal(self.paths.sealed, growing, plan.sealed_rows)
        sent = self._parcels([*rest, *((gate, rows) for gate, grows, rows in found if not grows)],
                             evaluation.failed or {})
        letters = [*sealing.messages(notes), *outbox.send(self.paths.outbox, sent)]
        self.out += [(self.shard, port, payload) for port, payload in letters]

    def _parcels(self, rows: list[tuple[str, pa.Table]], failed: dict[str, str]) -> list[pa.Table]:
        """The parcels of some gates; where they cannot be put together, those that cannot be packed alone fail."""
        try:
            return outbox.parcels(rows)
        except Exception as error:
            if not is_of_operator(error):
                raise
        packed: list[pa.Table] = []
        for gate, table in rows:
            packed += guarded(gate, (p for one in ((gate, table),) for p in outbox.parcels([one])), failed)
        return packed

    def _send_tick(self, plan: Physical, evaluation: Evaluation, ticks: list[dict[str, Any]],
                   sources: dict[str, Any], peeks: dict[str, dict[str, int]]) -> None:
        rows, size = self.shelf.size()
        note = {
            "offset": ticks[0].get("offset"), "plan": plan.version, "final": ticks[0]["final"],
            "sources": sources, "tallies": _tallied(ticks),
            "loops": loop_frontiers(plan.loops, evaluation),
            "gates": [frontier_of(evaluation, o.op) for o in plan.outputs], "failed": evaluation.failed,
            "state_rows": rows, "state_bytes": size, "state_files": self.shelf.live_files(),
            "seconds": time.perf_counter() - self.began, "waits": self.shelf.next_times(),
            "clock": clock_of(plan, sources), "lfta": _counted(ticks),
            "joins": evaluation.notes, "inbox": sorted(self.inbox.files),
            "peek": ticks[0]["peek"], "peeks": peeks,
        }
        self.out.append((self.shard, TICK, json.dumps(note).encode()))

    def _complain(self, op: Op, rows: pa.Table, reason: str) -> None:
        """An expression failed on a derived row: it is kept with the first view that would have shown it."""
        table = dead_letters(f"view:{self._reader_of(op.id)}", reason, row_texts(rows))
        self.out.append((self.shard, DEAD, ipc_bytes(table)))

    def _reader_of(self, op: str) -> str:
        """The id of a view that the operator feeds, directly or through a loop."""
        reached, ports = {op}, {e.port: e.source_op for e in self.plan.loops}
        for other in (*self.plan.stage, *self.plan.stage):
            if any(i in reached or ports.get(i) in reached for i in other.inputs):
                reached.add(other.id)
        return next((o.view for o in self.plan.outputs if o.op in reached), op)


def _tallied(ticks: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What all readers together saw of each source."""
    tallies: dict[str, dict[str, Any]] = {}
    for tick in ticks:
        for name, tally in tick["tallies"].items():
            total = tallies.setdefault(name, {"rows": 0, "late": 0, "bad": 0, "sent": 0, "behind": 0,
                                              "undeclared": {}, "files": []})
            for key in ("rows", "late", "bad", "sent"):
                total[key] += tally[key]
            total["behind"] = max(total["behind"], tally["behind"])
            for field, count in tally["undeclared"].items():
                total["undeclared"][field] = total["undeclared"].get(field, 0) + count
            total["files"] += tally["files"]
    return tallies


def _counted(ticks: list[dict[str, Any]]) -> dict[str, Any]:
    """What the hash tables of each source did in this batch, all readers together."""
    notes: dict[str, list[dict[str, Any]]] = {}
    for tick in ticks:
        for source, found in tick.get("lfta", {}).items():
            notes.setdefault(source, []).extend(found)
    return {source: merged(found) for source, found in notes.items()}


def outputs_of(messages: Iterable[Message], prefix: str) -> Iterator[tuple[int, str, bytes]]:
    """Messages whose port begins with `prefix`, without it."""
    for shard, port, payload in messages:
        if port.startswith(prefix):
            yield shard, port[len(prefix):], payload
