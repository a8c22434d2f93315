"""What replaced views held: ad hoc queries read it until the new definitions take over.

CREATE OR REPLACE VIEW copies what a view shows into a table of its own, and does so for each of its readers (see
`successions`). The views of one statement take over together, in the transaction of the first batch after which each of
them has closed a time: before, a view that reads its history, or the contents of another view, would be seen empty. The
note of which views wait changes in the same transactions as the tables, so a reader that looks there finds what its
transaction has.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

import duckdb

from tidemill.plan.relations import quoted
from tidemill.runtime.views.moments import read_standings
from tidemill.runtime.views.stored_view import StoredView
from tidemill.runtime.views.tables import drop_table

META = "stand_ins"  # view → the first of the views that take over with it


def stand_in_table(view: str) -> str:
    """The rows that are read in the place of a view."""
    return quoted(f"stand-in {view}")


def read_stand_ins(metas: Mapping[str, str]) -> dict[str, str]:
    """The views that do not answer yet, with the first of the views that take over with each."""
    found: dict[str, str] = json.loads(metas.get(META, "{}"))
    return found


def release(
    metas: Mapping[str, str], views: Collection[str], stopped: Collection[str], duck: duckdb.DuckDBPyConnection
) -> dict[str, str]:
    """Let views take over that have begun after a batch, with all of their statement; what is to be stored of it.
    `metas` is what the batch stores; one that was dropped or has stopped holds back nothing.
    """
    waiting = read_stand_ins(metas)
    if not waiting:
        return {}
    begun = {view for view, standing in read_standings(metas, waiting).items() if standing.has_begun}
    held = {first for view, first in waiting.items() if view in views and view not in stopped and view not in begun}
    for view, first in waiting.items():
        if first not in held:
            duck.execute(drop_table(stand_in_table(view)))
    return {META: json.dumps({view: first for view, first in waiting.items() if first in held})}


def tables_of(views: Iterable[StoredView]) -> set[str]:
    """The tables that stand in for views, where there are such."""
    return {stand_in_table(view.id) for view in views}
