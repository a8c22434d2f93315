"""Each row of the left input, joined with what the right input is at the time of that row.

Let R(t) be the right input at time t. A row that comes at t gives {row} ⋈ R(t), where R(t) is what is stored and the
changes of this batch up to t, added up for each row. Both inputs are processed once their times are closed, so R(t) is
complete, and rows of the left input are not kept. State: the rows of R. A batch that spans much time is taken in
slices, oldest first, so that a row meets few changes that are not of its time.
"""

from __future__ import annotations

import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING
from tidemill.plan.relations import quoted
from tidemill.runtime.dataflow.changes import distinct_hashes
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import name_list
from tidemill.runtime.operators.join import Side, cut_slices
from tidemill.runtime.state.shard_state import ShardState


class JoinAt(Operator[p.JoinAt]):
    """Inputs: insertions on the left, changes on the right, both in the shard of the join key."""

    def __init__(self, op: p.JoinAt, first: bool = True) -> None:
        super().__init__(op, first)
        self.left = Side("left", op.left, lonely=op.outer)
        self.right = Side("right", op.right)

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        frontier = min(b.frontier for b in inputs)
        left = self.left.take_changes(inputs[0], frontier, self.id, state)
        right = self.right.take_changes(inputs[1], frontier, self.id, state)
        pieces = [self._join_slice(l, r, state) for l, r in cut_slices(left, right)]
        found = [piece for piece in pieces if piece is not None and piece.num_rows]
        return Batch(pa.concat_tables(found) if found else None, frontier)

    def _join_slice(self, left: pa.Table, right: pa.Table, state: ShardState) -> pa.Table | None:
        held = self.right.contents(self.id, state)
        found = self._pair(left, held.probe(distinct_hashes(left)), right) if left.num_rows else None
        if right.num_rows:
            names = ["__h", *(c.name for c in self.right.columns), "__n"]
            held.append(right.drop_columns(["__time"]).rename_columns(names))
            held.compact()
        return found

    def _pair(self, left: pa.Table, held: pa.Table, right: pa.Table) -> pa.Table:
        ours, theirs = ([c.name for c in side.columns] for side in (self.left, self.right))
        names = name_list(theirs)
        equal = [f"l.{quoted(a)} = r.{quoted(b)}" for a, b in zip(self.left.keys, self.right.keys, strict=True)]
        tests = [*equal, f"r.__since {'<' if self.op.before else '<='} l.__time"]
        residual = f" WHERE {self.op.residual}" if self.op.residual else ""
        return duck.run(
            f"""WITH l AS (SELECT *, row_number() OVER () AS __i
                  FROM {duck.source("lefts", self.left.columns, "__time", "__diff")}),
                r AS (SELECT {names}, {BEGINNING} AS __since, __n AS __copies
                    FROM {duck.source("held", self.right.columns, "__n")}
                  UNION ALL SELECT {names}, __time, __diff
                    FROM {duck.source("rights", self.right.columns, "__time", "__diff")}),
                pairs AS (SELECT __i, {names}, sum(__copies) AS __copies
                  FROM l JOIN r ON {" AND ".join(tests)}{residual}
                  GROUP BY __i{"".join(", " + quoted(n) for n in theirs)} HAVING sum(__copies) <> 0)
                SELECT {", ".join([*(f"l.{quoted(n)}" for n in ours), *(f"m.{quoted(n)}" for n in theirs)])},
                  l.__time, CAST(l.__diff * coalesce(m.__copies, 1) AS BIGINT) AS __diff
                FROM l {"LEFT" if self.op.outer else ""} JOIN pairs m ON m.__i = l.__i""",
            lefts=left,
            held=held,
            rights=right,
        )
