"""Sessions and joins with the past of the slow twin, from the histories of their inputs."""

from __future__ import annotations

from typing import Any

from tidemill.plan import relations as r
from tidemill.plan.relations import quoted


class Timed:
    """Part of the oracle; `_table` gives the rows of a relation at some moments."""

    _table: Any
    duck: Any

    def _sessions(self, node: r.Sessions, moments: tuple[int, ...]) -> str:
        by, ts = ", ".join(["__at", *map(quoted, node.partition)]), quoted(node.stamp)
        table = self._table(node.input, moments)
        before = f"lag({ts}) OVER (PARTITION BY {by} ORDER BY {ts})"
        flagged = f"SELECT *, CASE WHEN {ts} - {before} < {node.gap_us} THEN 0 ELSE 1 END AS __new FROM {table}"
        numbered = f"SELECT *, sum(__new) OVER (PARTITION BY {by} ORDER BY {ts}) AS __session FROM ({flagged})"
        one = f"OVER (PARTITION BY {by}, __session)"
        bounds = f"min({ts}) {one} AS __start, max({ts}) {one} + {node.gap_us} AS __end"
        return f"SELECT * FROM (SELECT *, {bounds} FROM ({numbered})) WHERE __end <= __at"

    def _joinat(self, node: r.JoinAt, moments: tuple[int, ...]) -> str:
        left, stamp = self._table(node.left, moments), quoted(node.stamp)
        earlier = 1 if node.before else 0
        times = self.duck.sql(f"SELECT DISTINCT {stamp} - {earlier} FROM {left}").fetchall()
        right = self._table(node.right, tuple(sorted(t for (t,) in times)))
        tests = [f"r.__at = l.{stamp} - {earlier}", *(f"l.{quoted(a)} = r.{quoted(b)}" for a, b in node.on)]
        tests += [f"({node.residual})"] if node.residual else []
        kind = "LEFT" if node.outer else ""
        return f"SELECT l.*, r.* EXCLUDE (__at) FROM {left} AS l {kind} JOIN {right} AS r ON {' AND '.join(tests)}"
