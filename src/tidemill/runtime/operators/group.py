"""GROUP BY: for each key walk the closed times in order and emit −old +new where the answer changes.

State: the added-up parts of every live group, and for COUNT(DISTINCT), and for MIN and MAX where rows may leave,
the multiplicity of every value of the group (`values`). Let P(k, t) be the parts of key k added up to time t. Then the
answer of k at t is finish(P(k, t)), a row exists while its count is positive, and the output is the
difference between consecutive answers. Adding up is associative, so any cut into batches gives the same.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidemill.plan.physical import BEGINNING, FOREVER
from tidemill.plan.relations import STATIC_TIME, begun, quoted
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.operators.base import Batch, Operator, hash_sql, hashes_of, name_list, same_row, take_closed
from tidemill.runtime.operators.folding import Folding
from tidemill.runtime.operators.group_walk import GroupWalk
from tidemill.runtime.operators.values import Values
from tidemill.runtime.state import Layout, Shelf

COUNT = Column("__n", "BIGINT")


class GroupBy(Operator):
    """Inputs: the partial aggregates, then one value-count stream for each column kept by value."""

    def __init__(self, op: Any, first: bool = True) -> None:
        super().__init__(op, first)
        self.keys = tuple(Column(n, t) for n, t in self.params["keys"])
        self.key_names = [c.name for c in self.keys]
        self.parts = (COUNT, *(Column(n, t) for n, t, _ in self.params["parts"]))
        combines = ("sum", *(how for _, _, how in self.params["parts"]))
        adds = tuple(zip(self.parts, combines, strict=True))
        self.combines = adds
        self.agenda = Layout("__time", self.keys, adds)
        # A keyless answer stays when it is empty, so its parts must stay as well.
        self.layout = Layout("__h", self.keys, adds, "__n" if self.keys else None)
        self.values = [Values(self.id, i, self.keys, v) for i, v in enumerate(self.params["values"])]
        self.folds = [Folding(self.id, i, self.keys, v) for i, v in enumerate(self.params["values"]) if v.get("folds")]
        self.answers = [(n, t) for n, t in self.params["answers"]]  # (name, SQL)
        walks = not self.folds and GroupWalk.serves(self.keys, self.combines[1:], self.values, self.schema)
        self.walk = GroupWalk(self.keys, self.parts[1:], self.values, self.answers) if walks else None

    def step(self, inputs: list[Batch], shelf: Shelf) -> Batch:
        frontier = min(b.frontier for b in inputs)
        closed = take_closed(self.arrangement(shelf, "agenda", self.agenda), inputs[0].rows, frontier)
        values = [v.closed(b, frontier, shelf) for v, b in zip(self.values, inputs[1:], strict=True)]
        birth = self._birth(frontier, shelf)
        if closed.num_rows == 0 and birth is None and not any(rows.num_rows for rows in values):
            return Batch(None, frontier)
        walked = self._walked(closed, values, shelf)
        return Batch(self._stated(closed, values, birth, shelf) if walked is None else walked, frontier)

    def _walked(self, closed: pa.Table, values: list[pa.Table], shelf: Shelf) -> pa.Table | None:
        """The changes by arrays; None where only SQL can tell them."""
        if self.walk is None or any(closed.column(c.name).null_count for c in self.parts):
            return None
        try:
            out = self.walk.walk(closed, values, self.arrangement(shelf, "parts", self.layout), shelf)
        except OverflowError:
            return None
        self.walk.store()
        return out.select([c.name for c in self.schema] + ["__time", "__diff"])

    def _stated(self, closed: pa.Table, values: list[pa.Table], birth: int | None, shelf: Shelf) -> pa.Table:
        """The changes by SQL."""
        turns = [v.turns(rows, shelf) for v, rows in zip(self.values, values, strict=True)]
        delta = self._delta(closed, turns, birth)
        state = self.arrangement(shelf, "parts", self.layout)
        base = state.probe(hashes_of(delta))
        walked = [v.extremes(rows, hashes_of(delta), shelf) for v, rows in zip(self.values, values, strict=True)]
        folded = [f.walked(values[f.index], hashes_of(delta), shelf, self._aside) for f in self.folds]
        born = bool(shelf.value(self.id).get("born"))
        out = self._differences(delta, base, walked, folded, born, FOREVER if birth is None else birth)
        if not self.keys and out.num_rows:
            shelf.value(self.id)["born"] = True
        state.append(delta.drop_columns(["__time"]))
        state.compact()
        return out

    def _aside(self, rows: pa.Table, why: str) -> None:
        if self.complain is not None:
            self.complain(self.op, rows, why)

    def _birth(self, frontier: int, shelf: Shelf) -> int | None:
        """When the one row of a keyless answer begins: with the clock, before any input row; where all is of tables,
        before all time, whatever else there is in the database. Where it would begin with the first row and none has
        come, it begins with the end of a finite run. None afterwards.
        """
        value, clock, rhythm = shelf.value(self.id), shelf.value("@clock"), self.params["beginning"]
        if self.keys or not self.first or value.get("born"):
            return None
        before, value["closed"] = value.get("closed", BEGINNING), frontier
        begin, ended = clock.get("begin"), clock.get("ended")
        if frontier >= FOREVER and (rhythm == "static" or begin is None):
            return STATIC_TIME
        if ended and begin is None and before <= STATIC_TIME < frontier:
            return STATIC_TIME
        if begin is None or rhythm in ("static", "first row"):
            end = clock.get("closed", BEGINNING) - 1
            return end if ended and rhythm != "static" and before <= end < frontier else None
        born = begun(rhythm, begin)
        return born if born < frontier else None

    def _delta(self, closed: pa.Table, turns: list[pa.Table], birth: int | None) -> pa.Table:
        """Closed parts with hash, one row for each key and time.

        A value may change while every sum stays (5 leaves, 7 comes, COUNT is the same), so the keys and times of the
        values take part with zero sums, and with the change of their number where each counts once.
        """
        keys = name_list(self.key_names)
        group = f"{keys}, __time" if keys else "__time"
        adds = ", ".join(f"CAST({how}({quoted(c.name)}) AS {c.type}) AS {quoted(c.name)}" for c, how in self.combines)
        sources = [f"SELECT {group}, {name_list([c.name for c in self.parts])}"
                   f" FROM {duck.source('closed', (*self.keys, *self.parts), '__time')}"]
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
            closed=closed, **{f"turns{i}": t for i, t in enumerate(turns)},
        )

    def _differences(self, delta: pa.Table, base: pa.Table, walked: list[pa.Table | None], folded: list[pa.Table],
                     born: bool, birth: int) -> pa.Table:
        keys = "".join(f"{quoted(k)}, " for k in self.key_names)
        partition = f"PARTITION BY {name_list(self.key_names)}" if self.keys else ""
        parts = [quoted(c.name) for c in self.parts]
        adds = ", ".join(f"{how}({quoted(c.name)}) AS {quoted(c.name)}" for c, how in self.combines)
        running = ", ".join(
            f"CAST({how}({quoted(c.name)}) OVER w AS {c.type}) AS {quoted(c.name)}" for c, how in self.combines
        )
        columns = (*self.keys, *self.parts)
        old = f"SELECT {keys}{BEGINNING} AS __time, {adds} FROM {duck.source('base', columns)}" + (
            f" GROUP BY {name_list(self.key_names)}" if self.keys else " HAVING count(*) > 0"
        )
        if not self.keys and born and base.num_rows == 0:
            nothing = ", ".join("0" if how == "sum" else "NULL" for _, how in self.combines)
            old = f"SELECT {BEGINNING} AS __time, {nothing}"
        # Without keys the answer begins at its birth or with the first row, not with changes that cancel, and stays.
        ever = f"max(__n) OVER (ORDER BY __time ROWS UNBOUNDED PRECEDING) > 0 OR __time >= {birth}"
        live = "__n > 0" if self.keys else "TRUE" if born else ever
        live = " AND ".join([live, *(f"NOT coalesce(__bad{f.index}, FALSE)" for f in self.folds)])
        answers = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in self.answers)
        qualified = ", ".join(f"running.{quoted(k)}" for k in self.key_names)
        extra, joins = self._value_columns(f"PARTITION BY {qualified}" if self.keys else "")
        names = [name for name, _ in self.answers]
        before = ", ".join(f"lag({quoted(n)}) OVER w AS {quoted('__old_' + n)}" for n in names)
        changed = " OR ".join(f"{quoted(n)} IS DISTINCT FROM {quoted('__old_' + n)}" for n in names) or "FALSE"
        news = "".join(f", {quoted(n)}" for n in names)
        olds = "".join(f", {quoted('__old_' + n)} AS {quoted(n)}" for n in names)
        tables = {"delta": delta, "base": base} | {f"walked{i}": t for i, t in enumerate(walked) if t is not None}
        tables |= {f"folded{f.index}": t for f, t in zip(self.folds, folded, strict=True)}
        return duck.run(
            f"""WITH moves AS (
                  SELECT {keys}__time, {', '.join(parts)} FROM {duck.source('delta', columns, '__time')}
                  UNION ALL {old}),
                running AS (SELECT {keys}__time, {running} FROM moves
                  WINDOW w AS ({partition} ORDER BY __time ROWS UNBOUNDED PRECEDING)),
                valued AS (SELECT running.*{extra} FROM running {joins}),
                answered AS (SELECT {keys}__time, {live} AS __live{', ' + answers if answers else ''} FROM valued),
                steps AS (SELECT *, coalesce(lag(__live) OVER w, FALSE) AS __was{', ' + before if before else ''}
                  FROM answered WINDOW w AS ({partition} ORDER BY __time)),
                turned AS (SELECT * FROM steps
                  WHERE __time > {BEGINNING} AND (__live <> __was OR (__live AND ({changed}))))
                SELECT {keys.rstrip(', ') or 'NULL AS __none'}{news}, __time, CAST(1 AS BIGINT) AS __diff
                  FROM turned WHERE __live
                UNION ALL
                SELECT {keys.rstrip(', ') or 'NULL AS __none'}{olds}, __time, CAST(-1 AS BIGINT) AS __diff
                  FROM turned WHERE __was""",
            **tables,
        ).select([c.name for c in self.schema] + ["__time", "__diff"])

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
        for fold in self.folds:
            table = f"folded{fold.index}"
            joins += f" LEFT JOIN {table} ON {same_row([*self.key_names, '__time'], table, 'running')}"
            for name in fold.columns:
                packed = f"CASE WHEN {table}.__time IS NOT NULL THEN {{'x': {table}.{quoted(name)}}} END"
                shown = name if name != "__bad" else f"__bad{fold.index}"
                items += (f", (last_value({packed} IGNORE NULLS) OVER ({partition} ORDER BY running.__time"
                          f" ROWS UNBOUNDED PRECEDING)).x AS {quoted(shown)}")
        return items, joins
