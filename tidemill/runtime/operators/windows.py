"""Tuple-based windows, time stamps of derived rows, and whole answers at each synchronization point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.operators.base import (
    TIME,
    Batch,
    Operator,
    change_agenda,
    contents_layout,
    hash_sql,
    hashes_of,
    name_list,
    take_closed,
)
from tidemill.runtime.state import Layout, Shelf


class RowsWindow(Operator):
    """The last n rows of an append-only stream; a new one pushes the oldest out at the same time.

    Rows of the same time are ordered by value, so the answer does not depend on the cut. With SLIDE m the window
    moves when the row count reaches a multiple of m, and shows the last n rows of that moment.
    """

    def __init__(self, op: Any) -> None:
        super().__init__(op)
        self.names = [c.name for c in self.schema]
        self.agenda = change_agenda(self.schema)
        self.recent = Layout("__time", (*self.schema, Column("__k", "BIGINT")))

    def step(self, inputs: list[Batch], shelf: Shelf) -> Batch:
        batch = inputs[0]
        agenda = self.arrangement(shelf, "agenda", self.agenda)
        closed = take_closed(agenda, batch.rows, batch.frontier)
        if closed.num_rows == 0:
            return Batch(None, batch.frontier)
        return Batch(self._move(closed, shelf), batch.frontier)

    def _move(self, closed: pa.Table, shelf: Shelf) -> pa.Table:
        value = shelf.value(self.id)
        count, n, slide = value.get("count", 0), self.params["rows"], self.params["slide"]
        recent = self.arrangement(shelf, "recent", self.recent)
        held = recent.scan()
        names = name_list(self.names)
        fresh = duck.run(
            f"SELECT {names}, __time, {count} + row_number() OVER (ORDER BY __time, {names}) AS __k FROM"
            f" (SELECT {names}, __time, unnest(range(__diff)) FROM {duck.source('closed', self.schema, '__time', '__diff')})",
            closed=closed,
        )
        value["count"] = total = count + fresh.num_rows
        rows = pa.concat_tables([held.select(fresh.column_names).cast(fresh.schema), fresh])
        out = self._moments(rows, count, total, n, slide)
        # A row may still enter at the next slide, and leaves only when one shows it no more.
        last = total // slide * slide
        for segment in recent.segments:
            shelf.discard(segment)
        recent.segments.clear()
        recent.append(rows.filter(pc.greater(rows.column("__k"), last - n)))
        return out

    def _moments(self, rows: pa.Table, count: int, total: int, n: int, slide: int) -> pa.Table:
        """Row k enters at the first multiple of slide >= k and leaves at the first one >= k + n."""
        names = name_list(self.names)
        enter, leave = f"(((r.__k + {slide} - 1) // {slide}) * {slide})", f"(((r.__k + {n} + {slide} - 1) // {slide}) * {slide})"
        moves = " UNION ALL ".join(
            f"SELECT {names}, m.__time, CAST({d} AS BIGINT) AS __diff FROM r JOIN moments m ON m.__k = {when}"
            f" WHERE {enter} < {leave}"
            for d, when in ((1, enter), (-1, leave))
        )
        return duck.run(
            f"""WITH r AS (SELECT * FROM {duck.source('rows', self.schema, '__k', '__time')}),
                moments AS (SELECT __k, __time FROM r WHERE __k > {count} AND __k <= {total} AND __k % {slide} = 0)
                {moves}""",
            rows=rows,
        )


class Stamp(Operator):
    """Adds `__ts`, the time at which this copy of a row appeared; of equal copies the oldest leaves first."""

    def __init__(self, op: Any) -> None:
        super().__init__(op)
        self.columns = self.schema[:-1]
        self.names = [c.name for c in self.columns]
        self.layout = contents_layout(self.schema)

    def step(self, inputs: list[Batch], shelf: Shelf) -> Batch:
        batch = inputs[0]
        agenda = self.arrangement(shelf, "agenda", change_agenda(self.columns))
        closed = take_closed(agenda, batch.rows, batch.frontier)
        if closed.num_rows == 0:
            return Batch(None, batch.frontier)
        names = name_list(self.names)
        delta = duck.run(
            f"SELECT {hash_sql(self.names)} AS __h, {names}, __time, CAST(sum(__diff) AS BIGINT) AS __diff"
            f" FROM {duck.source('closed', self.columns, '__time', '__diff')} GROUP BY {names}, __time HAVING sum(__diff) <> 0",
            closed=closed,
        )
        state = self.arrangement(shelf, "rows", self.layout)
        out = self._match(delta, state.probe(hashes_of(delta)))
        source = duck.source("out", self.schema, "__diff AS __n")
        state.append(duck.run(f"SELECT {hash_sql(self.names)} AS __h, * FROM {source}", out=out))
        state.compact()
        return Batch(out, batch.frontier)

    def _match(self, delta: pa.Table, base: pa.Table) -> pa.Table:
        """The k-th copy to leave is the k-th copy that came: pair them by number."""
        names = name_list(self.names)
        partition = f"PARTITION BY {names}"
        return duck.run(
            f"""WITH came AS (
                  SELECT {names}, __ts, NULL AS __time, unnest(range(CAST(n AS BIGINT))) AS i FROM (
                    SELECT {names}, __ts, sum(__n) AS n FROM {duck.source('base', self.schema, '__n')} GROUP BY ALL HAVING sum(__n) > 0)
                  UNION ALL SELECT {names}, __time, __time, unnest(range(__diff))
                    FROM {duck.source('delta', self.columns, '__time', '__diff')} WHERE __diff > 0),
                numbered AS (SELECT *, row_number() OVER ({partition} ORDER BY __ts, i) AS k FROM came),
                went AS (SELECT {names}, __time, unnest(range(-__diff)) AS i
                  FROM {duck.source('delta', self.columns, '__time', '__diff')} WHERE __diff < 0),
                leaving AS (SELECT *, row_number() OVER ({partition} ORDER BY __time, i) AS k FROM went)
                SELECT {names}, __ts, __time, CAST(sum(d) AS BIGINT) AS __diff FROM (
                  SELECT {names}, __ts, __time, 1 AS d FROM numbered WHERE __time IS NOT NULL
                  UNION ALL SELECT {', '.join('n.' + quoted(x) for x in self.names)}, n.__ts, l.__time, -1 FROM leaving l JOIN numbered n
                    ON {' AND '.join(f'n.{quoted(x)} IS NOT DISTINCT FROM l.{quoted(x)}' for x in self.names)} AND n.k = l.k)
                GROUP BY ALL HAVING sum(d) <> 0""",
            delta=delta, base=base,
        )


class Rstream(Operator):
    """The whole answer at each point, again and again: append-only rows with the point as `TS`.

    Inputs: changes, and points where they are a relation. Without period and points, every closed time of
    change is a point; the plan then puts the operator in one shard, which sees all of them.
    """

    def __init__(self, op: Any) -> None:
        super().__init__(op)
        self.columns = self.schema[1:]
        self.names = [c.name for c in self.columns]
        self.contents = contents_layout(self.columns)

    def step(self, inputs: list[Batch], shelf: Shelf) -> Batch:
        frontier = min(b.frontier for b in inputs)
        agenda = self.arrangement(shelf, "agenda", change_agenda(self.columns))
        closed = take_closed(agenda, inputs[0].rows, frontier)
        points = self._points(closed, inputs, frontier, shelf)
        state = self.arrangement(shelf, "rows", self.contents)
        out = []
        for point in points:
            due = pc.less_equal(closed.column("__time"), point)
            self._apply(closed.filter(due), state)
            closed = closed.filter(pc.invert(due))
            answer = state.scan()
            if answer.num_rows:
                out.append(self._stamped(answer, point))
        agenda.append(closed)
        state.compact()
        return Batch(pa.concat_tables(out) if out else None, frontier)

    def _points(self, closed: pa.Table, inputs: list[Batch], frontier: int, shelf: Shelf) -> list[int]:
        value = shelf.value(self.id)
        if len(inputs) > 1:
            known = set(value.get("points", []))
            rows = inputs[1].rows
            if rows is not None and rows.num_rows:
                fresh = rows.filter(pc.greater(rows.column("__diff"), 0))
                stated = np.maximum(fresh.column(0).cast(pa.int64()).to_numpy(), fresh.column("__time").to_numpy())
                known |= {int(p) for p in stated}
            value["points"] = sorted(p for p in known if p >= frontier)
            return sorted(p for p in known if p < frontier)
        times = closed.column("__time").to_numpy()
        if self.params["period"] is None:
            return [int(t) for t in np.unique(times)]
        every, offset = self.params["period"]
        start = value.get("next")
        if start is None:
            if not len(times):
                return []
            first = int(times.min())
            start = first + (offset - first) % every
        points = list(range(start, frontier, every)) if frontier < 1 << 61 else [start]
        value["next"] = points[-1] + every if points else start
        return points

    def _apply(self, changes: pa.Table, state: Any) -> None:
        if changes.num_rows:
            source = duck.source("changes", self.columns, "__diff AS __n")
            state.append(duck.run(f"SELECT {hash_sql(self.names)} AS __h, * FROM {source}", changes=changes))

    def _stamped(self, answer: pa.Table, point: int) -> pa.Table:
        stamp = self.params["stamp"].replace("__time", str(point))
        names = name_list(self.names)
        chosen = f"{names}, " if names else ""
        return duck.run(
            f"SELECT {stamp} AS \"TS\", {chosen}CAST({point} AS BIGINT) AS __time, __n AS __diff"
            f" FROM {duck.source('answer', self.columns, '__n')} WHERE __n > 0",
            answer=answer,
        )


class Gate(Operator):
    """The way out: holds a view's changes until their time is closed, then lets the minimum pass."""

    def step(self, inputs: list[Batch], shelf: Shelf) -> Batch:
        batch = inputs[0]
        agenda = self.arrangement(shelf, "agenda", change_agenda(self.schema))
        closed = take_closed(agenda, batch.rows, batch.frontier)
        if closed.num_rows == 0:
            return Batch(None, batch.frontier)
        names = name_list([c.name for c in self.schema])
        group = f"{names}, __time" if names else "__time"
        out = duck.run(
            f"SELECT {group}, CAST(sum(__diff) AS BIGINT) AS __diff"
            f" FROM {duck.source('closed', self.schema, TIME.name, '__diff')} GROUP BY {group} HAVING sum(__diff) <> 0",
            closed=closed,
        )
        return Batch(out if out.num_rows else None, batch.frontier)
