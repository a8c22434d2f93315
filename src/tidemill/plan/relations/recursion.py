"""WITH RECURSIVE: the rows that are found from others, again and again until no new ones come."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.plan.relations.base import Relation
from tidemill.plan.sources import Schema


@dataclass(frozen=True, eq=False)
class Previous(Relation):
    """The rows of the round before, inside of the query that finds the next ones; never part of a plan."""

    name: str
    columns: Schema

    @property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True, eq=False)
class Recursive(Relation):
    """At every time the rows of the first input, and those that `step` finds from the rows of the round before.

    `step` is SQL over `PREVIOUS` and the other inputs, `input_name(1)` and so on. `distinct`: each row once, so that
    rounds end where they find no new row; otherwise as often as it is found, until a round finds none.
    """

    inputs: tuple[Relation, ...]
    step: str
    distinct: bool

    @property
    def schema(self) -> Schema:
        return self.inputs[0].schema


PREVIOUS = "__previous"


def input_name(number: int) -> str:
    """The name of an input in the SQL of a step."""
    return f"__input{number}"
