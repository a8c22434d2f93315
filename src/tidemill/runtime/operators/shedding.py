"""Load shedding of keyed streams: a cap on the updates of each key in each unit of event time (paper 004, section 8.1).

Let n(k, u) be how many updates of key k in unit u have been let through. In the order of arrival,

    a deletion          is let through, and is not counted
    any other record    is dropped if the batch sheds and n(k, u) has reached the cap, else let through and counted

The three rules of the paper follow from the tagger above: a dropped update is not seen; the first update of a key whose
insertion was dropped is an insertion; a deletion of a key that is not there changes nothing.

Whether a batch sheds is in its offset, so a replay drops the same records. Where every batch sheds, what is dropped
depends on the order of arrival alone, not on cuts. State: the counts of units that are not closed yet.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan import physical as p
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.changes import contents_layout
from tidemill.runtime.dataflow.operator import Batch, Operator
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql, name_list, same_row
from tidemill.runtime.messages.operator_counts import ShedCount
from tidemill.runtime.state.arrangements import Arrangement
from tidemill.runtime.state.shard_state import ShardState

_END = Column("__end", "BIGINT")  # where a unit ends


class Shed(Operator[p.Shed]):
    """Input: records with `__ts` and `__seq`, whatever their time: what arrives is decided at once."""

    def __init__(self, op: p.Shed, first: bool = True) -> None:
        super().__init__(op, first)
        self.keys = tuple(next(c for c in self.schema if c.name == key) for key in op.keys)
        self.names = [c.name for c in self.keys]
        self.layout = contents_layout((*self.keys, _END))

    def step(self, inputs: list[Batch], state: ShardState) -> Batch:
        rows, frontier = inputs[0].rows, inputs[0].frontier
        counts = self.arrangement(state, "updates", self.layout)
        if rows is not None and rows.num_rows:
            sheds = bool(self.op.source in state.sources() and state.sources()[self.op.source].get("shed"))
            verdicts = self._decide(rows, counts.scan(), sheds)
            counts.append(self._count(verdicts))
            rows = rows.filter(verdicts.column("__kept"))
            self.note = ShedCount(self.op.source, self.op.keys, verdicts.num_rows - rows.num_rows)
        self._forget(counts, frontier)
        counts.compact()
        return Batch(rows, frontier)

    def _decide(self, rows: pa.Table, counts: pa.Table, sheds: bool) -> pa.Table:
        """For each record, in the order of the table: its key and unit, whether it deletes, whether it is kept."""
        placed = rows.append_column("__i", pa.array(range(rows.num_rows), pa.int64()))
        every = self.op.every_us
        names = name_list(self.names)
        source = duck.source("placed", self.schema, "__i")
        known = duck.source("counts", (*self.keys, _END), "__n")
        cap = f"n.__gone OR n.__k + coalesce(c.__n, 0) <= {self.op.updates}" if sheds else "TRUE"
        return duck.run(
            f"""WITH units AS (
                  SELECT {names}, __seq, __i, coalesce({self.op.deleted}, FALSE) AS __gone,
                         __ts - ((__ts % {every}) + {every}) % {every} + {every} AS __end FROM {source}),
                numbered AS (
                  SELECT *, row_number() OVER (PARTITION BY {names}, __end, __gone ORDER BY __seq, __i) AS __k
                  FROM units)
                SELECT n.* EXCLUDE (__seq, __k), {cap} AS __kept FROM numbered AS n LEFT JOIN {known} AS c
                ON n.__end = c.__end AND {same_row(self.names, "n", "c")} ORDER BY n.__i""",
            placed=placed,
            counts=counts,
        )

    def _count(self, verdicts: pa.Table) -> pa.Table:
        """The updates that were let through, by key and unit."""
        names, source = name_list(self.names), duck.source("verdicts", (*self.keys, _END), "__gone", "__kept")
        return duck.run(
            f"SELECT {hash_sql(self.names)} AS __h, {names}, __end, count(*) AS __n FROM {source}"
            f" WHERE __kept AND NOT __gone GROUP BY {names}, __end",
            verdicts=verdicts,
        )

    def _forget(self, counts: Arrangement, frontier: int) -> None:
        """Take out the counts of units whose time is closed: what comes for them is late."""
        held = counts.scan()
        done = held.filter(pc.less_equal(held.column("__end"), frontier))
        if done.num_rows:
            place = done.column_names.index("__n")
            counts.append(done.set_column(place, "__n", pc.negate(done.column("__n"))))
