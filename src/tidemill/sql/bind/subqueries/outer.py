"""The rows around a subquery: what their columns are called, and the columns that subqueries add to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.plan import relations as r
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import ColumnRef, Scalar
from tidemill.sql.bind.aggregate_calls import column_not_grouped, not_grouped
from tidemill.sql.bind.bound import BoundQuery
from tidemill.sql.bind.scalar import Bound, Scalars
from tidemill.sql.bind.scope import Field, Scope
from tidemill.sql.dialect.nodes import PlanColumn, copy_tree


@dataclass
class Outer:
    """The rows of a SELECT to which subqueries are attached: those of FROM and WHERE, or with `grouped` its groups.

    Groups have the columns that `replaced` names: keys and aggregates by their text.
    """

    scope: Scope
    grouped: Relation | None = None
    replaced: dict[str, str] = field(default_factory=dict)
    attached: dict[str, exp.Expression] = field(default_factory=dict)  # what stands for a subquery, by its text

    @property
    def node(self) -> Relation:
        return self.scope.node if self.grouped is None else self.grouped

    @node.setter
    def node(self, node: Relation) -> None:
        if self.grouped is None:
            self.scope.node = node
        else:
            self.grouped = node

    @property
    def scalars(self) -> Scalars:
        """Binds expressions over the rows as they are now."""
        return Scalars(self.scope, self.node.schema, self.replaced)

    def names(self, column: exp.Column) -> bool:
        """Whether a column of a subquery is one of these rows."""
        return any(is_column_of(column, item) for item in self.scope.inputs)

    def bind(self, expression: exp.Expression) -> Bound:
        """An expression over the rows; a column of USING may stand without an alias."""
        merged = self.scope.merged
        if isinstance(expression, exp.Column) and not expression.table and expression.name.lower() in merged:
            expression = copy_tree(merged[expression.name.lower()])
        try:
            return self.scalars.bind(expression)
        except PlanProblem as error:
            if self.grouped is not None and not_grouped(error):
                raise column_not_grouped(expression) from None
            raise

    def read_beside(self, bound: BoundQuery) -> None:
        """Take note of a relation that is read beside the inputs of FROM."""
        self.scope.needs |= bound.needs
        self.scope.beside.append(bound.as_input(""))

    def next_name(self) -> str:
        """A prefix for columns that no other has."""
        return f"__sub{next(self.scope.numbers)}"

    def add(self, value: Scalar, kind: str) -> PlanColumn:
        """One more column, computed from the others."""
        if isinstance(value, ColumnRef):
            return PlanColumn(this=value.name)
        name = f"{self.next_name()}.value"
        self.node = r.Project(self.node, (*map(Item.of, self.node.schema), Item(name, value, kind)))
        return PlanColumn(this=name)


class Named(Protocol):
    """What has columns: an input of FROM, or the names of one."""

    @property
    def alias(self) -> str: ...
    @property
    def ts(self) -> str | None: ...
    def field(self, name: str) -> Field | None: ...


def is_column_of(column: exp.Column, item: Named) -> bool:
    """Whether a column may be one of an input, or its TS."""
    if column.table and column.table.lower() != item.alias.lower():
        return False
    return item.field(column.name) is not None or (
        column.name.lower() == "ts" and (bool(column.table) or bool(item.ts))
    )
