"""GROUP BY over inner joins as one operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from tidemill.plan.aggregates import Combine
from tidemill.plan.physical.base import Op
from tidemill.plan.sources import Column


class InputPart(NamedTuple):
    """A part that an input of the join has, and its SQL over single rows with weight `__diff`."""

    name: str
    type: str
    combine: Combine
    sql: str


@dataclass(frozen=True)
class JoinInput:
    """One input: its key, the arguments of its late form, the parts of its early form.

    `order` lists the other inputs in the order in which its changes are joined with them. Keys in `extremes` keep an
    extreme.
    """

    keys: tuple[Column, ...]
    args: tuple[Column, ...]
    parts: tuple[InputPart, ...]
    early: bool
    order: tuple[int, ...]
    stored: bool
    extremes: tuple[str, ...] = ()


class Equality(NamedTuple):
    """Two columns of two inputs that are equal in joined rows."""

    left_input: int
    left: str
    right_input: int
    right: str


class OutputKey(NamedTuple):
    """A grouping key, computed from a joined row."""

    name: str
    type: str
    sql: str


class OutputPart(NamedTuple):
    """A part of the output; `input` has it, or it is computed from a joined row where that is -1."""

    name: str
    type: str
    combine: Combine
    input: int
    sql: str


class OutputValues(NamedTuple):
    """Values that the grouping above keeps; operator `op` picks them."""

    op: str
    sql: str
    type: str


@dataclass(frozen=True)
class JoinOutputs:
    """What comes out of joined rows.

    `reads` has the columns that each expression over joined rows reads, the residual of the join among them. Plans that
    were written before it existed lack it.
    """

    keys: tuple[OutputKey, ...]
    parts: tuple[OutputPart, ...]
    values: tuple[OutputValues, ...]
    reads: dict[str, tuple[str, ...]] = field(default_factory=dict)


class HotKey(NamedTuple):
    """A key that is copied to all shards in all inputs but `input`."""

    hash: int
    input: int


class Copy(NamedTuple):
    """The rows of hot keys that their home shards send of one input, in one form; operator `op` picks them."""

    input: int
    form: str
    op: str


@dataclass(frozen=True)
class Splitting:
    """How hot keys are split over the shards: the columns by which each input is split (None: every shard has a copy),
    the inputs that may be spread, keys that are hot, and those of them that are split already.
    """

    keys: tuple[tuple[str, ...] | None, ...]
    spread: tuple[int, ...]
    hot: tuple[HotKey, ...] = ()
    split: tuple[int, ...] = ()
    copies: tuple[Copy, ...] = ()


@dataclass(frozen=True)
class JoinAggregate(Op):
    """Partial aggregates of the changes of a join; `hot` is None where keys cannot be split."""

    kind: ClassVar[str] = "join_aggregate"

    joined: tuple[JoinInput, ...] = field(metadata={"json": "inputs"})
    on: tuple[Equality, ...]
    residual: str | None
    method: str
    outputs: JoinOutputs
    hot: Splitting | None = None
