"""Virtual views in a query: each name is replaced by the query that it stands for, in parentheses.

    FROM v SYNC EVERY 2 AS a      becomes      FROM (SELECT …) SYNC EVERY 2 AS a

This is done to the parsed tree, before anything is bound, so the plan is that of the text. What WITH names around a
reader is not seen inside: such a subquery is marked, and bound without these names.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from tidemill.sql.bind.scope import problem
from tidemill.sql.dialect.nodes import copy_tree
from tidemill.sql.scopes import outside_tables

MOST_UNFOLDED = 64  # virtual views in one query, those inside of others included
_MARK = "virtual"
Definitions = Callable[[str], exp.Expression | None]


def unfold(query: exp.Expression, definitions: Definitions) -> exp.Expression:
    """The query without names of virtual views; the one given stays as it is."""
    if not any(definitions(table.name) for table in outside_tables(query)):
        return query
    return _Unfolding(definitions).tree(query)


def unfolded_view(node: exp.Expression) -> str | None:
    """The name of the virtual view that a subquery stands for; None for a subquery that users wrote."""
    name = node.meta.get(_MARK)
    return str(name) if name is not None else None


def place_of_view(node: exp.Expression) -> exp.Expression:
    """What errors about an unfolded view point at: its name or alias in the query that reads it."""
    alias = node.args.get("alias")
    return alias.this if alias is not None else node


class _Unfolding:
    def __init__(self, definitions: Definitions) -> None:
        self.definitions, self.count = definitions, 0

    def tree(self, query: exp.Expression) -> exp.Expression:
        query = copy_tree(query)
        for table in outside_tables(query):
            plain = isinstance(table.this, exp.Identifier) and not table.args.get("db")
            definition = self.definitions(table.name) if plain else None
            if definition is not None:
                self._count(table)
                table.replace(self._subquery(table, definition))
        return query

    def _subquery(self, table: exp.Table, definition: exp.Expression) -> exp.Subquery:
        kept = {key: value for key, value in table.args.items() if key not in ("this", "db", "catalog")}
        kept["alias"] = kept.get("alias") or exp.TableAlias(this=table.this.copy())
        made = exp.Subquery(this=self.tree(definition), **kept)
        made.meta[_MARK] = table.name
        return made

    def _count(self, table: exp.Table) -> None:
        self.count += 1
        if self.count > MOST_UNFOLDED:
            raise problem(
                f"the query unfolds more than {MOST_UNFOLDED} virtual views",
                table,
                code="TM104",
                hint="make one of them a STREAMED or COMPLETE view: it runs once for all its readers",
            )
