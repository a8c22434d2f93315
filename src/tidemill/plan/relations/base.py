"""What every node of the algebra is: a multiset of rows that changes over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidemill.plan.cached import cached_property
from tidemill.plan.node import Node
from tidemill.plan.scalars import ColumnRef, Scalar
from tidemill.plan.sources import Column, Schema

TS = "__ts"
SEQ = "__seq"
STATIC_TIME = -62_135_596_800_000_000  # rows of a table were always there: since the year 1


@dataclass(frozen=True, eq=False)
class Relation(Node):
    """A node whose value at every time is a multiset of rows of `schema`."""

    @property
    def schema(self) -> Schema:
        raise NotImplementedError

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(c.name for c in self.schema)

    def type_of(self, name: str) -> str:
        """DuckDB type of a column."""
        return next(c.type for c in self.schema if c.name == name)


@dataclass(frozen=True)
class Item:
    """One output column of a projection: a name, its expression, its type."""

    IN_MANY_NODES: ClassVar[bool] = True  # for `plan.node`: rules build nodes anew with the same items

    name: str
    value: Scalar
    type: str

    @classmethod
    def of(cls, column: Column) -> Item:
        """A column of the input as it is."""
        return cls(column.name, ColumnRef(column.name), column.type)

    @property
    def sql(self) -> str:
        """The expression as DuckDB text."""
        return self.value.sql
