"""What leaves for other sites: the changes of each edge in a micro-batch, written into its outbox before the commit.

An edge is an output of the plan like a view, without tables. A batch that is replayed writes the same messages again,
and only those of committed batches are sent (`runtime.sites`).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.physical import BEGINNING, Output, Physical
from tidemill.runtime.durable import read_note, write_note
from tidemill.runtime.paths import Paths
from tidemill.runtime.sites.limits import note_awaited, note_size
from tidemill.runtime.sites.messages import DIFF, SEQ, TIME
from tidemill.runtime.sites.outbox import Outbox
from tidemill.runtime.views.stopped_views import gather_changes
from tidemill.runtime.views.stored_view import StoredView


@dataclass(frozen=True)
class Expiry:
    """`after_us` beyond the stamp in a column, in clock units or a timestamp, the receiver hides a row by itself."""

    column: str
    unit_us: int
    after_us: int

    def leave_out(self, rows: pa.Table) -> pa.Table:
        """The changes without those that take back a row which the receiver hides already."""
        if self.column not in rows.column_names:
            return rows
        stamp = rows.column(self.column)
        units = self.unit_us if pa.types.is_integer(stamp.type) else 1
        stamps = stamp.cast(pa.int64()) if units > 1 or pa.types.is_integer(stamp.type) else _micros(stamp)
        hidden = pc.greater(rows.column(TIME), pc.add(pc.multiply(stamps, units), self.after_us))
        return rows.filter(pc.invert(pc.and_(pc.less(rows.column(DIFF), 0), hidden)))


def _micros(stamps: pa.ChunkedArray) -> pa.ChunkedArray:
    return stamps.cast(pa.timestamp("us")).cast(pa.int64())


class Shipping:
    """The edges of one database, by the ids of their outputs. `most_bytes` may wait in an outbox."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.edges: dict[str, StoredView] = {}
        self.expiries: dict[str, Expiry] = {}
        self.stopped: dict[str, str] = {}  # edge → why
        self.most_bytes = 1 << 30

    def of(self, plan: Physical) -> list[Output]:
        """The outputs of a plan that leave for other sites."""
        return [output for output in plan.outputs if output.view in self.edges]

    def outbox(self, edge: str) -> Outbox:
        """The outbox of an edge, by the id of its output."""
        return Outbox(os.path.join(self.paths.departures, edge), self.edges[edge].name)

    def write(
        self,
        batch: int,
        plan: Physical,
        blocks: list[pa.Table],
        before: Mapping[str, int],
        closed: Mapping[str, int],
        duck: duckdb.DuckDBPyConnection,
    ) -> None:
        """Write what a batch ships. `before` and `closed` are how far outputs were closed, and are now."""
        if not self.edges:
            return
        rows: dict[str, list[pa.Table]] = {}
        for changes in gather_changes(self.of(plan), self.edges, blocks):
            changes.net(duck)
            for view in changes.views:
                own = changes.only({view.id}).rows
                rows.setdefault(view.id, []).append(own.drop_columns([n for n in ("__view",) if n in own.column_names]))
        for output in self.of(plan):
            if output.view in self.stopped:
                continue
            name = f"view {output.view}"
            table = _in_order(rows.get(output.view, []))
            if output.view in self.expiries:
                table = self.expiries[output.view].leave_out(table)
            outbox = self.outbox(output.view)
            outbox.write(batch, table, before.get(name, BEGINNING), closed.get(name, BEGINNING))
            note_size(self.paths, output.view, outbox.size, self.most_bytes)

    def meta(self) -> dict[str, str]:
        """The last message of each edge, committed with a batch: one that is lost is noticed."""
        return {"shipped": json.dumps({edge: self.outbox(edge).last().seq for edge in self.edges})}

    def stop(self, failing: Mapping[str, str]) -> dict[str, str]:
        """Stop edges above an operator that failed: what they would ship from here on is not known. It stays so; all
        edges that have stopped.
        """
        for edge in self.edges:
            if edge not in self.stopped:
                path = os.path.join(self.paths.departures, edge, "stopped.json")
                if edge in failing:
                    write_note(path, {"reason": failing[edge]})
                found = read_note(path)
                self.stopped |= {edge: found["reason"]} if found else {}
        return self.stopped

    def forget(self) -> None:
        """Remove the outboxes of edges that are gone."""
        try:
            kept = os.listdir(self.paths.departures)
        except FileNotFoundError:
            return
        for name in kept:
            if (
                name not in self.edges
                and not name.startswith(".")
                and os.path.isdir(os.path.join(self.paths.departures, name))
            ):
                shutil.rmtree(os.path.join(self.paths.departures, name), ignore_errors=True)
                note_size(self.paths, name, 0, self.most_bytes)
                note_awaited(self.paths, name, None)


def _in_order(tables: list[pa.Table]) -> pa.Table:
    """Records of a batch by time and number, without their difference, which is 1; or changes by time."""
    if not tables:
        return pa.table({TIME: pa.array([], pa.int64())})
    rows = pa.concat_tables(tables, promote_options="permissive")
    if SEQ not in rows.column_names:
        return rows.sort_by(TIME)
    return rows.drop_columns([DIFF]).sort_by([(TIME, "ascending"), (SEQ, "ascending")])
