"""What EXPLAIN says of operators that run: rows that were counted, beside rows that the cost model predicts."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.engine.adapt.operator_totals import OperatorTotals
from tidemill.optimize.views.predict import predict_rows
from tidemill.plan import physical as p
from tidemill.plan.operator_rows import Flow, OperatorRows
from tidemill.plan.physical import Op, Physical

_SAME_ROWS = (p.Project, p.Synchronize, p.SynchronizePeriods)  # operators that give a row for each row


def report_operators(plan: Physical, totals: OperatorTotals) -> dict[str, OperatorRows]:
    """By the id of an operator, for those of the plan that have run."""
    ops = {op.id: op for op in (*plan.reader, *plan.stage)}
    found: dict[str, OperatorRows] = {}
    for op in ops.values():
        count = totals.counts.get(op.id)
        if count is None:
            continue
        chain = list(_inside(op, ops, totals))
        reached: float | None = count.rows_in
        for inner in reversed(chain):
            passed = reached if isinstance(inner, _SAME_ROWS) else None
            found[inner.id] = OperatorRows(Flow(reached, passed))
            reached = passed
        # What a source takes to decode is not counted.
        spent = None if isinstance(op, (p.Scan, p.Seed)) else count.seconds
        found[op.id] = OperatorRows(Flow(reached, count.rows_out), spent)
    for name, flow in predict_rows(plan, totals.count_of).items():
        if name in found:
            found[name] = OperatorRows(found[name].counted, found[name].seconds, flow)
    return found


def _inside(op: Op, ops: dict[str, Op], totals: OperatorTotals) -> Iterator[Op]:
    """The operators that run inside the SQL statement of `op`, from the top down: they are not counted themselves."""
    while isinstance(op, p.Linear):
        below = ops.get(op.inputs[0])
        if not isinstance(below, p.Linear) or below.id in totals.counts:
            return
        yield below
        op = below
