"""WITH RECURSIVE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidemill.plan.physical.base import Op
from tidemill.plan.sources import Schema


@dataclass(frozen=True)
class RecursiveInput:
    """The columns of one input."""

    columns: Schema


@dataclass(frozen=True)
class Recursive(Op):
    """The fixpoint of `step` over the first input, all of whose rows are in one shard (`plan.relations.Recursive`)."""

    kind: ClassVar[str] = "recursive"

    sides: tuple[RecursiveInput, ...]
    step: str
    distinct: bool
