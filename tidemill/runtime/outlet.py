"""The end of a micro-batch: views, sinks, subscribers, and what goes round into the next batch.

Order matters for a crash at any point. First the files that a replay would write again just the same (sink files,
feedback, progress), then one DuckDB transaction with all views and the batch id. A batch at or below the
committed id is skipped whole.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.physical import BEGINNING, FOREVER, Physical
from tidemill.plan.relations import STATIC_TIME
from tidemill.plan.sources import Column
from tidemill.runtime import duck as worker_duck
from tidemill.runtime import sinks
from tidemill.runtime.layout import Paths, load_plan, write_json
from tidemill.runtime.operators.base import name_list
from tidemill.runtime.reader import DEAD, TICK, Message
from tidemill.runtime.stage import LOOP, VIEW, outputs_of
from tidemill.runtime.state import from_ipc, ipc_bytes
from tidemill.runtime.views import StoredView, ViewStore, append_changes, apply_contents, tagged

KEPT_FEEDBACK = 16

Listener = Callable[[dict[str, Any]], None]


class Outlet:
    """Applies micro-batches to the stored views. `views` maps view id to what is stored."""

    def __init__(self, root: str, store: ViewStore) -> None:
        self.paths = Paths(root)
        self.store = store
        self.lock = threading.RLock()
        self.subscribers: dict[str, list[queue.Queue[pa.Table]]] = {}
        self.listeners: list[Listener] = []
        self.views: dict[str, StoredView] = {}
        self.duck = store.cursor()
        os.makedirs(self.paths.feedback, exist_ok=True)

    @property
    def committed(self) -> int:
        """The last batch whose rows are in the views; −1 before the first."""
        return int(self.store.meta("batch") or -1)

    def apply(self, batch: int, messages: list[Message]) -> None:
        """Make one micro-batch visible, all of it or nothing."""
        with self.lock:
            notes = [json.loads(p) for _, _, p in outputs_of(messages, TICK)]
            if batch > self.committed and notes:
                self._apply(batch, messages, notes)

    def _apply(self, batch: int, messages: list[Message], notes: list[dict[str, Any]]) -> None:
        plan = load_plan(self.paths.plan(notes[0]["plan"]))
        summary = summarize(batch, notes)
        frontiers = json.loads(self.store.meta("gates", self.duck) or "{}")
        seeds, delivered = self._seeds(plan, frontiers)
        nets = self._nets(plan, messages)
        changes = {view.id: tagged(view, net, self.duck) for view, net in nets if self._wanted(view)}
        for view, _ in nets:
            if view.sinks:
                sinks.write(view, changes[view.id], batch)
        summary["content"] = self._write_feedback(batch, messages, summary, seeds)
        gates = {"clock": summary["clock"], **{f"view {o.view}": summary["gates"][o.op] for o in plan.outputs}}
        self._commit(batch, messages, nets, changes, {
            "batch": str(batch), "gates": json.dumps(gates), "seeds": json.dumps(delivered),
            "loops": json.dumps(summary["loops"]), "totals": self._totals(summary), "rows": self._row_counts(nets),
        })
        self._publish(changes, summary)

    def _commit(self, batch: int, messages: list[Message], nets: list[tuple[StoredView, pa.Table]],
                changes: dict[str, pa.Table], meta: dict[str, str]) -> None:
        """All views, the dead letters and the batch id in one transaction."""
        self.duck.execute("BEGIN TRANSACTION")
        try:
            for view, net in nets:
                if view.keeps_contents:
                    apply_contents(view, net, self.duck)
                if view.output == "streamed":
                    append_changes(view, changes[view.id], batch, self.duck)
            self._store_dead_letters(batch, messages)
            for name, value in meta.items():
                self.store.set_meta(name, value, self.duck)
            self.duck.execute("COMMIT")
        except BaseException:
            self.duck.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Let go of the view store; Spark's callback server may keep this object until the process ends."""
        with self.lock:
            self.duck.close()
            del self.duck

    def subscribe(self, view: StoredView) -> tuple[pa.Table, queue.Queue[pa.Table]]:
        """The current contents as insertions, and a queue of every later change batch."""
        with self.lock:
            contents = self.store.contents(view, self.duck)
            gates = json.loads(self.store.meta("gates", self.duck) or "{}")
            moment = _last_closed(gates, view)
            net = contents.append_column("__time", pa.array([moment] * contents.num_rows, pa.int64()))
            inbox: queue.Queue[pa.Table] = queue.Queue()
            self.subscribers.setdefault(view.id, []).append(inbox)
            return tagged(view, net, self.duck), inbox

    def unsubscribe(self, view: StoredView, inbox: queue.Queue[pa.Table]) -> None:
        """Stop feeding a queue."""
        with self.lock:
            boxes = self.subscribers.get(view.id, [])
            if inbox in boxes:
                boxes.remove(inbox)

    def _wanted(self, view: StoredView) -> bool:
        """Whether somebody wants the view's changes tagged: its own log, a sink, a subscriber."""
        return view.output != "complete" or bool(view.sinks) or bool(self.subscribers.get(view.id))

    def _nets(self, plan: Physical, messages: list[Message]) -> list[tuple[StoredView, pa.Table]]:
        """Net changes of each view over all shards: what left one shard and entered another cancels."""
        tables: dict[str, list[pa.Table]] = {}
        for _, gate, payload in outputs_of(messages, VIEW):
            tables.setdefault(gate, []).append(from_ipc(payload))
        schemas = {op.id: op.schema for op in plan.stage}
        nets = {gate: _net(schemas[gate], found) for gate, found in tables.items() if gate in schemas}
        return [(self.views[o.view], nets[o.op]) for o in plan.outputs
                if o.view in self.views and o.op in nets and nets[o.op].num_rows]

    def _seeds(self, plan: Physical, frontiers: dict[str, int]) -> tuple[list[tuple[str, bytes]], list[str]]:
        """Contents that views created in this plan begin with: as they are before this batch's changes."""
        delivered = json.loads(self.store.meta("seeds", self.duck) or "[]")
        seeds = []
        for op, view_id in plan.seeds:
            if op in delivered:
                continue
            view = self.views.get(view_id)
            delivered.append(op)
            payload = b""
            if view is not None:
                contents = self.store.contents(view, self.duck)
                moment = _last_closed(frontiers, view)
                times = pa.array([moment] * contents.num_rows, pa.int64())
                payload = ipc_bytes(contents.append_column("__time", times))
            seeds.append((op, payload))
        return seeds, delivered

    def _write_feedback(self, batch: int, messages: list[Message], summary: dict[str, Any],
                        seeds: list[tuple[str, bytes]]) -> bool:
        rows = [(shard, port, payload) for shard, port, payload in outputs_of(messages, LOOP)]
        rows += [(0, op, payload) for op, payload in seeds if payload]
        before = json.loads(self.store.meta("loops", self.duck) or "{}")
        content = bool(rows) or bool(seeds) or summary["loops"] != before
        if rows:
            _write_rows(self.paths.feedback_rows(batch), rows)
        write_json(self.paths.progress, summary["sources"])
        write_json(self.paths.feedback_notes(batch), {
            "content": content, "loops": summary["loops"], "seeds": {op: 1 for op, _ in seeds}, "rows": bool(rows),
        })
        for old in (self.paths.feedback_notes(batch - KEPT_FEEDBACK), self.paths.feedback_rows(batch - KEPT_FEEDBACK)):
            if os.path.exists(old):
                os.remove(old)
        return content

    def _store_dead_letters(self, batch: int, messages: list[Message]) -> None:
        tables = [from_ipc(p) for _, _, p in outputs_of(messages, DEAD)]
        if not tables:
            return
        table = pa.concat_tables(tables)
        raws = [r.decode("utf-8", "replace") for r in table.column("raw").to_pylist()]
        table = table.set_column(2, "raw", pa.array(raws, pa.string()))
        names = {f"view:{v.id}": v.name for v in self.views.values()}
        owners = [names.get(s, s) for s in table.column("source").to_pylist()]
        table = table.set_column(0, "source", pa.array(owners, pa.string()))
        self.duck.register("dead", table)
        try:
            self.duck.execute(
                "INSERT INTO dead_letters SELECT regexp_replace(source, '[@#].*$', ''), reason, raw, position, ?,"
                " CAST(now() AS TIMESTAMP) FROM dead", [batch],
            )
        finally:
            self.duck.unregister("dead")

    def _totals(self, summary: dict[str, Any]) -> str:
        totals = json.loads(self.store.meta("totals", self.duck) or "{}")
        for name, tally in summary["tallies"].items():
            total = totals.setdefault(name, {"rows": 0, "late": 0, "bad": 0})
            for key in total:
                total[key] += tally[key]
        return json.dumps(totals)

    def _row_counts(self, nets: list[tuple[StoredView, pa.Table]]) -> str:
        """How many rows each view has now, kept up to date so that nobody has to count."""
        counts = json.loads(self.store.meta("rows", self.duck) or "{}")
        for view, net in nets:
            counts[view.id] = counts.get(view.id, 0) + pc.sum(net.column("__diff")).as_py()
        return json.dumps({k: v for k, v in counts.items() if k in self.views})

    def _publish(self, changes: dict[str, pa.Table], summary: dict[str, Any]) -> None:
        for view_id, table in changes.items():
            for inbox in self.subscribers.get(view_id, []):
                inbox.put(table)
        for listener in list(self.listeners):
            listener(summary)


def _last_closed(gates: dict[str, int], view: StoredView) -> int:
    """The time as of which a view's contents stand; contents that never change stand since always.

    A synchronized view is closed up to its next point, but the clock is not there yet.
    """
    frontier = gates.get(f"view {view.id}", BEGINNING)
    if not BEGINNING < frontier < FOREVER:
        return STATIC_TIME
    clock = gates.get("clock", BEGINNING)
    return (min(frontier, clock) if clock > BEGINNING else frontier) - 1


def summarize(batch: int, notes: list[dict[str, Any]]) -> dict[str, Any]:
    """One summary of the ticks of all shards: frontiers are the least, counts of readers are equal in all."""
    first = notes[0]

    def least(what: str) -> dict[str, int]:
        return {key: min(n[what].get(key, BEGINNING) for n in notes) for key in first[what]}

    return {
        "batch": batch, "plan": first["plan"], "final": first["final"], "sources": first["sources"],
        "tallies": first["tallies"], "loops": least("loops"), "gates": least("gates"), "clock": first["clock"],
        "state_rows": sum(n["state_rows"] for n in notes), "state_bytes": sum(n["state_bytes"] for n in notes),
        "stage_seconds": max(n["seconds"] for n in notes), "at": time.time(),
    }


def _net(schema: Iterable[Column], tables: list[pa.Table]) -> pa.Table:
    columns = tuple(schema)
    group = ", ".join([name_list([c.name for c in columns]), "__time"])
    rows = pa.concat_tables([tables[0], *(t.cast(tables[0].schema) for t in tables[1:])])
    return worker_duck.run(
        f"SELECT {group}, CAST(sum(__diff) AS BIGINT) AS __diff FROM"
        f" {worker_duck.source('rows', columns, '__time', '__diff')} GROUP BY {group} HAVING sum(__diff) <> 0",
        rows=rows,
    )


def _write_rows(path: str, rows: list[tuple[int, str, bytes]]) -> None:
    shards, ports, payloads = zip(*rows, strict=True)
    table = pa.table({
        "shard": pa.array(shards, pa.int32()), "port": pa.array(ports, pa.string()),
        "payload": pa.array(payloads, pa.large_binary()),
    })
    with pa.OSFile(path + ".part", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    os.replace(path + ".part", path)

