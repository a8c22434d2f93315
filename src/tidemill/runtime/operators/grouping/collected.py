"""Calls that need all values of a group at once, over the multiset of its values at each time.

State: the multiplicity of every value of every group. Let V(k, t) be the values of key k added up to time t, each as
often as it occurs. The answer of k at t is the call over V(k, t), by DuckDB itself. Adding up is associative and calls
name an order of all that they read, so any cut into batches gives the same.
Work is the size of the touched groups times the times at which they change in the batch.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.plan.collected import VALUE
from tidemill.plan.physical import BEGINNING, KeptValues
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.changes import contents_layout
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql, same_row
from tidemill.runtime.state.shard_state import ShardState

_NUMBERED = "__g, __slot, __n, __time"


class Collected:
    """The calls over one column of a GROUP BY."""

    def __init__(self, node: str, index: int, keys: tuple[Column, ...], kept: KeptValues) -> None:
        self.node, self.index, self.keys = node, index, keys
        self.columns = (*keys, Column("__v", kept.type))
        self.calls = kept.calls
        self.fields = tuple(Column(f"a{i}", type_) for i, type_ in enumerate(kept.fields))

    def walk(self, closed: pa.Table, touched: np.ndarray, state: ShardState) -> pa.Table:
        """(keys, __time, answers): of each touched key at each time with a change; what is stored at BEGINNING."""
        arranged = state.arrangement(self.node, f"collected{self.index}", contents_layout(self.columns))
        counted = (*self.columns, Column("__n", "BIGINT"))
        names = [c.name for c in self.keys]
        source = duck.source("closed", counted, "__time")
        fresh = duck.run(f"SELECT {hash_sql(names)} AS __h, * FROM {source}", closed=closed)
        answers = self._answers(arranged.probe(touched), fresh, counted)
        arranged.append(fresh.drop_columns(["__time"]))
        arranged.compact()
        return answers

    def _answers(self, stored: pa.Table, fresh: pa.Table, columns: tuple[Column, ...]) -> pa.Table:
        moves = self._moves(stored, fresh, columns)
        values = self._values(moves)
        keys = "".join(f"{quoted(c.name)}, " for c in self.keys)
        firsts = "".join(f"first({quoted(c.name)}) AS {quoted(c.name)}, " for c in self.keys)
        calls = ", ".join(f"CAST({c.sql} AS {c.type}) AS {quoted(c.name)}" for c in self.calls)
        shown = ", ".join(
            f"CASE WHEN a.__g IS NULL THEN CAST({c.empty} AS {c.type}) ELSE a.{quoted(c.name)} END AS {quoted(c.name)}"
            for c in self.calls
        )
        source = duck.source("numbered", self.keys, _NUMBERED)
        fields = duck.source("vals", self.fields, "__slot")
        return duck.run(
            f"""WITH moves AS (SELECT {keys}__g, __slot, __n, __time FROM {source}),
                times AS (SELECT __g, {firsts}__time FROM moves GROUP BY __g, __time),
                present AS (
                  SELECT t.__g, t.__time, m.__slot, CAST(sum(m.__n) AS BIGINT) AS __n
                  FROM times AS t JOIN moves AS m ON t.__g = m.__g AND m.__time <= t.__time
                  GROUP BY t.__g, t.__time, m.__slot HAVING sum(m.__n) > 0),
                copies AS (SELECT __g, __time, __slot, unnest(range(__n)) AS __copy FROM present),
                answers AS (SELECT c.__g, c.__time, {calls}
                  FROM copies AS c JOIN {fields} AS {VALUE} ON c.__slot = {VALUE}.__slot
                  GROUP BY c.__g, c.__time)
                SELECT {"".join(f"t.{quoted(c.name)}, " for c in self.keys)}t.__time, {shown}
                FROM times AS t LEFT JOIN answers AS a ON t.__g = a.__g AND t.__time = a.__time""",
            numbered=moves.drop_columns(["__v"]),
            vals=values,
        )

    def _moves(self, stored: pa.Table, fresh: pa.Table, columns: tuple[Column, ...]) -> pa.Table:
        """Stored values at BEGINNING and changes, with the numbers of their group and of their value."""
        keys = "".join(f"{quoted(c.name)}, " for c in self.keys)
        order = f"ORDER BY {keys.rstrip(', ')}" if keys else ""
        return duck.run(
            f"""SELECT *, dense_rank() OVER ({order}) AS __g, dense_rank() OVER (ORDER BY __v) AS __slot FROM (
                  SELECT {keys}__v, __n, {BEGINNING} AS __time FROM {duck.source("stored", columns)}
                  UNION ALL SELECT {keys}__v, __n, __time FROM {duck.source("fresh", columns, "__time")})""",
            stored=stored,
            fresh=fresh,
        )

    def _values(self, moves: pa.Table) -> pa.Table:
        """The fields of each value as columns, by the number of the value."""
        slots = moves.column("__slot").to_numpy()
        _, firsts = np.unique(slots, return_index=True)
        picked = moves.select(["__slot", "__v"]).take(pa.array(firsts))
        structs = picked.column("__v").combine_chunks()
        flat = structs.flatten() if isinstance(structs, pa.StructArray) else structs.chunk(0).flatten()
        return pa.table(
            {"__slot": picked.column("__slot")} | {f.name: a for f, a in zip(self.fields, flat, strict=True)}
        )

    def join_sql(self, key_names: list[str]) -> str:
        """The join that adds the answers to the versions of a group."""
        table = f"collected{self.index}"
        return f" LEFT JOIN {table} ON {same_row([*key_names, '__time'], table, 'running')}"

    def items_sql(self, partition: str) -> str:
        """Select items that carry the answers forward to the times without a change of values."""
        table = f"collected{self.index}"
        window = f"({partition} ORDER BY running.__time ROWS UNBOUNDED PRECEDING)"
        items = ""
        for call in self.calls:
            answer = duck.retype(Column(call.name, call.type))
            # A struct is not NULL even where its field is: IGNORE NULLS then skips only missing answers.
            packed = f"CASE WHEN {table}.__time IS NOT NULL THEN {{'x': {answer}}} END"
            last = f"last_value({packed} IGNORE NULLS) OVER {window}"
            value = f"({last}).x"
            if call.empty != "NULL":
                value = f"CASE WHEN {last} IS NULL THEN CAST({call.empty} AS {call.type}) ELSE {value} END"
            items += f", {value} AS {quoted(call.name)}"
        return items
