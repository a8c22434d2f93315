"""The end of a micro-batch: views, sinks, subscribers, and what goes round into the next batch.

Order matters for a crash at any point. First the files that a replay would write again just the same (sink files,
feedback, progress), then one DuckDB transaction with all views and the batch id; only then do the files go in which
the stages sent the rows. A batch at or below the committed id is skipped whole. Sealed files stay: the transaction
makes them part of the views.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.plan.physical import BEGINNING, FOREVER, Physical
from tidemill.plan.relations import STATIC_TIME
from tidemill.runtime import inbox, outbox, sealing, tentative
from tidemill.runtime.changes import Changes, log_of, tagged
from tidemill.runtime.damage import checksum, duckdb_file
from tidemill.runtime.failures import is_of_operator, reason_of, stopped_views
from tidemill.runtime.garbage import seldom_collected
from tidemill.runtime.hearing import HEARING_BYTES, Hearing
from tidemill.runtime.kept_letters import Bounds, LetterCount, count_letters, keep_letters
from tidemill.runtime.layout import Paths, load_plan, write_json
from tidemill.runtime.letters import shown_letters
from tidemill.runtime.pools import Pools
from tidemill.runtime.reader import DEAD, TICK, Message
from tidemill.runtime.sealed import Kept
from tidemill.runtime.sinks import Sinks
from tidemill.runtime.stage import LOOP, PEEK, PEEK_LOOP, outputs_of
from tidemill.runtime.state import from_ipc, ipc_bytes
from tidemill.runtime.stopped import ViewsFailed, attributed, gathered, guilty
from tidemill.runtime.stopped import note as stopped_note
from tidemill.runtime.thresholds import sizes
from tidemill.runtime.totals import add_tallies
from tidemill.runtime.views import StoredView, ViewStore

KEPT_FEEDBACK = 16

Listener = Callable[[dict[str, Any]], None]


class Outlet:
    """Applies micro-batches to the stored views. `views` maps view id to what is stored."""

    def __init__(self, root: str, store: ViewStore) -> None:
        self.paths = Paths(root)
        self.store = store
        self.lock = store.lock
        self.subscribers: dict[str, list[Hearing]] = {}
        self.listeners: list[Listener] = []
        self.catalog = 0  # how many times it was saved
        self.bounds = Bounds()
        self.views: dict[str, StoredView] = {}
        self.duck = store.cursor()
        self.pools = Pools(self.duck)
        self.sinks = Sinks(self.paths.undelivered)
        self.known = store.metas()  # as last committed; nobody else writes them
        self.progress: dict[str, Any] = self._known("progress", {})
        self.stopped: dict[str, dict[str, Any]] = self._known("stopped", {})  # views that go on no more, and why
        os.makedirs(self.paths.feedback, exist_ok=True)
        self.sweep()

    @property
    def committed(self) -> int:
        """The last batch whose rows are in the views; −1 before the first."""
        return int(self.known.get("batch", -1))

    @property
    def plan(self) -> int:
        """The plan of the last batch whose rows are in the views; 0 before the first."""
        return int(self.known.get("plan", 0))

    @property
    def final(self) -> int:
        """The last finite run that has ended; 0 before the first."""
        return int(self.known.get("final", 0))

    def note_catalog(self) -> None:
        """An older catalog will be missed: no batch may come that says so."""
        if str(self.catalog) != self.known.get("catalog"):
            self.known["catalog"] = str(self.catalog)
            self.store.remember({"catalog": str(self.catalog)})

    def sweep(self) -> None:
        """No batch is running: what failed attempts have put in the inbox and the outbox is for nobody."""
        with self.lock:
            outbox.sweep(self.paths.inbox)
            outbox.sweep(self.paths.outbox)
            self.store.tidy(self.store.sealed.all())

    def apply(self, batch: int, messages: list[Message]) -> None:
        """Make one micro-batch visible, all of it or nothing."""
        with self.lock, seldom_collected(), duckdb_file(self.store.path):
            notes = [json.loads(p) for _, _, p in outputs_of(messages, TICK)]
            if batch > self.committed and notes:
                self._apply(batch, messages, notes)
            outbox.discard(self.paths.outbox, [*_letters(messages), *_tentative(messages)])
            self.store.tidy(note["file"] for note in sealing.received(_letters(messages)))
            inbox.discard(self.paths.inbox, {name for note in notes for name in note["inbox"]})

    def _apply(self, batch: int, messages: list[Message], notes: list[dict[str, Any]]) -> None:
        plan = load_plan(self.paths.plan(notes[0]["plan"]))
        summary = summarize(batch, notes)
        failing = stopped_views(plan, summary["failed"])
        while True:
            try:
                return self._store(batch, messages, plan, summary, failing)
            except ViewsFailed as found:  # once more without them
                failing |= found.reasons

    def _store(self, batch: int, messages: list[Message], plan: Physical, summary: dict[str, Any],
               failing: dict[str, str]) -> None:
        """The batch without the views that it stops, and those that are stopped already."""
        stopped = {v: stopped_note(reason, batch) for v, reason in failing.items()
                   if v in self.views and v not in self.stopped}
        all_stopped = {v: note for v, note in (self.stopped | stopped).items() if v in self.views}
        live = {v: view for v, view in self.views.items() if v not in all_stopped}
        frontiers = self._known("gates", {})
        seeds, delivered = self._seeds(plan, frontiers)
        standing = [output for output in plan.outputs if output.view in live]
        kept = Kept.sorted(sealing.received(_letters(messages)), standing, self._takes_files)
        parcels = outbox.parcels(kept.opened(self.paths.sealed))
        found = gathered(plan.outputs, live, [*outbox.receive(self.paths.outbox, _letters(messages)), *parcels])
        logs = [attributed(changes, self._log) for changes in found]
        shown = gathered(plan.outputs, live, list(outbox.receive(self.paths.outbox, _tentative(messages))))
        heard = self._heard(found, logs)
        self.sinks.deliver(self.views.values())
        for view_id, log in heard.items():
            self._write_sinks(self.views[view_id], log, batch)
        summary["content"] = self._write_feedback(batch, messages, summary, seeds)
        closed = {f"view {o.view}": frontier for o, frontier in zip(plan.outputs, summary["gates"], strict=True)}
        closed |= {name: frontiers[name] for v in all_stopped if (name := f"view {v}") in frontiers}
        self._commit(batch, messages, list(zip(found, logs, strict=True)), kept, shown, {
            "batch": str(batch), "offset": json.dumps(summary["offset"]), "catalog": str(self.catalog),
            "plan": str(plan.version), "final": str(max(summary["final"], self.final)),
            "state_files": str(summary["state_files"]), "progress": json.dumps(self.progress),
            "gates": json.dumps({"clock": summary["clock"], **closed}),
            "seeds": json.dumps(delivered), "loops": json.dumps(summary["loops"]), 
            "totals": json.dumps(add_tallies(self._known("totals", {}), summary["tallies"])),
            "rows": self._row_counts(found, kept), "stopped": json.dumps(all_stopped),
            "peek": str(summary["peek"]), "peeks": json.dumps(summary["peeks"]),
            "tentative": self._tentative_counts(summary["peek"], shown),
        })
        self.stopped = all_stopped
        summary["stopped"] = stopped
        self._publish(heard, summary)

    def _write_sinks(self, view: StoredView, log: pa.Table, batch: int) -> None:
        if view.sinks:
            try:
                self.sinks.write(view, log, batch)
            except Exception as error:
                if not is_of_operator(error):
                    raise
                raise ViewsFailed({view.id: reason_of(error)}) from error

    def _commit(self, batch: int, messages: list[Message], found: list[tuple[Changes, pa.Table | None]],
                kept: Kept, shown: list[Changes], meta: dict[str, str]) -> None:
        """All views, the dead letters and the batch id in one transaction."""
        suspects: Changes | None = None
        self.duck.execute("BEGIN TRANSACTION")
        try:
            self._forget_shown(meta["peek"])
            writes = [*((c, partial(self.pools.store, c, log, batch)) for c, log in found),
                      *((c, partial(tentative.add, c, batch, self.duck)) for c in shown)]
            for changes, write in writes:
                try:
                    write()
                except Exception as error:
                    if is_of_operator(error):
                        suspects = changes
                    raise
            if kept.notes:
                self.store.sealed.adopt(kept.notes, kept.owners, self.duck)
                self.store.sealed.merge(self.duck)
            meta |= self._store_dead_letters(batch, messages)
            self.store.set_metas(meta, self.duck)
            self.duck.execute("COMMIT")
        except BaseException as error:
            self.duck.execute("ROLLBACK")
            self.pools.forget()
            if suspects is None:
                raise
            raise ViewsFailed(self._unstorable(suspects, batch, error)) from error
        self.known.update(meta)

    def _forget_shown(self, peek: str) -> None:
        """What was shown until the next rows come goes, unless it is of the same end of the input."""
        if self.known.get("peek", "0") not in ("0", peek):
            tentative.clear(self.views.values(), self.duck)

    def _tentative_counts(self, peek: int, shown: list[Changes]) -> str:
        """By how many rows more or fewer each view shows until the next rows come."""
        counts = self._known("tentative", {}) if self.known.get("peek") == str(peek) else {}
        for changes in shown:
            for view_id, (_, more) in changes.growth().items():
                counts[view_id] = counts.get(view_id, 0) + more
        return json.dumps(counts)

    def _unstorable(self, changes: Changes, batch: int, error: BaseException) -> dict[str, str]:
        """Which of some views cannot be stored, tried one by one; all of them where each one can."""

        def alone(one: Changes) -> None:
            log = self._log(one)
            self.duck.execute("BEGIN TRANSACTION")
            try:
                self.pools.store(one, log, batch)
            finally:
                self.duck.execute("ROLLBACK")
                self.pools.forget()

        return guilty(changes, alone) or {v.id: reason_of(error) for v in changes.views}

    def _log(self, changes: Changes) -> pa.Table | None:
        """The changes tagged, if somebody wants them so: their own log, a sink, a subscriber.

        Many changes of a view without updates are tagged on their way into its table.
        """
        view, heard = changes.pattern, {v.id for v in changes.views if self._listened(v)}
        if view.output != "streamed":
            return tagged(changes.only(heard), self.duck, ordered=True) if heard else None
        plain = not changes.whose and (view.keys is None or view.insert_only)
        if plain and not heard and changes.rows.num_rows > sizes.sorted_rows:
            changes.net(self.duck)
            return None
        return tagged(changes, self.duck, ordered=bool(heard))

    def _heard(self, found: list[Changes], logs: list[pa.Table | None]) -> dict[str, pa.Table]:
        """The tagged changes of each view that has a sink or a subscriber."""
        heard = {v.id: log_of(v, log) for changes, log in zip(found, logs, strict=True) if log is not None
                 for v in changes.views if self._listened(v)}
        return {view_id: log for view_id, log in heard.items() if log.num_rows}

    def close(self) -> None:
        """Let go of the view store; Spark's callback server may keep this object until the process ends."""
        with self.lock:
            self.duck.close()
            del self.duck, self.pools

    def subscribe(self, view: StoredView, most: int = HEARING_BYTES) -> tuple[pa.Table, Hearing]:
        """The current contents as insertions, and a queue of every later change batch, of at most so many bytes."""
        with self.lock, duckdb_file(self.store.path):
            contents = self.store.contents(view, self.duck)
            net = _at(contents, _last_closed(self._known("gates", {}), view))
            hearing = Hearing(most)
            self.subscribers.setdefault(view.id, []).append(hearing)
            return tagged(Changes((view,), net, netted=True), self.duck, ordered=True), hearing

    def unsubscribe(self, view: StoredView, hearing: Hearing) -> None:
        """Stop feeding a queue."""
        with self.lock:
            queues = self.subscribers.get(view.id, [])
            if hearing in queues:
                queues.remove(hearing)
            if not queues:
                self.subscribers.pop(view.id, None)

    def _listened(self, view: StoredView) -> bool:
        """Whether somebody wants to hear of the view's changes now."""
        return bool(view.sinks) or bool(self.subscribers.get(view.id))

    def _takes_files(self, view_id: str) -> bool:
        """Whether a view's rows can stay in the files that the stages wrote: nobody has to see them now."""
        view = self.views[view_id]
        return view.takes_files and not self._listened(view)

    def _known(self, name: str, default: Any) -> Any:
        return json.loads(self.known[name]) if name in self.known else default

    def _seeds(self, plan: Physical, frontiers: dict[str, int]) -> tuple[list[tuple[str, bytes]], list[str]]:
        """Contents that views created in this plan begin with: as they are before this batch's changes."""
        before = set(self._known("seeds", []))
        delivered = [op for op, _ in plan.seeds if op in before]  # an operator that is gone never comes again
        seeds = []
        for op, view_id in plan.seeds:
            if op in before:
                continue
            view = self.views.get(view_id)
            delivered.append(op)
            payload = b""
            if view is not None:
                contents = self.store.contents(view, self.duck)
                payload = ipc_bytes(_at(contents, _last_closed(frontiers, view)))
            seeds.append((op, payload))
        return seeds, delivered

    def _write_feedback(self, batch: int, messages: list[Message], summary: dict[str, Any],
                        seeds: list[tuple[str, bytes]]) -> bool:
        rows = [(shard, port, payload) for shard, port, payload in outputs_of(messages, LOOP)]
        rows += [(0, op, payload) for op, payload in seeds if payload]
        before = self._known("loops", {})
        real = bool(rows) or bool(seeds) or summary["loops"] != before
        looped = [(shard, PEEK_LOOP + port, payload) for shard, port, payload in outputs_of(messages, PEEK_LOOP)]
        rows += looped
        content = real or bool(looped) or self._ends_further(summary)
        written = _write_rows(self.paths.feedback_rows(batch), rows) if rows else None
        write_json(self.paths.feedback_notes(batch), {
            "database": self.paths.database, "batch": batch, "content": content, "loops": summary["loops"],
            "seeds": {op: 1 for op, _ in seeds}, "peeks": summary["peeks"], "rows": written,
        })
        last = batch if content else self.progress.get("feedback", -1)
        self.progress = {"database": self.paths.database, "batch": batch, "feedback": last,
                         "waits": summary["waits"],
                         "real": batch if real else self.progress.get("real", -1),
                         "sources": progress(summary)}
        write_json(self.paths.progress, self.progress)
        for old in (self.paths.feedback_notes(batch - KEPT_FEEDBACK), self.paths.feedback_rows(batch - KEPT_FEEDBACK)):
            if os.path.exists(old):
                os.remove(old)
        return content

    def _ends_further(self, summary: dict[str, Any]) -> bool:
        """Whether copies of the state that show the end have something to tell each other: how far loops are closed
        has changed, or this is another end, whose copies are new.
        """
        before = self.known.get("peek", "0"), self._known("peeks", {})
        return bool(summary["peek"]) and any(summary["peeks"].values()) and (
            (str(summary["peek"]), summary["peeks"]) != before)

    def _store_dead_letters(self, batch: int, messages: list[Message]) -> dict[str, str]:
        """What is noted of all dead letters, where there are new ones."""
        tables = [from_ipc(p) for _, _, p in outputs_of(messages, DEAD)]
        if not tables:
            return {}
        names = {f"view:{v.id}": v.name for v in self.views.values()}
        before = LetterCount(**self._known("letters", {})) if "letters" in self.known else count_letters(self.duck)
        letters = shown_letters(pa.concat_tables(tables), names)
        return {"letters": json.dumps(vars(keep_letters(letters, batch, before, self.bounds, self.duck)))}

    def _row_counts(self, found: list[Changes], kept: Kept) -> str:
        """How many rows each view has now, kept up to date so that nobody has to count."""
        counts = self._known("rows", {})
        for changes in found:
            for view_id, (_, more) in changes.growth().items():
                counts[view_id] = counts.get(view_id, 0) + more
        for view_id, more in kept.growth().items():
            counts[view_id] = counts.get(view_id, 0) + more
        return json.dumps({k: v for k, v in counts.items() if k in self.views})

    def _publish(self, heard: dict[str, pa.Table], summary: dict[str, Any]) -> None:
        for view_id, table in heard.items():
            hearings = self.subscribers.get(view_id, [])
            hearings[:] = [hearing for hearing in hearings if hearing.put(table)]
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


def _at(contents: pa.Table, moment: int) -> pa.Table:
    return contents.append_column("__time", pa.array(np.full(contents.num_rows, moment, np.int64)))


def summarize(batch: int, notes: list[dict[str, Any]]) -> dict[str, Any]:
    """One summary of the ticks of all shards: frontiers are the least, counts of readers are equal in all."""
    first = notes[0]
    return {
        "batch": batch, "offset": first.get("offset"), "plan": first["plan"], "final": first["final"],
        "sources": first["sources"],
        "tallies": first["tallies"], "clock": first["clock"],
        "loops": {port: min(n["loops"].get(port, BEGINNING) for n in notes) for port in first["loops"]},
        "gates": [min(frontiers) for frontiers in zip(*(n["gates"] for n in notes), strict=True)],
        "state_files": sum(n["state_files"] for n in notes),
        "state_rows": sum(n["state_rows"] for n in notes), "state_bytes": sum(n["state_bytes"] for n in notes),
        "stage_seconds": max(n["seconds"] for n in notes), "at": time.time(),
        "waits": {op: min(n["waits"].get(op, FOREVER) for n in notes)
                  for op in sorted({o for n in notes for o in n["waits"]})},
        "lfta": {source: note for n in notes for source, note in n.get("lfta", {}).items()},
        "failed": {op: reason for n in notes for op, reason in (n.get("failed") or {}).items()}, "stopped": {},
        "joins": {op: [n["joins"][op] for n in notes] for op in first.get("joins", {})},
        "peek": first["peek"], "peeks": {
            name: {port: min(n["peeks"].get(name, {}).get(port, BEGINNING) for n in notes) for port in ports}
            for name, ports in first["peeks"].items()},
    }


def progress(summary: dict[str, Any]) -> dict[str, Any]:
    """What the planner wants to know of each source: how far it is closed, what was read of it and what that sent."""
    nothing = {"rows": 0, "sent": 0}
    which = {"batch": summary["batch"], "plan": summary["plan"]}
    return {
        name: {**entry, **which, **{k: summary["tallies"].get(name, nothing)[k] for k in nothing}}
        for name, entry in summary["sources"].items()
    }


def _tentative(messages: list[Message]) -> list[tuple[str, bytes]]:
    """The letters of what holds until the next rows come."""
    return [(port, payload) for _, port, payload in outputs_of(messages, PEEK)]


def _letters(messages: list[Message]) -> list[tuple[str, bytes]]:
    return [(port, payload) for _, port, payload in messages]


def _write_rows(path: str, rows: list[tuple[int, str, bytes]]) -> dict[str, int]:
    """Size and checksum of the file, for the notes that name it."""
    shards, ports, payloads = zip(*rows, strict=True)
    table = pa.table({
        "shard": pa.array(shards, pa.int32()), "port": pa.array(ports, pa.string()),
        "payload": pa.array(payloads, pa.large_binary()),
    })
    with pa.OSFile(path + ".part", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    written = {"size": os.path.getsize(path + ".part"), "sum": checksum(path + ".part")}
    os.replace(path + ".part", path)
    return written

