"""An in-memory DuckDB with the relations that tools expect, filled from what a user may read."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import duckdb
import pyarrow as pa

from tidemill.engine.users.session import Session
from tidemill.interrupts import Cancellation
from tidemill.serve.postgres.catalog import functions, relations
from tidemill.serve.postgres.catalog.contents import fill_rows
from tidemill.serve.postgres.catalog.rewrite import Context, Setting, rewrite
from tidemill.serve.postgres.fields import mark_numbers
from tidemill.serve.postgres.problems import ProtocolProblem

_MEMORY = "128MB"
_SECONDS = 10.0
_SETTINGS = (
    f"memory_limit = '{_MEMORY}'",
    "threads = 1",
    "temp_directory = ''",
    "TimeZone = 'UTC'",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "enable_external_access = false",
    "integer_division = true",  # as in Postgres: 150014 / 100 = 1500
)
_MOST_USERS = 16  # whose catalogs are kept


class ShadowCatalog:
    """The catalog as one user sees it; it is made anew when something was defined or dropped."""

    def __init__(self, session: Session) -> None:
        self._session, self._lock = session, threading.Lock()
        self.turn = asyncio.Semaphore()  # of one query at a time
        self._duck: duckdb.DuckDBPyConnection | None = None
        self._made: tuple[int, str] | None = None

    def query(self, text: str, context: Context, setting: Setting, cancellation: Cancellation) -> pa.Table:
        """The answer of a catalog query; called in a thread."""
        sql = rewrite(text, context, setting)
        with self._lock:
            duck = self._current(context)
            timer = threading.Timer(_SECONDS, duck.interrupt)
            timer.daemon = True
            timer.start()
            try:
                with cancellation.interrupts(duck.interrupt):
                    return mark_numbers(duck.sql(sql).to_arrow_table()) if sql else pa.table({})
            except duckdb.InterruptException:
                cancellation.check()
                raise ProtocolProblem("57014", f"the catalog query took longer than {_SECONDS:g} seconds") from None
            except duckdb.Error as error:
                raise ProtocolProblem("42000", f"catalog query: {str(error).splitlines()[0]}") from None
            finally:
                timer.cancel()

    def _current(self, context: Context) -> duckdb.DuckDBPyConnection:
        version = (self._session.catalog_version(), context["user"])
        if self._duck is None or self._made != version:
            if self._duck is not None:
                self._duck.close()
            self._duck, self._made = make_shadow(self._session, context), version
        return self._duck


class ShadowCatalogs:
    """The catalogs of a server: users with the same rights share one."""

    def __init__(self) -> None:
        self._known: dict[Any, ShadowCatalog] = {}

    def of(self, session: Session) -> ShadowCatalog:
        """The catalog of a session."""
        key = session.user.lower() if session.user is not None else None
        if key not in self._known:
            while len(self._known) >= _MOST_USERS:
                self._known.pop(next(iter(self._known)))
            self._known[key] = ShadowCatalog(session)
        return self._known[key]


def make_shadow(session: Session, context: Context) -> duckdb.DuckDBPyConnection:
    """A database with all relations and functions. It cannot reach files, the network or other databases."""
    duck = duckdb.connect(":memory:")
    for setting in _SETTINGS:
        duck.execute(f"SET {setting}")
    duck.execute(";".join(relations.definitions()))
    for name, rows in fill_rows(session.relations(), session.users(), dict(context)).items():
        schema, _, relation = name.partition(".")
        definition = (relations.RELATIONS if schema == "pg" else relations.INFORMATION)[relation]
        _insert(duck, name, relations.arrow_schema(definition), rows)
    duck.execute(";".join(functions.definitions()))
    duck.execute("SET lock_configuration = true")
    return duck


def _insert(duck: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, rows: list[dict[str, Any]]) -> None:
    duck.register("given_rows", pa.Table.from_pylist(rows, schema))
    duck.execute(f"INSERT INTO {name} SELECT * FROM given_rows")
    duck.unregister("given_rows")
