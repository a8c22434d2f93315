"""A bound query: a relation of the algebra with what users see of it: columns, key, time."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.plan.relations import Item, Project, Relation
from tidemill.plan.scalars import ColumnRef
from tidemill.plan.sources import Schema
from tidemill.sql.bind.scope import Domain, Field, Input, Rhythm


@dataclass(frozen=True)
class BoundQuery:
    """A query as a relation: its columns by name, what identifies a row, its time domain, when it refreshes."""

    node: Relation
    keys: tuple[str, ...] | None
    domain: Domain
    rhythm: Rhythm
    needs: frozenset[str]

    @property
    def schema(self) -> Schema:
        return self.node.schema

    def as_input(self, alias: str) -> Input:
        """This query as an item of FROM."""
        fields = tuple(Field(c.name, c.name, c.type) for c in self.schema)
        return Input(alias, self.node, fields, None, self.keys, self.domain, self.rhythm, self.needs)


def visible(item: Input) -> BoundQuery:
    """All columns of an input as `SELECT *` shows them."""
    items = tuple(Item(f.name, ColumnRef(f.column), f.type) for f in item.fields)
    names = {f.column: f.name for f in item.fields}
    keys = tuple(names[k] for k in item.keys) if item.keys is not None else None
    return BoundQuery(Project(item.node, items), keys, item.domain, item.rhythm, item.needs)
