"""After which time the changes of later batches are, so that a subscriber can go on after a batch.

A batch closes a view up to its frontier: its changes are before that time, those of later batches are not. So the
changes of all batches after batch n are those from the frontier on that the first batch after n with changes has found.
This frontier is noted of every batch that changes a view whose changes are kept (STREAMED, or with `retain`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import duckdb

from tidemill.plan.physical import BEGINNING
from tidemill.runtime.views.moments import Standing
from tidemill.runtime.views.stored_view import StoredView

TABLE = "CREATE TABLE IF NOT EXISTS __batch_times (view VARCHAR, batch BIGINT, time BIGINT)"
_BETWEEN = 64  # batches between two removals of what is too old: any value works, these are a row a view and batch


@dataclass(frozen=True)
class Noted:
    """What is noted of a view: its oldest batch, and the frontier before the first change after a batch."""

    oldest: int | None
    time: int | None  # None: no later batch has changed it


class BatchTimes:
    """Writes through one cursor, inside the caller's transaction; after a rollback `forget` drops what is cached."""

    def __init__(self, duck: duckdb.DuckDBPyConnection) -> None:
        self.duck = duck
        self.known: set[str] | None = None  # views with a note

    def forget(self) -> None:
        """Read again which views have a note."""
        self.known = None

    def note(
        self,
        batch: int,
        changed: Collection[str],
        standings: Mapping[str, Standing],
        before: Mapping[str, int],
        views: Mapping[str, StoredView],
    ) -> None:
        """Note a batch of the views that it changes, and the first batch of each. `before` are the frontiers before it;
        `standings` say from when on changes are kept.
        """
        if self.known is None:
            self.known = {v for (v,) in self.duck.execute("SELECT DISTINCT view FROM __batch_times").fetchall()}
        kept = {v for v in standings if views[v].output == "streamed" or views[v].retain_us is not None}
        rows = [
            (v, batch, before.get(f"view {v}", BEGINNING)) for v in sorted(kept) if v in changed or v not in self.known
        ]
        if rows:
            places = ", ".join("(?, ?, ?)" for _ in rows)
            self.duck.execute(f"INSERT INTO __batch_times VALUES {places}", [value for row in rows for value in row])
            self.known |= {view for view, _, _ in rows}
        if batch % _BETWEEN == 0 and self.known:
            self._remove_old({v: standings[v].since for v in kept}, views)

    def _remove_old(self, since: Mapping[str, int], views: Mapping[str, StoredView]) -> None:
        """Remove the notes of views that are gone, and those before the last one after which not all is kept."""
        self.duck.execute(
            "DELETE FROM __batch_times WHERE NOT list_contains(CAST(? AS VARCHAR[]), view)", [list(views)]
        )
        for view, time in since.items():
            if time > BEGINNING:
                self.duck.execute(
                    "DELETE FROM __batch_times WHERE view = $view AND batch <"
                    " (SELECT max(batch) FROM __batch_times WHERE view = $view AND time < $time)",
                    {"view": view, "time": time},
                )

    def read(self, view: str, batch: int) -> Noted:
        """What is noted of a view about the time after a batch."""
        [(oldest, time)] = self.duck.execute(
            "SELECT min(batch), arg_min(time, batch) FILTER (WHERE batch > ?) FROM __batch_times WHERE view = ?",
            [batch, view],
        ).fetchall()
        return Noted(oldest, time)
