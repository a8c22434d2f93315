"""Append-only views that keep their contents, and which of them have a table of their own.

Most of these views never get one: their rows lie in answer files and in the pool of their columns, and a thousand empty
tables take longer to make than all the rest of their definitions. The table `__growing` has a row for each of the
views; it changes in the same transaction as the tables, so a reader that looks there finds what its transaction has.
"""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from tidemill.runtime.views.stored_view import StoredView
from tidemill.runtime.views.tables import contents_table, define_own_table

TABLE = "CREATE TABLE IF NOT EXISTS __growing (view VARCHAR, own BOOLEAN)"
_NAME = "__growing"


def register(views: Iterable[StoredView], found: Iterable[str] = ()) -> list[str]:
    """Statements that note new views; `found` are the tables that there are. A view that is noted stays as it is."""
    there = set(found)
    rows = [f"('{v.id}', {contents_table(v.id) in there})" for v in views if v.appends_contents]
    if not rows:
        return []
    return [
        f"INSERT INTO {_NAME} SELECT * FROM (VALUES {', '.join(rows)}) AS fresh (view, own)"
        f" WHERE view NOT IN (SELECT view FROM {_NAME})"
    ]


def own_tables(views: Iterable[StoredView]) -> set[str]:
    """The tables that such views may have."""
    return {contents_table(view.id) for view in views if view.appends_contents}


def make_own_table(view: StoredView, duck: duckdb.DuckDBPyConnection) -> None:
    """Give a view its table, if it has none; inside the caller's transaction."""
    duck.execute(f"{define_own_table(view)}; UPDATE {_NAME} SET own = true WHERE view = '{view.id}' AND NOT own")


def has_own_table(view: StoredView, duck: duckdb.DuckDBPyConnection) -> bool:
    """Whether the view has a table of its own, as of the connection's transaction."""
    return (True,) in duck.execute(f"SELECT own FROM {_NAME} WHERE view = ?", [view.id]).fetchall()


def forget(view: StoredView) -> str:
    """The statement that forgets a view."""
    return f"DELETE FROM {_NAME} WHERE view = '{view.id}'"


def forget_others(views: Iterable[StoredView]) -> str:
    """The statement that forgets all other views."""
    return f"DELETE FROM {_NAME} WHERE view NOT IN ({', '.join(repr(v.id) for v in views) or 'NULL'})"


def list_noted(duck: duckdb.DuckDBPyConnection) -> set[str]:
    """The views that are noted; none in a database of an older version that was opened to be read."""
    if not duck.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = ?", [_NAME]).fetchall():
        return set()
    return {view for (view,) in duck.execute(f"SELECT view FROM {_NAME}").fetchall()}
