"""ISTREAM and DSTREAM: the rows that come, or those that go, at each time.

Let m(x, t) be how often row x is in the input at time t, and d(x, t) the sum of its changes at t. Then

    inserted(x, t) = max(m(x, t) − m(x, t⁻), 0) = max(d(x, t), 0)        deleted(x, t) = max(−d(x, t), 0)

so nothing of the relation has to be known but its changes of one closed time, and the state is what is not closed yet.
All changes of a row are in one shard, or none of them is negative.
"""

from __future__ import annotations

from tidemill.plan import physical as p
from tidemill.plan.relations import quoted
from tidemill.runtime.dataflow.changes import PENDING, pending_layout, take_closed
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.duckdb import duck
from tidemill.runtime.state.shard_state import ShardState


class ChangeStream(Operator[p.ChangeStream]):
    """Input: changes. Output: one insertion for each copy of a row that came, or went."""

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        columns = self.schema[1:]
        frontier = inputs[0].frontier
        pending = self.arrangement(state, PENDING, pending_layout(columns))
        closed = take_closed(pending, inputs[0].rows, frontier)
        if closed.num_rows == 0:
            return Batch(None, frontier)
        names = "".join(f"{quoted(c.name)}, " for c in columns)
        moved = f"CAST({'-' if self.op.deleted else ''}sum(__diff) AS BIGINT)"
        netted = (
            f"SELECT {names}__time, {moved} AS __diff FROM {duck.source('closed', columns, '__time', '__diff')}"
            f" GROUP BY {names}__time HAVING {moved} > 0"
        )
        rows = duck.run(f'SELECT {self.op.stamp} AS "TS", {names}__time, __diff FROM ({netted})', closed=closed)
        return Batch(rows if rows.num_rows else None, frontier)
