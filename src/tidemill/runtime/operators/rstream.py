"""Whole answers at each synchronization point.

Let m(x, p) be how often row x is in the relation at point p. A row that changes at some points is the same between two
of them, so the answers are runs: (x, from point, to point, m). One statement finds them, or `numbered_answers.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING, FOREVER
from tidemill.plan.relations import quoted
from tidemill.runtime import fast_paths
from tidemill.runtime.dataflow.changes import PENDING, contents_layout, net, pending_layout, take_closed
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql, name_list
from tidemill.runtime.operators.grouping.group_walk import NUMBERED
from tidemill.runtime.operators.numbered_answers import NumberedAnswers
from tidemill.runtime.operators.synchronizer import known_points
from tidemill.runtime.state.shard_state import ShardState

MOST_ROWS = 100_000_000  # that one batch reports: more would not fit into memory


class Rstream(Operator[p.Rstream]):
    """The whole answer at each point, again and again: append-only rows with the point as `TS`.

    Inputs: changes, and points where they are a relation. Without period and points, every closed time of
    change is a point; the plan then puts the operator in one shard, which sees all of them.
    """

    def __init__(self, op: p.Rstream, first: bool = True) -> None:
        super().__init__(op, first)
        self.columns = self.schema[1:]
        self.names = [c.name for c in self.columns]
        self.contents = contents_layout(self.columns)
        fits = bool(self.names) and all(c.type in NUMBERED for c in self.columns)
        usable = fits and fast_paths.is_on("numbered_answers")
        self.numbered = NumberedAnswers(self.names, op.stamp) if usable else None

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        frontier = min(b.frontier for b in inputs)
        pending = self.arrangement(state, PENDING, pending_layout(self.columns))
        closed = take_closed(pending, inputs[0].rows, frontier)
        if len(inputs) == 1 and self.op.period is None and closed.num_rows:
            closed = net(closed, self.columns)  # a time at which all changes cancel is no point
        arranged = self.arrangement(state, "rows", self.contents)
        base = arranged.scan()
        points = np.array(self._due_points(closed, base, inputs, frontier, state), np.int64)
        due = pc.less_equal(closed.column("__time"), self._last_passed(points, state))
        pending.append(closed.filter(pc.invert(due)))
        changes = closed.filter(due)
        if not len(points):
            out, moved = self._no_rows(), changes
        elif self.numbered is not None:
            out, moved = self.numbered.answers(base, changes, points)
        else:
            out, moved = self._answers_in_sql(base, changes, points), changes
        self._apply(moved, arranged)
        arranged.compact()
        return Batch(out if out.num_rows else None, frontier)

    def _due_points(
        self, closed: pa.Table, base: pa.Table, inputs: list[Batch], frontier: int, state: ShardState
    ) -> Sequence[int] | np.ndarray:
        """The points that are due. Points of a period without rows are left out: a gap costs nothing, however long."""
        value = state.value(self.id)
        if len(inputs) > 1:
            known = known_points(inputs[1], value).tolist()
            value["points"] = [p for p in known if p >= frontier]
            return [p for p in known if p < frontier]
        times = closed.column("__time").to_numpy()
        if self.op.period is None:
            return [int(t) for t in np.unique(times)]
        every, offset = self.op.period
        if frontier >= FOREVER:
            # A relation of tables alone is reported until its last change; nothing changes after it.
            low, high = (int(times.min()), int(times.max()) + every) if len(times) else (0, 0)
            return list(_points_between(low, high, every, offset))
        start = value.get("next")
        if start is None:
            if not len(times):
                return []
            # Static rows, and answers without rows, precede all points; skip them.
            firsts = [first for s in state.sources().values() if (first := s.get("first")) is not None]
            if not firsts:
                return []
            start = max(int(times.min()), min(firsts))
        value["next"] = start if start >= frontier else frontier + (offset - frontier) % every
        return _points_with_rows(start, frontier, (every, offset), base, closed)

    def _last_passed(self, points: np.ndarray, state: ShardState) -> int:
        """The last point that has passed: changes after it are for the next one."""
        following = state.value(self.id).get("next")
        if self.op.period is not None and following is not None:
            return int(following) - self.op.period[0]
        return int(points[-1]) if len(points) else BEGINNING

    def _no_rows(self) -> pa.Table:
        return pa.table({"__time": pa.array([], pa.int64())})

    def _apply(self, changes: pa.Table, state: Any) -> None:
        if changes.num_rows:
            source = duck.source("changes", self.columns, "__diff AS __n")
            state.append(duck.run(f"SELECT {hash_sql(self.names)} AS __h, * FROM {source}", changes=changes))

    def _answers_in_sql(self, base: pa.Table, changes: pa.Table, points: np.ndarray) -> pa.Table:
        """The rows of the answer at every point: a row is in all answers from one of its changes to the next."""
        place = np.searchsorted(points, changes.column("__time").to_numpy(), side="left")
        placed = changes.append_column("__p", pa.array(place.astype(np.int64)))
        names = "".join(f"{quoted(n)}, " for n in self.names)
        partition = f"PARTITION BY {name_list(self.names)}" if self.names else ""
        return duck.run(
            f"""WITH moves AS (
                  SELECT {names}__p, sum(__m) AS __m FROM (
                    SELECT {names}__p, __diff AS __m FROM {duck.source("placed", self.columns, "__p", "__diff")}
                    UNION ALL SELECT {names}0, __n FROM {duck.source("base", self.columns, "__n")}) GROUP BY {
                names
            }__p),
                runs AS (SELECT {names}__p, CAST(sum(__m) OVER w AS BIGINT) AS __m, lead(__p, 1,
                                                                                         {len(points)}) OVER w AS __q
                  FROM moves WINDOW w AS ({partition} ORDER BY __p)),
                shown AS (SELECT {names}unnest(range(__p, __q)) AS __i, __m FROM runs WHERE __m > 0)
                SELECT {self.op.stamp} AS "TS", {names}__time, __m AS __diff
                FROM shown JOIN moments ON moments.__i = shown.__i""",
            base=base,
            placed=placed,
            moments=pa.table({"__i": np.arange(len(points)), "__time": points}),
        )


def _points_with_rows(start: int, end: int, period: tuple[int, int], base: pa.Table, closed: pa.Table) -> np.ndarray:
    """Points p of the period, start <= p < end, at which a relation has rows: `base`, then the changes.

    >>> base = pa.table({"__n": pa.array([], pa.int64())})
    >>> changes = pa.table({"__time": [3, 5, 1_000_000], "__diff": [1, -1, 1]})
    >>> _points_with_rows(0, 1_000_003, (1, 0), base, changes).tolist()
    [3, 4, 1000000, 1000001, 1000002]
    """
    times = closed.column("__time").to_numpy()
    order = np.argsort(times, kind="stable")
    held = int(base.column("__n").to_numpy().sum())
    after = held + np.cumsum(closed.column("__diff").to_numpy()[order])
    begins, counts = np.append(start, np.maximum(times[order], start)), np.append(held, after)
    ends = np.append(begins[1:], end)
    filled = [
        (p, q, n)
        for p, q, n in zip(
            (begins + (period[1] - begins) % period[0]).tolist(),
            np.minimum(ends, end).tolist(),
            counts.tolist(),
            strict=True,
        )
        if n > 0 and p < q
    ]
    rows = sum(-((p - q) // period[0]) * n for p, q, n in filled)
    if rows > MOST_ROWS:
        raise OverflowError(f"an RSTREAM view would report {rows:,} rows at once (a COMPLETE view keeps one answer)")
    pieces = [np.arange(p, q, period[0], dtype=np.int64) for p, q, _ in filled]
    return np.concatenate(pieces) if pieces else np.empty(0, np.int64)


def _points_between(start: int, end: int, every: int, offset: int) -> range:
    """Synchronization points p with start <= p < end."""
    return range(start + (offset - start) % every, end, every)
