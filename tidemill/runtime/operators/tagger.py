"""The tagger of an update stream: the last record of a key replaces the one before, or deletes it.

Per key, walk the closed records in order of time; of several records of one time only the last in arrival order
counts. Output −old +new. State: the current row of each key, bounded by the number of keys; with a
selection merged in, only rows that satisfy it are ever stored.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidemill.plan.physical import BEGINNING
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime import duck
from tidemill.runtime.operators.base import (
    Batch,
    Operator,
    contents_layout,
    hash_sql,
    hashes_of,
    name_list,
    take_closed,
)
from tidemill.runtime.state import Layout, Shelf

ORDER = (Column("__at", "BIGINT"), Column("__seq", "BIGINT"), Column("__gone", "BOOLEAN"))


class Tagger(Operator):
    """Input: raw records with `__at` (event time), `__seq` (arrival order) and `__gone` (deletes its key)."""

    def __init__(self, op: Any, first: bool = True) -> None:
        super().__init__(op, first)
        self.keys = list(self.params["keys"])
        self.names = [c.name for c in self.schema]
        self.agenda = Layout("__time", (*self.schema, *ORDER))
        self.layout = contents_layout(self.schema)

    def step(self, inputs: list[Batch], shelf: Shelf) -> Batch:
        frontier = inputs[0].frontier
        agenda = self.arrangement(shelf, "agenda", self.agenda)
        closed = take_closed(agenda, inputs[0].rows, frontier)
        if closed.num_rows == 0:
            return Batch(None, frontier)
        records = duck.run(
            f"SELECT {hash_sql(self.keys)} AS __h, * EXCLUDE (__at, __seq)"
            f" FROM {duck.source('closed', self.schema, '__time', '__at', '__seq', '__gone')}"
            f" QUALIFY row_number() OVER"
            f" (PARTITION BY {name_list(self.keys)}, __time ORDER BY __at DESC, __seq DESC) = 1",
            closed=closed,
        )
        state = self.arrangement(shelf, "rows", self.layout)
        base = state.probe(hashes_of(records))
        out = self._changes(records, base)
        state.append(self._moves(out))
        state.compact()
        return Batch(out, frontier)

    def _changes(self, records: pa.Table, base: pa.Table) -> pa.Table:
        names, keys = name_list(self.names), name_list(self.keys)
        row = "{" + ", ".join(f"'c{i}': {quoted(n)}" for i, n in enumerate(self.names)) + "}"
        unpack = ", ".join(f"__row.c{i} AS {quoted(n)}" for i, n in enumerate(self.names))
        return duck.run(
            f"""WITH current AS (SELECT {names}, {BEGINNING} AS __time, FALSE AS __gone
                  FROM {duck.source('base', self.schema, '__n')} GROUP BY {names} HAVING sum(__n) > 0),
                moves AS (SELECT {names}, __time, __gone FROM {duck.source('records', self.schema, '__time', '__gone')}
                  UNION ALL SELECT * FROM current),
                steps AS (SELECT __time, CASE WHEN NOT __gone THEN {row} END AS __new,
                  lag(CASE WHEN NOT __gone THEN {row} END) OVER (PARTITION BY {keys} ORDER BY __time) AS __old
                  FROM moves),
                turned AS (SELECT * FROM steps WHERE __time > {BEGINNING} AND __new IS DISTINCT FROM __old),
                tagged AS (SELECT __new AS __row, __time, CAST(1 AS BIGINT) AS __diff FROM turned
                    WHERE __new IS NOT NULL
                  UNION ALL SELECT __old, __time, CAST(-1 AS BIGINT) FROM turned WHERE __old IS NOT NULL)
                SELECT {unpack}, __time, __diff FROM tagged""",
            records=records, base=base,
        )

    def _moves(self, out: pa.Table) -> pa.Table:
        source = duck.source("out", self.schema, "__diff AS __n")
        return duck.run(f"SELECT {hash_sql(self.keys)} AS __h, * FROM {source}", out=out)
