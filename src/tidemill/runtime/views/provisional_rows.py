"""Rows that views show until the next rows come: what they would also have if the input ended here.

They are apart from what has been answered for good, in tables of the pools: (row, multiplicity, time) for contents,
tagged changes for logs. Queries see both together; subscribers, sinks and views that are created later see only what
stays.
"""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from tidemill.runtime.duckdb.sql_text import name_list
from tidemill.runtime.duckdb.temporary_tables import change
from tidemill.runtime.views.changes import Changes, tag_changes
from tidemill.runtime.views.stored_view import StoredView
from tidemill.runtime.views.tables import tentative_changes_table, tentative_table, typed_column


def clear(views: Iterable[StoredView], duck: duckdb.DuckDBPyConnection) -> None:
    """Forget all of it."""
    tables = {
        t(v.pool)
        for v in views
        for t, there in ((tentative_table, v.keeps_contents), (tentative_changes_table, v.output == "streamed"))
        if there
    }
    for table in sorted(tables):
        duck.execute(f"DELETE FROM {table}")


def add(changes: Changes, batch: int, duck: duckdb.DuckDBPyConnection) -> None:
    """Add to what the views of one kind show."""
    view = changes.pattern
    whose = "__view" if changes.whose else f"'{view.id}'"
    names = name_list(view.names)
    changes.net(duck)
    if view.keeps_contents:
        typed = ", ".join(typed_column(c) for c in view.columns)
        sql = f"INSERT INTO {tentative_table(view.pool)} SELECT {whose}, {typed}, __diff, __time FROM net"
        change(duck, sql, net=changes.rows)
    if view.output == "streamed":
        sql = (
            f"INSERT INTO {tentative_changes_table(view.pool)}"
            f" SELECT {whose}, __time, {batch}, __tag, {names}, __old FROM net"
        )
        change(duck, sql, net=tag_changes(changes, duck))
