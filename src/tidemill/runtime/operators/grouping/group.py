"""GROUP BY: for each key walk the closed times in order and emit −old +new where the answer changes.

State: the added-up parts of every live group, and the multiplicity of every value of the group for COUNT(DISTINCT), for
MIN and MAX where rows may leave (`values`), and for calls over all values (`collected`). Let P(k, t) be the parts of
key k added up to time t. Then the answer of k at t is finish(P(k, t)), a row exists while its count is positive, and
the output is the difference between consecutive answers. Adding up is associative, so any cut into batches gives the
same.
"""

from __future__ import annotations

import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.physical import BEGINNING, FOREVER
from tidemill.plan.relations import STATIC_TIME, first_answer_time, quoted
from tidemill.plan.sources import Column
from tidemill.runtime import fast_paths
from tidemill.runtime.dataflow.changes import PENDING, distinct_hashes, take_closed
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql, name_list, same_row
from tidemill.runtime.operators.grouping.collected import Collected
from tidemill.runtime.operators.grouping.group_walk import GroupWalk
from tidemill.runtime.operators.grouping.user_aggregates import UserAggregates
from tidemill.runtime.operators.grouping.values import Values
from tidemill.runtime.state.arrangements import Layout
from tidemill.runtime.state.shard_state import ShardState

COUNT = Column("__n", "BIGINT")


class GroupBy(Operator[p.Group]):
    """Inputs: the partial aggregates, then one value-count stream for each column kept by value."""

    def __init__(self, op: p.Group, first: bool = True) -> None:
        super().__init__(op, first)
        self.keys = op.keys
        self.key_names = [c.name for c in self.keys]
        self.parts = (COUNT, *(Column(n, t) for n, t, _ in op.parts))
        combines = ("sum", *(how for _, _, how in op.parts))
        adds = tuple(zip(self.parts, combines, strict=True))
        self.combines = adds
        self.pending = Layout("__time", self.keys, adds)
        # A keyless answer has a row even when it is empty, so its parts are kept as well.
        self.layout = Layout("__h", self.keys, adds, "__n" if self.keys else None)
        self.values = [Values(self.id, i, self.keys, v) for i, v in enumerate(op.values)]
        self.user_aggregates = [
            UserAggregates(self.id, i, self.keys, v) for i, v in enumerate(op.values) if v.user_aggregates
        ]
        self.collected = [Collected(self.id, i, self.keys, v) for i, v in enumerate(op.values) if v.calls]
        self.answers = list(op.answers)
        fits = (
            not self.user_aggregates
            and not self.collected
            and GroupWalk.supports(self.keys, self.combines[1:], self.values, self.schema)
        )
        walks = fits and fast_paths.is_on("group_walk")
        self.walk = GroupWalk(self.keys, self.combines[1:], self.values, self.answers) if walks else None

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        frontier = min(b.frontier for b in inputs)
        closed = take_closed(self.arrangement(state, PENDING, self.pending), inputs[0].rows, frontier)
        values = [v.take_changes(b, frontier, state) for v, b in zip(self.values, inputs[1:], strict=True)]
        birth = self._birth_time(frontier, state)
        if closed.num_rows == 0 and birth is None and not any(rows.num_rows for rows in values):
            return Batch(None, frontier)
        walked = self._changes_in_arrays(closed, values, state)
        changes = self._changes_in_sql(closed, values, birth, state) if walked is None else walked
        if self.op.at_once:
            self._forget_groups(state)
        return Batch(changes, frontier, netted=walked is not None)

    def _forget_groups(self, state: ShardState) -> None:
        """Groups that have come at once never change: nothing is kept but what is pending."""
        for name, segments in state.stored[self.id].items():
            if not name.startswith(PENDING):
                for segment in segments:
                    state.store.discard(segment)
                segments.clear()

    def _changes_in_arrays(self, closed: pa.Table, values: list[pa.Table], state: ShardState) -> pa.Table | None:
        """The changes by arrays; None where SQL is needed."""
        if self.walk is None or any(closed.column(c.name).null_count for c, how in self.combines if how == "sum"):
            return None
        try:
            out = self.walk.walk(closed, values, self.arrangement(state, "parts", self.layout), state)
        except OverflowError:
            return None
        self.walk.store()
        return out.select([c.name for c in self.schema] + ["__time", "__diff"])

    def _changes_in_sql(
        self, closed: pa.Table, values: list[pa.Table], birth: int | None, state: ShardState
    ) -> pa.Table:
        """The changes by SQL."""
        turns = [v.distinct_changes(rows, state) for v, rows in zip(self.values, values, strict=True)]
        delta = self._delta(closed, turns, birth)
        arranged = self.arrangement(state, "parts", self.layout)
        base = arranged.probe(distinct_hashes(delta))
        touched = distinct_hashes(delta)
        extremes = [v.walk_extremes(rows, touched, state) for v, rows in zip(self.values, values, strict=True)]
        tables = {"delta": delta, "base": base} | {f"walked{i}": t for i, t in enumerate(extremes) if t is not None}
        for u in self.user_aggregates:
            tables[f"user{u.index}"] = u.walk(values[u.index], touched, state, self._put_aside)
        for c in self.collected:
            tables[f"collected{c.index}"] = c.walk(values[c.index], touched, state)
        born = bool(state.value(self.id).get("born"))
        out = self._differences(tables, born, FOREVER if birth is None else birth)
        if not self.keys and out.num_rows:
            state.value(self.id)["born"] = True
        arranged.append(delta.drop_columns(["__time"]))
        arranged.compact()
        return out

    def _put_aside(self, rows: pa.Table, why: str) -> None:
        if self.on_row_error is not None:
            self.on_row_error(self.op, rows, why)

    def _birth_time(self, frontier: int, state: ShardState) -> int | None:
        """When the one row of a keyless answer begins; None once it has begun.

        It begins with the clock, before any input row; over tables alone, before all times. Where it would begin with
        the first row and there is none, it begins at the end of a finite run.
        """
        value, clock, rhythm = state.value(self.id), state.value("@clock"), self.op.beginning
        if self.keys or not self.first or value.get("born"):
            return None
        before, value["closed"] = value.get("closed", BEGINNING), frontier
        begin, ended = clock.get("begin"), clock.get("ended")
        if frontier >= FOREVER and (rhythm == "static" or begin is None):
            return STATIC_TIME
        if ended and begin is None and before <= STATIC_TIME < frontier:
            return STATIC_TIME
        if begin is None or isinstance(rhythm, str):
            end = clock.get("closed", BEGINNING) - 1
            return end if ended and rhythm != "static" and before <= end < frontier else None
        born = first_answer_time(rhythm, begin)
        return born if born < frontier else None

    def _delta(self, closed: pa.Table, turns: list[pa.Table], birth: int | None) -> pa.Table:
        """Closed parts with hash, one row for each key and time.

        A value may change while every sum stays (5 is deleted, 7 inserted, COUNT is the same), so the keys and times of
        the values take part with zero sums, and with the change of the number of different values.
        """
        keys = name_list(self.key_names)
        group = f"{keys}, __time" if keys else "__time"
        adds = ", ".join(f"CAST({how}({quoted(c.name)}) AS {c.type}) AS {quoted(c.name)}" for c, how in self.combines)
        sources = [
            f"SELECT {group}, {name_list([c.name for c in self.parts])}"
            f" FROM {duck.source('closed', (*self.keys, *self.parts), '__time')}"
        ]
        if birth is not None:
            nothing = ", ".join("0" if how == "sum" else "NULL" for _, how in self.combines)
            sources.append(f"SELECT {birth} AS __time, {nothing}")
        for i, value in enumerate(self.values):
            filled = ", ".join(
                "__turn" if c.name == value.once else "0" if how == "sum" else "NULL" for c, how in self.combines
            )
            sources.append(f"SELECT {group}, {filled} FROM {duck.source(f'turns{i}', self.keys, '__time', '__turn')}")
        return duck.run(
            f"SELECT {hash_sql(self.key_names)} AS __h, {group}, {adds}"
            f" FROM ({' UNION ALL '.join(sources)}) GROUP BY {group}",
            closed=closed,
            **{f"turns{i}": t for i, t in enumerate(turns)},
        )

    def _differences(self, tables: dict[str, pa.Table], born: bool, birth: int) -> pa.Table:
        """−old +new wherever the answer changes, from the tables `delta`, `base` and those of the values."""
        keys = "".join(f"{quoted(k)}, " for k in self.key_names)
        partition = f"PARTITION BY {name_list(self.key_names)}" if self.keys else ""
        parts = ", ".join(quoted(c.name) for c in self.parts)
        running = ", ".join(
            f"CAST({how}({quoted(c.name)}) OVER w AS {c.type}) AS {quoted(c.name)}" for c, how in self.combines
        )
        source = duck.source("delta", (*self.keys, *self.parts), "__time")
        qualified = ", ".join(f"running.{quoted(k)}" for k in self.key_names)
        extra, joins = self._value_columns(f"PARTITION BY {qualified}" if self.keys else "")
        names = [quoted(name) for name, _ in self.answers]
        answers = "".join(f", {sql} AS {quoted(name)}" for name, sql in self.answers)
        old_names = [quoted("__old_" + name) for name, _ in self.answers]
        before = "".join(f", lag({n}) OVER w AS {o}" for n, o in zip(names, old_names, strict=True))
        changed = " OR ".join(f"{n} IS DISTINCT FROM {o}" for n, o in zip(names, old_names, strict=True)) or "FALSE"
        olds = [f"{o} AS {n}" for n, o in zip(names, old_names, strict=True)]
        return duck.run(
            f"""WITH moves AS (
                  SELECT {keys}__time, {parts} FROM {source}
                  UNION ALL {self._stored_parts_sql(keys, born and tables["base"].num_rows == 0)}),
                running AS (SELECT {keys}__time, {running} FROM moves
                  WINDOW w AS ({partition} ORDER BY __time ROWS UNBOUNDED PRECEDING)),
                valued AS (SELECT running.*{extra} FROM running {joins}),
                answered AS (SELECT {keys}__time, {self._live_sql(born, birth)} AS __live{answers} FROM valued),
                steps AS (SELECT *, coalesce(lag(__live) OVER w, FALSE) AS __was{before}
                  FROM answered WINDOW w AS ({partition} ORDER BY __time)),
                turned AS (SELECT * FROM steps
                  WHERE __time > {BEGINNING} AND (__live <> __was OR (__live AND ({changed}))))
                SELECT {", ".join([*map(quoted, self.key_names), *names, "__time"])}, CAST(1 AS BIGINT) AS __diff
                  FROM turned WHERE __live
                UNION ALL
                SELECT {", ".join([*map(quoted, self.key_names), *olds, "__time"])}, CAST(-1 AS BIGINT) AS __diff
                  FROM turned WHERE __was""",
            **tables,
        ).select([c.name for c in self.schema] + ["__time", "__diff"])

    def _stored_parts_sql(self, keys: str, empty: bool) -> str:
        """The stored parts as moves at BEGINNING; `empty`: an answer has begun, and no row is stored of it."""
        if not self.keys and empty:
            nothing = ", ".join("0" if how == "sum" else "NULL" for _, how in self.combines)
            return f"SELECT {BEGINNING} AS __time, {nothing}"
        adds = ", ".join(f"{how}({quoted(c.name)}) AS {quoted(c.name)}" for c, how in self.combines)
        source = duck.source("base", (*self.keys, *self.parts))
        group = f"GROUP BY {name_list(self.key_names)}" if self.keys else "HAVING count(*) > 0"
        return f"SELECT {keys}{BEGINNING} AS __time, {adds} FROM {source} {group}"

    def _live_sql(self, born: bool, birth: int) -> str:
        """Whether there is an answer: the group has rows, and no user aggregate has failed.

        Without keys the answer begins at its birth or with the first row, not with changes that cancel, and never ends.
        """
        ever = f"(max(__n) OVER (ORDER BY __time ROWS UNBOUNDED PRECEDING) > 0 OR __time >= {birth})"
        live = "__n > 0" if self.keys else "TRUE" if born else ever
        return " AND ".join([live, *(f"NOT coalesce(__bad{u.index}, FALSE)" for u in self.user_aggregates)])

    def _value_columns(self, partition: str) -> tuple[str, str]:
        """Select items and joins that carry each value result forward to the times without a change."""
        items, joins = "", ""
        for i, value in enumerate(self.values):
            if not value.low and not value.high:
                continue
            joins += f" LEFT JOIN walked{i} ON {same_row([*self.key_names, '__time'], f'walked{i}', 'running')}"
            for name in ("__least", "__most"):
                # A struct is not NULL even where its field is: IGNORE NULLS then skips only missing results.
                packed = f"CASE WHEN walked{i}.__time IS NOT NULL THEN {{'x': walked{i}.{name}}} END"
                items += (
                    f", (last_value({packed} IGNORE NULLS) OVER ({partition} ORDER BY running.__time"
                    f" ROWS UNBOUNDED PRECEDING)).x AS {name}{i}"
                )
        for collected in self.collected:
            joins += collected.join_sql(self.key_names)
            items += collected.items_sql(partition)
        for user in self.user_aggregates:
            table = f"user{user.index}"
            joins += f" LEFT JOIN {table} ON {same_row([*self.key_names, '__time'], table, 'running')}"
            for name in user.columns:
                packed = f"CASE WHEN {table}.__time IS NOT NULL THEN {{'x': {table}.{quoted(name)}}} END"
                shown = name if name != "__bad" else f"__bad{user.index}"
                items += (
                    f", (last_value({packed} IGNORE NULLS) OVER ({partition} ORDER BY running.__time"
                    f" ROWS UNBOUNDED PRECEDING)).x AS {quoted(shown)}"
                )
        return items, joins
