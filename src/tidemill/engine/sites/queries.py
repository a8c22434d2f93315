"""Fragments that are queries: what a join between sites has another site compute, bound there as its own query.

Such a text reads what is exported to the caller and what the caller itself lends for the join, and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlglot import exp

from tidemill.engine.sites.fragments import MOST_TEXT, find_exported, refuse_fragment
from tidemill.engine.views.bound_view import PlannedQuery
from tidemill.engine.workload import Workload
from tidemill.plan.statements import Select
from tidemill.sql.parse.statements import parse_one

MOST_ITEMS = 16  # of FROM, in all of a text


def parse_query(text: str) -> Select:
    """The SELECT of a text; anything else is refused."""
    if len(text) > MOST_TEXT:
        raise refuse_fragment(f"it has {len(text):,} characters")
    statement = parse_one(text)
    plain = isinstance(statement, Select) and statement.output is None and not statement.options and not statement.as_of
    if not plain or not isinstance(statement, Select) or not isinstance(statement.query, exp.Query):
        raise refuse_fragment("it is not a SELECT")
    return statement


def check_names_read(workload: Workload, caller: str, exported: Collection[str], query: exp.Expression) -> None:
    """Refuse a query that reads anything but exports, by their plain names, and what the caller owns, by its name."""
    tables = list(query.find_all(exp.Table))
    if len(tables) > MOST_ITEMS:
        raise refuse_fragment(f"it reads {len(tables)} items, and {MOST_ITEMS} are possible")
    for table in tables:
        sync = table.args.get("sync")
        if not isinstance(table.this, exp.Identifier) or table.args.get("catalog"):
            raise refuse_fragment(f"{table.sql()[:60]} is not a name")
        if sync is not None and sync.on is not None:
            raise refuse_fragment("the points of SYNC ON are not exported")
        if not table.db:
            find_exported(workload, exported, table.name)
        elif table.db.lower() != caller.lower():
            raise refuse_fragment(f"{table.db} is neither this site nor {caller}")


def plan_text(workload: Workload, text: str, options: dict[str, Any], birth: int) -> PlannedQuery:
    """A text that has been checked before, as a plan; `options` say which streams its names of other sites mean."""
    return workload.plan_fragment(parse_query(text).query, options, birth)
