"""Ranks and window functions of the slow twin: DuckDB's own, at each moment, in the completed order."""

from __future__ import annotations

from typing import Any

from tidemill.plan import relations as r
from tidemill.plan.relations import Relation, quoted
from tidemill.plan.sort_keys import SortKey


class Rankings:
    """Part of the oracle; `_table` gives the rows of a relation at some moments."""

    _table: Any

    def _ranked(self, node: r.Ranked, moments: tuple[int, ...]) -> str:
        order = _complete(node) if node.function == "row_number" else node.order
        over = f"PARTITION BY {', '.join(['__at', *map(quoted, node.partition)])}"
        over += f" ORDER BY {', '.join(k.sql for k in order)}" if order else ""
        rows = f"SELECT *, {node.function}() OVER ({over}) AS __rank FROM {self._table(node.input, moments)}"
        shown = f", __rank AS {quoted(node.name)}" if node.name is not None else ""
        last = "TRUE" if node.last is None else f"__rank <= {node.last}"
        names = ", ".join(map(quoted, node.input.names))
        return f"SELECT {names}, __at{shown} FROM ({rows}) WHERE __rank > {node.after} AND {last}"

    def _windowfunctions(self, node: r.WindowFunctions, moments: tuple[int, ...]) -> str:
        partition = ["__at", *map(quoted, node.partition)]
        calls = ", ".join(f"{c.sql(partition, node.order, _complete(node))} AS {quoted(c.name)}" for c in node.calls)
        return f"SELECT *, {calls} FROM {self._table(node.input, moments)}"


def _complete(node: r.Ranked | r.WindowFunctions) -> tuple[SortKey, ...]:
    """The order of a node, then all other columns of its input."""
    rows: Relation = node.input
    known = {key.column for key in node.order}
    return (*node.order, *(SortKey(name) for name in rows.names if name not in known))
