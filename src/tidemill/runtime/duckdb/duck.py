"""DuckDB as the expression and set engine of the workers: Arrow in, Arrow out.

One connection for each process, one thread, no access to files or network: user expressions were
parsed and generated again before they get here, and this lock holds even if that failed.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterable

import duckdb
import pyarrow as pa

from tidemill.plan.nested_types import is_textual
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime.duckdb.temporary_tables import select
from tidemill.runtime.duckdb.user_functions import register_missing

# Arrow has no 128-bit integer: DuckDB hands HUGEINT over as DECIMAL(38,0), so it is cast back on the way in.
_RETYPED = {"HUGEINT", "UHUGEINT"}
_open: dict[int, duckdb.DuckDBPyConnection] = {}
_functions: dict[int, set[str]] = {}  # of users, in each of them
_busy: set[int] = set()  # threads that wait for a statement
_WHOLE = (duckdb.BinderException, duckdb.ParserException, duckdb.InterruptException)  # no row is to blame
_MEMORY_TRIES = 32  # rows for which there is no memory are looked for so often, then the statement has failed


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's private in-memory connection, hardened on first use."""
    thread = threading.get_ident()
    found = _open.get(thread)
    if found is None:
        found = duckdb.connect(":memory:")
        for setting in (
            "SET threads = 1",
            "SET TimeZone = 'UTC'",
            "SET preserve_insertion_order = true",
            "SET enable_external_access = false",
            "SET autoinstall_known_extensions = false",
            "SET lock_configuration = true",
        ):
            found.execute(setting)
        _open[thread], _functions[thread] = found, set()
    register_missing(found, _functions[thread])
    return found


@atexit.register
def close_all() -> None:
    """DuckDB's bindings print to stderr about connections that outlive the interpreter."""
    while _open:
        _open.popitem()[1].close()


def run(sql: str, **tables: pa.Table) -> pa.Table:
    """Evaluate one SELECT over the named Arrow tables."""
    duck, thread = connection(), threading.get_ident()
    _busy.add(thread)
    try:
        return select(duck, sql, **tables)
    finally:
        _busy.discard(thread)


def interrupt(thread: int) -> bool:
    """End the statement that a thread is waiting for; False when there is none."""
    if thread not in _busy:
        return False
    _open[thread].interrupt()
    return True


def run_put_aside(sql: str, feed: pa.Table, on_row_error: Callable[[pa.Table, str], None] | None) -> pa.Table:
    """Evaluate a SELECT over `feed`; where an expression fails (overflow, a cast), exactly the rows on which it does go
    to `on_row_error`, one by one. The order of the others stays.
    """
    try:
        return run(sql, feed=feed)
    except duckdb.Error as problem:
        if on_row_error is None or isinstance(problem, _WHOLE):
            raise
    good, todo, short = [], [feed], 0
    while todo:
        piece = todo.pop()
        try:
            run(sql, feed=piece)
            good.append(piece)
        except duckdb.Error as problem:
            short += isinstance(problem, duckdb.OutOfMemoryException)
            if isinstance(problem, _WHOLE) or short > _MEMORY_TRIES:
                raise
            if piece.num_rows == 1:
                on_row_error(piece, str(problem).splitlines()[0])
            else:
                half = piece.num_rows // 2
                todo += [piece.slice(half), piece.slice(0, half)]
    try:
        return run(sql, feed=pa.concat_tables(good) if good else feed.slice(0, 0))
    except duckdb.Error as problem:
        if isinstance(problem, _WHOLE):
            raise
        # Each piece can be done, all together they are too large.
        return pa.concat_tables([run(sql, feed=piece) for piece in good])


def retype_columns(columns: Iterable[Column]) -> str:
    """A select list that gives every column its declared type again after Arrow."""
    names = ((retype(c), quoted(c.name)) for c in columns)
    return ", ".join(value if value == name else f"{value} AS {name}" for value, name in names)


def retype(column: Column) -> str:
    """A column with its declared type."""
    name = quoted(column.name)
    return f"CAST({name} AS {column.type})" if column.type in _RETYPED or is_textual(column.type) else name


def source(name: str, columns: Iterable[Column], *hidden: str) -> str:
    """A FROM item that reads table `name` with declared types plus hidden columns."""
    wanted = [retype_columns(columns), *hidden]
    return f"(SELECT {', '.join(w for w in wanted if w)} FROM {name})"
