"""The rows of a view as of a moment: what it holds, less what it has shown since."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from tidemill.plan.physical import FOREVER
from tidemill.plan.relations import quoted
from tidemill.runtime.duckdb.sql_text import hash_sql, name_list
from tidemill.runtime.duckdb.temporary_tables import select
from tidemill.runtime.views.store import ViewStore
from tidemill.runtime.views.stored_view import StoredView
from tidemill.runtime.views.tables import (
    copies_sql,
    folded_contents,
    history_table,
    of_view,
    pooled_rows,
    tentative_rows,
)


class Past:
    """Reads views of a store through one connection, as of moments that are known and kept (see `moments`).

    `closed` is how far a view is closed. From there on, up to the moment, rows count that the next rows may take back.
    """

    def __init__(self, store: ViewStore, duck: duckdb.DuckDBPyConnection) -> None:
        self.store, self.duck = store, duck

    def relation_sql(self, view: StoredView, moment: int, closed: int) -> str:
        """A SELECT of the rows, one for each copy; FOREVER is the view as it is."""
        if moment >= FOREVER:
            return self.store.relation_sql(view, self.duck)
        return copies_sql(name_list(view.names), f"({self._counted_sql(view, moment, closed)})")

    def contents(self, view: StoredView, moment: int, closed: int) -> pa.Table:
        """The rows with their multiplicity as `__diff`."""
        counted = self._counted_sql(view, moment, closed)
        return select(self.duck, f"SELECT {name_list(view.names)}, __n AS __diff FROM ({counted})")

    def changes(self, view: StoredView, moment: int) -> pa.Table:
        """The changes from the moment on that will stay: columns, `__time`, `__diff`."""
        names, parts = name_list(view.names), [self._changes_sql(view, moment)]
        if view.takes_files and view.output != "streamed":
            rows = (rows for _, rows in self.store.rows_in_files(view, self.duck))
            parts += [f"SELECT {names}, __time, __n FROM ({part}) WHERE __time >= {moment}" for part in rows]
        changes = f"({' UNION ALL '.join(parts)})"
        return select(self.duck, f"SELECT {names}, __time, CAST(__n AS BIGINT) AS __diff FROM {changes}")

    def _counted_sql(self, view: StoredView, moment: int, closed: int) -> str:
        """A SELECT of (row, multiplicity `__n`)."""
        names = name_list(view.names)
        if not view.keeps_contents:
            logged = self.store.logged_sql(view, self.duck, tentative=moment > closed)
            return f"SELECT {names}, CAST(1 AS BIGINT) AS __n FROM ({logged}) WHERE __time < {moment}"
        more = [tentative_rows(view, moment)] if moment > closed else []
        less = f"(SELECT {names}, -__n AS __n FROM ({self._changes_sql(view, moment)}))" if moment < closed else None
        if view.appends_contents:
            return self._appended_sql(view, moment, more, less)
        return f"SELECT {names}, __n FROM ({folded_contents(view, *more, *([less] if less else []))})"

    def _appended_sql(self, view: StoredView, moment: int, more: list[str], less: str | None) -> str:
        """Of an append-only view: its rows are in a table without hashes and in files."""
        names = name_list(view.names)
        own = self.store.own_table(view, self.duck)
        parts = [f"SELECT {names}, CAST(1 AS BIGINT) AS __n FROM {table}" for table in own]
        parts += [f"SELECT {names}, __n FROM {rows}" for rows in (pooled_rows(view), *more)]
        parts += [
            f"SELECT {names}, __n FROM ({rows}) WHERE __time < {moment}"
            for _, rows in self.store.rows_in_files(view, self.duck)
        ]
        there = " UNION ALL ".join(parts)
        if less is None:
            return there
        row_hash = hash_sql(view.names)
        return (
            f"WITH there AS ({there}), less AS (SELECT * FROM {less})"
            f" SELECT {names}, __n FROM there WHERE {row_hash} NOT IN (SELECT {row_hash} FROM less) UNION ALL"
            f" SELECT {names}, CAST(sum(__n) AS BIGINT) AS __n FROM (SELECT * FROM less UNION ALL"
            f" SELECT * FROM there WHERE {row_hash} IN (SELECT {row_hash} FROM less)) GROUP BY {names}"
            " HAVING sum(__n) <> 0"
        )

    def _changes_sql(self, view: StoredView, moment: int) -> str:
        """A SELECT of the changes in tables from the moment on: columns, `__time`, `__n` copies more."""
        names = name_list(view.names)
        if view.output != "streamed":
            table = history_table(view.pool)
            return f"SELECT {names}, __time, __n FROM {table} WHERE {of_view(view)} AND __time >= {moment}"
        logged = f"({self.store.logged_sql(view, self.duck, tentative=False)})"
        old = ", ".join(f"__old.{quoted(name)} AS {quoted(name)}" for name in view.names)
        return (
            f"SELECT {names}, __time, CASE WHEN __tag = '-' THEN -1 ELSE 1 END AS __n FROM {logged}"
            f" WHERE __time >= {moment} UNION ALL"
            f" SELECT {old}, __time, -1 AS __n FROM {logged} WHERE __time >= {moment} AND __tag = 'u'"
        )
