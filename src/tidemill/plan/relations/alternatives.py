"""A query that another plan answers from an agreed time on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidemill.plan.cached import cached_property
from tidemill.plan.relations.base import Relation
from tidemill.plan.sources import Schema


@dataclass(frozen=True, eq=False)
class Alternatives(Relation):
    """The answer of the query of view `view` (its id) by the plan that is in force, the first input, or from some time
    on by another one, the second. `agreed`: from this time on the second plan has all rows that count; None: that is
    not known yet. `numbers` are those of the plans, which are never used again.

    The name of the node depends on the view and the columns alone, so what reads it goes on when plans change.
    """

    VARIES: ClassVar[bool] = True

    view: str
    columns: Schema
    inputs: tuple[Relation, ...]
    numbers: tuple[int, ...]
    agreed: int | None = None

    def check(self) -> None:
        assert 1 <= len(self.inputs) == len(self.numbers) <= 2, "one plan is in force, and one may follow it"
        assert all(i.names == self.names for i in self.inputs), "the plans of a query have the same columns"

    def naming_text(self) -> str:
        return f"Alternatives {self.view} {self.columns}"

    @cached_property
    def schema(self) -> Schema:
        return self.columns
