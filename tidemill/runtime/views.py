"""Stored views: an embedded DuckDB database, changed by whole micro-batches only.

For each view: its contents as (row, multiplicity), and for STREAMED views the tagged changes. The batch id is committed
in the same transaction as the rows, so a batch that Spark replays changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import duckdb
import pyarrow as pa

from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column, Schema
from tidemill.runtime.operators.base import hash_sql, name_list, same_row

DEAD_LETTERS = "dead_letters"
FOLD_PART, FOLD_BELOW = 4, 20_000  # fold when recent changes are a quarter of the contents, or these are small


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
    def names(self) -> list[str]:
        return [c.name for c in self.columns]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> StoredView:
        columns = tuple(Column(c["name"], c["type"]) for c in data["columns"])
        keys = tuple(data["keys"]) if data["keys"] is not None else None
        return StoredView(**{**data, "columns": columns, "keys": keys, "sinks": tuple(data["sinks"])})


class ViewStore:
    """The tables of all views. One object for each database; cursors for threads."""

    def __init__(self, path: str) -> None:
        self.connection = duckdb.connect(path)
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute("""
            CREATE TABLE IF NOT EXISTS __meta (name VARCHAR PRIMARY KEY, value VARCHAR);
            CREATE TABLE IF NOT EXISTS dead_letters (
              source VARCHAR, reason VARCHAR, raw VARCHAR, position VARCHAR, batch BIGINT, noticed TIMESTAMP);
        """)

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection for another thread."""
        return self.connection.cursor()

    def close(self) -> None:
        """Close for good; nothing may keep the connection alive, or DuckDB reports it as leaked."""
        self.connection.close()
        del self.connection

    def create(self, view: StoredView) -> None:
        """Tables of a new view."""
        duck = self.cursor()
        columns = ", ".join(f"{quoted(c.name)} {c.type}" for c in view.columns)
        if view.keeps_contents:
            for table in (_contents(view), _recent(view)):
                duck.execute(f"CREATE TABLE IF NOT EXISTS {table} (__h UBIGINT, {columns}, __n BIGINT)")
        if view.output == "streamed":
            old = f"STRUCT({columns})"
            duck.execute(
                f"CREATE TABLE IF NOT EXISTS {_changes(view)}"
                f" (__time BIGINT, __batch BIGINT, __tag VARCHAR, {columns}, __old {old})"
            )

    def drop(self, view: StoredView) -> None:
        """Forget a view's tables."""
        duck = self.cursor()
        for table in (_contents(view), _recent(view), _changes(view)):
            duck.execute(f"DROP TABLE IF EXISTS {table}")

    def sweep(self, views: Iterable[StoredView]) -> None:
        """Drop the tables of all other views: a crash came between the catalog and the tables."""
        duck, known = self.cursor(), {v.id for v in views}
        for (name,) in duck.sql("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '% %'").fetchall():
            if name.partition(" ")[2] not in known:
                duck.execute(f"DROP TABLE {quoted(name)}")

    def relation_sql(self, view: StoredView) -> str:
        """A SELECT of the view's current rows, one for each copy."""
        names = name_list(view.names)
        if view.keeps_contents:
            return f"SELECT {names} FROM ({_folded(view)}) CROSS JOIN LATERAL (SELECT unnest(range(__n))) AS copies"
        return f"SELECT {names} FROM {_changes(view)}"

    def changes(self, view: StoredView) -> pa.Table:
        """All tagged changes that are kept, as users see them."""
        duck = self.cursor()
        try:
            sql = f"SELECT * EXCLUDE (__batch) FROM {_changes(view)} ORDER BY __time, __batch, rowid"
            return present(view, duck.sql(sql).to_arrow_table(), duck)
        finally:
            duck.close()

    def contents(self, view: StoredView, duck: duckdb.DuckDBPyConnection) -> pa.Table:
        """The current rows with their multiplicity as `__diff`."""
        names = name_list(view.names)
        if view.keeps_contents:
            return duck.sql(f"SELECT {names}, __n AS __diff FROM ({_folded(view)})").to_arrow_table()
        return duck.sql(f"SELECT {names}, CAST(1 AS BIGINT) AS __diff FROM {_changes(view)}").to_arrow_table()

    def meta(self, name: str, duck: duckdb.DuckDBPyConnection | None = None) -> str | None:
        """A remembered value."""
        found = (duck or self.cursor()).execute("SELECT value FROM __meta WHERE name = ?", [name]).fetchall()
        return found[0][0] if found else None

    def set_meta(self, name: str, value: str, duck: duckdb.DuckDBPyConnection) -> None:
        duck.execute("INSERT OR REPLACE INTO __meta VALUES (?, ?)", [name, value])


def tagged(view: StoredView, net: pa.Table, duck: duckdb.DuckDBPyConnection) -> pa.Table:
    """Changes as tagged tuples: the minimum set, a − and a + of one key at one time become one u.

    `net` has the view's columns, `__time` and a non-zero `__diff`, one row for each (row, time).
    """
    names, row = name_list(view.names), _pack(view)
    null_old = f"CAST(NULL AS STRUCT({', '.join(f'{quoted(c.name)} {c.type}' for c in view.columns)}))"
    single = f"SELECT __time, __diff, {', '.join(_typed(c) for c in view.columns)} FROM net"
    if view.keys is None:
        sql = (
            f"SELECT __time, CASE WHEN __diff > 0 THEN '+' ELSE '-' END AS __tag, {names}, {null_old} AS __old"
            f" FROM ({single}) CROSS JOIN LATERAL (SELECT unnest(range(abs(__diff)))) AS copies"
            f" ORDER BY __time, __tag DESC, {names}"
        )
        return _select(duck, sql, net)
    # A key of NULLs may stand for two rows (both sides of a full join): the first leaves for the first that comes.
    group = ", ".join(["__time", *(quoted(k) for k in view.keys)])
    number = f"row_number() OVER (PARTITION BY {group} ORDER BY {names}) AS __i"
    sql = f"""
        WITH rows AS (SELECT * FROM ({single}) CROSS JOIN LATERAL (SELECT unnest(range(abs(__diff)))) AS copies),
          came AS (SELECT *, {row} AS __row, {number} FROM rows WHERE __diff > 0),
          went AS (SELECT *, {row} AS __row, {number} FROM rows WHERE __diff < 0)
        SELECT coalesce(came.__time, went.__time) AS __time,
          CASE WHEN came.__row IS NULL THEN '-' WHEN went.__row IS NULL THEN '+' ELSE 'u' END AS __tag,
          {', '.join(f'CASE WHEN came.__row IS NULL THEN went.{quoted(n)} ELSE came.{quoted(n)} END AS {quoted(n)}'
                     for n in view.names)},
          CASE WHEN came.__row IS NOT NULL THEN went.__row END AS __old
        FROM came FULL JOIN went ON came.__time = went.__time AND came.__i = went.__i
          AND {same_row(view.keys, 'came', 'went')}
        ORDER BY 1, 2 DESC, {', '.join(str(3 + i) for i in range(len(view.names)))}"""
    return _select(duck, sql, net)


def present(view: StoredView, changes: pa.Table, duck: duckdb.DuckDBPyConnection) -> pa.Table:
    """Changes as users see them: TAG, TS, the view's columns, OLD. A view that has a column TS shows that one."""
    duck.register("changes", changes)
    try:
        stamps = duck.sql(f"SELECT {view.stamp} AS stamp FROM changes").to_arrow_table().column("stamp")
    finally:
        duck.unregister("changes")
    # Put together here and not in SQL, where TS and a user's column ts would be the same name.
    columns = {"TAG": changes.column("__tag"), **({} if "TS" in view.names else {"TS": stamps})}
    columns |= {name: changes.column(name) for name in view.names}
    return pa.table({**columns, "OLD": changes.column("__old")})


def apply_contents(view: StoredView, net: pa.Table, duck: duckdb.DuckDBPyConnection) -> None:
    """Add the changes to the stored contents, at a cost that follows the changes.

    They go to a small table of recent changes; when that has grown to a part of the contents it is folded in, so
    each change is moved a bounded number of times however large the view is.
    """
    names, recent = name_list(view.names), _recent(view)
    typed = ", ".join(_typed(c) for c in view.columns)
    duck.register("net", net)
    try:
        duck.execute(
            f"INSERT INTO {recent} SELECT {hash_sql(view.names)} AS __h, {names}, CAST(sum(__diff) AS BIGINT) AS __n"
            f" FROM (SELECT {typed}, __diff FROM net) GROUP BY {names} HAVING sum(__diff) <> 0"
        )
    finally:
        duck.unregister("net")
    (waiting,), (stored,) = (duck.sql(f"SELECT count(*) FROM {t}").fetchall()[0] for t in (recent, _contents(view)))
    if waiting * FOLD_PART >= stored or stored < FOLD_BELOW:
        _fold(view, duck)


def _fold(view: StoredView, duck: duckdb.DuckDBPyConnection) -> None:
    """Merge the recent changes into the contents; rows whose multiplicity becomes zero leave."""
    names, table, recent = name_list(view.names), _contents(view), _recent(view)
    duck.execute(
        f"CREATE OR REPLACE TEMP TABLE __merged AS SELECT __h, {names}, CAST(sum(__n) AS BIGINT) AS __n FROM ("
        f"SELECT * FROM {recent} UNION ALL SELECT * FROM {table} WHERE __h IN (SELECT __h FROM {recent}))"
        f" GROUP BY __h, {names} HAVING sum(__n) <> 0"
    )
    duck.execute(f"DELETE FROM {table} WHERE __h IN (SELECT __h FROM {recent})")
    duck.execute(f"INSERT INTO {table} SELECT * FROM __merged")
    duck.execute(f"DELETE FROM {recent}")
    duck.execute("DROP TABLE __merged")


def _folded(view: StoredView) -> str:
    """A SELECT of the contents with the recent changes folded in: (row, multiplicity)."""
    names, table, recent = name_list(view.names), _contents(view), _recent(view)
    return (
        f"SELECT * FROM {table} WHERE __h NOT IN (SELECT __h FROM {recent}) UNION ALL"
        f" SELECT __h, {names}, CAST(sum(__n) AS BIGINT) AS __n FROM (SELECT * FROM {recent} UNION ALL"
        f" SELECT * FROM {table} WHERE __h IN (SELECT __h FROM {recent})) GROUP BY __h, {names} HAVING sum(__n) <> 0"
    )


def append_changes(view: StoredView, changes: pa.Table, batch: int, duck: duckdb.DuckDBPyConnection) -> None:
    """Keep tagged changes of a STREAMED view, and forget those older than `retain` says."""
    duck.register("fresh", changes)
    try:
        duck.execute(
            f"INSERT INTO {_changes(view)} SELECT __time, {batch}, __tag, {name_list(view.names)}, __old FROM fresh"
        )
    finally:
        duck.unregister("fresh")
    if view.retain_us is not None:
        duck.execute(
            f"DELETE FROM {_changes(view)} WHERE __time < (SELECT max(__time) FROM {_changes(view)}) - {view.retain_us}"
        )


def _contents(view: StoredView) -> str:
    return quoted(f"contents {view.id}")


def _recent(view: StoredView) -> str:
    return quoted(f"recent {view.id}")


def _changes(view: StoredView) -> str:
    return quoted(f"changes {view.id}")


def _typed(column: Column) -> str:
    return f"CAST({quoted(column.name)} AS {column.type}) AS {quoted(column.name)}"


def _pack(view: StoredView) -> str:
    return "struct_pack(" + ", ".join(f"{quoted(n)} := {quoted(n)}" for n in view.names) + ")"


def _select(duck: duckdb.DuckDBPyConnection, sql: str, net: pa.Table) -> pa.Table:
    duck.register("net", net)
    try:
        return duck.sql(sql).to_arrow_table()
    finally:
        duck.unregister("net")
