"""Sinks to PostgreSQL: the rows of a batch and its number in one transaction."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidemill.plan.python_values import json_text, python_rows
from tidemill.runtime.extras import load
from tidemill.runtime.postgres_client import check_connection, connect
from tidemill.runtime.targets.target import UPSERT, SinkSpec, fold

_PROGRESS = "tidemill_progress"


class PostgresTarget:
    """A table of a database, made if it is not there."""

    def __init__(self, spec: SinkSpec) -> None:
        self._psycopg = load("psycopg", "postgres", "a sink to PostgreSQL")
        self._sql = load("psycopg.sql", "postgres", "a sink to PostgreSQL")
        self.spec = spec
        self._connection: Any = None
        self._last = -1
        self._is_made = False
        schema, _, table = spec.place["table"].rpartition(".")
        parts = (schema, table) if schema else (table,)
        self._table = self._sql.Identifier(*parts)
        self._progress = self._sql.Identifier(*((schema, _PROGRESS) if schema else (_PROGRESS,)))

    def check(self) -> None:
        check_connection(self.spec.place["connection"], self.spec.options)

    def write(self, log: pa.Table, batch: int) -> None:
        connection = self._open()
        if batch <= self._last:
            return
        with connection.transaction(), connection.cursor() as cursor:
            self._make_table(cursor, log.schema)
            if self.spec.mode == UPSERT:
                self._upsert(cursor, log)
            else:
                self._copy(cursor, self._table, log)
            note = "INSERT INTO {} VALUES ({}, {}) ON CONFLICT (sink) DO UPDATE SET batch = excluded.batch"
            self._run(cursor, note, self._progress, self._sql.Literal(self.spec.id), self._sql.Literal(batch))
        self._last = batch

    def _open(self) -> Any:
        if self._connection is None:
            connection = connect(self.spec.place["connection"], self.spec.options)
            with connection.transaction(), connection.cursor() as cursor:
                create = "CREATE TABLE IF NOT EXISTS {} (sink text PRIMARY KEY, batch bigint NOT NULL)"
                self._run(cursor, create, self._progress)
                found = "SELECT batch FROM {} WHERE sink = {}"
                self._run(cursor, found, self._progress, self._sql.Literal(self.spec.id))
                row = cursor.fetchone()
            self._last = -1 if row is None else int(row[0])
            self._connection = connection
        return self._connection

    def _make_table(self, cursor: Any, schema: pa.Schema) -> None:
        if self._is_made:
            return
        names = self.spec.columns if self.spec.mode == UPSERT else schema.names
        columns = [self._define(name, schema.field(name).type) for name in names]
        self._run(cursor, "CREATE TABLE IF NOT EXISTS {} ({})", self._table, self._sql.SQL(", ").join(columns))
        if self.spec.mode == UPSERT:
            nulls = " NULLS NOT DISTINCT" if cursor.connection.info.server_version >= 150_000 else ""
            index = self._sql.Identifier(f"{self.spec.place['table'].rpartition('.')[2]}_tidemill_key")
            create = "CREATE UNIQUE INDEX IF NOT EXISTS {} ON {} ({})" + nulls
            self._run(cursor, create, index, self._table, self._names(self.spec.keys or ()))
        self._is_made = True

    def _define(self, name: str, kind: pa.DataType) -> Any:
        return self._sql.SQL("{} {}").format(self._sql.Identifier(name), self._sql.SQL(postgres_type(kind)))

    def _upsert(self, cursor: Any, log: pa.Table) -> None:
        """Delete every key that the batch touches, and insert what it leaves of them."""
        changes = fold(log, self.spec)
        keys = self.spec.keys or ()
        touched = self._sql.Identifier("tidemill_touched")
        create = "CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} LIMIT 0"
        self._run(cursor, create, touched, self._names(keys), self._table)
        self._copy(cursor, touched, changes.touched)
        equal = "=" if not any(changes.touched.column(key).null_count for key in keys) else "IS NOT DISTINCT FROM"
        same = [self._sql.SQL(f"t.{{0}} {equal} k.{{0}}").format(self._sql.Identifier(key)) for key in keys]
        where = self._sql.SQL(" AND ").join(same)
        self._run(cursor, "DELETE FROM {} AS t USING {} AS k WHERE {}", self._table, touched, where)
        self._copy(cursor, self._table, changes.rows)

    def _copy(self, cursor: Any, into: Any, rows: pa.Table) -> None:
        text = self._sql.SQL("COPY {} ({}) FROM STDIN").format(into, self._names(rows.column_names))
        with cursor.copy(text) as copy:
            for row in python_rows(rows):
                copy.write_row([_plain(value) for value in row.values()])

    def _names(self, names: Any) -> Any:
        return self._sql.SQL(", ").join(map(self._sql.Identifier, names))

    def _run(self, cursor: Any, text: str, *parts: Any) -> None:
        """Without parameters: with them, a % in a name would be the place of one."""
        cursor.execute(self._sql.SQL(text).format(*parts))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_TYPES = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_uint64, "numeric(20)"),
    (pa.types.is_integer, "bigint"),
    (pa.types.is_float32, "real"),
    (pa.types.is_floating, "double precision"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_binary, "bytea"),
    (pa.types.is_large_binary, "bytea"),
    (pa.types.is_nested, "jsonb"),
)


def postgres_type(kind: pa.DataType) -> str:
    """The type of a column that holds values of an Arrow type.

    >>> postgres_type(pa.int32()), postgres_type(pa.decimal128(9, 2)), postgres_type(pa.string())
    ('bigint', 'numeric(9,2)', 'text')
    """
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    return next((name for is_of, name in _TYPES if is_of(kind)), "text")


def _plain(value: Any) -> Any:
    return json_text(value) if isinstance(value, (dict, list)) else value
