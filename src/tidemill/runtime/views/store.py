"""Stored views: an embedded DuckDB database, changed by whole micro-batches only.

For each view: its contents as (row, multiplicity), and for STREAMED views the tagged changes. The batch id is committed
in the same transaction as the rows, so a batch that Spark replays changes nothing.

A view has tables of its own. Beside them, all views with the same columns share a *pool*, where small changes wait
until there are enough of one view to move: hundreds of views that change a little cost a few statements, not hundreds.
Rows of append-only views stay, where they are many, in the files in which the shards wrote them (`answer_files`).
What a view holds is always all of these together. `pools` and `answer_files` write, this module reads.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from tidemill.plan.relations import quoted
from tidemill.runtime.answer_files.index import TABLES, AnswerFiles
from tidemill.runtime.duckdb.sql_text import name_list
from tidemill.runtime.duckdb.temporary_tables import select
from tidemill.runtime.duckdb.wide_integers import narrow_column, narrow_fields
from tidemill.runtime.integrity import duckdb_file
from tidemill.runtime.views import batch_times, growing_views, stand_ins
from tidemill.runtime.views.stored_view import StoredView
from tidemill.runtime.views.tables import (
    POOLED,
    changes_table,
    contents_table,
    copies_sql,
    definitions,
    drop_table,
    folded_contents,
    null_old,
    of_view,
    pooled_rows,
    recent_table,
    tentative_changes_table,
    tentative_rows,
    tentative_table,
    typed_column,
)

DEAD_LETTERS = "dead_letters"


class ViewStore:
    """The tables of all views. One object for each database; cursors for threads."""

    def __init__(self, path: str, answer_files: str, *, read_only: bool = False) -> None:
        self.answer_files = AnswerFiles(answer_files)
        self.lock = threading.RLock()  # held while tables come, go or change: DuckDB refuses what overlaps
        self.path = path
        with duckdb_file(path, opening=True):
            self.connection = duckdb.connect(path, read_only=read_only)
            self.connection.execute("SET GLOBAL TimeZone = 'UTC'")  # of cursors too
            if read_only:
                return
            # A checkpoint rewrites what the log holds; with the default of 16 MB that is half of the time of large
            # batches.
            self.connection.execute("SET checkpoint_threshold = '256MB'")
            self.connection.execute(
                """
                CREATE TABLE IF NOT EXISTS __meta (name VARCHAR PRIMARY KEY, value VARCHAR);
                CREATE TABLE IF NOT EXISTS dead_letters (
                  source VARCHAR, reason VARCHAR, raw VARCHAR, position VARCHAR, batch BIGINT, noticed TIMESTAMP);
            """
                + ";".join([*TABLES, growing_views.TABLE, batch_times.TABLE])
            )

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection for another thread."""
        return self.connection.cursor()

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection that sees the views as they are now until it is given back, whatever is written meanwhile."""
        with self.lock:
            self.answer_files.readers += 1
        duck = self.cursor()
        try:
            with duckdb_file(self.path):
                duck.execute("BEGIN TRANSACTION")
                yield duck
        finally:
            duck.close()
            with self.lock:
                self.answer_files.readers -= 1

    def close(self) -> None:
        """Close for good; nothing may keep the connection alive, or DuckDB reports it as leaked."""
        with duckdb_file(self.path):
            self.connection.close()
        del self.connection

    def create(self, *views: StoredView, also: Callable[[duckdb.DuckDBPyConnection], None] | None = None) -> None:
        """Tables of new views, and in the same transaction what else is to be written."""
        wanted = {name: sql for view in views for name, sql in definitions(view).items()}
        self._execute([*wanted.values(), *growing_views.register(views)], also)

    def drop(self, view: StoredView) -> None:
        """Forget a view's rows and its own tables."""
        tables = (contents_table, recent_table, changes_table, stand_ins.stand_in_table)
        own = (drop_table(table(view.id)) for table in tables)
        shared = [t(view.pool) for t in POOLED if t(view.pool) in definitions(view)]
        self._execute(
            [*own, growing_views.forget(view), *(f"DELETE FROM {t} WHERE {of_view(view)}" for t in shared)],
            lambda duck: self.answer_files.drop(view.id, duck),
        )

    def drop_pools(self, views: Iterable[StoredView]) -> bool:
        """Forget the pools that none of these views uses; True when there were some."""
        wanted = {name for view in views for name in definitions(view)}
        found = {t(owner) for owner in self.owners() if owner.startswith("pool-") for t in POOLED}
        self._execute([drop_table(table) for table in sorted(found - wanted)])
        return bool(found - wanted)

    def sweep(self, views: Iterable[StoredView]) -> None:
        """Forget all other views: a crash came between the catalog and the tables. Tables that are missing are made."""
        views = list(views)
        with duckdb_file(self.path):
            self._sweep(views)

    def _sweep(self, views: list[StoredView]) -> None:
        wanted = {name: sql for view in views for name, sql in definitions(view).items()}
        ids = ", ".join(f"'{v.id}'" for v in views)
        sql = "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '% %'"
        found = {quoted(name) for (name,) in self.connection.sql(sql).fetchall()}
        pools = {t(v.pool) for v in views for t in POOLED} & found & set(wanted)
        kept = set(wanted) | growing_views.own_tables(views) | stand_ins.tables_of(views)

        def also(duck: duckdb.DuckDBPyConnection) -> None:
            self.answer_files.sweep([v.id for v in views], duck)
            waiting = stand_ins.read_stand_ins(self.read_metas([stand_ins.META], duck))
            there = {v.id for v in views} & set(waiting)
            if there != set(waiting):
                self.set_metas({stand_ins.META: json.dumps({v: waiting[v] for v in there})}, duck)

        self._execute(
            [
                *(drop_table(name) for name in found - kept),
                # An older version did not note the times of these rows.
                *(f"ALTER TABLE {name} ADD COLUMN __time BIGINT" for name in self._without_times(views, found)),
                *(sql for name, sql in wanted.items() if name not in found),
                *(f"DELETE FROM {pool} WHERE __view NOT IN ({ids})" for pool in pools),
                growing_views.forget_others(views),
                *growing_views.register(views, found),
            ],
            also,
        )

    def _without_times(self, views: list[StoredView], found: set[str]) -> list[str]:
        """Tables of tentative rows that an older version made."""
        tables = {tentative_table(v.pool) for v in views if tentative_table(v.pool) in definitions(v)} & found
        if not tables:
            return []
        timed = "SELECT table_name FROM duckdb_columns() WHERE column_name = '__time'"
        return sorted(tables - {quoted(name) for (name,) in self.connection.sql(timed).fetchall()})

    def tidy(self, files: Iterable[str] = ()) -> None:
        """Remove these answer files, and others that have left, if no view has rows in them."""
        with self.lock, duckdb_file(self.path):
            self.answer_files.tidy(files, self.connection)

    def relation_sql(self, view: StoredView, duck: duckdb.DuckDBPyConnection) -> str:
        """A SELECT of the view's current rows, one for each copy, for the connection's transaction; with those that are
        there until the next rows come.
        """
        names = name_list(view.names)
        if view.appends_contents:
            own = [f"SELECT {names} FROM {table}" for table in self.own_table(view, duck)]
            pooled = [copies_sql(names, pooled_rows(view)), copies_sql(names, tentative_rows(view))]
            return " UNION ALL ".join([*own, *pooled, *self._file_rows_sql(view, duck)])
        if view.keeps_contents:
            return copies_sql(names, f"({folded_contents(view, tentative_rows(view))})")
        return f"SELECT {names} FROM ({self.logged_sql(view, duck)})"

    def changes(self, view: StoredView) -> pa.Table:
        """All tagged changes that are kept, as users see them."""
        with self.reading() as duck:
            return present(view, self.log(view, duck), duck)

    def log(self, view: StoredView, duck: duckdb.DuckDBPyConnection) -> pa.Table:
        """All tagged changes that are kept, in order: `__time`, `__tag`, the view's columns, `__old`."""
        logged = self.logged_sql(view, duck)
        rows = f"SELECT __time, __tag, {name_list(view.names)}, __old FROM ({logged})"
        if view.retain_us is not None:
            rows += f" WHERE __time >= (SELECT max(__time) FROM ({logged})) - {view.retain_us}"
        return select(duck, f"{rows} ORDER BY __time, __batch, {order(view)}")

    def contents(self, view: StoredView, duck: duckdb.DuckDBPyConnection) -> pa.Table:
        """The current rows with their multiplicity as `__diff`, without those that the next rows may take back."""
        names = name_list(view.names)
        if view.appends_contents:
            own = [f"SELECT {names}, CAST(1 AS BIGINT) AS __diff FROM {t}" for t in self.own_table(view, duck)]
            counted = [pooled_rows(view), *(f"({rows})" for _, rows in self.rows_in_files(view, duck))]
            rows = [f"SELECT {names}, __n AS __diff FROM {rows}" for rows in counted]
            return select(duck, " UNION ALL ".join([*own, *rows]))
        if view.keeps_contents:
            return select(duck, f"SELECT {names}, __n AS __diff FROM ({folded_contents(view)})")
        logged = self.logged_sql(view, duck, tentative=False)
        return select(duck, f"SELECT {names}, CAST(1 AS BIGINT) AS __diff FROM ({logged})")

    def own_table(self, view: StoredView, duck: duckdb.DuckDBPyConnection) -> list[str]:
        """The own table of an append-only view, if it has one."""
        return [contents_table(view.id)] if growing_views.has_own_table(view, duck) else []

    def rows_in_files(self, view: StoredView, duck: duckdb.DuckDBPyConnection) -> list[tuple[bool, str]]:
        """SELECTs of the view's columns, `__time` and `__n` in answer files, and whether `__n` is 1."""
        typed = ", ".join(map(typed_column, view.columns))
        return self.answer_files.rows_sql(view.id, typed, duck) if view.takes_files else []

    def _file_rows_sql(self, view: StoredView, duck: duckdb.DuckDBPyConnection, more: str = "") -> list[str]:
        """SELECTs of the rows in files, one for each copy."""
        names = more + name_list(view.names)
        return [
            f"SELECT {names} FROM ({rows})" if once else copies_sql(names, f"({rows})")
            for once, rows in self.rows_in_files(view, duck)
        ]

    def logged_sql(self, view: StoredView, duck: duckdb.DuckDBPyConnection, tentative: bool = True) -> str:
        """A SELECT of the tagged changes with their batch, in no order; with those that the next rows may take back.

        Rows in files have no batch; all of one time come in one.
        """
        columns = f"__time, __batch, __tag, {name_list(view.names)}, __old"
        tables = [changes_table(view.id), f"{changes_table(view.pool)} WHERE {of_view(view)}"]
        if tentative:
            tables.append(f"{tentative_changes_table(view.pool)} WHERE {of_view(view)}")
        files = [
            f"SELECT __time, CAST(0 AS BIGINT) AS __batch, '+' AS __tag, {name_list(view.names)},"
            f" {null_old(view)} AS __old FROM ({rows})"
            for rows in self._file_rows_sql(view, duck, "__time, ")
        ]
        return " UNION ALL ".join([*(f"SELECT {columns} FROM {table}" for table in tables), *files])

    def meta(self, name: str) -> str | None:
        """A remembered value."""
        return self.metas().get(name)

    def read_metas(self, names: Iterable[str], duck: duckdb.DuckDBPyConnection) -> dict[str, str]:
        """Some remembered values, as of the connection's transaction."""
        # There are few in all: to plan a condition takes longer than to read them.
        found = dict(duck.execute("FROM __meta").fetchall())
        return {name: found[name] for name in names if name in found}

    def metas(self) -> dict[str, str]:
        """All remembered values."""
        duck = self.cursor()
        try:
            with duckdb_file(self.path):
                return dict(duck.execute("SELECT name, value FROM __meta").fetchall())
        finally:
            duck.close()

    def remember(self, values: dict[str, str]) -> None:
        """Remember values that belong to no batch."""
        with self.lock, duckdb_file(self.path):
            self.set_metas(values, self.connection)

    def read_all(self) -> int:
        """Read every value of every table, so that damage shows; how many tables there are."""
        with duckdb_file(self.path):
            names = [n for (n,) in self.connection.sql("SELECT table_name FROM duckdb_tables()").fetchall()]
            for name in names:
                self.connection.sql(f"SELECT bit_xor(hash(rows)) FROM {quoted(name)} AS rows").fetchall()
        return len(names)

    def owners(self) -> set[str]:
        """Views and pools that have tables, and views that get one when they need it."""
        sql = "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '% %'"
        tables = {name.partition(" ")[2] for (name,) in self.connection.sql(sql).fetchall()}
        return tables | growing_views.list_noted(self.connection)

    def set_metas(self, values: dict[str, str], duck: duckdb.DuckDBPyConnection) -> None:
        """Remember all of them."""
        places = ", ".join("(?, ?)" for _ in values)
        duck.execute(f"INSERT OR REPLACE INTO __meta VALUES {places}", [x for pair in values.items() for x in pair])

    def _execute(
        self, statements: Iterable[str], also: Callable[[duckdb.DuckDBPyConnection], None] | None = None
    ) -> None:
        """All of them or none; then files without rows of a view go."""
        with self.lock:
            duck = self.cursor()
            try:
                with duckdb_file(self.path):
                    duck.execute(";".join(["BEGIN TRANSACTION", *statements]))
                    if also:
                        also(duck)
                    duck.execute("COMMIT")
            finally:
                duck.close()
            self.tidy()


def present(view: StoredView, changes: pa.Table, duck: duckdb.DuckDBPyConnection) -> pa.Table:
    """Changes as users see them: TAG, TS, the view's columns, OLD. A view that has a column TS shows that one."""
    stamps = select(duck, f"SELECT {view.stamp} AS stamp FROM changes", changes=changes).column("stamp")
    # Put together here and not in SQL, where TS and a user's column ts would be the same name.
    columns = {"TAG": changes.column("__tag"), **({} if "TS" in view.names else {"TS": stamps})}
    wide = {c.name for c in view.columns if c.type == "HUGEINT"}
    columns |= {
        name: narrow_column(changes.column(name)) if name in wide else changes.column(name) for name in view.names
    }
    return pa.table({**columns, "OLD": narrow_fields(changes.column("__old"), wide)})


def order(view: StoredView) -> str:
    """The order of the changes of one time and batch."""
    return f"__tag DESC, {name_list(view.names)}"
