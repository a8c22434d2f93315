"""WITH RECURSIVE: the rows that a step finds from others, until a round finds no new ones.

Let F be the first input, Iₖ the others, and s the step. The answer at each time is the least R with R = F ∪ s(R, I),
and without `distinct` the sum of F, s(F, I), s(s(F, I), I), … of multisets. It is computed anew at each time at which
an input changes, and the output is what differs from the answer before. State: the rows of all inputs, and the answer.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.relations import PREVIOUS, input_name
from tidemill.plan.sources import Schema
from tidemill.runtime.dataflow.changes import DIFF, PENDING, TIME, contents_layout, net, pending_layout, take_closed
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql, name_list
from tidemill.runtime.state.arrangements import Arrangement
from tidemill.runtime.state.shard_state import ShardState

MOST_ROWS = 10_000_000  # of an answer: a recursion that finds more may never end


class Recursive(Operator[p.Recursive]):
    """Inputs: changes of the first rows, then of what the step reads. Output: changes of the fixpoint."""

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        frontier = min(batch.frontier for batch in inputs)
        closed = [self._take_closed(i, batch, frontier, state) for i, batch in enumerate(inputs)]
        times = np.unique(np.concatenate([rows.column("__time").to_numpy() for rows in closed]))
        found = [self._answer_at(int(time), closed, state) for time in times]
        some = [rows for rows in found if rows.num_rows]
        return Batch(pa.concat_tables(some) if some else None, frontier)

    def _take_closed(self, number: int, batch: Batch, frontier: int, state: ShardState) -> pa.Table:
        columns = self.op.sides[number].columns
        pending = self.arrangement(state, f"{PENDING} {number}", pending_layout(columns))
        return net(take_closed(pending, batch.rows, frontier), columns)

    def _answer_at(self, time: int, closed: list[pa.Table], state: ShardState) -> pa.Table:
        """What changes in the answer at one time."""
        for number, rows in enumerate(closed):
            at = rows.filter(pa.array(rows.column("__time").to_numpy() == time))
            _add(self._contents(f"rows {number}", self.op.sides[number].columns, state), at)
        held = self._contents("answer", self.schema, state)
        changes = self._difference(self._fixpoint(state), held.scan(), time)
        _add(held, changes)
        return changes

    def _contents(self, name: str, columns: Schema, state: ShardState) -> Arrangement:
        return self.arrangement(state, name, contents_layout(columns))

    def _fixpoint(self, state: ShardState) -> pa.Table:
        tables, ctes = {}, []
        for number, side in enumerate(self.op.sides):
            held = self._contents(f"rows {number}", side.columns, state).scan()
            count = np.maximum(held.column("__n").to_numpy(), 0)
            tables[f"t{number}"] = held.take(pa.array(np.repeat(np.arange(held.num_rows), count)))
            ctes.append(f"{input_name(number)} AS (SELECT * FROM {duck.source(f't{number}', side.columns)})")
        names, union = name_list([c.name for c in self.schema]), "UNION" if self.op.distinct else "UNION ALL"
        ctes.append(f"{PREVIOUS}({names}) AS (SELECT {names} FROM {input_name(0)} {union} ({self.op.step}))")
        sql = f"WITH RECURSIVE {', '.join(ctes)} SELECT {names} FROM {PREVIOUS} LIMIT {MOST_ROWS + 1}"
        found = duck.run(sql, **tables)
        if found.num_rows > MOST_ROWS:
            raise ValueError(f"WITH RECURSIVE finds more than {MOST_ROWS:,} rows; it may never end")
        return found

    def _difference(self, found: pa.Table, held: pa.Table, time: int) -> pa.Table:
        names = name_list([c.name for c in self.schema])
        return duck.run(
            f"SELECT {names}, CAST({time} AS BIGINT) AS __time, CAST(sum(__n) AS BIGINT) AS __diff FROM ("
            f" SELECT {names}, 1 AS __n FROM {duck.source('found', self.schema)} UNION ALL"
            f" SELECT {names}, -__n FROM {duck.source('held', self.schema, '__n')})"
            f" GROUP BY {names} HAVING sum(__n) <> 0",
            found=found,
            held=held,
        ).cast(_changes_schema(held))


def _changes_schema(held: pa.Table) -> pa.Schema:
    """Columns of the arrangement, with time and difference."""
    own = [field for field in held.schema if field.name not in ("__h", "__n")]
    return pa.schema([*own, (TIME.name, pa.int64()), (DIFF.name, pa.int64())])


def _add(kept: Arrangement, changes: pa.Table) -> None:
    """Add changes of one time to the rows that are kept."""
    if not changes.num_rows:
        return
    columns = kept.layout.keys
    names = [c.name for c in columns]
    sql = f"SELECT {hash_sql(names)} AS h FROM {duck.source('rows', columns)}"
    hashes = duck.run(sql, rows=changes.select(names)).column("h")
    rows = changes.select(names).append_column("__n", changes.column("__diff")).append_column("__h", hashes)
    kept.append(rows.select([c.name for c in kept.layout.columns()]))
    kept.compact()
