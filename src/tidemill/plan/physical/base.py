"""What every physical operator has, and what the linear ones say of their input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tidemill.plan.aggregates import Combine
from tidemill.plan.sources import Schema


@dataclass(frozen=True)
class Op:
    """One operator: the operators or ports it reads, and the columns of the rows that come out.

    `kind` is its name in plan files and in what is shown of a plan.
    """

    kind: ClassVar[str]

    id: str
    inputs: tuple[str, ...]
    schema: Schema


@dataclass(frozen=True)
class Linear(Op):
    """A stateless operator over one input: one SELECT, in a reader or in a stage."""

    passes: ClassVar[bool] = False  # whether its rows have all columns of its input

    @property
    def reads(self) -> tuple[str, ...] | None:
        """Columns of its input that it computes with; None in a plan that was written before they were noted."""
        return ()


class Item(NamedTuple):
    """One computed column: its name, and SQL over the operator's input."""

    name: str
    sql: str


class Part(NamedTuple):
    """A column of partial aggregates, and how two of its values become one."""

    name: str
    type: str
    combine: Combine
