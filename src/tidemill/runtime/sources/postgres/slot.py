"""The replication slot of a source: made before the snapshot, so that no change falls between the two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.extras import load
from tidemill.runtime.postgres_client import connect
from tidemill.runtime.sources.postgres.pgoutput import Decoder, Transaction, format_lsn, parse_lsn

_SETTINGS = "-c datestyle=ISO -c timezone=UTC -c extra_float_digits=3 -c intervalstyle=iso_8601 -c bytea_output=hex"


class Slot:
    """The connection of a source, its slot and its publication."""

    def __init__(self, spec: SourceSpec) -> None:
        self._psycopg = load("psycopg", "postgres", "a source of PostgreSQL")
        self._sql = load("psycopg.sql", "postgres", "a source of PostgreSQL")
        self._spec, self._name = spec, str(spec.origin["slot"])
        schema, _, table = str(spec.origin["table"]).rpartition(".")
        self._table = self._sql.Identifier(schema or "public", table)
        self._regclass = self._table.as_string(None)
        self._kept: Any = None

    def _run(self, text: Any, values: tuple[Any, ...] | None = None) -> Any:
        try:
            if self._kept is not None:
                with suppress(self._psycopg.OperationalError):  # a server that was restarted: connect anew
                    return self._kept.execute(text, values)
            self._kept = connect(str(self._spec.origin["connection"]), self._spec.options, options=_SETTINGS)
            return self._kept.execute(text, values)
        except self._psycopg.Error as error:
            raise self._problem(error) from None

    def _problem(self, error: Exception) -> SourceProblem:
        lost = isinstance(error, self._psycopg.errors.UndefinedObject)
        return SourceProblem(
            "TM422" if lost else "TM420",
            f'the database of source "{self._spec.name}" ' + ("has no slot for it" if lost else "does not answer"),
            detail=str(error).strip(),
            hint="RESTART SOURCE reads the table again" if lost else "check the connection and the password",
        )

    def check(self, columns: list[str]) -> tuple[str, ...]:
        """The primary key of the table; refuses a table whose changes cannot be told completely."""
        found = self._run(
            "SELECT a.attname, a.attstorage <> 'p', coalesce(a.attnum = ANY (i.indkey), false), c.relreplident"
            " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
            " LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary WHERE c.oid = to_regclass(%s)",
            (self._regclass,),
        ).fetchall()
        names = {name for name, *_ in found}
        missing = [name for name in columns if name not in names]
        key = tuple(name for name, _, is_key, _ in found if is_key)
        long = [name for name, apart, is_key, _ in found if apart and not is_key and name in columns]
        table = self._spec.origin["table"]
        if missing:
            what = f'column "{missing[0]}"' if found else "table"
            raise self._refuse(f'there is no {what} in "{table}"' if found else f'there is no table "{table}"', "")
        if not key:
            raise self._refuse(f'table "{table}" has no primary key', "its rows cannot be told apart without one")
        if long and found[0][3] not in ("f", b"f"):
            hint = f"ALTER TABLE {table} REPLICA IDENTITY FULL"
            raise self._refuse(f'an update of "{table}" does not tell its column "{long[0]}" if it is long', hint)
        level = self._run("SHOW wal_level").fetchone()[0]
        if level != "logical":
            raise self._refuse(f'wal_level is "{level}"', "set wal_level = logical in PostgreSQL, and restart it")
        return key

    def _refuse(self, message: str, hint: str) -> SourceProblem:
        return SourceProblem("TM422", message, hint=hint or None)

    def create(self) -> None:
        """The publication and the slot, if they are not there."""
        name = self._sql.Identifier(self._name)
        if not self._run("SELECT 1 FROM pg_publication WHERE pubname = %s", (self._name,)).fetchall():
            self._run(self._sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(name, self._table))
        if not self._run("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (self._name,)).fetchall():
            self._run("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self._name,))

    def copy(self, columns: list[str], rows: int) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        """The table as one snapshot sees it, in pieces, as texts; each with the text of that snapshot."""
        self._run("SELECT 1")
        # As the output plugin writes values: a cast to text gives others for boolean and char(n).
        written = self._sql.SQL("CASE WHEN {0} IS NOT NULL THEN format('%s', {0}) END")
        names = self._sql.SQL(", ").join(written.format(self._sql.Identifier(n)) for n in columns)
        try:
            with self._kept.transaction():
                self._kept.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                seen = str(self._kept.execute("SELECT pg_current_snapshot()::text").fetchone()[0])
                with self._kept.cursor(name="tidemill_copy") as cursor:
                    cursor.execute(self._sql.SQL("SELECT {} FROM {}").format(names, self._table))
                    while found := cursor.fetchmany(rows):
                        yield seen, found
                yield seen, []
        except self._psycopg.Error as error:
            raise self._problem(error) from None

    def peek(self, most: int) -> Iterator[Transaction]:
        """Transactions that are not acknowledged yet: about `most` changes, whole transactions."""
        found = self._run(
            "SELECT data FROM pg_logical_slot_peek_binary_changes"
            "(%s, NULL, %s, 'proto_version', '1', 'publication_names', %s)",
            (self._name, most, self._name),
        )
        return Decoder().transactions(bytes(row[0]) for row in found.fetchall())

    def current_place(self) -> int:
        """The end of PostgreSQL's log."""
        return parse_lsn(str(self._run("SELECT pg_current_wal_flush_lsn()::text").fetchone()[0]))

    def acknowledge(self, lsn: int, least: int = 0) -> None:
        """Everything before this place is on our disk: PostgreSQL may forget it, if that is more than `least` bytes."""
        self._run(
            "SELECT pg_replication_slot_advance(slot_name, %s::pg_lsn) FROM pg_replication_slots"
            " WHERE slot_name = %s AND confirmed_flush_lsn < %s::pg_lsn",
            (format_lsn(lsn), self._name, format_lsn(max(lsn - least, 0))),
        )

    def lag_bytes(self) -> int | None:
        """How much of its log PostgreSQL keeps for this source."""
        found = self._run(
            "SELECT pg_current_wal_lsn() - confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s",
            (self._name,),
        ).fetchone()
        return None if found is None else int(found[0])

    def belongs_to(self, spec: SourceSpec) -> bool:
        """Whether this is the slot of a source as it is now; a restart gives it another."""
        return str(spec.origin["slot"]) == self._name

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def drop(self) -> None:
        """Remove slot and publication: a slot that is not read keeps the log of PostgreSQL for ever."""
        self._run(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (self._name,)
        )
        self._run(self._sql.SQL("DROP PUBLICATION IF EXISTS {}").format(self._sql.Identifier(self._name)))
