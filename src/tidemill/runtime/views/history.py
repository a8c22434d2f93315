"""The changes that views without a log have shown lately, so that they can be read as of an earlier time.

A change is kept while a view that is not closed so far may be read together with its view, and as long as the view's
`retain` says. Where all views are closed equally far, which is the case for plans without loops over one source,
nothing is written. Where one view lags far behind (its source is silent), changes pile up: when views with the same
columns have more than HISTORY_ROWS, the older half goes, and they cannot be read as of before it any more.

`Standing.since` says from which time on the changes of a view are here. Rows in answer files have their times there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.physical import BEGINNING
from tidemill.runtime.duckdb.temporary_tables import change
from tidemill.runtime.duckdb.wide_integers import narrow_table
from tidemill.runtime.views.batch_times import BatchTimes
from tidemill.runtime.views.changes import Changes
from tidemill.runtime.views.moments import Standing, advance_standings, kept_from, read_frontiers
from tidemill.runtime.views.stored_view import StoredView
from tidemill.runtime.views.tables import history_table, typed_column

HISTORY_ROWS = 1 << 18  # changes of all views with the same columns

Standings = dict[str, Standing]


class History:
    """Writes through one cursor, inside the caller's transaction; after a rollback `forget` drops what is cached."""

    def __init__(self, duck: duckdb.DuckDBPyConnection) -> None:
        self.duck = duck
        self.times = BatchTimes(duck)
        self.rows: dict[str, int] = {}  # table → rows

    def forget(self) -> None:
        """Drop what is cached; it is read from the tables when next needed."""
        self.rows.clear()
        self.times.forget()

    def advance(
        self,
        batch: int,
        found: list[Changes],
        in_files: Iterable[str],
        before: Mapping[str, str],
        meta: Mapping[str, str],
        views: Mapping[str, StoredView],
    ) -> dict[str, str]:
        """Keep the changes by which views can be read as of an earlier time; from when on each view has them.

        `in_files` are the views that have more rows in files; `before` and `meta` are what is stored of the batch
        before and of this one.
        """
        standings = advance_standings(before, read_frontiers(meta), batch, views.values())
        lowest = kept_from(standings, views, json.loads(meta["stopped"]))
        kept = self.store(found, standings, lowest, views)
        changed = {view for views_of in (*(c.growth() for c in found), in_files) for view in views_of}
        self.times.note(batch, changed, kept, read_frontiers(before), views)
        return {"kept": json.dumps({view: (s.since, s.born) for view, s in kept.items()})}

    def store(
        self, found: Iterable[Changes], standings: Standings, lowest: Mapping[str, int], views: Mapping[str, StoredView]
    ) -> Standings:
        """Keep the changes of a batch from the `lowest` time of each view on, and forget those before it; the standings
        with what is kept now.
        """
        kept = dict(standings)
        for changes in found:
            if changes.pattern.output != "streamed" and not self._add(changes, lowest):
                kept |= {v.id: _raise_since(kept[v.id], kept[v.id].closed) for v in changes.views}
        kept = {v: _raise_since(s, _kept_since(s, views[v], lowest[v])) for v, s in kept.items()}
        pools: dict[str, list[StoredView]] = {}
        for v in kept:
            if views[v].output != "streamed":
                pools.setdefault(history_table(views[v].pool), []).append(views[v])
        for table, members in pools.items():
            if self._count(table):
                self._forget_before(table, members, lowest)
                cut = self._halve(table, members)
                kept |= {v.id: _raise_since(kept[v.id], cut) for v in _unbounded_views(members)}
        return kept

    def _add(self, changes: Changes, lowest: Mapping[str, int]) -> bool:
        """Keep changes, if there are some to keep; False where they are too many."""
        least = min(lowest[v.id] for v in changes.views)
        rows = _rows_from(changes.rows, least)
        if not rows.num_rows:
            return True
        if rows.num_rows > HISTORY_ROWS and changes.pattern.retain_us is None:
            return False
        view = changes.pattern
        whose = "__view" if changes.whose else f"'{view.id}'"
        table, typed = history_table(view.pool), ", ".join(typed_column(c) for c in view.columns)
        self.rows[table] = self._count(table) + rows.num_rows
        sql = f"INSERT INTO {table} SELECT {whose}, __time, {typed}, __diff FROM net"
        change(self.duck, sql, net=narrow_table(rows))
        return True

    def _forget_before(self, table: str, members: list[StoredView], lowest: Mapping[str, int]) -> None:
        """Remove what no read can ask for."""
        bounded = [v for v in members if v.retain_us is not None]
        for view in bounded:
            self._delete(table, f"__view = '{view.id}' AND __time < {lowest[view.id]}")
        least = min((lowest[v.id] for v in _unbounded_views(members)), default=BEGINNING)
        if least > BEGINNING:
            self._delete(table, f"__time < {least}{_others(bounded)}")

    def _halve(self, table: str, members: list[StoredView]) -> int:
        """Where there are too many rows, remove the older half; from which time on all are there."""
        bounded = _others([v for v in members if v.retain_us is not None])
        if self._count(table) <= HISTORY_ROWS:
            return BEGINNING
        [(rows, middle)] = self.duck.execute(
            f"SELECT count(*), quantile_disc(__time, 0.5) FROM {table} WHERE true{bounded}"
        ).fetchall()
        if rows <= HISTORY_ROWS:
            return BEGINNING
        self._delete(table, f"__time <= {middle}{bounded}")
        return int(middle) + 1

    def _delete(self, table: str, condition: str) -> None:
        [(gone,)] = self.duck.execute(f"DELETE FROM {table} WHERE {condition}").fetchall()
        self.rows[table] -= gone

    def _count(self, table: str) -> int:
        if table not in self.rows:
            [(self.rows[table],)] = self.duck.execute(f"SELECT count(*) FROM {table}").fetchall()
        return self.rows[table]


def _rows_from(rows: pa.Table, time: int) -> pa.Table:
    """The changes from a time on."""
    times = rows.column("__time")
    newest = pc.max(times).as_py()
    if newest is None or newest < time:
        return rows.slice(0, 0)
    return rows if pc.min(times).as_py() >= time else rows.filter(pc.greater_equal(times, time))


def _raise_since(standing: Standing, since: int) -> Standing:
    return standing if since <= standing.since else replace(standing, since=since)


def _kept_since(standing: Standing, view: StoredView, lowest: int) -> int:
    """From which time on the changes of a view stay. A log has them all, or as `retain` says."""
    if view.output != "streamed":
        return max(standing.since, lowest)
    return standing.since if view.retain_us is None else max(standing.since, standing.closed - view.retain_us)


def _unbounded_views(views: Iterable[StoredView]) -> list[StoredView]:
    """The views that do not say how long their changes are kept."""
    return [v for v in views if v.retain_us is None]


def _others(views: Iterable[StoredView]) -> str:
    """SQL: and the row is of none of these views."""
    names = ", ".join(f"'{v.id}'" for v in views)
    return f" AND __view NOT IN ({names})" if names else ""
