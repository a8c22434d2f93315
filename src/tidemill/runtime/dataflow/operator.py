"""What every stateful operator is: change batches in, change batches out, exact for any cut.

A change batch is an Arrow table of the operator's columns plus `__time` and `__diff`. Its frontier is a
promise: no change before it will come any more. Times before the frontier are closed; an operator that
needs order processes closed changes only and keeps the others as pending changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import pyarrow as pa

from tidemill.plan.measured.joins import JoinCounts
from tidemill.plan.physical import Op
from tidemill.runtime.messages.operator_counts import ShedCount
from tidemill.runtime.state.arrangements import Arrangement, Layout
from tidemill.runtime.state.shard_state import ShardState

Spec = TypeVar("Spec", bound=Op)  # the operator as the plan describes it
Note = JoinCounts | ShedCount


@dataclass
class Batch:
    """Changes (None when there are none) and the frontier behind which no more will come.

    An operator with many outputs leaves them in `picks`, by name. `netted`: no two changes of one time are of equal
    rows, and no other batch has changes of these times.
    """

    rows: pa.Table | None
    frontier: int
    picks: dict[str, pa.Table] | None = None
    netted: bool = False

    @property
    def empty(self) -> bool:
        return self.rows is None or self.rows.num_rows == 0


class Operator(Generic[Spec]):
    """One stateful operator of one shard; the object lives for a batch, its memory is the state of the shard."""

    takes_references: ClassVar[bool] = False  # inputs may have row_references in the place of texts

    def __init__(self, op: Spec, first: bool = True) -> None:
        self.op = op
        self.first = first  # the shard to which keyless rows belong
        self.id = op.id
        self.schema = op.schema
        self.on_row_error: Callable[[Op, pa.Table, str], None] | None = None  # gets rows on which an expression fails
        self.shard = (0, 1)  # which one of how many
        self.note: Note | None = None  # what it counted in this batch

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        """Take one micro-batch of input changes to output changes."""
        raise NotImplementedError

    def arrangement(self, state: ShardState, name: str, layout: Layout) -> Arrangement:
        """This operator's arrangement `name`."""
        return state.arrangement(self.id, name, layout)
