"""Tuple-based windows, time stamps of derived rows, and the output of a view."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan import physical as p
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.changes import (
    PENDING,
    contents_layout,
    distinct_hashes,
    net,
    pending_layout,
    take_closed,
)
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql, name_list, same_row
from tidemill.runtime.operators.rstream import Rstream as Rstream
from tidemill.runtime.state.arrangements import Layout
from tidemill.runtime.state.different_rows import are_different_insertions
from tidemill.runtime.state.shard_state import ShardState


def sort_insertions(closed: pa.Table, columns: tuple[Column, ...]) -> pa.Table:
    """Inserted rows one by one, in the order of time, then of value: the same for any cut into batches."""
    names = name_list([c.name for c in columns])
    return duck.run(
        f"SELECT {names}, __time FROM (SELECT {names}, __time, unnest(range(__diff))"
        f" FROM {duck.source('closed', columns, '__time', '__diff')}) ORDER BY __time, {names}",
        closed=closed,
    )


class RowsWindow(Operator[p.RowsWindow]):
    """The last n rows of an append-only stream; a new row removes the oldest one at the same time.

    Rows of the same time are ordered by value, so the answer does not depend on the cut. With SLIDE m the window
    moves when the row count reaches a multiple of m, and shows the last n rows of that moment.
    """

    def __init__(self, op: p.RowsWindow, first: bool = True) -> None:
        super().__init__(op, first)
        self.names = [c.name for c in self.schema]
        self.pending = pending_layout(self.schema)
        self.recent = Layout("__time", (*self.schema, Column("__k", "BIGINT")))

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        batch = inputs[0]
        pending = self.arrangement(state, PENDING, self.pending)
        closed = take_closed(pending, batch.rows, batch.frontier)
        if closed.num_rows == 0:
            return Batch(None, batch.frontier)
        return Batch(self._move(closed, state), batch.frontier)

    def _move(self, closed: pa.Table, state: ShardState) -> pa.Table:
        value = state.value(self.id)
        count, n, slide = value.get("count", 0), self.op.rows, self.op.slide
        recent = self.arrangement(state, "recent", self.recent)
        held = recent.scan()
        fresh = sort_insertions(closed, self.schema)
        value["count"] = total = count + fresh.num_rows
        fresh = fresh.append_column("__k", pa.array(np.arange(count + 1, total + 1)))
        rows = pa.concat_tables([held.select(fresh.column_names).cast(fresh.schema), fresh])
        out = self._enter_and_leave(rows, count, total, n, slide)
        # A row may still enter at the next slide; it leaves at the first slide whose window is past it.
        last = total // slide * slide
        for segment in recent.segments:
            state.store.discard(segment)
        recent.segments.clear()
        recent.append(rows.filter(pc.greater(rows.column("__k"), last - n)))
        return out

    def _enter_and_leave(self, rows: pa.Table, count: int, total: int, n: int, slide: int) -> pa.Table:
        """Row k enters at the first multiple of slide >= k and leaves at the first one >= k + n."""
        names = name_list(self.names)
        enter, leave = (f"(((r.__k + {ahead} + {slide} - 1) // {slide}) * {slide})" for ahead in (0, n))
        moves = " UNION ALL ".join(
            f"SELECT {names}, m.__time, CAST({d} AS BIGINT) AS __diff FROM r JOIN moments m ON m.__k = {when}"
            f" WHERE {enter} < {leave}"
            for d, when in ((1, enter), (-1, leave))
        )
        return duck.run(
            f"""WITH r AS (SELECT * FROM {duck.source("rows", self.schema, "__k", "__time")}),
                moments AS (SELECT __k, __time FROM r WHERE __k > {count} AND __k <= {total} AND __k % {slide} = 0)
                {moves}""",
            rows=rows,
        )


class Stamp(Operator[p.Stamp]):
    """Adds `__ts`, the time at which this copy of a row appeared; of equal copies the oldest leaves first."""

    def __init__(self, op: p.Stamp, first: bool = True) -> None:
        super().__init__(op, first)
        self.columns = self.schema[:-1]
        self.names = [c.name for c in self.columns]
        self.layout = contents_layout(self.schema)

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        batch = inputs[0]
        pending = self.arrangement(state, PENDING, pending_layout(self.columns))
        closed = take_closed(pending, batch.rows, batch.frontier)
        if closed.num_rows == 0:
            return Batch(None, batch.frontier)
        names = name_list(self.names)
        delta = duck.run(
            f"SELECT {hash_sql(self.names)} AS __h, {names}, __time, CAST(sum(__diff) AS BIGINT) AS __diff"
            f" FROM {duck.source('closed', self.columns, '__time', '__diff')}"
            f" GROUP BY {names}, __time HAVING sum(__diff) <> 0",
            closed=closed,
        )
        arranged = self.arrangement(state, "rows", self.layout)
        out = self._match(delta, arranged.probe(distinct_hashes(delta)))
        source = duck.source("out", self.schema, "__diff AS __n")
        arranged.append(duck.run(f"SELECT {hash_sql(self.names)} AS __h, * FROM {source}", out=out))
        arranged.compact()
        return Batch(out, batch.frontier)

    def _match(self, delta: pa.Table, base: pa.Table) -> pa.Table:
        """The k-th copy to leave is the k-th copy that came: pair them by number."""
        names = name_list(self.names)
        partition = f"PARTITION BY {names}"
        return duck.run(
            f"""WITH came AS (
                  SELECT {names}, __ts, NULL AS __time, unnest(range(CAST(__n AS BIGINT))) AS __i FROM (
                    SELECT {names}, __ts, sum(__n) AS __n FROM {duck.source("base", self.schema, "__n")}
                      GROUP BY {names}, __ts HAVING sum(__n) > 0)
                  UNION ALL SELECT {names}, __time, __time, unnest(range(__diff))
                    FROM {duck.source("delta", self.columns, "__time", "__diff")} WHERE __diff > 0),
                numbered AS (SELECT *, row_number() OVER ({partition} ORDER BY __ts, __i) AS __k FROM came),
                went AS (SELECT {names}, __time, unnest(range(-__diff)) AS __i
                  FROM {duck.source("delta", self.columns, "__time", "__diff")} WHERE __diff < 0),
                leaving AS (SELECT *, row_number() OVER ({partition} ORDER BY __time, __i) AS __k FROM went)
                SELECT {names}, __ts, __time, CAST(sum(__d) AS BIGINT) AS __diff FROM (
                  SELECT {names}, __ts, __time, 1 AS __d FROM numbered WHERE __time IS NOT NULL
                  UNION ALL SELECT {", ".join("n." + quoted(x) for x in self.names)}, n.__ts, l.__time, -1
                    FROM leaving l JOIN numbered n ON {same_row(self.names, "n", "l")} AND n.__k = l.__k)
                GROUP BY {names}, __ts, __time HAVING sum(__d) <> 0""",
            delta=delta,
            base=base,
        )


class ViewOutput(Operator[p.ViewOutput]):
    """The last operator of a view: holds changes until their time is closed, then sends the net of each time."""

    takes_references = True

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        batch = inputs[0]
        if self.op.closed:
            return batch  # whole answers of closed windows: nothing waits, nothing cancels
        pending = self.arrangement(state, PENDING, pending_layout(self.schema))
        netted = batch.netted and not pending.segments
        closed = take_closed(pending, batch.rows, batch.frontier)
        if closed.num_rows == 0:
            return Batch(None, batch.frontier)
        # Insertions cancel nothing: equal ones are added up only where that leaves fewer of them.
        passes = netted or are_different_insertions(closed, self.schema, "__diff", "__time")
        # As `net` orders columns: the outlet puts the rows of all shards together.
        names = [*(c.name for c in self.schema), "__time", "__diff"]
        out = closed.select(names) if passes else net(closed, self.schema)
        return Batch(out if out.num_rows else None, batch.frontier)
