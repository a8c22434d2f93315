"""The values of one column inside the groups of a GROUP BY, for aggregates that sums cannot answer.

Two questions are answered, each at a cost that follows the changes and not the size of the group:

- how does the number of different values change (COUNT DISTINCT)? `distinct_values` tells it.
- what is the least and the greatest value at each time (MIN, MAX)? A batch that takes d values out of a group can
  reveal at most d others, so d + 1 live values from each end of the stored group are enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.operators.base import Batch, hash_sql, take_closed
from tidemill.runtime.operators.distinct_values import DistinctValues
from tidemill.runtime.operators.join_values import number_rows, ranked
from tidemill.runtime.state import Arrangement, Layout, Shelf

COUNT = Column("__n", "BIGINT")


class Values:
    """State and changes of one column; `once` names the part that counts different values."""

    def __init__(self, node: str, index: int, keys: tuple[Column, ...], params: dict[str, Any]) -> None:
        self.node, self.index, self.keys = node, index, keys
        self.key_names = [c.name for c in keys]
        self.columns = (*keys, Column("__v", params["type"]))
        self.once: str | None = params["once"]
        self.low, self.high = bool(params["low"]), bool(params["high"])
        self.distinct = DistinctValues(keys, params["type"], bool(params.get("sets")))

    def closed(self, batch: Batch, frontier: int, shelf: Shelf) -> pa.Table:
        """Closed changes of the values' multiplicities."""
        agenda = Layout("__time", self.columns, ((COUNT, "sum"),))
        return take_closed(shelf.arrangement(self.node, f"agenda{self.index}", agenda), batch.rows, frontier)

    def once_state(self, shelf: Shelf) -> Arrangement:
        """The multiplicity of every value, by key and value."""
        return shelf.arrangement(self.node, f"once{self.index}", self.distinct.layout)

    def value_state(self, shelf: Shelf) -> Arrangement:
        """The same by key, and in the order of values."""
        layout = Layout("__h", self.columns, ((COUNT, "sum"),), "__n", then="__v")
        return shelf.arrangement(self.node, f"values{self.index}", layout)

    def turns(self, closed: pa.Table, shelf: Shelf) -> pa.Table:
        """(keys, __time, __turn): by how much the number of different values changes; 0 where nobody asks."""
        turn = np.zeros(closed.num_rows, np.int64)
        if self.once is not None:
            group, _ = number_rows([closed.column(k) for k in self.key_names], closed.num_rows)
            _, rank = ranked(closed.column("__time").to_numpy())
            turn, delta = self.distinct.turns(closed, group, rank, self.once_state(shelf))
            add_to(self.once_state(shelf), delta)
        return closed.select([*self.key_names, "__time"]).append_column("__turn", pa.array(turn))

    def extremes(self, closed: pa.Table, touched: np.ndarray, shelf: Shelf) -> pa.Table | None:
        """Least and greatest value of each touched key at each time, what is stored first (at BEGINNING)."""
        if not self.low and not self.high:
            return None
        # Imported on first use: most plans never need numba, and loading it costs a second.
        from tidemill.runtime.kernels.extremes import walk_values

        state = self.value_state(shelf)
        source = duck.source("closed", (*self.columns, COUNT), "__time")
        fresh = duck.run(f"SELECT {hash_sql(self.key_names)} AS __h, * FROM {source}", closed=closed)
        stored = state.ends(touched, self._needed(fresh, touched), self.low, self.high)
        walked = walk_values(self.keys, self.columns[-1], stored, fresh)
        state.append(fresh.drop_columns(["__time"]))
        state.compact()
        return walked

    def _needed(self, fresh: pa.Table, touched: np.ndarray) -> np.ndarray:
        """One more live value than the batch takes out of the key's group."""
        gone = duck.run("SELECT __h, CAST(sum(-__n) AS BIGINT) AS g FROM fresh WHERE __n < 0 GROUP BY __h", fresh=fresh)
        need = np.ones(len(touched), np.int64)
        at = np.searchsorted(touched, gone.column("__h").to_numpy())
        need[at] += gone.column("g").to_numpy()
        return need


def add_to(state: Arrangement, delta: pa.Table | None) -> None:
    """Add changes, if there are any."""
    if delta is not None:
        state.append(delta)
        state.compact()
