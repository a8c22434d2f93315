"""The operators of relational algebra: filter, project, union, join, set operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidemill.plan.cached import cached_property
from tidemill.plan.relations.base import Item, Relation
from tidemill.plan.scalars import ColumnRef, Scalar
from tidemill.plan.sources import Column, Schema

SetKind = Literal["distinct", "except_all", "except", "intersect_all", "intersect", "anti", "semi"]


@dataclass(frozen=True, eq=False)
class Filter(Relation):
    """Rows that satisfy the predicate; times and multiplicities stay."""

    input: Relation
    predicate: Scalar

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Project(Relation):
    """One output row for each input row; times and multiplicities stay."""

    input: Relation
    items: tuple[Item, ...]

    @cached_property
    def schema(self) -> Schema:
        return tuple(Column(i.name, i.type) for i in self.items)

    def passes(self, name: str) -> str | None:
        """The input column that output column `name` copies, if it is a plain copy."""
        for item in self.items:
            if item.name == name:
                return item.value.name if isinstance(item.value, ColumnRef) else None
        return None


@dataclass(frozen=True, eq=False)
class Unnest(Relation):
    """Each row once for each element of a list, with the element in column `element` and its number, from 1 on, in
    `number`; times and multiplicities stay. A row whose list is empty or NULL has no row, with `outer` one that has
    NULL in both.
    """

    input: Relation
    list: Scalar
    element: str
    type: str
    number: str | None = None
    outer: bool = False

    @cached_property
    def schema(self) -> Schema:
        number = (Column(self.number, "BIGINT"),) if self.number is not None else ()
        return (*self.input.schema, Column(self.element, self.type), *number)


@dataclass(frozen=True, eq=False)
class Union(Relation):
    """All rows of all inputs, whose schemas agree."""

    inputs: tuple[Relation, ...]

    @cached_property
    def schema(self) -> Schema:
        return self.inputs[0].schema


@dataclass(frozen=True, eq=False)
class Join(Relation):
    """Inner equi-join with an optional residual predicate; column names of both sides differ.

    `keep_left_us` / `keep_right_us` (band joins): a row of that side cannot match a row of the other side whose stamp
    is more than this later than its own. Stamps are in the columns `left_ts` and `right_ts`. The row goes when all rows
    of such stamps have come (`plan.released`); None keeps it as long as it lives.
    """

    left: Relation
    right: Relation
    on: tuple[tuple[str, str], ...]
    residual: Scalar | None = None
    left_ts: str | None = None
    right_ts: str | None = None
    keep_left_us: int | None = None
    keep_right_us: int | None = None

    @cached_property
    def schema(self) -> Schema:
        return (*self.left.schema, *self.right.schema)

    def check(self) -> None:
        names = [c.name for c in self.schema]
        assert len(set(names)) == len(names), f"join sides share column names: {names}"


@dataclass(frozen=True, eq=False)
class SetCombine(Relation):
    """Multiplicity of each row from its multiplicities left (l) and right (r).

    distinct [l>0] · except_all max(l-r,0) · except [l>0 and r=0] · intersect_all min(l,r) ·
    intersect [l>0 and r>0] · anti l if r=0 else 0 · semi l if r>0 else 0.
    """

    kind: SetKind
    left: Relation
    right: Relation | None = None

    @cached_property
    def schema(self) -> Schema:
        return self.left.schema
