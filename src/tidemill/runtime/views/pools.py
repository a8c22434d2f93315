"""Writes the changes of a micro-batch into the tables of the views: into a view's own, or into the pool of its columns.

Every change is moved a bounded number of times, however large a view is and however many there are:

    few changes of many views  →  pool  ─ when one view has some thousands there ─►  its own tables
    many changes of one view   ───────────────────────────────────────────────────►  its own tables

Append-only views stay in their pool, however many rows they get: rows of one view and batch are adjacent there, and
only a view that holds a large part of the pool moves out.

A pool is rewritten, without changes that cancel, whenever it has doubled; a pool of append-only views is not. A view's
own changes go to a small table of recent ones, which is merged into the contents when it has grown to a part of them.
Rows of append-only views are appended.
"""

from __future__ import annotations

import zlib
from collections import Counter

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.runtime.duckdb.sql_text import hash_sql, name_list
from tidemill.runtime.duckdb.temporary_tables import change, select
from tidemill.runtime.duckdb.wide_integers import narrow_table
from tidemill.runtime.state.different_rows import add_up_counts
from tidemill.runtime.thresholds import sizes
from tidemill.runtime.views.changes import Changes, select_log, signed_sql
from tidemill.runtime.views.growing_views import make_own_table
from tidemill.runtime.views.stored_view import StoredView
from tidemill.runtime.views.tables import changes_table, contents_table, copies_sql, recent_table, typed_column

FOLD_PART = 4  # fold when recent changes are a quarter of the contents, or these are small


class Pools:
    """Writes through one cursor, inside the caller's transaction; after a rollback `forget` drops the row counts."""

    def __init__(self, duck: duckdb.DuckDBPyConnection) -> None:
        self.duck = duck
        self.rows: dict[str, Counter[str]] = {}  # table of a pool → view → rows, at most
        self.rewritten: dict[str, int] = {}  # table of a pool → rows when it was last rewritten
        self.with_table: set[str] = set()  # append-only views that have a table of their own for sure

    def forget(self) -> None:
        """Drop what is known of the tables: row counts are read from the tables when next needed."""
        self.rows.clear()
        self.rewritten.clear()
        self.with_table.clear()

    def store(self, changes: Changes, log: pa.Table | None, batch: int) -> None:
        """One kind of views: their contents, and what is remembered of their changes; `log` is tagged already."""
        view = changes.pattern
        if view.keeps_contents:
            if changes.whose:
                self._add_to_pool(changes)
            else:
                self._keep(view, changes.rows)
        if view.output == "streamed":
            columns = f"__time, {batch}, __tag, {name_list(view.names)}, __old"
            if log is None:
                self._append(view, f"SELECT {columns} FROM ({signed_sql(changes)})", changes.rows)
            elif len(changes.views) >= sizes.pooled_views:
                self._add_log_to_pool(changes, f"SELECT __view, {columns} FROM net", log)
            else:
                for one in changes.views:
                    self._append(one, f"SELECT {columns} FROM net", select_log(one, log))

    # ---- pools ---------------------------------------------------------------------------------

    def _add_to_pool(self, changes: Changes) -> None:
        view = changes.pattern
        table, names = contents_table(view.pool), name_list(view.names)
        counts = self._count_rows(table)
        typed = f"SELECT __view, {', '.join(typed_column(c) for c in view.columns)}, __diff FROM net"
        if not view.append_only:
            typed = (
                f"SELECT __view, {names}, CAST(sum(__diff) AS BIGINT) FROM ({typed}) GROUP BY __view, {names}"
                " HAVING sum(__diff) <> 0"
            )
        self._execute(f"INSERT INTO {table} {typed}", changes.rows)
        for one, rows in self._take_large(changes, counts, table):
            self._keep(one, rows.rename_columns([*rows.column_names[:-1], "__diff"]))
        if not view.append_only and sum(counts.values()) >= max(2 * self.rewritten[table], sizes.rewrite_rows):
            self._rewrite(table, names)

    def _add_log_to_pool(self, changes: Changes, rows: str, log: pa.Table) -> None:
        table = changes_table(changes.pattern.pool)
        counts = self._count_rows(table)
        self._execute(f"INSERT INTO {table} {rows}", log)
        for one, rows in self._take_large(changes, counts, table):
            self._append(one, "SELECT * FROM net", rows)

    def _count_rows(self, table: str) -> Counter[str]:
        """Rows of each view in a pool, counted once and kept up to date: never fewer than there are."""
        if table not in self.rows:
            found = self.duck.execute(f"SELECT __view, count(*) FROM {table} GROUP BY __view").fetchall()
            self.rows[table] = Counter(dict(found))
            self.rewritten[table] = self.rows[table].total()
        return self.rows[table]

    def _take_large(self, changes: Changes, counts: Counter[str], table: str) -> list[tuple[StoredView, pa.Table]]:
        """Remove the rows of views that have many rows in the pool now, and return them."""
        for view, (rows, _) in changes.growth().items():
            counts[view] += rows
        # An append-only view moves out only if it holds a large part of the pool: readers of the others skip its rows.
        share = counts.total() // sizes.pooled_append_views if changes.pattern.appends_contents else 0
        leaving = {v.id: v for v in changes.views if counts[v.id] > max(_rows_to_move(v), share)}
        if not leaving:
            return []
        among = f"__view IN ({', '.join(repr(name) for name in leaving)})"
        rows = select(self.duck, f"SELECT * FROM {table} WHERE {among} ORDER BY __view")
        self.duck.execute(f"DELETE FROM {table} WHERE {among}")
        found, start = [], 0
        for member in rows.column("__view").value_counts().to_pylist():
            found.append((leaving[member["values"]], rows.slice(start, member["counts"]).drop_columns(["__view"])))
            start += member["counts"]
        for name in leaving:
            del counts[name]
        return found

    def _rewrite(self, table: str, names: str) -> None:
        """Add up the changes of each row of each view."""
        self.duck.execute(
            f"CREATE OR REPLACE TABLE {table} AS SELECT __view, {names}, CAST(sum(__n) AS BIGINT) AS __n FROM {table}"
            f" GROUP BY __view, {names} HAVING sum(__n) <> 0"
        )
        del self.rows[table]
        self._count_rows(table)

    # ---- a view's own tables -------------------------------------------------------------------

    def _keep(self, view: StoredView, net: pa.Table) -> None:
        """Add changes to the contents of one view, at a cost that follows the changes."""
        names, typed = name_list(view.names), ", ".join(typed_column(c) for c in view.columns)
        if view.appends_contents:
            once = net.num_rows == 0 or pc.max(net.column("__diff")).as_py() == 1
            if view.id not in self.with_table:
                make_own_table(view, self.duck)
                self.with_table.add(view.id)
            rows = "net" if once else f"({copies_sql(names, '(SELECT *, __diff AS __n FROM net)')})"
            self._execute(f"INSERT INTO {contents_table(view.id)} SELECT {typed} FROM {rows}", net)
            return
        counted = add_up_counts(net, view.columns, "__diff")
        group = f"GROUP BY {names} HAVING sum(__diff) <> 0" if counted is None else ""
        count = "__diff" if group == "" else "CAST(sum(__diff) AS BIGINT)"
        recent, stored = (f"(SELECT count(*) FROM {t(view.id)})" for t in (recent_table, contents_table))
        [(waiting, there)] = self.duck.execute(f"SELECT {recent}, {stored}").fetchall()
        # The first rows of a view have nothing to be merged with.
        into = recent_table if waiting or there else contents_table
        rows = net if counted is None else counted
        self._execute(
            f"INSERT INTO {into(view.id)} SELECT {hash_sql(view.names)} AS __h, {names}, {count} AS __n"
            f" FROM (SELECT {typed}, __diff FROM net) {group}",
            rows,
        )
        if into is contents_table:
            return
        if (waiting + rows.num_rows) * FOLD_PART >= there or there < sizes.fold_below:
            self._fold(view)

    def _fold(self, view: StoredView) -> None:
        """Merge the recent changes into the contents; rows whose multiplicity becomes zero leave."""
        names, table, recent = name_list(view.names), contents_table(view.id), recent_table(view.id)
        touched = f"{table} WHERE __h IN (SELECT __h FROM {recent})"
        self.duck.execute(
            f"CREATE OR REPLACE TEMP TABLE __merged AS SELECT __h, {names}, CAST(sum(__n) AS BIGINT) AS __n FROM ("
            f"SELECT * FROM {recent} UNION ALL SELECT * FROM {touched}) GROUP BY __h, {names} HAVING sum(__n) <> 0;"
            f"DELETE FROM {touched}; INSERT INTO {table} SELECT * FROM __merged;"
            f"DELETE FROM {recent}; DROP TABLE __merged"
        )

    def _append(self, view: StoredView, rows: str, net: pa.Table) -> None:
        """Keep tagged changes of one STREAMED view, and delete those older than `retain`."""
        table = changes_table(view.id)
        self._execute(f"INSERT INTO {table} {rows}", net)
        if view.retain_us is not None:
            self.duck.execute(
                f"DELETE FROM {table} WHERE __time < (SELECT max(__time) FROM {table}) - {view.retain_us}"
            )

    def _execute(self, sql: str, net: pa.Table) -> None:
        change(self.duck, sql, net=narrow_table(net))


def _rows_to_move(view: StoredView) -> int:
    """The rows of a pool above which a view moves to its own table: different for each view, so that views that grow at
    the same pace do not move in the same batch.

    >>> views = [StoredView(v, v, "complete", (), None, "__time", "BIGINT", False) for v in ("v1", "v2")]
    >>> [round(_rows_to_move(v) / sizes.own_rows, 2) for v in views]
    [1.79, 1.82]
    """
    return sizes.own_rows + zlib.crc32(view.id.encode()) % sizes.own_rows
