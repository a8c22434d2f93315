"""Calls of aggregate functions in the clauses of a SELECT, and what they aggregate. Those in its subqueries are not
its own.
"""

from __future__ import annotations

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.sql.bind.functions import AGGREGATE_NAMES, AGGREGATES, aggregate_name
from tidemill.sql.bind.scope import problem
from tidemill.sql.bind.window_syntax import aggregates_rows
from tidemill.sql.dialect.nodes import children


def is_grouped(select: exp.Select) -> bool:
    """True when the SELECT has GROUP BY, HAVING or an aggregate function."""
    if select.args.get("group") or select.args.get("having"):
        return True
    return any(map(aggregates_rows, select.expressions))


def find_aggregate_calls(root: exp.Expression) -> list[exp.Expression]:
    """Outermost aggregate calls, with their FILTER where they have one."""
    found: list[exp.Expression] = []
    todo = [root]
    while todo:
        node = todo.pop(0)
        if isinstance(node, exp.Filter) or aggregate_name(node):
            found.append(node)
        elif not isinstance(node, exp.Query):
            todo += children(node)
    return found


def is_plain(call: exp.Expression) -> bool:
    """True when parts that add up answer a call, or the least, the greatest and the number of different values do."""
    if type(call) not in AGGREGATES and not (isinstance(call, exp.Anonymous) and call.name.lower() in AGGREGATE_NAMES):
        return False
    inner = call.expressions[0] if isinstance(call, exp.Anonymous) and call.expressions else call.this
    if isinstance(inner, exp.Order):
        inner = inner.this
    once = isinstance(inner, exp.Distinct)
    if once and any(isinstance(e, exp.Tuple) for e in inner.expressions):
        return False
    if isinstance(call, exp.Count):
        return True
    return _count_arguments(call) <= 1 and not (once and not isinstance(call, (exp.Count, exp.Min, exp.Max)))


def of_truth(call: exp.Expression) -> tuple[str, exp.Expression]:
    """BOOL_AND is the least of the truth values, BOOL_OR the greatest."""
    kind = exp.Min if isinstance(call, exp.LogicalAnd) else exp.Max
    return ("min" if kind is exp.Min else "max"), kind(this=call.this)


def read_argument(call: exp.Expression, function: str) -> tuple[exp.Expression | None, bool]:
    """(argument, distinct) of an aggregate call; None for COUNT(*)."""
    inner = call.expressions[0] if isinstance(call, exp.Anonymous) and call.expressions else call.this
    if isinstance(inner, exp.Order):
        inner = inner.this  # the answer does not depend on it
    distinct = isinstance(inner, exp.Distinct)
    if distinct:
        if len(inner.expressions) != 1:
            raise problem(
                "DISTINCT inside an aggregate takes one column", call, code="TM206", hint="concatenate the columns"
            )
        inner = inner.expressions[0]
    if isinstance(call, exp.Count) and call.expressions:
        raise problem("COUNT takes one column", call, code="TM206", hint="write COUNT(*) or COUNT(column)")
    if inner is None or isinstance(inner, exp.Star):
        return None, False
    return inner, distinct


def _count_arguments(call: exp.Expression) -> int:
    """How many arguments a call has: none is ever ignored."""
    given = [value for value in call.args.values() if value]
    return sum(len(value) if isinstance(value, list) else isinstance(value, exp.Expression) for value in given)


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
