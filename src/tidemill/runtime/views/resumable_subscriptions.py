"""Subscriptions to one view that a client can resume: every delivery says up to which time it is complete.

The law: all changes of the view up to and including the time of the last delivery were delivered, each one once, and
none after it. A client that has kept everything up to time t, and subscribes again after t, gets the changes after t:
nothing is lost and nothing comes twice. Deliveries without changes say that time went on.

Times are told in multiples of a unit (of clock units, where the view has those): a change between two multiples waits
for the later one.

A subscriber may ask for whole batches instead: each delivery has everything up to and including a batch, whose number
it says, and nothing of a later one. It can go on after this batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.physical import BEGINNING, FOREVER
from tidemill.runtime.integrity import duckdb_file
from tidemill.runtime.views.batch_times import BatchTimes
from tidemill.runtime.views.changes import Changes, tag_changes
from tidemill.runtime.views.feedback import contents_at, last_closed
from tidemill.runtime.views.joint_subscriptions import closed_standings
from tidemill.runtime.views.moments import Standing, newest_floor, read_frontiers
from tidemill.runtime.views.past import Past
from tidemill.runtime.views.store import ViewStore
from tidemill.runtime.views.stored_view import StoredView
from tidemill.runtime.views.subscriptions import MomentChanges, SubscriptionQueue

Metas = Mapping[str, str]
_EMPTY = Standing(BEGINNING, BEGINNING, 0)


@dataclass
class ResumableQueue:
    """Changes of a view for one subscriber. `told`: every change before this time was delivered. In whole batches where
    `by_batch`.
    """

    view: str
    unit: int
    told: int
    queue: SubscriptionQueue[MomentChanges]
    by_batch: bool = False
    held: list[pa.Table] = field(default_factory=list)

    def advance(self, standing: Standing, metas: Metas) -> MomentChanges | None:
        """What is to be delivered after a batch; None where nothing is new."""
        end = whole_end(standing, metas, self.unit)
        if not self.by_batch:
            return self.take(end)
        found = self.take(standing.closed)
        return found and whole_batch(found, end, metas)

    def take(self, end: int) -> MomentChanges | None:
        """What is to be delivered when all times before `end` are closed; None where that is not new."""
        if end <= self.told:
            return None
        self.told, found = end, {}
        if self.held:
            rows = pa.concat_tables(self.held)
            early = pc.less(rows.column("__time"), end)
            ready, rest = rows.filter(early), rows.filter(pc.invert(early))
            self.held = [rest] if rest.num_rows else []
            found = {self.view: ready} if ready.num_rows else {}
        return MomentChanges(end - 1, found)


class ResumableSubscriptions:
    """The resumable subscribers of one store; all calls hold the lock of the outlet."""

    def __init__(self, store: ViewStore, duck: duckdb.DuckDBPyConnection) -> None:
        self.store, self.duck = store, duck
        self.times = BatchTimes(duck)
        self.queues: list[ResumableQueue] = []

    def has(self, view: str) -> bool:
        """Whether a subscriber follows the view."""
        return any(queue.view == view for queue in self.queues)

    def remove(self, queue: ResumableQueue) -> None:
        """Stop feeding a queue."""
        self.queues = [other for other in self.queues if other is not queue]

    def add(
        self, view: StoredView, metas: Metas, unit: int, start: int | None, most: int, by_batch: bool = False
    ) -> tuple[MomentChanges, ResumableQueue]:
        """The contents of the view as insertions, or its changes from a time on, which must be kept; and a queue of
        every later change.
        """
        standing = closed_standings(metas, [view.id]).get(view.id, _EMPTY)
        end, past = whole_end(standing, metas, unit), Past(self.store, self.duck)
        if start is not None:
            base = start
        elif by_batch:
            base = standing.closed
        else:
            # Where the last part of a unit is not kept, the contents are those of now, and their time comes later.
            unkept = standing.is_static or end < min(standing.since, standing.closed)
            base = standing.closed if unkept else end
        queue = ResumableQueue(view.id, unit, base, SubscriptionQueue(most), by_batch)
        with duckdb_file(self.store.path):
            if base < standing.closed:
                queue.held = [self._tag(view, past.changes(view, base))]
            if start is not None:
                first = queue.take(standing.closed if by_batch else end) or MomentChanges(None, {})
            else:
                contents = past.contents(view, base, standing.closed)
                since = min(last_closed(read_frontiers(metas), view), base - 1)
                rows = self._tag(view, contents_at(contents, since))
                time = base - 1 if BEGINNING < base <= end else None
                first = MomentChanges(time, {view.id: rows} if rows.num_rows else {})
        if by_batch and standing is not _EMPTY:
            first = whole_batch(first, end, metas)
        self.queues.append(queue)
        return first, queue

    def publish(self, changes: Mapping[str, pa.Table], metas: Metas) -> None:
        """Pass the changes of a batch on, up to the time that each view has reached."""
        for queue in list(self.queues):
            if queue.view in changes:
                queue.held.append(changes[queue.view])
            standing = closed_standings(metas, [queue.view]).get(queue.view, _EMPTY)
            found = queue.advance(standing, metas)
            waiting = sum(table.nbytes for table in queue.held)
            if waiting > queue.queue.most:
                queue.queue.end(sum(table.num_rows for table in queue.held))
            elif found is not None:
                queue.queue.put(found)
            if queue.queue.lost:
                self.remove(queue)

    def _tag(self, view: StoredView, rows: pa.Table) -> pa.Table:
        return tag_changes(Changes((view,), rows, netted=False), self.duck, ordered=True)


def whole_batch(found: MomentChanges, end: int, metas: Metas) -> MomentChanges:
    """The delivery of a whole batch, and up to which time it is complete."""
    time = end - 1 if BEGINNING < end < FOREVER else None
    return MomentChanges(time, found.changes, int(metas["batch"]))


def whole_end(standing: Standing, metas: Metas, unit: int) -> int:
    """The time just after the last multiple of the unit that is closed.

    >>> whole_end(Standing(8_000_000, 0, 0), {}, 1_000_000), whole_end(Standing(8_000_001, 0, 0), {}, 1_000_000)
    (7000001, 8000001)
    >>> whole_end(Standing(8_000_000, 0, 0), {"floor": "7500000"}, 1)
    7500000
    """
    closed = min(standing.closed, newest_floor(metas))
    return BEGINNING if closed <= BEGINNING else FOREVER if closed >= FOREVER else (closed - 1) // unit * unit + 1
