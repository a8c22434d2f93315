"""LIMIT and window functions of a subquery that is bound for all outer rows at once: for each of them by itself.

SELECT a FROM t WHERE t.k = outer.k ORDER BY b LIMIT 1
→  SELECT a, t.k FROM t QUALIFY row_number() OVER (PARTITION BY t.k ORDER BY b) <= 1
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.sql.bind.ordering import read_ordering
from tidemill.sql.bind.scope import problem
from tidemill.sql.bind.subqueries.forms import has_subquery
from tidemill.sql.bind.window_syntax import find_windows, has_windows, resolve_named_windows
from tidemill.sql.dialect.nodes import copy_tree


def partition_rows(query: exp.Expr, columns: Sequence[exp.Expression]) -> bool:
    """Divide what a query counts and numbers by these columns, which it selects; whether each part has one row."""
    if not (_limits(query) or (isinstance(query, exp.Select) and has_windows(query))):
        return False
    if not isinstance(query, exp.Select):
        raise _refusal(query, "of a set operation")
    resolve_named_windows(query)
    for root in (*query.expressions, query.args.get("qualify")):
        for window in find_windows(root) if root is not None else ():
            window.set("partition_by", [*(window.args.get("partition_by") or ()), *map(copy_tree, columns)])
    return _limits(query) and _number_rows(query, columns)


def _limits(query: exp.Expr) -> bool:
    return any(query.args.get(clause) for clause in ("limit", "offset"))


def _number_rows(select: exp.Select, columns: Sequence[exp.Expression]) -> bool:
    """LIMIT as a condition on the number of each row in its part."""
    ordering, order = read_ordering(select), select.args.get("order")
    assert ordering is not None
    if select.args.get("distinct") or select.args.get("qualify"):
        raise _refusal(select, "beside DISTINCT or QUALIFY")
    if order is not None and has_subquery(order):
        raise _refusal(select, "with a subquery in ORDER BY")
    sorted_by = [_resolve(key, select) for key in order.expressions] if order is not None else []
    rank = (exp.Rank if ordering.function == "rank" else exp.RowNumber)()
    number = exp.Window(this=rank, partition_by=[copy_tree(c) for c in columns], over="OVER")
    if sorted_by:
        number.set("order", exp.Order(expressions=sorted_by))
    kept: list[exp.Expression] = (
        [exp.GT(this=number, expression=exp.Literal.number(ordering.after))] if ordering.after else []
    )
    if ordering.last is not None:
        kept.append(exp.LTE(this=copy_tree(number), expression=exp.Literal.number(ordering.last)))
    for clause in ("order", "limit", "offset"):
        select.set(clause, None)
    if kept:
        select.set("qualify", exp.Qualify(this=exp.and_(*kept, copy=False, wrap=False)))
    return ordering.function == "row_number" and ordering.last == ordering.after + 1


def _resolve(key: exp.Expression, select: exp.Select) -> exp.Expression:
    """An item of ORDER BY with what is selected in the place of its name or number."""
    key = copy_tree(key)
    written = key.this
    if isinstance(written, exp.Literal) and not written.is_string and written.name.isdigit():
        if not 1 <= int(written.name) <= len(select.expressions):
            raise _refusal(select, f"ordered by column {written.name}")
        key.set("this", copy_tree(select.expressions[int(written.name) - 1].unalias()))
    elif isinstance(written, exp.Column) and not written.table:
        named = [e for e in select.expressions if isinstance(e, exp.Alias) and e.alias.lower() == written.name.lower()]
        key.set("this", copy_tree(named[0].this) if named else written)
    return key


def _refusal(query: exp.Expr, where: str) -> PlanProblem:
    return problem(
        f"LIMIT {where} is not possible in a subquery that reads an outer row",
        query,
        code="TM202",
        hint="number the rows in a subquery in FROM",
    )
