"""Windows that count rows, shared: rows are numbered once, and their numbers are the times of fragments.

    rows by time and value    a  b  c  d  e  f  g          [ROWS 3 SLIDE 2]
    number                    1  2  3  4  5  6  7
    event time                5  5  6  8  8  8  9
    point                        2     4     6             shows rows (p - 3, p], at the event time of row p
    seen                         5           8             of points at one event time only the last shows

Both operators run in the one shard to which all rows go.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.runtime.dataflow.changes import PENDING, pending_layout, take_closed
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.kernels.share.sliding import Answers
from tidemill.runtime.operators.windows import sort_insertions
from tidemill.runtime.share.reader.lfta import Lfta
from tidemill.runtime.share.stage.weave import Query, Weave
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes

MOMENTS = "moments"


class Numbering(Operator[p.Numbering]):
    """Closed rows of an append-only relation in order, through the hash tables, with their numbers for times.

    State: rows that wait for their time, and how many were numbered. Output: for each leaf its fragments, and the
    numbers and event times (`moments`) of the rows.
    """

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        batch = inputs[0]
        pending = self.arrangement(state, PENDING, pending_layout(self.schema))
        closed = take_closed(pending, batch.rows, batch.frontier)
        if closed.num_rows == 0:
            return Batch(None, batch.frontier)
        rows = sort_insertions(closed, self.schema)
        value = state.value(self.id)
        count = value.get("count", 0)
        value["count"] = count + rows.num_rows
        numbers = np.arange(count + 1, value["count"] + 1)
        moments = pa.table({"__k": numbers, "__time": rows.column("__time")})
        return Batch(None, batch.frontier, self._fragments(rows, numbers) | {MOMENTS: moments})

    def _fragments(self, rows: pa.Table, numbers: np.ndarray) -> dict[str, pa.Table]:
        """By leaf."""
        stamp = "__ts" if "__ts" in rows.column_names else "__time"
        times = rows.column(stamp).to_numpy()
        rows = rows.drop_columns(list({stamp, "__time"}))
        tables = Lfta(self.op, self.on_row_error)
        left: dict[str, list[pa.Table]] = {}
        for low in range(0, len(numbers), sizes.numbered_rows):
            part = slice(low, low + sizes.numbered_rows)
            for leaf, found in tables.push(rows.slice(low, sizes.numbered_rows), times[part], numbers[part]):
                left.setdefault(leaf, []).append(found)
        for leaf, found in tables.finish():
            left.setdefault(leaf, []).append(found)
        return {leaf: pa.concat_tables(found, promote_options="default") for leaf, found in left.items()}


class WeaveNumbered(Weave):
    """A fragment store whose times are row numbers. Input: what `Numbering` lets out.

    Law: the answer at a point p is that of `Weave`; it shows at the event time of row p.
    """

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        picks = inputs[0].picks or {}
        if MOMENTS not in picks:
            return Batch(None, inputs[0].frontier)
        self.moments = picks[MOMENTS].column("__time").to_numpy()
        self.first_number = picks[MOMENTS].column("__k")[0].as_py()
        assert isinstance(self.op, p.WeaveNumbered)
        leaves = (self.op.leaf, self.op.accumulator_leaf)
        numbered = [Batch(picks.get(leaf), self.first_number + len(self.moments)) for leaf in leaves]
        return Batch(None, inputs[0].frontier, super().step(numbered, state).picks)

    def _slide(self, rows: Any, query: Query, first: int, last: int) -> Answers:
        # A point is reported in the batch that numbers its row: its event time is among the moments.
        found = super()._slide(rows, query, first, last)
        return merge_by_time(found, self.moments[found.point - self.first_number])


def merge_by_time(changes: Answers, times: np.ndarray) -> Answers:
    """Replace points by `times`, and merge the changes of a group at one time into their net change.

    Count 1 comes at point 2, becomes 4 at point 4 and 5 at point 6; points 2 and 4 have the same time:

    >>> whole = np.array([[1, 1, 4, 4, 5]])
    >>> changes = Answers(np.array([2, 4, 4, 6, 6]), np.zeros(5, int), np.array([1, -1, 1, -1, 1]), whole, whole[:0], 0)
    >>> found = merge_by_time(changes, np.array([7, 7, 7, 8, 8]))
    >>> list(zip(found.point.tolist(), found.diff.tolist(), found.ints[0].tolist()))
    [(7, 1, 4), (8, -1, 4), (8, 1, 5)]
    """
    begins = np.ones(len(times) + 1, bool)
    begins[1:-1] = (changes.key[1:] != changes.key[:-1]) | (times[1:] != times[:-1])
    # The first old answer is the one from before, the last new answer the one from then on.
    kept = np.flatnonzero(np.where(changes.diff < 0, begins[:-1], begins[1:]))
    return Answers(
        times[kept],
        changes.key[kept],
        changes.diff[kept],
        changes.ints[:, kept],
        changes.floats[:, kept],
        changes.operations,
    )
