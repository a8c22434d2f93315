"""Rows and times of operators as text."""

from __future__ import annotations

from typing import Any

from tidemill.plan.operator_rows import Flow, OperatorRows


def operator_text(found: OperatorRows | None) -> str:
    """What stands behind an operator of a running plan.

    >>> operator_text(OperatorRows(Flow(1200, 300), 0.0042, Flow(1200, 310.4)))
    '   1,200 → 300 rows (predicted 1,200 → 310), 4.2 ms'
    >>> operator_text(OperatorRows(Flow(1200, None)))
    '   1,200 → ? rows'
    """
    if found is None:
        return ""
    predicted = "" if found.predicted is None else f" (predicted {_flow(found.predicted)})"
    spent = "" if found.seconds is None else f", {found.seconds * 1e3:,.1f} ms"
    return f"   {_flow(found.counted)} rows{predicted}{spent}"


def operator_dict(found: OperatorRows) -> dict[str, Any]:
    """The same for programs."""
    return {
        "rows_in": found.counted.rows_in,
        "rows_out": found.counted.rows_out,
        "seconds": found.seconds,
        **({} if found.predicted is None else {"predicted": found.predicted._asdict()}),
    }


def _flow(flow: Flow) -> str:
    return " → ".join("?" if rows is None else f"{rows:,.0f}" for rows in flow)
