"""The values of one column inside the groups of a GROUP BY, for aggregates that sums cannot answer.

Two things are computed, each at a cost proportional to the changes and not to the size of the group:

- the changes of the number of different values (COUNT DISTINCT): `distinct_values`;
- the least and the greatest value at each time (MIN, MAX). A batch that deletes d values of a group can make at most d
  others the least or the greatest, so d + 1 live values from each end of the stored group are enough.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.plan.physical import KeptValues
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.changes import PENDING, take_closed
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.dataflow.value_codes import number_rows, rank_times
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql
from tidemill.runtime.operators.grouping.distinct_values import DistinctValues
from tidemill.runtime.operators.grouping.value_walk import walk_values
from tidemill.runtime.state.arrangements import Arrangement, Layout
from tidemill.runtime.state.shard_state import ShardState

COUNT = Column("__n", "BIGINT")


class Values:
    """State and changes of one column; `once` names the part that counts different values."""

    def __init__(self, node: str, index: int, keys: tuple[Column, ...], kept: KeptValues) -> None:
        self.node, self.index, self.keys = node, index, keys
        self.key_names = [c.name for c in keys]
        self.columns = (*keys, Column("__v", kept.type))
        self.once = kept.once
        self.low, self.high = kept.low, kept.high
        self.distinct = DistinctValues(keys, kept.type, kept.sets)

    def take_changes(self, batch: Batch, frontier: int, state: ShardState) -> pa.Table:
        """Closed changes of the values' multiplicities."""
        pending = Layout("__time", self.columns, ((COUNT, "sum"),))
        return take_closed(state.arrangement(self.node, f"{PENDING}{self.index}", pending), batch.rows, frontier)

    def once_state(self, state: ShardState) -> Arrangement:
        """The multiplicity of every value, by key and value."""
        return state.arrangement(self.node, f"once{self.index}", self.distinct.layout)

    def value_state(self, state: ShardState) -> Arrangement:
        """The same by key, and in the order of values."""
        layout = Layout("__h", self.columns, ((COUNT, "sum"),), "__n", then="__v")
        return state.arrangement(self.node, f"values{self.index}", layout)

    def distinct_changes(self, closed: pa.Table, state: ShardState) -> pa.Table:
        """(keys, __time, __turn): the change of the number of different values; 0 where it is not counted."""
        turn = np.zeros(closed.num_rows, np.int64)
        if self.once is not None:
            group, _ = number_rows([closed.column(k) for k in self.key_names], closed.num_rows)
            _, rank = rank_times(closed.column("__time").to_numpy())
            turn, delta = self.distinct.count_changes(closed, group, rank, self.once_state(state))
            add_to(self.once_state(state), delta)
        return closed.select([*self.key_names, "__time"]).append_column("__turn", pa.array(turn))

    def walk_extremes(self, closed: pa.Table, touched: np.ndarray, state: ShardState) -> pa.Table | None:
        """Least and greatest value of each touched key at each time, what is stored first (at BEGINNING)."""
        if not self.low and not self.high:
            return None
        arranged = self.value_state(state)
        source = duck.source("closed", (*self.columns, COUNT), "__time")
        fresh = duck.run(f"SELECT {hash_sql(self.key_names)} AS __h, * FROM {source}", closed=closed)
        stored = arranged.ends(touched, self._count_needed(fresh, touched), self.low, self.high)
        walked = walk_values(self.keys, self.columns[-1], stored, fresh)
        arranged.append(fresh.drop_columns(["__time"]))
        arranged.compact()
        return walked

    def _count_needed(self, fresh: pa.Table, touched: np.ndarray) -> np.ndarray:
        """One more live value than the batch deletes from the key's group."""
        gone = duck.run("SELECT __h, CAST(sum(-__n) AS BIGINT) AS g FROM fresh WHERE __n < 0 GROUP BY __h", fresh=fresh)
        need = np.ones(len(touched), np.int64)
        at = np.searchsorted(touched, gone.column("__h").to_numpy())
        need[at] += gone.column("g").to_numpy()
        return need


def add_to(state: Arrangement, delta: pa.Table | None) -> None:
    """Add changes, if there are any, of which no two are of the same keys."""
    if delta is not None:
        state.append(delta, different=True)
        state.compact()
