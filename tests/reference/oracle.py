"""The slow twin of the runtime: every relation of the algebra recomputed from all rows, at each of many moments.

A relation's history is one DuckDB table: its rows, and in `__at` the moment at which the row was there. Nothing is
incremental and nothing is shared with the runtime; SQL's own GROUP BY, JOIN and set operations do the work.
Operators that depend on what happened before (RSTREAM, row windows, synchronization on points) look at the histories of
their inputs over the `universe`: all moments at which anything can change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from tests.reference.ranking import Rankings
from tests.reference.timed import Timed
from tidemill.plan import relations as r
from tidemill.plan.aggregates import Aggregate
from tidemill.plan.aggregation_joins import expand_join_aggregate
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation, quoted
from tidemill.plan.unshared import expand_window_aggregate

Moments = tuple[int, ...]
SET_SQL = {
    "except": "CASE WHEN l > 0 AND r = 0 THEN 1 ELSE 0 END",
    "except_all": "greatest(l - r, 0)",
    "intersect": "CASE WHEN l > 0 AND r > 0 THEN 1 ELSE 0 END",
    "intersect_all": "least(l, r)",
    "anti": "CASE WHEN r = 0 THEN l ELSE 0 END",
    "semi": "CASE WHEN r > 0 THEN l ELSE 0 END",
    "distinct": "CASE WHEN l > 0 THEN 1 ELSE 0 END",
}


class Oracle(Rankings, Timed):
    """Answers of logical plans.

    `rows(source, birth)` gives the rows of a source that a reader born in plan version `birth` sees, with `__ts` in
    microseconds and `__seq`; `views` maps a view's name to its plan before optimization; `births` maps a plan version
    to the moment from which its views see the contents of older views, `ends` to that at which the first run that it
    saw has ended, where that is not the last moment of all.
    """

    def __init__(
        self,
        rows: Callable[[str, int], pa.Table],
        universe: Iterable[int],
        *,
        begin: int | None = None,
        views: Mapping[str, Relation] | None = None,
        births: Mapping[int, int] | None = None,
        ends: Mapping[int, int] | None = None,
    ) -> None:
        self.rows = rows
        self.universe: Moments = tuple(sorted(set(universe)))
        self.begin = begin
        self.views = dict(views or {})
        self.births = dict(births or {})
        self.ends = dict(ends or {})
        self.duck = duckdb.connect(":memory:")
        self.duck.execute("SET threads = 1")
        self.duck.execute("SET TimeZone = 'UTC'")
        self.known: dict[tuple[str, Moments], str] = {}

    def close(self) -> None:
        self.duck.close()

    def history(self, node: Relation, moments: Collection[int] | None = None) -> dict[int, list[tuple[Any, ...]]]:
        """The rows of the relation at each moment (default: the universe)."""
        wanted = tuple(sorted(set(self.universe if moments is None else moments)))
        table = self._table(node, wanted)
        found: dict[int, list[tuple[Any, ...]]] = {m: [] for m in wanted}
        for at, *row in self.duck.sql(f"SELECT __at, {_names(node)} FROM {table}").fetchall():
            found[at].append(tuple(row))
        return found

    # ---- tables ------------------------------------------------------------------------------------

    def _table(self, node: Relation, moments: Moments) -> str:
        """A table with the node's columns and `__at`."""
        key = (node.fingerprint, moments)
        if key not in self.known:
            sql = getattr(self, "_" + type(node).__name__.lower())(node, moments)
            name = f"t{len(self.known)}"
            typed = ", ".join(f"CAST({quoted(c.name)} AS {c.type}) AS {quoted(c.name)}" for c in node.schema)
            self.duck.execute(f"CREATE TEMP TABLE {name} AS SELECT {typed}, __at FROM ({sql})")
            self.known[key] = name
        return self.known[key]

    def _moments(self, moments: Iterable[int]) -> str:
        values = ", ".join(f"(CAST({m} AS BIGINT))" for m in moments)
        return f"(VALUES {values}) AS m(__at)" if values else "(SELECT CAST(0 AS BIGINT) AS __at WHERE FALSE) AS m"

    def _literal(self, node: Relation, rows: Iterable[tuple[Any, ...]]) -> str:
        """A subquery with (row…, __at) tuples."""
        name = f"l{len(self.known)}_{node.fingerprint}"
        columns = ", ".join([*(f"{quoted(c.name)} {c.type}" for c in node.schema), "__at BIGINT"])
        self.duck.execute(f"CREATE TEMP TABLE {name} ({columns})")
        listed = list(rows)
        if listed:
            marks = ", ".join("?" for _ in listed[0])
            self.duck.executemany(f"INSERT INTO {name} VALUES ({marks})", listed)
        return f"SELECT * FROM {name}"

    def _mapped(self, node: Relation, moments: Moments, to: dict[int, int | None]) -> str:
        """The relation as it was at moment to[m], shown at m; nothing where that is None."""
        pairs = [(m, t) for m, t in to.items() if t is not None]
        if not pairs:
            return f"SELECT * FROM {self._table(node, moments)} WHERE FALSE"
        table = self._table(node, tuple(sorted({t for _, t in pairs})))
        values = ", ".join(f"(CAST({m} AS BIGINT), CAST({t} AS BIGINT))" for m, t in pairs)
        joined = f"{table} AS i JOIN (VALUES {values}) AS p(__m, __t) ON i.__at = p.__t"
        return f"SELECT {_names(node)}, p.__m AS __at FROM {joined}"

    # ---- leaves ------------------------------------------------------------------------------------

    def _scan(self, node: r.Scan, moments: Moments) -> str:
        name = f"s{len(self.known)}_{node.fingerprint}"
        self.duck.register("arrived", self.rows(node.source, node.birth))
        self.duck.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM arrived")
        self.duck.unregister("arrived")
        return f"SELECT i.*, m.__at FROM {name} AS i JOIN {self._moments(moments)} ON i.__ts <= m.__at"

    def _clock(self, node: r.Clock, moments: Moments) -> str:
        if self.begin is None or not moments:
            return 'SELECT CAST(0 AS BIGINT) AS "TimePoint", CAST(0 AS BIGINT) AS __at WHERE FALSE'
        first, last = -(-self.begin // node.unit_us), max(moments) // node.unit_us
        ticks = f'(SELECT unnest(range({first}, {last + 1})) AS "TimePoint") AS i'
        known = f'"TimePoint" * {node.unit_us} <= m.__at'
        return f'SELECT "TimePoint", m.__at FROM {ticks} JOIN {self._moments(moments)} ON {known}'

    def _seed(self, node: r.Seed, moments: Moments) -> str:
        raise AssertionError("a seed stands beside its view only")

    def _view(self, node: r.View, moments: Moments) -> str:
        return f"SELECT * FROM {self._table(self.views.get(node.name, node.input), moments)}"

    # ---- row by row --------------------------------------------------------------------------------

    def _filter(self, node: r.Filter, moments: Moments) -> str:
        return f"SELECT * FROM {self._table(node.input, moments)} WHERE {node.predicate}"

    def _project(self, node: r.Project, moments: Moments) -> str:
        items = ", ".join(f"{i.sql} AS {quoted(i.name)}" for i in node.items)
        return f"SELECT {items}, __at FROM {self._table(node.input, moments)}"

    def _unnest(self, node: r.Unnest, moments: Moments) -> str:
        names = f"{quoted(node.element)}, {quoted(node.number or '__number')}"
        unnest = f"UNNEST({node.list.sql}) WITH ORDINALITY AS u({names})"
        return f"SELECT * FROM {self._table(node.input, moments)} {'LEFT' if node.outer else ''} JOIN {unnest} ON TRUE"

    def _union(self, node: r.Union, moments: Moments) -> str:
        seeds = [i for i in node.inputs if isinstance(i, r.Seed)]
        if seeds:
            # A view read by a later one: its contents, from the moment on at which the later one began.
            born = self.births[seeds[0].birth]
            (view,) = [i for i in node.inputs if not isinstance(i, r.Seed)]
            return f"SELECT * FROM {self._table(view, moments)} WHERE __at >= {born}"
        return " UNION ALL ".join(f"SELECT {_names(i)}, __at FROM {self._table(i, moments)}" for i in node.inputs)

    def _temporal(self, node: r.Temporal, moments: Moments) -> str:
        tests = [f"{node.lower} <= __at"] if node.lower else []
        tests += [f"__at < {node.upper}"] if node.upper else []
        return f"SELECT * FROM {self._table(node.input, moments)} WHERE {' AND '.join(tests) or 'TRUE'}"

    def _shed(self, node: r.Shed, moments: Moments) -> str:
        """All records in the order of arrival, capped; deletions pass."""
        self.duck.register("arrived", self.rows(node.input.source, node.input.birth))
        keys = ", ".join(quoted(k) for k in node.keys)
        gone = f"coalesce({node.deleted}, FALSE)" if node.deleted else "FALSE"
        listed = self.duck.sql(f"SELECT {gone}, __seq, __ts, {keys} FROM arrived ORDER BY __seq").fetchall()
        self.duck.unregister("arrived")
        passed, kept = Counter[tuple[Any, ...]](), [-1]
        for deletes, seq, ts, *key in listed:
            unit = (ts // node.every_us, *_hashable(tuple(key)))
            if deletes or passed[unit] < node.updates:
                passed[unit] += not deletes
                kept.append(seq)
        return f"SELECT * FROM {self._table(node.input, moments)} WHERE __seq IN ({', '.join(map(str, kept))})"

    # ---- many rows at one moment -------------------------------------------------------------------

    def _tag(self, node: r.Tag, moments: Moments) -> str:
        keys = ", ".join(quoted(k) for k in node.keys)
        gone = f"coalesce({node.deleted}, FALSE)" if node.deleted else "FALSE"
        order = f"row_number() OVER (PARTITION BY {keys}, __at ORDER BY __ts DESC, __seq DESC)"
        last = f"SELECT *, {gone} AS __gone FROM {self._table(node.input, moments)} QUALIFY {order} = 1"
        return f"SELECT {_names(node)}, __at FROM ({last}) WHERE NOT __gone"

    def _join(self, node: r.Join, moments: Moments) -> str:
        left, right = self._table(node.left, moments), self._table(node.right, moments)
        tests = ["l.__at = r.__at", *(f"l.{quoted(a)} = r.{quoted(b)}" for a, b in node.on)]
        if node.residual:
            tests.append(f"({node.residual})")
        return f"SELECT l.*, r.* EXCLUDE (__at) FROM {left} AS l JOIN {right} AS r ON {' AND '.join(tests)}"

    def _setcombine(self, node: r.SetCombine, moments: Moments) -> str:
        columns = ", ".join(f"c{i}" for i in range(len(node.names)))
        sides = [f"SELECT {_positions(node.left)}, __at, 1 AS l, 0 AS r FROM {self._table(node.left, moments)}"]
        if node.right is not None:
            sides.append(f"SELECT {_positions(node.right)}, __at, 0, 1 FROM {self._table(node.right, moments)}")
        renamed = ", ".join(f"c{i} AS {quoted(n)}" for i, n in enumerate(node.names))
        both = " UNION ALL ".join(sides)
        counted = f"SELECT {columns}, __at, sum(l) AS l, sum(r) AS r FROM ({both}) GROUP BY {columns}, __at"
        return (
            f"SELECT {renamed}, __at FROM (SELECT *, {SET_SQL[node.kind]} AS n FROM ({counted}))"
            f" CROSS JOIN LATERAL (SELECT unnest(range(CAST(n AS BIGINT)))) AS copies"
        )

    def _groupby(self, node: r.GroupBy, moments: Moments) -> str:
        table = self._table(node.input, moments)
        keys = "".join(f"{quoted(k)}, " for k in node.keys)
        calls = "".join(f"{_call(a)} AS {quoted(a.name)}, " for a in node.aggregates)
        grouped = f"SELECT {keys}{calls}__at FROM {table} GROUP BY {keys}__at"
        if node.keys:
            return grouped
        # Without keys there is one row, even when there is nothing to count.
        born = self.duck.sql(f"SELECT min(__at) FROM {self._table(node.input, self.universe)}").fetchall()[0][0]
        begin, rhythm = r.STATIC_TIME if _still(node.input) else self.begin, r.beginning(node.input)
        if begin is None:
            begin, rhythm = r.STATIC_TIME, ((),)  # no source ever had a row
        if rhythm == "first row":
            born_in = max(n.birth for n in walk(node) if isinstance(n, (r.Scan, r.Seed)))
            begin = self.ends.get(born_in, self.universe[-1])
        else:
            begin = r.first_answer_time(rhythm, begin)
        born = min((b for b in (born, begin) if b is not None), default=None)
        if born is None:
            return grouped
        empty = f"SELECT {calls.rstrip(', ') or 'NULL AS __none'} FROM {table} WHERE FALSE"
        later = self._moments(m for m in moments if m >= born)
        without = f"__at NOT IN (SELECT __at FROM {table})"
        return f"{grouped} UNION ALL SELECT e.*, __at FROM ({empty}) AS e, {later} WHERE {without}"

    def _windowaggregate(self, node: r.WindowAggregate, moments: Moments) -> str:
        return f"SELECT * FROM {self._table(expand_window_aggregate(node), moments)}"

    def _joinaggregate(self, node: r.JoinAggregate, moments: Moments) -> str:
        return f"SELECT * FROM {self._table(expand_join_aggregate(node), moments)}"

    # ---- what depends on time itself ---------------------------------------------------------------

    def _synchronize(self, node: r.Synchronize, moments: Moments) -> str:
        return self._mapped(node.input, moments, {m: m - (m - node.offset_us) % node.every_us for m in moments})

    def _synchronizeperiods(self, node: r.SynchronizePeriods, moments: Moments) -> str:
        lasts = {m: [p for each in node.periods if (p := each.last_point_before(m + 1)) is not None] for m in moments}
        return self._mapped(node.input, moments, {m: max(points, default=None) for m, points in lasts.items()})

    def _synchronizeon(self, node: r.SynchronizeOn, moments: Moments) -> str:
        return self._mapped(node.input, moments, last_of(self._points(node.points), moments))

    def _points(self, node: Relation) -> list[int]:
        """Time points: each counts from the moment on at which it is known."""
        return sorted({max(int(row[0]), at) for at, row in self._insertions(node) if row[0] is not None})

    def _insertions(self, node: Relation) -> list[tuple[int, tuple[Any, ...]]]:
        """(moment, row) of every copy that appears, oldest first, rows of one moment in no order."""
        found, before = [], Counter[tuple[Any, ...]]()
        for moment, rows in sorted(self.history(node).items()):
            now = Counter(map(_hashable, rows))
            found += [(moment, row) for row in (now - before).elements()]
            before = now
        return found

    def _rowpoints(self, node: r.RowPoints, moments: Moments) -> str:
        count, points = 0, []
        arrived = Counter(at for at, _ in self._insertions(node.input))
        for at in sorted(arrived):
            if (count + arrived[at]) // node.rows > count // node.rows:
                points.append(at)
            count += arrived[at]
        return self._literal(node, [(p, m) for m in moments for p in points if p <= m])

    def _rowswindow(self, node: r.RowsWindow, moments: Moments) -> str:
        """Rows in the order of time, then of value; the window ends at a multiple of slide."""
        histories = self._table(node.input, self.universe)
        names = _names(node.input)
        numbered = f"k{len(self.known)}_{node.fingerprint}"
        # The input only grows, so the i-th copy of a row is first there at the least moment with i copies.
        self.duck.execute(
            f"CREATE TEMP TABLE {numbered} AS SELECT *, row_number() OVER (ORDER BY __at, {names}) AS __k FROM ("
            f"SELECT {names}, __i, min(__at) AS __at FROM ("
            f"SELECT *, row_number() OVER (PARTITION BY {names}, __at) AS __i FROM {histories}) GROUP BY {names}, __i)"
        )
        last = f"((SELECT count(*) FROM {numbered} AS c WHERE c.__at <= m.__at) // {node.slide} * {node.slide})"
        ends = f"(SELECT m.__at, {last} AS __last FROM {self._moments(moments)}) AS e"
        return (
            f"SELECT n.* EXCLUDE (__k, __i, __at), e.__at FROM {numbered} AS n JOIN {ends}"
            f" ON n.__k > e.__last - {node.rows} AND n.__k <= e.__last"
        )

    def _stamp(self, node: r.Stamp, moments: Moments) -> str:
        """Copies of a row form a queue: new ones join with their time, the oldest leave."""
        queues: dict[tuple[Any, ...], deque[int]] = {}
        wanted, shown = set(moments), []
        for moment, rows in sorted(self.history(node.input, {*self.universe, *moments}).items()):
            now = Counter(map(_hashable, rows))
            for row in {*now, *queues}:
                queue = queues.setdefault(row, deque())
                while len(queue) > now[row]:
                    queue.popleft()
                queue.extend([moment] * (now[row] - len(queue)))
            if moment in wanted:
                shown += [(*row, at, moment) for row, queue in queues.items() for at in queue]
        return self._literal(node, shown)

    def _rstream(self, node: r.Rstream, moments: Moments) -> str:
        points = self._report_points(node)
        table = self._table(node.input, tuple(points))
        stamp = node.stamp.sql.replace("__time", "i.__at")
        return (
            f'SELECT {stamp} AS "TS", i.* EXCLUDE (__at), m.__at FROM {table} AS i JOIN {self._moments(moments)}'
            f" ON i.__at <= m.__at"
        )

    def _changestream(self, node: r.ChangeStream, moments: Moments) -> str:
        moved, before = [], Counter[tuple[Any, ...]]()
        for moment, rows in sorted(self.history(node.input).items()):
            now = Counter(map(_hashable, rows))
            found = before - now if node.rows == "deleted" else now - before
            moved += [(*row, moment) for row in found.elements()]
            before = now
        stamp = node.stamp.sql.replace("__time", "i.__at")
        return (
            f'SELECT {stamp} AS "TS", i.* EXCLUDE (__at), m.__at FROM ({self._literal(node.input, moved)}) AS i'
            f" JOIN {self._moments(moments)} ON i.__at <= m.__at"
        )

    def _report_points(self, node: r.Rstream) -> list[int]:
        if node.points is not None:
            return [p for p in self._points(node.points) if p <= self.universe[-1]]
        points, before = [], Counter[tuple[Any, ...]]()
        for moment, rows in sorted(self.history(node.input).items()):
            now = Counter(map(_hashable, rows))
            if now != before:
                points.append(moment)
            before = now
        if node.period is None or not points:
            return points
        if self.begin is None and not _still(node.input):
            return []
        every, offset = node.period
        if _still(node.input):  # tables alone: reported until the last change
            start, end = points[0], points[-1] + every
        else:
            start, end = max(points[0], points[0] if self.begin is None else self.begin), self.universe[-1] + 1
        return list(range(start + (offset - start) % every, end, every))


def _still(node: Relation) -> bool:
    leaves = [n for n in walk(node) if isinstance(n, (r.Scan, r.Clock))]
    return all(isinstance(n, r.Scan) and n.static for n in leaves)


def last_of(points: list[int], moments: Iterable[int]) -> dict[int, int | None]:
    """For each moment the last point at or before it.

    >>> last_of([2, 4], [1, 2, 3, 9])
    {1: None, 2: 2, 3: 2, 9: 4}
    """
    return {m: points[i - 1] if (i := bisect_right(points, m)) else None for m in moments}


def _hashable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    # NaN is not equal to itself: one object for all of them makes rows comparable.
    return tuple(NAN if isinstance(v, float) and v != v else v for v in row)


NAN = float("nan")


def _call(aggregate: Aggregate) -> str:
    argument = quoted(aggregate.argument) if aggregate.argument else "*"
    return f"{aggregate.function}({'DISTINCT ' if aggregate.distinct else ''}{argument})"


def _names(node: Relation) -> str:
    return ", ".join(quoted(n) for n in node.names)


def _positions(node: Relation) -> str:
    return ", ".join(f"{quoted(n)} AS c{i}" for i, n in enumerate(node.names))
