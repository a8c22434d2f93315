"""Tuple-based windows, time stamps of derived rows, and whole answers at each synchronization point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.physical import BEGINNING, FOREVER
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.operators.base import (
    Batch,
    Operator,
    change_agenda,
    contents_layout,
    hash_sql,
    hashes_of,
    name_list,
    net,
    same_row,
    take_closed,
)
from tidemill.runtime.operators.synchronizer import known_points
from tidemill.runtime.state import Layout, Shelf


def in_order(closed: pa.Table, columns: tuple[Column, ...]) -> pa.Table:
    """Inserted rows one by one, in the order of time, then of value: the same for any cut into batches."""
    names = name_list([c.name for c in columns])
    return duck.run(
        f"SELECT {names}, __time FROM (SELECT {names}, __time, unnest(range(__diff))"
        f" FROM {duck.source('closed', columns, '__time', '__diff')}) ORDER BY __time, {names}",
        closed=closed,
    )


class RowsWindow(Operator):
    """The last n rows of an append-only stream; a new one pushes the oldest out at the same time.

    Rows of the same time are ordered by value, so the answer does not depend on the cut. With SLIDE m the window
    moves when the row count reaches a multiple of m, and shows the last n rows of that moment.
    """

    def __init__(self, op: Any, first: bool = True) -> None:
        super().__init__(op, first)
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
        fresh = in_order(closed, self.schema)
        value["count"] = total = count + fresh.num_rows
        fresh = fresh.append_column("__k", pa.array(np.arange(count + 1, total + 1)))
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
        enter, leave = (f"(((r.__k + {ahead} + {slide} - 1) // {slide}) * {slide})" for ahead in (0, n))
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

    def __init__(self, op: Any, first: bool = True) -> None:
        super().__init__(op, first)
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
            f" FROM {duck.source('closed', self.columns, '__time', '__diff')}"
            f" GROUP BY {names}, __time HAVING sum(__diff) <> 0",
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
                  SELECT {names}, __ts, NULL AS __time, unnest(range(CAST(__n AS BIGINT))) AS __i FROM (
                    SELECT {names}, __ts, sum(__n) AS __n FROM {duck.source('base', self.schema, '__n')}
                      GROUP BY {names}, __ts HAVING sum(__n) > 0)
                  UNION ALL SELECT {names}, __time, __time, unnest(range(__diff))
                    FROM {duck.source('delta', self.columns, '__time', '__diff')} WHERE __diff > 0),
                numbered AS (SELECT *, row_number() OVER ({partition} ORDER BY __ts, __i) AS __k FROM came),
                went AS (SELECT {names}, __time, unnest(range(-__diff)) AS __i
                  FROM {duck.source('delta', self.columns, '__time', '__diff')} WHERE __diff < 0),
                leaving AS (SELECT *, row_number() OVER ({partition} ORDER BY __time, __i) AS __k FROM went)
                SELECT {names}, __ts, __time, CAST(sum(__d) AS BIGINT) AS __diff FROM (
                  SELECT {names}, __ts, __time, 1 AS __d FROM numbered WHERE __time IS NOT NULL
                  UNION ALL SELECT {', '.join('n.' + quoted(x) for x in self.names)}, n.__ts, l.__time, -1
                    FROM leaving l JOIN numbered n ON {same_row(self.names, 'n', 'l')} AND n.__k = l.__k)
                GROUP BY {names}, __ts, __time HAVING sum(__d) <> 0""",
            delta=delta, base=base,
        )


class Rstream(Operator):
    """The whole answer at each point, again and again: append-only rows with the point as `TS`.

    Inputs: changes, and points where they are a relation. Without period and points, every closed time of
    change is a point; the plan then puts the operator in one shard, which sees all of them.
    """

    def __init__(self, op: Any, first: bool = True) -> None:
        super().__init__(op, first)
        self.columns = self.schema[1:]
        self.names = [c.name for c in self.columns]
        self.contents = contents_layout(self.columns)

    def step(self, inputs: list[Batch], shelf: Shelf) -> Batch:
        frontier = min(b.frontier for b in inputs)
        agenda = self.arrangement(shelf, "agenda", change_agenda(self.columns))
        closed = take_closed(agenda, inputs[0].rows, frontier)
        if len(inputs) == 1 and self.params["period"] is None and closed.num_rows:
            closed = net(closed, self.columns)  # a time at which all changes cancel is no point
        points = np.array(self._points(closed, inputs, frontier, shelf), np.int64)
        if not len(points):
            agenda.append(closed)
            return Batch(None, frontier)
        state = self.arrangement(shelf, "rows", self.contents)
        due = pc.less_equal(closed.column("__time"), int(points[-1]))
        agenda.append(closed.filter(pc.invert(due)))
        changes = closed.filter(due)
        out = self._answers(state.scan(), changes, points)
        self._apply(changes, state)
        state.compact()
        return Batch(out if out.num_rows else None, frontier)

    def _points(self, closed: pa.Table, inputs: list[Batch], frontier: int, shelf: Shelf) -> list[int]:
        value = shelf.value(self.id)
        if len(inputs) > 1:
            known = known_points(inputs[1], value).tolist()
            value["points"] = [p for p in known if p >= frontier]
            return [p for p in known if p < frontier]
        times = closed.column("__time").to_numpy()
        if self.params["period"] is None:
            return [int(t) for t in np.unique(times)]
        every, offset = self.params["period"]
        if frontier >= FOREVER:
            # A relation of tables alone: it is reported until its last change, then there is nothing new.
            low, high = (int(times.min()), int(times.max()) + every) if len(times) else (0, 0)
            return list(_points_between(low, high, every, offset))
        start = value.get("next")
        if start is None:
            if not len(times):
                return []
            # Rows of tables were there before time began; nobody asks for the answer of those days.
            firsts = [s["first"] for s in shelf.value("@sources").values() if s.get("first") is not None]
            start = max(int(times.min()), min(firsts, default=BEGINNING))
        points = list(_points_between(start, frontier, every, offset))
        value["next"] = points[-1] + every if points else start
        return points

    def _apply(self, changes: pa.Table, state: Any) -> None:
        if changes.num_rows:
            source = duck.source("changes", self.columns, "__diff AS __n")
            state.append(duck.run(f"SELECT {hash_sql(self.names)} AS __h, * FROM {source}", changes=changes))

    def _answers(self, base: pa.Table, changes: pa.Table, points: np.ndarray) -> pa.Table:
        """The rows of the answer at every point: a row there from one of its changes to the next is in all between."""
        place = np.searchsorted(points, changes.column("__time").to_numpy(), side="left")
        placed = changes.append_column("__p", pa.array(place.astype(np.int64)))
        names = "".join(f"{quoted(n)}, " for n in self.names)
        partition = f"PARTITION BY {name_list(self.names)}" if self.names else ""
        return duck.run(
            f"""WITH moves AS (
                  SELECT {names}__p, sum(__m) AS __m FROM (
                    SELECT {names}__p, __diff AS __m FROM {duck.source('placed', self.columns, '__p', '__diff')}
                    UNION ALL SELECT {names}0, __n FROM {duck.source('base', self.columns,
                                                                     '__n')}) GROUP BY {names}__p),
                runs AS (SELECT {names}__p, CAST(sum(__m) OVER w AS BIGINT) AS __m, lead(__p, 1,
                                                                                         {len(points)}) OVER w AS __q
                  FROM moves WINDOW w AS ({partition} ORDER BY __p)),
                shown AS (SELECT {names}unnest(range(__p, __q)) AS __i, __m FROM runs WHERE __m > 0)
                SELECT {self.params['stamp']} AS "TS", {names}__time, __m AS __diff
                FROM shown JOIN moments ON moments.__i = shown.__i""",
            base=base, placed=placed, moments=pa.table({"__i": np.arange(len(points)), "__time": points}),
        )


class Gate(Operator):
    """The way out: holds a view's changes until their time is closed, then lets the minimum pass."""

    def step(self, inputs: list[Batch], shelf: Shelf) -> Batch:
        batch = inputs[0]
        if self.params.get("closed"):
            return batch  # whole answers of closed windows: nothing waits, nothing cancels
        agenda = self.arrangement(shelf, "agenda", change_agenda(self.schema))
        closed = take_closed(agenda, batch.rows, batch.frontier)
        if closed.num_rows == 0:
            return Batch(None, batch.frontier)
        out = net(closed, self.schema)
        return Batch(out if out.num_rows else None, batch.frontier)


def _points_between(start: int, end: int, every: int, offset: int) -> range:
    """Synchronization points p with start <= p < end."""
    return range(start + (offset - start) % every, end, every)
