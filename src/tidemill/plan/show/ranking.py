"""Ranks and window functions as text."""

from __future__ import annotations

from tidemill.plan.relations import Ranked, WindowFunctions
from tidemill.plan.window_calls import WindowCall


def ranking_detail(node: Ranked | WindowFunctions) -> str:
    """The partition, the order, and what is computed: `[k; v desc; rn = row_number ≤ 3]`."""
    shown = [", ".join(node.partition)] if node.partition else []
    shown += [", ".join(key.text for key in node.order)] if node.order else []
    shown += [_rank(node)] if isinstance(node, Ranked) else [", ".join(map(_call, node.calls))]
    return f"[{'; '.join(shown)}]"


def _rank(node: Ranked) -> str:
    least = f"{node.after} < " if node.after else ""
    most = f" ≤ {node.last}" if node.last is not None else ""
    name = f"{node.name} = " if node.name is not None else ""
    return f"{name}{least}{node.function}{most}"


def _call(call: WindowCall) -> str:
    inner = ("distinct " if call.distinct else "") + ", ".join(a.strip('"') for a in call.arguments)
    nulls = " ignore nulls" if call.ignore_nulls else ""
    frame = f" {call.frame.sql.lower()}" if call.frame is not None else ""
    return f"{call.name} = {call.function}({inner}{nulls}){frame}"
