"""Which columns in a subquery are columns of the query around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.sql.bind.bound import BoundQuery
from tidemill.sql.bind.from_items import FromItems
from tidemill.sql.bind.scope import Field, Input
from tidemill.sql.bind.subqueries.forms import from_clauses, own_clauses, own_nodes
from tidemill.sql.bind.subqueries.outer import Named, is_column_of
from tidemill.sql.bind.unfolding import unfolded_view
from tidemill.sql.bind.unnest import is_unnest

CommonTables = Callable[[exp.Expression], dict[str, BoundQuery]]


@dataclass(frozen=True)
class _Columns:
    """An item of FROM that reads other rows, of which only the names of its columns are known yet."""

    alias: str
    names: frozenset[str]
    ts: str | None = None

    def field(self, name: str) -> Field | None:
        return Field(name, name, "") if name.lower() in self.names else None


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
        inputs: list[Named] = []
        found: list[exp.Column] = []
        for item, _ in from_clauses(select):
            found += [c for c in self._read_in_item(item) if not _is_own(c, inputs)]
            inputs.append(self._bind_names(item, inputs))
        aliases = {e.alias.lower() for e in select.expressions if isinstance(e, exp.Alias)}
        for clause in own_clauses(select):
            named = aliases if isinstance(clause, (exp.Group, exp.Having)) else set()
            for node in own_nodes(clause):
                if isinstance(node, exp.Query):
                    found += [c for c in self.unknown_columns(node) if not _is_own(c, inputs)]
                elif isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                    meant = not node.table and node.name.lower() in named
                    found += [] if meant or _is_own(node, inputs) else [node]
        return found

    def _read_in_item(self, item: exp.Expression) -> list[exp.Column]:
        """The columns of other items, or of rows around the query, that an item of FROM reads."""
        if isinstance(item, exp.Subquery):
            return [] if unfolded_view(item) else self.unknown_columns(item)
        return [n for n in own_nodes(*item.expressions) if isinstance(n, exp.Column)] if is_unnest(item) else []

    def _bind_names(self, item: exp.Expression, before: list[Named]) -> Named:
        try:
            return self.items.bind_item(item)[0]
        except PlanProblem:
            if not isinstance(item, (exp.Subquery, exp.Unnest)):
                raise
            return _Columns(item.alias_or_name, frozenset(self._column_names(item)))

    def _column_names(self, item: exp.Expr) -> Iterator[str]:
        """The names of the columns of a subquery or UNNEST, as far as its text says them."""
        alias = item.args.get("alias")
        yield from (c.name.lower() for c in (alias.columns if alias is not None else ()))
        if isinstance(item, exp.Unnest):
            yield item.alias.lower()
            offset = item.args.get("offset")
            yield offset.name.lower() if isinstance(offset, exp.Identifier) else "ordinality"
        elif isinstance(item, (exp.Subquery, exp.SetOperation)):
            yield from self._column_names(item.this)
        elif isinstance(item, exp.Select):
            yield from (e.alias_or_name.lower() for e in item.expressions)
            if any(isinstance(n, exp.Star) for e in item.expressions for n in (e, e.this)):
                for inner, _ in from_clauses(item):
                    named = self._bind_names(inner, [])
                    fields = named.fields if isinstance(named, Input) else ()
                    yield from named.names if isinstance(named, _Columns) else (f.name.lower() for f in fields)


def _is_own(column: exp.Column, inputs: list[Named]) -> bool:
    if column.name.lower() == "ts" and not column.table:
        return bool(inputs)
    return any(is_column_of(column, item) for item in inputs)
