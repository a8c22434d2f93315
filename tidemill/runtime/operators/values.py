"""The values of one column inside the groups of a GROUP BY, for aggregates that sums cannot answer.

Two questions are answered, each at a cost that follows the changes and not the size of the group:

- how does the number of different values change (COUNT DISTINCT)? A value turns up when its multiplicity becomes
  positive and turns away when it falls to zero; only the touched values are looked up.
- what is the least and the greatest value at each time (MIN, MAX)? A batch that takes d values out of a group can
  reveal at most d others, so d + 1 live values from each end of the stored group are enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.plan.physical import BEGINNING
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.operators.base import Batch, hash_sql, hashes_of, take_closed
from tidemill.runtime.state import Layout, Shelf

COUNT = Column("__n", "BIGINT")


class Values:
    """State and changes of one column; `once` names the part that counts different values."""

    def __init__(self, node: str, index: int, keys: tuple[Column, ...], params: dict[str, Any]) -> None:
        self.node, self.index, self.keys = node, index, keys
        self.key_names = [c.name for c in keys]
        self.columns = (*keys, Column("__v", params["type"]))
        self.once: str | None = params["once"]
        self.low, self.high = bool(params["low"]), bool(params["high"])

    def closed(self, batch: Batch, frontier: int, shelf: Shelf) -> pa.Table:
        """Closed changes of the values' multiplicities."""
        agenda = Layout("__time", self.columns, ((COUNT, "sum"),))
        return take_closed(shelf.arrangement(self.node, f"agenda{self.index}", agenda), batch.rows, frontier)

    def turns(self, closed: pa.Table, shelf: Shelf) -> pa.Table:
        """(keys, __time, __turn): by how much the number of different values changes; 0 where nobody asks."""
        names = "".join(f"{quoted(k)}, " for k in self.key_names)
        source = duck.source("closed", self.columns, "__time", "__n")
        if self.once is None:
            return duck.run(f"SELECT DISTINCT {names}__time, CAST(0 AS BIGINT) AS __turn FROM {source}", closed=closed)
        hash_value = hash_sql([*self.key_names, "__v"])
        delta = duck.run(
            f"SELECT {hash_value} AS __h, {names}__v, __time, CAST(sum(__n) AS BIGINT) AS __n FROM {source}"
            f" GROUP BY ALL",
            closed=closed,
        )
        state = shelf.arrangement(self.node, f"once{self.index}", Layout("__h", self.columns, ((COUNT, "sum"),), "__n"))
        base = state.probe(hashes_of(delta))
        out = duck.run(
            f"""WITH moves AS (
                  SELECT {names}__v, __time, __n FROM {duck.source("delta", self.columns, "__time", "__n")}
                  UNION ALL SELECT {names}__v, {BEGINNING}, sum(__n)
                    FROM {duck.source("base", self.columns, "__n")} GROUP BY {names}__v),
                running AS (SELECT {names}__v, __time, sum(__n) OVER (PARTITION BY {names}__v ORDER BY __time
                  ROWS UNBOUNDED PRECEDING) > 0 AS __live FROM moves),
                steps AS (SELECT *, coalesce(lag(__live) OVER (PARTITION BY {names}__v ORDER BY __time), FALSE) AS __was
                  FROM running)
                SELECT {names}__time, CAST(sum(CAST(__live AS INTEGER) - CAST(__was AS INTEGER)) AS BIGINT) AS __turn
                FROM steps WHERE __time > {BEGINNING} GROUP BY ALL""",
            delta=delta, base=base,
        )
        state.append(delta.drop_columns(["__time"]))
        state.compact()
        return out

    def extremes(self, closed: pa.Table, touched: np.ndarray, shelf: Shelf) -> pa.Table | None:
        """Least and greatest value of each touched key at each time, what is stored first (at BEGINNING)."""
        if not self.low and not self.high:
            return None
        # Imported on first use: most plans never need numba, and loading it costs a second.
        from tidemill.runtime.kernels.extremes import walk_values

        layout = Layout("__h", self.columns, ((COUNT, "sum"),), "__n", then="__v")
        state = shelf.arrangement(self.node, f"values{self.index}", layout)
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
