"""The answer of a query that reads its sources a second time, held back until they have caught up with the first.

Let c be the moment at which the query was created, and Δ(t) the changes of its answer at time t. The output is

    Δ'(c) = Σ Δ(t) for t ≤ c        Δ'(t) = Δ(t) for t > c

and no time of it is closed as long as a source is behind, or c is not closed. So nothing is shown of a past that is
still being read, and what is present at c appears at once. The operators behind hold changes until they are closed and
add them up by row and time: rows that came and went before c cancel there.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.state.shard_state import ShardState


class CatchUp(Operator[p.CatchUp]):
    """Input: changes. Output: the same, those until the moment at the moment."""

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        batch, moment = inputs[0], self.op.moment
        known = state.sources()
        waits = batch.frontier <= moment or any(known[name].get("behind") for name in self.op.sources)
        return Batch(_not_before(batch.rows, moment), BEGINNING if waits else batch.frontier)


def _not_before(rows: pa.Table | None, moment: int) -> pa.Table | None:
    if rows is None or not rows.num_rows:
        return rows
    times = np.maximum(rows.column("__time").to_numpy(), moment)
    return rows.set_column(rows.schema.get_field_index("__time"), "__time", pa.array(times, pa.int64()))
