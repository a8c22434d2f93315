"""Aggregate functions in the clauses of a SELECT. Those in its subqueries are not its own."""

from __future__ import annotations

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.sql.bind.functions import aggregate_name
from tidemill.sql.bind.scope import problem
from tidemill.sql.bind.subqueries.forms import own_nodes


def is_grouped(select: exp.Select) -> bool:
    """True when the SELECT has GROUP BY, HAVING or an aggregate function."""
    if select.args.get("group") or select.args.get("having"):
        return True
    return any(aggregate_name(n) for n in own_nodes(*select.expressions))


def find_aggregate_calls(root: exp.Expression) -> list[exp.Expression]:
    """Outermost aggregate calls, with their FILTER where they have one."""
    found: list[exp.Expression] = []
    todo = [root]
    while todo:
        node = todo.pop(0)
        if isinstance(node, exp.Filter) or aggregate_name(node):
            found.append(node)
        elif not isinstance(node, exp.Query):
            todo += [child for child in node.iter_expressions()]
    return found


def not_grouped(error: Exception) -> bool:
    """Whether an error of binding says that the groups do not have a column."""
    return getattr(error, "code", "") == "TM203" and "not found in FROM" in str(error)


def column_not_grouped(node: exp.Expression) -> PlanProblem:
    """The error of a column that is not the same for all rows of a group."""
    return problem(
        "a column must be grouped or inside an aggregate",
        node,
        code="TM206",
        hint="add it to GROUP BY, or use MIN(…) or MAX(…)",
    )
