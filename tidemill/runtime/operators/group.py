"""GROUP BY: for each key walk the closed times in order and emit −old +new where the answer changes.

State: the added-up parts of every live group, and for MIN, MAX and COUNT(DISTINCT) under deletion the
multiplicity of every value of the group. Let P(k, t) be the parts of key k added up to time t. Then the
answer of k at t is finish(P(k, t)), a row exists while its count is positive, and the output is the
difference between consecutive answers. Adding up is associative, so any cut into batches gives the same.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidemill.plan.physical import BEGINNING
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.operators.base import Batch, Operator, hash_sql, hashes_of, name_list, same_row, take_closed
from tidemill.runtime.state import Layout, Shelf

COUNT = Column("__n", "BIGINT")


class GroupBy(Operator):
    """Inputs: the partial aggregates, then one value-count stream for each column kept by value."""

    def __init__(self, op: Any) -> None:
        super().__init__(op)
        self.keys = tuple(Column(n, t) for n, t in self.params["keys"])
        self.key_names = [c.name for c in self.keys]
        self.parts = (COUNT, *(Column(n, t) for n, t, _ in self.params["parts"]))
        combines = ("sum", *(how for _, _, how in self.params["parts"]))
        adds = tuple(zip(self.parts, combines, strict=True))
        self.combines = adds
        self.agenda = Layout("__time", self.keys, adds)
        # A keyless answer stays when it is empty, so its parts must stay as well.
        self.layout = Layout("__h", self.keys, adds, "__n" if self.keys else None)
        self.answers = [(n, t) for n, t in self.params["answers"]]  # (name, SQL)

    def step(self, inputs: list[Batch], shelf: Shelf) -> Batch:
        frontier = min(b.frontier for b in inputs)
        closed = take_closed(self.arrangement(shelf, "agenda", self.agenda), inputs[0].rows, frontier)
        values = [self._closed_values(i, inputs[i + 1], frontier, shelf) for i in range(len(inputs) - 1)]
        if closed.num_rows == 0 and not any(v.num_rows for v in values):
            return Batch(None, frontier)
        delta = self._delta(closed, values)
        state = self.arrangement(shelf, "parts", self.layout)
        base = state.probe(hashes_of(delta))
        walked = [self._walk(i, rows, delta, shelf) for i, rows in enumerate(values)]
        born = bool(shelf.value(self.id).get("born"))
        out = self._differences(delta, base, walked, born)
        if not self.keys:
            shelf.value(self.id)["born"] = True
        state.append(delta.drop_columns(["__time"]))
        state.compact()
        return Batch(out, frontier)

    def _delta(self, closed: pa.Table, values: list[pa.Table]) -> pa.Table:
        """Closed parts with hash, one row for each key and time.

        A value may change while every sum stays (5 leaves, 7 comes, COUNT is the same), so the keys and
        times of the value streams take part with zero sums.
        """
        keys = name_list(self.key_names)
        group = f"{keys}, __time" if keys else "__time"
        adds = ", ".join(f"CAST({how}({quoted(c.name)}) AS {c.type}) AS {quoted(c.name)}" for c, how in self.combines)
        zeros = ", ".join("0" if how == "sum" else "NULL" for _, how in self.combines)
        sources = [f"SELECT {group}, {name_list([c.name for c in self.parts])}"
                   f" FROM {duck.source('closed', (*self.keys, *self.parts), '__time')}"]
        sources += [f"SELECT {group}, {zeros} FROM {duck.source(f'values{i}', self.keys, '__time')}" for i in range(len(values))]
        return duck.run(
            f"SELECT {hash_sql(self.key_names)} AS __h, {group}, {adds} FROM ({' UNION ALL '.join(sources)}) GROUP BY {group}",
            closed=closed, **{f"values{i}": v for i, v in enumerate(values)},
        )

    def _differences(self, delta: pa.Table, base: pa.Table, walked: list[pa.Table], born: bool) -> pa.Table:
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
            old = f"SELECT {BEGINNING} AS __time, " + ", ".join("0" for _ in parts)
        live = "__n > 0" if self.keys else "TRUE"
        answers = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in self.answers)
        qualified = ", ".join(f"running.{quoted(k)}" for k in self.key_names)
        extra, joins = self._value_columns(walked, f"PARTITION BY {qualified}" if self.keys else "")
        names = [name for name, _ in self.answers]
        before = ", ".join(f"lag({quoted(n)}) OVER w AS {quoted('__old_' + n)}" for n in names)
        changed = " OR ".join(f"{quoted(n)} IS DISTINCT FROM {quoted('__old_' + n)}" for n in names) or "FALSE"
        news = "".join(f", {quoted(n)}" for n in names)
        olds = "".join(f", {quoted('__old_' + n)} AS {quoted(n)}" for n in names)
        tables = {"delta": delta, "base": base} | {f"walked{i}": t for i, t in enumerate(walked)}
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
                turned AS (SELECT * FROM steps WHERE __time > {BEGINNING} AND (__live <> __was OR (__live AND ({changed}))))
                SELECT {keys.rstrip(', ') or 'NULL AS __none'}{news}, __time, CAST(1 AS BIGINT) AS __diff
                  FROM turned WHERE __live
                UNION ALL
                SELECT {keys.rstrip(', ') or 'NULL AS __none'}{olds}, __time, CAST(-1 AS BIGINT) AS __diff
                  FROM turned WHERE __was""",
            **tables,
        ).select([c.name for c in self.schema] + ["__time", "__diff"])

    # ---- aggregates that need the values themselves ------------------------------------------

    def _value_layouts(self, index: int) -> tuple[Layout, Layout]:
        name, type_ = self.params["values"][index]
        columns = (*self.keys, Column("__v", type_))
        return (
            Layout("__time", columns, ((COUNT, "sum"),)),
            Layout("__h", columns, ((COUNT, "sum"),), "__n"),
        )

    def _closed_values(self, index: int, batch: Batch, frontier: int, shelf: Shelf) -> pa.Table:
        agenda, _ = self._value_layouts(index)
        return take_closed(self.arrangement(shelf, f"agenda{index}", agenda), batch.rows, frontier)

    def _walk(self, index: int, closed: pa.Table, delta: pa.Table, shelf: Shelf) -> pa.Table:
        """Least, greatest and number of values of each touched key at each time, the state first."""
        # Imported on first use: most plans never need numba, and loading it costs a second.
        from tidemill.runtime.kernels.extremes import walk_values

        _, layout = self._value_layouts(index)
        state = self.arrangement(shelf, f"values{index}", layout)
        columns = (*self.keys, layout.keys[-1], COUNT)
        stored = state.probe(hashes_of(delta))
        fresh = duck.run(
            f"SELECT {hash_sql(self.key_names)} AS __h, * FROM {duck.source('closed', columns, '__time')}", closed=closed
        )
        walked = walk_values(self.keys, layout.keys[-1], stored, fresh)
        state.append(fresh.drop_columns(["__time"]))
        state.compact()
        return walked

    def _value_columns(self, walked: list[pa.Table], partition: str) -> tuple[str, str]:
        """Select items and joins that carry each value result forward to the times without a change."""
        items, joins = "", ""
        for i, _ in enumerate(walked):
            joins += f" LEFT JOIN walked{i} ON {same_row([*self.key_names, '__time'], f'walked{i}', 'running')}"
            for name in ("__least", "__most", "__kinds"):
                # A struct is not NULL even where its field is: IGNORE NULLS then skips only missing results.
                packed = f"CASE WHEN walked{i}.__kinds IS NOT NULL THEN {{'x': walked{i}.{name}}} END"
                items += (
                    f", (last_value({packed} IGNORE NULLS) OVER ({partition} ORDER BY running.__time"
                    f" ROWS UNBOUNDED PRECEDING)).x AS {name}{i}"
                )
        return items, joins
