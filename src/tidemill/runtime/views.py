"""Stored views: an embedded DuckDB database, changed by whole micro-batches only.

For each view: its contents as (row, multiplicity), and for STREAMED views the tagged changes. The batch id is committed
in the same transaction as the rows, so a batch that Spark replays changes nothing.

A view has tables of its own. Beside them, all views with the same columns share a *pool*, where small changes wait
until there are enough of one view to move: hundreds of views that change a little cost a few statements, not hundreds.
Rows that only ever come and come in great number stay in the files in which the shards wrote them (`sealed`). What a
view holds is always all of these together. `pools` and `sealed` write, this module reads.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import duckdb
import pyarrow as pa

from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column, Schema
from tidemill.runtime.damage import duckdb_file
from tidemill.runtime.narrow import fitted, fitting
from tidemill.runtime.operators.base import hash_sql, name_list
from tidemill.runtime.sealed import TABLES, SealedFiles

DEAD_LETTERS = "dead_letters"


@dataclass(frozen=True)
class StoredView:
    """What the outlet must know of a view; `id` names its tables and is never used again."""

    id: str
    name: str
    output: Literal["streamed", "complete", "rstream"]
    columns: Schema
    keys: tuple[str, ...] | None
    stamp: str  # SQL that turns __time into the TS that users see
    stamp_type: str
    insert_only: bool
    retain_us: int | None = None
    sinks: tuple[dict[str, Any], ...] = field(default=())

    @property
    def keeps_contents(self) -> bool:
        """A STREAMED view that only grows has its contents in its changes already."""
        return not (self.output == "streamed" and self.insert_only and self.retain_us is None)

    @property
    def only_grows(self) -> bool:
        """Rows are appended to the contents, and nothing is ever taken back."""
        return self.insert_only and self.keeps_contents

    @property
    def takes_files(self) -> bool:
        """Whether rows may stay in sealed files: nothing is ever taken back, and nothing has to be forgotten."""
        return self.insert_only and (self.output != "streamed" or self.retain_us is None)

    @property
    def names(self) -> list[str]:
        return [c.name for c in self.columns]

    @cached_property
    def pool(self) -> str:
        """Stands for the view in the names of the tables that it shares; depends on nothing but the columns."""
        text = json.dumps([(c.name, c.type) for c in self.columns])
        return "pool-" + hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def kind(self) -> str:
        """Views of one kind are changed alike, in the same statements."""
        return repr((self.columns, self.keys, self.output, self.insert_only, self.retain_us is None))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> StoredView:
        columns = tuple(Column(c["name"], c["type"]) for c in data["columns"])
        keys = tuple(data["keys"]) if data["keys"] is not None else None
        return StoredView(**{**data, "columns": columns, "keys": keys, "sinks": tuple(data["sinks"])})


class ViewStore:
    """The tables of all views. One object for each database; cursors for threads."""

    def __init__(self, path: str, sealed: str, *, read_only: bool = False) -> None:
        self.sealed = SealedFiles(sealed)
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
            self.connection.execute("""
                CREATE TABLE IF NOT EXISTS __meta (name VARCHAR PRIMARY KEY, value VARCHAR);
                CREATE TABLE IF NOT EXISTS dead_letters (
                  source VARCHAR, reason VARCHAR, raw VARCHAR, position VARCHAR, batch BIGINT, noticed TIMESTAMP);
            """ + ";".join(TABLES))

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection for another thread."""
        return self.connection.cursor()

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection that sees the views as they are now until it is given back, whatever is written meanwhile."""
        with self.lock:
            self.sealed.readers += 1
        duck = self.cursor()
        try:
            with duckdb_file(self.path):
                duck.execute("BEGIN TRANSACTION")
                yield duck
        finally:
            duck.close()
            with self.lock:
                self.sealed.readers -= 1

    def close(self) -> None:
        """Close for good; nothing may keep the connection alive, or DuckDB reports it as leaked."""
        with duckdb_file(self.path):
            self.connection.close()
        del self.connection

    def create(self, *views: StoredView) -> None:
        """Tables of new views."""
        wanted = {name: sql for view in views for name, sql in _definitions(view).items()}
        self._execute(wanted.values())

    def drop(self, view: StoredView) -> None:
        """Forget a view's rows and its own tables."""
        own = (_drop(table(view.id)) for table in (contents_table, recent_table, changes_table))
        shared = [t(view.pool) for t in POOLED if t(view.pool) in _definitions(view)]
        self._execute([*own, *(f"DELETE FROM {t} WHERE {_mine(view)}" for t in shared)],
                      lambda duck: self.sealed.drop(view.id, duck))

    def drop_pools(self, views: Iterable[StoredView]) -> bool:
        """Forget the pools that none of these views uses; True when there were some."""
        wanted = {name for view in views for name in _definitions(view)}
        found = {t(owner) for owner in self.owners() if owner.startswith("pool-") for t in POOLED}
        self._execute([_drop(table) for table in sorted(found - wanted)])
        return bool(found - wanted)

    def sweep(self, views: Iterable[StoredView]) -> None:
        """Forget all other views: a crash came between the catalog and the tables. Tables that are missing are made."""
        views = list(views)
        with duckdb_file(self.path):
            self._sweep(views)

    def _sweep(self, views: list[StoredView]) -> None:
        wanted = {name: sql for view in views for name, sql in _definitions(view).items()}
        ids = ", ".join(f"'{v.id}'" for v in views)
        sql = "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '% %'"
        found = {quoted(name) for (name,) in self.connection.sql(sql).fetchall()}
        pools = {t(v.pool) for v in views for t in POOLED} & found & set(wanted)
        self._execute([
            *(_drop(name) for name in found - set(wanted)),
            *(sql for name, sql in wanted.items() if name not in found),
            *(f"DELETE FROM {pool} WHERE __view NOT IN ({ids})" for pool in pools),
        ], lambda duck: self.sealed.sweep([v.id for v in views], duck))

    def tidy(self, files: Iterable[str] = ()) -> None:
        """Remove these sealed files, and others that have left, if no view has rows in them."""
        with self.lock, duckdb_file(self.path):
            self.sealed.tidy(files, self.connection)

    def relation_sql(self, view: StoredView, duck: duckdb.DuckDBPyConnection) -> str:
        """A SELECT of the view's current rows, one for each copy, for the connection's transaction; with those that are
        there until the next rows come.
        """
        names = name_list(view.names)
        if view.only_grows:
            own = f"SELECT {names} FROM {contents_table(view.id)}"
            pooled = [copies_sql(names, _pooled(view)), copies_sql(names, _tentative(view))]
            return " UNION ALL ".join([own, *pooled, *self._sealed(view, duck)])
        if view.keeps_contents:
            return copies_sql(names, f"({_folded(view, tentative=True)})")
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
        return duck.sql(f"{rows} ORDER BY __time, __batch, {order(view)}").to_arrow_table()

    def contents(self, view: StoredView, duck: duckdb.DuckDBPyConnection) -> pa.Table:
        """The current rows with their multiplicity as `__diff`, without those that the next rows may take back."""
        names = name_list(view.names)
        if view.only_grows:
            own = f"SELECT {names}, CAST(1 AS BIGINT) AS __diff FROM {contents_table(view.id)}"
            counted = [_pooled(view), *(f"({rows})" for _, rows in self._rows_in_files(view, duck))]
            return duck.sql(" UNION ALL ".join(
                [own, *(f"SELECT {names}, __n AS __diff FROM {rows}" for rows in counted)])).to_arrow_table()
        if view.keeps_contents:
            return duck.sql(f"SELECT {names}, __n AS __diff FROM ({_folded(view)})").to_arrow_table()
        logged = self.logged_sql(view, duck, tentative=False)
        return duck.sql(f"SELECT {names}, CAST(1 AS BIGINT) AS __diff FROM ({logged})").to_arrow_table()

    def _rows_in_files(self, view: StoredView, duck: duckdb.DuckDBPyConnection) -> list[tuple[bool, str]]:
        typed = ", ".join(map(typed_column, view.columns))
        return self.sealed.rows_sql(view.id, typed, duck) if view.takes_files else []

    def _sealed(self, view: StoredView, duck: duckdb.DuckDBPyConnection, more: str = "") -> list[str]:
        """SELECTs of the rows in files, one for each copy."""
        names = more + name_list(view.names)
        return [f"SELECT {names} FROM ({rows})" if once else copies_sql(names, f"({rows})")
                for once, rows in self._rows_in_files(view, duck)]

    def logged_sql(self, view: StoredView, duck: duckdb.DuckDBPyConnection, tentative: bool = True) -> str:
        """A SELECT of the tagged changes with their batch, in no order; with those that the next rows may take back.

        Rows in files have no batch; all of one time come in one.
        """
        columns = f"__time, __batch, __tag, {name_list(view.names)}, __old"
        tables = [changes_table(view.id), f"{changes_table(view.pool)} WHERE {_mine(view)}"]
        if tentative:
            tables.append(f"{tentative_changes_table(view.pool)} WHERE {_mine(view)}")
        files = [f"SELECT __time, CAST(0 AS BIGINT) AS __batch, '+' AS __tag, {name_list(view.names)},"
                 f" {null_old(view)} AS __old FROM ({rows})" for rows in self._sealed(view, duck, "__time, ")]
        return " UNION ALL ".join([*(f"SELECT {columns} FROM {table}" for table in tables), *files])

    def meta(self, name: str) -> str | None:
        """A remembered value."""
        return self.metas().get(name)

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
        """Views and pools that have tables."""
        sql = "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '% %'"
        return {name.partition(" ")[2] for (name,) in self.connection.sql(sql).fetchall()}

    def set_metas(self, values: dict[str, str], duck: duckdb.DuckDBPyConnection) -> None:
        """Remember all of them."""
        places = ", ".join("(?, ?)" for _ in values)
        duck.execute(f"INSERT OR REPLACE INTO __meta VALUES {places}", [x for pair in values.items() for x in pair])

    def _execute(self, statements: Iterable[str],
                 also: Callable[[duckdb.DuckDBPyConnection], None] | None = None) -> None:
        """All of them or none; then files that nobody has any more go."""
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
    duck.register("changes", changes)
    try:
        stamps = duck.sql(f"SELECT {view.stamp} AS stamp FROM changes").to_arrow_table().column("stamp")
    finally:
        duck.unregister("changes")
    # Put together here and not in SQL, where TS and a user's column ts would be the same name.
    columns = {"TAG": changes.column("__tag"), **({} if "TS" in view.names else {"TS": stamps})}
    wide = {c.name for c in view.columns if c.type == "HUGEINT"}
    columns |= {name: fitting(changes.column(name)) if name in wide else changes.column(name) for name in view.names}
    return pa.table({**columns, "OLD": fitted(changes.column("__old"), wide)})


def order(view: StoredView) -> str:
    """The order of the changes of one time and batch."""
    return f"__tag DESC, {name_list(view.names)}"


def contents_table(owner: str) -> str:
    """Rows with their multiplicity `__n`; the owner is a view or a pool. A view that only grows has its rows there as
    they are: what never changes is written once and never looked for.
    """
    return quoted(f"contents {owner}")


def recent_table(owner: str) -> str:
    """Changes of a large view that are not folded into its contents yet."""
    return quoted(f"recent {owner}")


def changes_table(owner: str) -> str:
    """Tagged changes."""
    return quoted(f"changes {owner}")


def tentative_table(owner: str) -> str:
    """Rows, with their multiplicity, that views show until the next rows come."""
    return quoted(f"tentative {owner}")


def tentative_changes_table(owner: str) -> str:
    """Tagged changes that views show until the next rows come."""
    return quoted(f"tentative-changes {owner}")


POOLED = (contents_table, changes_table, tentative_table, tentative_changes_table)


def typed_column(column: Column) -> str:
    """SQL: a column of an Arrow table with the type that the view declares."""
    return f"CAST({quoted(column.name)} AS {column.type}) AS {quoted(column.name)}"


def _definitions(view: StoredView) -> dict[str, str]:
    """Every table that a view lives in, and the statement that makes it."""
    columns = ", ".join(f"{quoted(c.name)} {c.type}" for c in view.columns)
    found = {}
    if view.keeps_contents:
        own = [] if view.only_grows else [contents_table(view.id), recent_table(view.id)]
        found = {name: f"(__h UBIGINT, {columns}, __n BIGINT)" for name in own}
        if view.only_grows:
            found[contents_table(view.id)] = f"({columns})"
        found[contents_table(view.pool)] = f"(__view VARCHAR, {columns}, __n BIGINT)"
        found[tentative_table(view.pool)] = f"(__view VARCHAR, {columns}, __n BIGINT)"
    if view.output == "streamed":
        log = f"__time BIGINT, __batch BIGINT, __tag VARCHAR, {columns}, __old STRUCT({columns})"
        found[changes_table(view.id)] = f"({log})"
        found[changes_table(view.pool)] = f"(__view VARCHAR, {log})"
        found[tentative_changes_table(view.pool)] = f"(__view VARCHAR, {log})"
    return {name: f"CREATE TABLE IF NOT EXISTS {name} {form}" for name, form in found.items()}


def _drop(table: str) -> str:
    return f"DROP TABLE IF EXISTS {table}"


def _mine(view: StoredView) -> str:
    return f"__view = '{view.id}'"


def copies_sql(names: str, rows: str) -> str:
    """A SELECT of columns, each row as often as its `__n` says."""
    return f"SELECT {names} FROM {rows} CROSS JOIN LATERAL (SELECT unnest(range(__n))) AS copies"


def _pooled(view: StoredView) -> str:
    """The view's rows in the pool."""
    return f"(SELECT * FROM {contents_table(view.pool)} WHERE {_mine(view)})"


def _tentative(view: StoredView) -> str:
    """The view's rows that the next rows may take back."""
    return f"(SELECT * FROM {tentative_table(view.pool)} WHERE {_mine(view)})"


def _folded(view: StoredView, tentative: bool = False) -> str:
    """A SELECT of the contents with everything that waits folded in: (row, multiplicity)."""
    names, table = name_list(view.names), contents_table(view.id)
    pools = [_pooled(view), *([_tentative(view)] if tentative else [])]
    waiting = " UNION ALL ".join([
        *(f"SELECT {hash_sql(view.names)} AS __h, {names}, __n FROM {pool}" for pool in pools),
        f"SELECT * FROM {recent_table(view.id)}",
    ])
    return (
        f"WITH waiting AS ({waiting})"
        f" SELECT * FROM {table} WHERE __h NOT IN (SELECT __h FROM waiting) UNION ALL"
        f" SELECT __h, {names}, CAST(sum(__n) AS BIGINT) AS __n FROM (SELECT * FROM waiting UNION ALL"
        f" SELECT * FROM {table} WHERE __h IN (SELECT __h FROM waiting)) GROUP BY __h, {names} HAVING sum(__n) <> 0"
    )


def null_old(view: StoredView) -> str:
    """SQL: no earlier row."""
    return f"CAST(NULL AS STRUCT({', '.join(f'{quoted(c.name)} {c.type}' for c in view.columns)}))"
