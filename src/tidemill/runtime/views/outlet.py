"""The end of a micro-batch: views, sinks, subscribers, and feedback into the next batch.

Order matters for a crash at any point. First the files that a replay would write again just the same (sink files,
feedback, progress), then one DuckDB transaction with all views and the batch id; only then are the files removed in
which the stages sent the rows. A batch at or below the committed id is skipped whole. Answer files stay: the
transaction makes them part of the views.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from tidemill.plan.physical import BEGINNING, Physical
from tidemill.runtime import fast_paths
from tidemill.runtime.answer_files.index import BatchFiles
from tidemill.runtime.answer_files.write import receive
from tidemill.runtime.arrow_ipc import from_ipc
from tidemill.runtime.evaluation.failures import is_of_operator, reason_of, stopped_views
from tidemill.runtime.garbage_collection import seldom_collected
from tidemill.runtime.integrity import duckdb_file
from tidemill.runtime.messages import inbox, outbox
from tidemill.runtime.messages.dead_letters import present_letters
from tidemill.runtime.messages.file_refs import remove_all
from tidemill.runtime.messages.message import DEAD, TICK, Message, payloads, select_messages, tentative_payloads
from tidemill.runtime.messages.ticks import ShardTick, decode_shard_tick
from tidemill.runtime.paths import Paths, load_plan
from tidemill.runtime.thresholds import sizes
from tidemill.runtime.views import provisional_rows
from tidemill.runtime.views.batch_summary import BatchReport, summarize
from tidemill.runtime.views.beginnings import BEGAN, note_beginnings
from tidemill.runtime.views.changes import Changes, collect_logs, tag_changes
from tidemill.runtime.views.dead_letter_table import Bounds, LetterCount, count_letters, keep_letters
from tidemill.runtime.views.feedback import Before, Feedback, contents_at, last_closed, make_seeds
from tidemill.runtime.views.history import History
from tidemill.runtime.views.joint_subscriptions import JointSubscriptions
from tidemill.runtime.views.moments import FRONTIERS, advance_frontiers, read_frontiers
from tidemill.runtime.views.past import Past
from tidemill.runtime.views.pools import Pools
from tidemill.runtime.views.resumable_subscriptions import ResumableSubscriptions
from tidemill.runtime.views.shipping import Shipping
from tidemill.runtime.views.sink_beginnings import begun_sinks, snapshots
from tidemill.runtime.views.sinks import Sinks
from tidemill.runtime.views.source_totals import ReadNote, Totals, add_tallies, note_read
from tidemill.runtime.views.stand_ins import release
from tidemill.runtime.views.stopped_views import StoppedNote, ViewsFailed, find_failing, gather_changes, run_for_views
from tidemill.runtime.views.stopped_views import note as stopped_note
from tidemill.runtime.views.store import ViewStore
from tidemill.runtime.views.stored_view import StoredView
from tidemill.runtime.views.subscriptions import QUEUE_BYTES, JointQueue, MomentChanges, SubscriptionQueue

Listener = Callable[[BatchReport], None]


class Outlet:
    """Applies micro-batches to the stored views. `views` maps view id to what is stored."""

    def __init__(self, root: str, store: ViewStore) -> None:
        self.paths = Paths(root)
        self.store = store
        self.lock = store.lock
        self.subscribers: dict[str, list[SubscriptionQueue[pa.Table]]] = {}
        self.listeners: list[Listener] = []
        self._began = 0.0  # when the batch arrived
        self.catalog = 0  # how many times it was saved
        self.bounds = Bounds()
        self.views: dict[str, StoredView] = {}
        self.duck = store.cursor()
        self.pools = Pools(self.duck)
        self.history = History(self.duck)
        self.together = JointSubscriptions(store, self.duck)
        self.resumable = ResumableSubscriptions(store, self.duck)
        self.shipping = Shipping(self.paths)
        self.known = store.metas()  # as last committed; only the outlet writes them
        self.sinks = Sinks(self.paths, self.known.get("undelivered"))
        self.feedback = Feedback(self.paths, self._read_meta("progress", {}))
        self.stopped: dict[str, StoppedNote] = self._read_meta("stopped", {})  # view → why and when it was stopped
        self.sweep()

    @property
    def progress(self) -> dict[str, Any]:
        """The progress that was last written for the planner."""
        return self.feedback.progress

    @property
    def committed(self) -> int:
        """The last batch whose rows are in the views; −1 before the first."""
        return int(self.known.get("batch", -1))

    @property
    def source_totals(self) -> Totals:
        """What has been read of each source up to the last committed batch."""
        totals: Totals = self._read_meta("totals", {})
        return totals

    @property
    def read_sources(self) -> dict[str, ReadNote]:
        """How far each source was closed when it was last read, and whether it can be read again."""
        return dict(self._read_meta("read", {}))

    @property
    def plan(self) -> int:
        """The plan of the last batch whose rows are in the views; 0 before the first."""
        return int(self.known.get("plan", 0))

    @property
    def final(self) -> int:
        """The last finite run that has ended; 0 before the first."""
        return int(self.known.get("final", 0))

    def note_catalog(self) -> None:
        """Store the version of the catalog, so that an older one is noticed even if no batch follows."""
        if str(self.catalog) != self.known.get("catalog"):
            self.known["catalog"] = str(self.catalog)
            self.store.remember({"catalog": str(self.catalog)})

    def sweep(self) -> None:
        """Remove what failed attempts have left in the inbox and the outbox; no batch may be running."""
        with self.lock:
            remove_all(self.paths.inbox)
            remove_all(self.paths.outbox)
            self.store.tidy(self.store.answer_files.all())

    def apply(self, batch: int, messages: list[Message]) -> None:
        """Make one micro-batch visible, all of it or nothing."""
        with self.lock, duckdb_file(self.store.path):
            self._began = time.perf_counter()
            ticks = [decode_shard_tick(p) for _, _, p in select_messages(messages, TICK)]
            if batch > self.committed and ticks:
                self._apply(batch, messages, ticks)
            outbox.discard(self.paths.outbox, [*payloads(messages), *tentative_payloads(messages)])
            self.store.tidy(file.file for file in receive(payloads(messages)))
            inbox.discard(self.paths.inbox, {name for tick in ticks for name in tick.inbox})

    def _apply(self, batch: int, messages: list[Message], ticks: list[ShardTick]) -> None:
        plan = load_plan(self.paths.plan(ticks[0].plan))
        with fast_paths.without(plan.fast_paths_off), seldom_collected():
            summary = summarize(batch, ticks)
            failing = stopped_views(plan, summary["failed"])
            while True:
                try:
                    return self._store(batch, messages, plan, summary, failing)
                except ViewsFailed as found:  # once more without them
                    failing |= found.reasons

    def _store(
        self, batch: int, messages: list[Message], plan: Physical, summary: BatchReport, failing: dict[str, str]
    ) -> None:
        """Store the batch, without the views that it stops and those that are stopped already."""
        stopped = {
            v: stopped_note(reason, batch) for v, reason in failing.items() if v in self.views and v not in self.stopped
        }
        all_stopped = {v: note for v, note in (self.stopped | stopped).items() if v in self.views}
        live = {v: view for v, view in self.views.items() if v not in all_stopped}
        frontiers = read_frontiers(self.known)
        known, past = set(self._read_meta("seeds", [])), Past(self.store, self.duck)
        seeds, delivered = make_seeds(plan, known, self.views, frontiers, past)
        standing = [o for o in plan.outputs if o.view in live or o.view in self.shipping.edges]
        kept = BatchFiles.partition(receive(payloads(messages)), standing, self._takes_files)
        unstored = outbox.pack_blocks(kept.read_others(self.paths.answer_files))
        blocks = [*outbox.receive(self.paths.outbox, payloads(messages)), *unstored]
        found = gather_changes(plan.outputs, live, blocks)
        logs = [run_for_views(changes, self._log) for changes in found]
        tentative = list(outbox.receive(self.paths.outbox, tentative_payloads(messages)))
        shown = gather_changes(plan.outputs, live, tentative)
        published = collect_logs(found, logs, self._has_readers)
        self._deliver(batch, published, live)
        summary["content"] = self.feedback.write(batch, messages, summary, seeds, self._before())
        closed = advance_frontiers(plan, summary["outputs"], frontiers)
        stopped_edges = self.shipping.stop(failing)
        closed |= {n: frontiers[n] for v in (*all_stopped, *stopped_edges) if (n := f"view {v}") in frontiers}
        self.shipping.write(batch, plan, blocks, frontiers, closed, self.duck)
        meta = self._batch_meta(batch, summary, closed) | {
            "seeds": json.dumps(delivered),
            BEGAN: note_beginnings(plan, known, self.views, self.known),
            "rows": self._row_counts(found, kept),
            "stopped": json.dumps(all_stopped),
            "tentative": self._tentative_counts(summary["peek"], shown),
            "ends": self._shown_ends(plan, summary),
            **begun_sinks(self.views.values(), live, self.known),
        }
        self._commit(batch, messages, list(zip(found, logs, strict=True)), kept, shown, meta)
        self.stopped = all_stopped
        summary["stopped"] = stopped
        self._publish(published, summary)

    def _deliver(self, batch: int, published: dict[str, pa.Table], live: dict[str, StoredView]) -> None:
        """Give sinks what they missed, what they begin with, and the changes of the batch."""
        self.sinks.deliver(self.views.values())
        first = snapshots(live.values(), self.known, self._as_insertions)
        for view_id in [*published, *(v for v in first if v not in published)]:
            self._write_sinks(self.views[view_id], published.get(view_id), batch, *first.get(view_id, (set(), None)))

    def _batch_meta(self, batch: int, summary: BatchReport, closed: dict[str, int]) -> dict[str, str]:
        """What is stored of a batch beside its rows. `closed` is how far each view is closed."""
        return {
            "batch": str(batch),
            "offset": json.dumps(summary["offset"]),
            "catalog": str(self.catalog),
            "plan": str(summary["plan"]),
            "final": str(max(summary["final"], self.final)),
            "state_files": str(summary["state_files"]),
            "progress": json.dumps(self.progress),
            FRONTIERS: json.dumps({"clock": summary["clock"], **closed}),
            "floor": str(max((entry["floor"] for entry in summary["sources"].values()), default=BEGINNING)),
            "loops": json.dumps(summary["loops"]),
            "totals": json.dumps(add_tallies(self._read_meta("totals", {}), summary["tallies"])),
            "read": json.dumps(self.read_sources | note_read(summary["sources"])),
            "peek": str(summary["peek"]),
            "peeks": json.dumps(summary["peeks"]),
        }

    def _before(self) -> Before:
        return Before(self._read_meta("loops", {}), self.known.get("peek", "0"), self._read_meta("peeks", {}))

    def _write_sinks(
        self, view: StoredView, log: pa.Table | None, batch: int, new: set[str], first: pa.Table | None
    ) -> None:
        if view.sinks:
            try:
                self.sinks.write(view, log, batch, first, new)
            except Exception as error:
                if not is_of_operator(error):
                    raise
                raise ViewsFailed({view.id: reason_of(error)}) from error

    def _commit(
        self,
        batch: int,
        messages: list[Message],
        found: list[tuple[Changes, pa.Table | None]],
        kept: BatchFiles,
        shown: list[Changes],
        meta: dict[str, str],
    ) -> None:
        """All views, the dead letters and the batch id in one transaction."""
        suspects: Changes | None = None
        self.duck.execute("BEGIN TRANSACTION")
        try:
            self._forget_shown(meta["peek"])
            writes = [
                *((c, partial(self.pools.store, c, log, batch)) for c, log in found),
                *((c, partial(provisional_rows.add, c, batch, self.duck)) for c in shown),
            ]
            for changes, write in writes:
                try:
                    write()
                except Exception as error:
                    if is_of_operator(error):
                        suspects = changes
                    raise
            self._adopt(kept)
            meta |= self.history.advance(batch, [c for c, _ in found], kept.growth(), self.known, meta, self.views)
            meta |= self._store_dead_letters(batch, messages) | self.shipping.meta() | self.sinks.waiting.meta()
            meta |= release(self.known | meta, self.views, json.loads(meta["stopped"]), self.duck)
            self.store.set_metas({n: v for n, v in meta.items() if self.known.get(n) != v}, self.duck)
            self.duck.execute("COMMIT")
        except BaseException as error:
            self.duck.execute("ROLLBACK")
            self.pools.forget()
            self.history.forget()
            if suspects is None:
                raise
            raise ViewsFailed(self._find_unstorable(suspects, batch, error)) from error
        self.known.update(meta)

    def _adopt(self, kept: BatchFiles) -> None:
        """Make the files of the batch part of the views."""
        if kept.files:
            self.store.answer_files.adopt(kept.files, kept.owners, self.duck)
            self.store.answer_files.merge(self.duck)

    def _forget_shown(self, peek: str) -> None:
        """Remove provisional rows, unless they are of the same end of the input."""
        if self.known.get("peek", "0") not in ("0", peek):
            provisional_rows.clear(self.views.values(), self.duck)

    def _tentative_counts(self, peek: int, shown: list[Changes]) -> str:
        """By how many rows more or fewer each view shows until the next rows come."""
        counts = self._read_meta("tentative", {}) if self.known.get("peek") == str(peek) else {}
        for changes in shown:
            for view_id, (_, more) in changes.growth().items():
                counts[view_id] = counts.get(view_id, 0) + more
        return json.dumps(counts)

    def _shown_ends(self, plan: Physical, summary: BatchReport) -> str:
        """View → the end of its input, where it shows everything up to it."""
        ends = self._read_meta("ends", {}) if self.known.get("peek") == str(summary["peek"]) else {}
        return json.dumps(ends | {o.view: summary["ends"][o.op] for o in plan.outputs if o.op in summary["ends"]})

    def _find_unstorable(self, changes: Changes, batch: int, error: BaseException) -> dict[str, str]:
        """Which of some views cannot be stored, tried one by one; all of them where each one can."""

        def try_alone(one: Changes) -> None:
            log = self._log(one)
            self.duck.execute("BEGIN TRANSACTION")
            try:
                self.pools.store(one, log, batch)
            finally:
                self.duck.execute("ROLLBACK")
                self.pools.forget()

        return find_failing(changes, try_alone) or {v.id: reason_of(error) for v in changes.views}

    def _log(self, changes: Changes) -> pa.Table | None:
        """The changes tagged, if the view has a log, a sink or a subscriber.

        Many changes of a view without updates are tagged on their way into its table.
        """
        view, published = changes.pattern, {v.id for v in changes.views if self._has_readers(v)}
        if view.output != "streamed":
            return tag_changes(changes.only(published), self.duck, ordered=True) if published else None
        plain = not changes.whose and (view.keys is None or view.append_only)
        if plain and not published and changes.rows.num_rows > sizes.sorted_rows:
            changes.net(self.duck)
            return None
        return tag_changes(changes, self.duck, ordered=bool(published))

    def close(self) -> None:
        """Let go of the view store; Spark's callback server may keep this object until the process ends."""
        with self.lock:
            self.duck.close()
            del self.duck, self.pools, self.history, self.together, self.resumable

    def subscribe(self, view: StoredView, most: int = QUEUE_BYTES) -> tuple[pa.Table, SubscriptionQueue[pa.Table]]:
        """The current contents as insertions, and a queue of every later change batch; `most` limits its bytes."""
        with self.lock, duckdb_file(self.store.path):
            queue: SubscriptionQueue[pa.Table] = SubscriptionQueue(most)
            self.subscribers.setdefault(view.id, []).append(queue)
            return self._as_insertions(view), queue

    def _as_insertions(self, view: StoredView) -> pa.Table:
        """What a view holds, as changes."""
        net = contents_at(self.store.contents(view, self.duck), last_closed(read_frontiers(self.known), view))
        return tag_changes(Changes((view,), net, netted=True), self.duck, ordered=True)

    def subscribe_together(self, views: list[StoredView], most: int = QUEUE_BYTES) -> tuple[MomentChanges, JointQueue]:
        """The contents of several views as of one moment, and a queue of their later changes in the order of time."""
        with self.lock, duckdb_file(self.store.path):
            return self.together.add(views, self.known, read_frontiers(self.known), most)

    def unsubscribe_together(self, queue: JointQueue) -> None:
        """Stop feeding a queue."""
        with self.lock:
            if queue in self.together.queues:
                self.together.queues.remove(queue)

    def unsubscribe(self, view: StoredView, queue: SubscriptionQueue[pa.Table]) -> None:
        """Stop feeding a queue."""
        with self.lock:
            self.subscribers[view.id] = [q for q in self.subscribers.get(view.id, []) if q is not queue]
            if not self.subscribers[view.id]:
                del self.subscribers[view.id]

    def _has_readers(self, view: StoredView) -> bool:
        """Whether the view has a sink or a subscriber."""
        subscribed = self.subscribers.get(view.id) or self.together.has(view.id) or self.resumable.has(view.id)
        return bool(view.sinks or subscribed)

    def _takes_files(self, view_id: str) -> bool:
        """Whether rows can stay in the files of the stages: of a view without sinks, subscribers and other sites."""
        view = self.views.get(view_id)
        return view is not None and view.takes_files and not self._has_readers(view)

    def _read_meta(self, name: str, default: Any) -> Any:
        return json.loads(self.known[name]) if name in self.known else default

    def _store_dead_letters(self, batch: int, messages: list[Message]) -> dict[str, str]:
        """What is noted of all dead letters, where there are new ones."""
        tables = [from_ipc(p) for _, _, p in select_messages(messages, DEAD)]
        if not tables:
            return {}
        names = {f"view:{v.id}": v.name for v in self.views.values()}
        before = LetterCount(**self._read_meta("letters", {})) if "letters" in self.known else count_letters(self.duck)
        letters = present_letters(pa.concat_tables(tables), names)
        return {"letters": json.dumps(vars(keep_letters(letters, batch, before, self.bounds, self.duck)))}

    def _row_counts(self, found: list[Changes], kept: BatchFiles) -> str:
        """How many rows each view has now, kept up to date with every batch."""
        counts = Counter(self._read_meta("rows", {}))
        for growth in (*({v: more for v, (_, more) in c.growth().items()} for c in found), kept.growth()):
            counts.update(growth)
        return json.dumps({k: v for k, v in counts.items() if k in self.views})

    def _publish(self, published: dict[str, pa.Table], summary: BatchReport) -> None:
        self.sinks.waiting.settle()  # what follows a commit
        for view_id, table in published.items():
            queues = self.subscribers.get(view_id, [])
            queues[:] = [queue for queue in queues if queue.put(table)]
        self.together.publish(published, self.known, self.views)
        self.resumable.publish(published, self.known)
        summary["outlet_seconds"] = time.perf_counter() - self._began
        for listener in list(self.listeners):
            listener(summary)
