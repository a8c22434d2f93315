"""DISTINCT, EXCEPT, INTERSECT, the paper's difference, semi joins, and the unmatched rows of outer and anti joins.

For every row value walk the closed times, keep its multiplicities l and r on both sides, and emit the change
of m(l, r) wherever it changes. State: (row, l, r) for every value present on either side, and, where rows have a
time stamp and it is known when those of a stamp have all come, only for those that can still change.
"""

from __future__ import annotations

import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING
from tidemill.plan.released import is_open
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.changes import PENDING, distinct_hashes, take_closed
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql, name_list
from tidemill.runtime.operators.band import ReleaseBounds, expire_rows
from tidemill.runtime.state.arrangements import Layout
from tidemill.runtime.state.shard_state import ShardState

LEFT, RIGHT = Column("__l", "BIGINT"), Column("__r", "BIGINT")

MULTIPLICITY = {
    "distinct": "CASE WHEN __l > 0 THEN 1 ELSE 0 END",
    "except_all": "greatest(__l - greatest(__r, 0), 0)",
    "except": "CASE WHEN __l > 0 AND __r <= 0 THEN 1 ELSE 0 END",
    "intersect_all": "greatest(least(__l, __r), 0)",
    "intersect": "CASE WHEN __l > 0 AND __r > 0 THEN 1 ELSE 0 END",
    "anti": "CASE WHEN __r > 0 THEN 0 ELSE greatest(__l, 0) END",
    "semi": "CASE WHEN __r > 0 THEN greatest(__l, 0) ELSE 0 END",
}


class SetCombine(Operator[p.SetCombine]):
    """Inputs: counted changes of the left and, where there is one, of the right side; then the points that hold rows
    of them back.
    """

    def __init__(self, op: p.SetCombine, first: bool = True) -> None:
        super().__init__(op, first)
        self.names = [c.name for c in self.schema]
        adds = ((LEFT, "sum"), (RIGHT, "sum"))
        self.pending = Layout("__time", self.schema, adds)
        self.layout = Layout("__h", self.schema, adds)
        self.sides = len(op.inputs) if op.sides is None else op.sides

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        sides, points = inputs[: self.sides], inputs[self.sides :]
        frontier = min(b.frontier for b in sides)
        tables = [b.rows for b in sides if b.rows is not None and b.rows.num_rows]
        pending = self.arrangement(state, PENDING, self.pending)
        closed = take_closed(pending, pa.concat_tables(tables) if tables else None, frontier)
        out = self._multiplicity_changes(closed, state) if closed.num_rows else None
        if self.op.stamp is not None:
            self._expire(self.op.stamp, frontier, points, state)
        return Batch(out, frontier)

    def _expire(self, stamp: str, frontier: int, points: list[Batch], state: ShardState) -> None:
        """Remove rows of stamps that are complete on both sides: their multiplicities no longer change."""
        seen = state.value(self.id)
        bounds = ReleaseBounds(self.op.released, points, frontier, seen).bounds.values()
        if all(b is not None and is_open(b) for b in bounds):
            before = min(b for b in bounds if b is not None)
            expire_rows(self.arrangement(state, "counts", self.layout), stamp, before, seen, "counts", state)

    def _multiplicity_changes(self, closed: pa.Table, state: ShardState) -> pa.Table:
        names = name_list(self.names)
        sums = "CAST(sum(__l) AS BIGINT) AS __l, CAST(sum(__r) AS BIGINT) AS __r"
        delta = duck.run(
            f"SELECT {hash_sql(self.names)} AS __h, {names}, __time, {sums}"
            f" FROM {duck.source('closed', self.schema, '__time', '__l', '__r')} GROUP BY {names}, __time",
            closed=closed,
        )
        arranged = self.arrangement(state, "counts", self.layout)
        base = arranged.probe(distinct_hashes(delta))
        m = MULTIPLICITY[self.op.operation]
        out = duck.run(
            f"""WITH moves AS (
                  SELECT {names}, __time, __l, __r FROM {duck.source("delta", self.schema, "__time", "__l", "__r")}
                  UNION ALL SELECT {names}, {BEGINNING}, {sums}
                    FROM {duck.source("base", self.schema, "__l", "__r")} GROUP BY {names}),
                running AS (SELECT {names}, __time, sum(__l) OVER w AS __l, sum(__r) OVER w AS __r FROM moves
                  WINDOW w AS (PARTITION BY {names} ORDER BY __time ROWS UNBOUNDED PRECEDING)),
                valued AS (SELECT *, {m} AS __m FROM running),
                steps AS (SELECT *, __m - coalesce(lag(__m) OVER (PARTITION BY {names} ORDER BY __time), 0) AS __d
                  FROM valued)
                SELECT {names}, __time, CAST(__d AS BIGINT) AS __diff FROM steps
                WHERE __time > {BEGINNING} AND __d <> 0""",
            delta=delta,
            base=base,
        )
        arranged.append(delta.drop_columns(["__time"]))
        arranged.compact()
        return out
