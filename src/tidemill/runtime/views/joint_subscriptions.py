"""Subscriptions to several views: their contents as of one moment, then their changes as the moment advances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import duckdb
import pyarrow as pa

from tidemill.plan.physical import BEGINNING, FOREVER
from tidemill.runtime.views.changes import Changes, tag_changes
from tidemill.runtime.views.feedback import contents_at, last_closed
from tidemill.runtime.views.moments import Standing, common_moment, newest_floor, read_standings
from tidemill.runtime.views.past import Past
from tidemill.runtime.views.store import ViewStore
from tidemill.runtime.views.stored_view import StoredView
from tidemill.runtime.views.subscriptions import JointQueue, MomentChanges

Metas = Mapping[str, str]


class JointSubscriptions:
    """The subscribers to several views of one store; the outlet calls it under its lock."""

    def __init__(self, store: ViewStore, duck: duckdb.DuckDBPyConnection) -> None:
        self.store, self.duck = store, duck
        self.queues: list[JointQueue] = []

    def has(self, view: str) -> bool:
        """Whether a subscriber follows the view."""
        return any(view in queue.held for queue in self.queues)

    def add(
        self, views: list[StoredView], metas: Metas, frontiers: dict[str, int], most: int
    ) -> tuple[MomentChanges, JointQueue]:
        """The contents of the views as of their common moment, as insertions; and a queue of every later change."""
        standings = closed_standings(metas, (v.id for v in views))
        moments = common_moment(standings)
        past, snapshot, held = Past(self.store, self.duck), {}, {}
        for view in views:
            moment, closed = (
                moments.get(view.id, FOREVER),
                standings[view.id].closed if view.id in standings else FOREVER,
            )
            held[view.id] = self._tag(view, past.changes(view, moment)) if moment < closed else None
            since = min(last_closed(frontiers, view), moment - 1)
            contents = self._tag(view, contents_at(past.contents(view, min(moment, closed), closed), since))
            if contents.num_rows:
                snapshot[view.id] = contents
        queue = JointQueue(held, most)
        self.queues.append(queue)
        return MomentChanges(_inclusive(moments, metas), snapshot), queue

    def publish(self, changes: Mapping[str, pa.Table], metas: Metas, standing: Iterable[str]) -> None:
        """Pass the changes of a batch on, up to the moment that the views of each subscriber have reached."""
        known = set(standing)
        for queue in list(self.queues):
            queue.add(changes)
            moments = common_moment(closed_standings(metas, (v for v in queue.held if v in known)))
            if not queue.release(moments, _inclusive(moments, metas)):
                self.queues.remove(queue)

    def _tag(self, view: StoredView, rows: pa.Table) -> pa.Table:
        return tag_changes(Changes((view,), rows, netted=False), self.duck, ordered=True)


def closed_standings(metas: Metas, views: Iterable[str]) -> dict[str, Standing]:
    """How far views are closed for good: subscribers see nothing that may be taken back."""
    return read_standings({**metas, "peek": "0"}, views)


def _inclusive(moments: Mapping[str, int], metas: Metas) -> int | None:
    """The last time before the moment of the views."""
    moment = max((m for m in moments.values() if m < FOREVER), default=BEGINNING)
    return min(moment, newest_floor(metas)) - 1 if moment > BEGINNING else None
