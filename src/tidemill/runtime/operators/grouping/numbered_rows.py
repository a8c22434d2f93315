"""Changes of one tagger made ready for all groupings by the same key: closed, in the order of time, groups numbered.

Several groupings of the rows of a shared tagger differ in what they select and add up; what they have in common is done
once: the rows travel once to the shard of their group, wait until their time is closed, are sorted by time, and their
groups are numbered. Each grouping (`joint_group.py`) then walks the rows that it selects.

Output: the changes with the number of their group, `__g`, and as a pick the groups by number, with their hashes.
State: changes whose time is not closed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.runtime.dataflow.changes import PENDING, pending_layout, take_closed
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.dataflow.value_codes import number_rows
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql
from tidemill.runtime.state.shard_state import ShardState

GROUPS = "groups"


class NumberedRows(Operator[p.NumberedRows]):
    """Input: changes with the columns `__key0`, `__key1`, … that are the key."""

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        frontier = inputs[0].frontier
        pending = self.arrangement(state, PENDING, pending_layout(self.schema))
        closed = take_closed(pending, inputs[0].rows, frontier)
        if closed.num_rows == 0:
            return Batch(None, frontier)
        rows = sort_by_time(closed)
        numbers, first = number_rows([rows.column(k) for k in self.op.keys], rows.num_rows)
        groups = rows.select(list(self.op.keys)).take(pa.array(first))
        return Batch(rows.append_column("__g", pa.array(numbers)), frontier, {GROUPS: self._hash_groups(groups)})

    def _hash_groups(self, groups: pa.Table) -> pa.Table:
        inner = duck.source("groups", [c for c in self.schema if c.name in self.op.keys])
        found = duck.run(f"SELECT {hash_sql(self.op.keys)} AS __h FROM {inner}", groups=groups)
        return groups.append_column("__h", found.column("__h"))


def sort_by_time(rows: pa.Table) -> pa.Table:
    """The rows by rising time, in one piece; those of one time in the order in which they are.

    >>> sort_by_time(pa.table({"x": [1, 2, 3], "__time": [5, 4, 5]})).column("x").to_pylist()
    [2, 1, 3]
    """
    times = rows.column("__time").to_numpy()
    if bool((times[1:] >= times[:-1]).all()):
        return rows.combine_chunks()
    return rows.combine_chunks().take(pa.array(np.argsort(times, kind="stable")))
