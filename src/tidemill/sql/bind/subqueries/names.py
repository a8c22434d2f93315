"""Which columns in a subquery are columns of the query around it."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from tidemill.sql.bind.bound import BoundQuery
from tidemill.sql.bind.from_items import FromItems
from tidemill.sql.bind.scope import Input
from tidemill.sql.bind.subqueries.forms import from_clauses, own_clauses, own_nodes
from tidemill.sql.bind.subqueries.outer import is_column_of

CommonTables = Callable[[exp.Expression], dict[str, BoundQuery]]


class Names:
    """Finds columns that a query cannot explain by its own FROM. `common_tables` binds what WITH names."""

    def __init__(self, items: FromItems, common_tables: CommonTables) -> None:
        self.items, self.common_tables = items, common_tables

    def unknown_columns(self, query: exp.Expr) -> list[exp.Column]:
        """The columns of a query, and of subqueries in it, that no input in reach has; they are nodes of the tree."""
        if isinstance(query, exp.Subquery):
            return self.unknown_columns(query.this)
        self.items.local.append(self.common_tables(query))  # type: ignore[arg-type]
        try:
            if isinstance(query, exp.SetOperation):
                return [*self.unknown_columns(query.this), *self.unknown_columns(query.expression)]
            return self._unknown_in(query) if isinstance(query, exp.Select) else []
        finally:
            self.items.local.pop()

    def _unknown_in(self, select: exp.Select) -> list[exp.Column]:
        inputs = [self.items.bind_item(item)[0] for item, _ in from_clauses(select)]
        aliases = {e.alias.lower() for e in select.expressions if isinstance(e, exp.Alias)}
        found: list[exp.Column] = []
        for clause in own_clauses(select):
            named = aliases if isinstance(clause, (exp.Group, exp.Having)) else set()
            for node in own_nodes(clause):
                if isinstance(node, exp.Query):
                    found += [c for c in self.unknown_columns(node) if not _is_own(c, inputs)]
                elif isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                    meant = not node.table and node.name.lower() in named
                    found += [] if meant or _is_own(node, inputs) else [node]
        return found


def _is_own(column: exp.Column, inputs: list[Input]) -> bool:
    if column.name.lower() == "ts" and not column.table:
        return bool(inputs)
    return any(is_column_of(column, item) for item in inputs)
