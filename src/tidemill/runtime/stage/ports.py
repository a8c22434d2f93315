"""The input of the ports of a stage, and the rows that loops send to them: for the true state and its copies alike."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidemill.plan.measured.sources import Sources
from tidemill.plan.physical import BEGINNING, CLOCK, Exchange, Physical
from tidemill.runtime.arrow_ipc import ipc_pieces
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.evaluation.evaluate import Evaluation, route
from tidemill.runtime.evaluation.failures import guard
from tidemill.runtime.row_references import write_out
from tidemill.runtime.stage.frontiers import clock_of


def port_feeds(
    plan: Physical, sources: Sources, ports: dict[str, int], arrived: dict[str, list[pa.Table]], failed: dict[str, str]
) -> dict[str, Batch]:
    """Rows and frontier of each port; a port whose tables cannot be concatenated is noted in `failed`."""
    found = {CLOCK: Batch(None, clock_of(plan, sources))}
    for edge in (*plan.exchanges, *plan.loops):
        rows = list(guard(edge.port, _concat(arrived.get(edge.port, [])), failed))
        found[edge.port] = Batch(rows[0] if rows else None, _frontier(edge, sources, ports))
    return found


def route_loop(plan: Physical, evaluation: Evaluation, edge: Exchange) -> Iterator[tuple[int, bytes]]:
    """(shard, payload) of the rows that an operator sends through a loop."""
    found = evaluation.outcome(edge.source_op)
    if found is None or found.rows is None or not found.rows.num_rows:
        return
    rows = write_out(found.rows)
    for index, piece in route(edge, evaluation.ops[edge.source_op].schema, rows, len(plan.shards), 0):
        for payload in ipc_pieces(piece):
            yield plan.shards[index], payload


def loop_frontiers(loops: tuple[Exchange, ...], evaluation: Evaluation) -> dict[str, int]:
    """How far the rows of each loop are closed."""
    return {edge.port: frontier_of(evaluation, edge.source_op) for edge in loops}


def frontier_of(evaluation: Evaluation, op: str) -> int:
    """The frontier of an operator; BEGINNING where it has failed."""
    found = evaluation.outcome(op)
    return BEGINNING if found is None else found.frontier


def _frontier(edge: Exchange, sources: Sources, ports: dict[str, int]) -> int:
    kind, _, name = edge.origin.partition(":")
    if kind == "source":
        return sources[name]["floor"] if name in sources else BEGINNING
    return ports.get(edge.origin if kind == "seed" else edge.port, BEGINNING)


def _concat(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """All rows of a port as one table, if there are any."""
    if tables:
        yield pa.concat_tables(_same(tables))


def _same(tables: list[pa.Table]) -> list[pa.Table]:
    names = tables[0].column_names
    if any(t.column_names != names for t in tables):
        # Fragments leave out parts to which nothing contributed.
        return [pa.concat_tables(tables, promote_options="default")]
    return [tables[0], *(t.cast(tables[0].schema) for t in tables[1:])]
