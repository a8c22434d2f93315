"""Subqueries that have one row whatever is in their tables: aggregates without GROUP BY, and SELECT without FROM.

Their select list is evaluated on the outer row, over the aggregates that are attached to it. Where there is nothing to
aggregate, nothing is attached, and an aggregate is what it is of no rows: 0 for counts, NULL for all others.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.plan.scalars import ColumnRef, Literal, Scalar, template
from tidemill.sql.bind.aggregate_calls import column_not_grouped, find_aggregate_calls, is_grouped
from tidemill.sql.bind.functions import aggregate_name
from tidemill.sql.bind.scope import problem
from tidemill.sql.bind.subqueries.forms import Nested, has_subquery, is_positive, own_nodes
from tidemill.sql.dialect.dialect import to_sql
from tidemill.sql.dialect.nodes import PlanColumn

_COUNTS = ("count", "approx_count_distinct", "count_if", "countif", "regr_count")


@dataclass(frozen=True)
class OneRow:
    """The row: what it selects and the condition under which it is there, as expressions over the outer row.

    `aggregates` is the subquery that computes the aggregates, `holes` where each of them stands.
    """

    items: list[exp.Expression]
    condition: exp.Expression | None
    aggregates: exp.Select | None
    holes: list[list[PlanColumn]]

    def fill(self, columns: list[PlanColumn]) -> None:
        """Put the columns that hold the aggregates into their places."""
        for column, places in zip(columns, self.holes, strict=True):
            for place in places:
                place.set("this", column.name)


def is_one_row(query: exp.Expression) -> bool:
    """Whether a query has one row, or none where a condition on it fails, for any rows of its tables."""
    if not isinstance(query, exp.Select) or any(query.args.get(c) for c in ("offset", "qualify")):
        return False
    if query.args.get("with_") and has_subquery(*query.expressions, query.args.get("having")):
        return False  # they may read what WITH names, which the outer row does not know
    if query.args.get("limit") and not is_positive(query.args["limit"].expression):
        return False
    if query.args.get("from_") is None:
        return not is_grouped(query) and not any(isinstance(n, exp.Explode) for n in own_nodes(*query.expressions))
    return is_grouped(query) and not query.args.get("group")


def refuse_missing_row(query: exp.Expression) -> None:
    """Refuse an aggregate without GROUP BY that would have no row for outer rows with nothing to aggregate."""
    if not isinstance(query, exp.Select) or not is_grouped(query) or query.args.get("group") or is_one_row(query):
        return
    if query.args.get("from_") is None or any(query.args.get(c) for c in ("offset", "with_", "qualify")):
        raise problem(
            "an aggregate without GROUP BY is not possible here in a subquery that reads an outer row",
            query,
            code="TM202",
            hint="OFFSET, QUALIFY and WITH go around a subquery in FROM that aggregates",
        )


def take_apart(select: exp.Select, outside: set[int]) -> OneRow:
    """Cut the aggregates out of a SELECT without GROUP BY; `outside` are its columns of outer rows, by identity."""
    clause = select.args.get("having" if select.args.get("from_") else "where")
    roots = exp.Tuple(expressions=[e.unalias() for e in select.expressions])
    condition = exp.Tuple(expressions=[clause.this]) if clause is not None else exp.Tuple()
    if select.args.get("from_") is None:
        return OneRow(roots.expressions, clause.this if clause is not None else None, None, [])
    calls: dict[str, exp.Expression] = {}
    holes: dict[str, list[PlanColumn]] = {}
    for call in [*find_aggregate_calls(roots), *find_aggregate_calls(condition)]:
        text = to_sql(call)
        calls.setdefault(text, call)
        holes.setdefault(text, []).append(PlanColumn(this=text))
        call.replace(holes[text][-1])
    _check_columns([roots, condition], outside)
    for key in ("having", "distinct", "limit"):
        select.set(key, None)
    listed = [exp.alias_(call, f"a{i}", copy=False) for i, call in enumerate(calls.values())]
    select.set("expressions", listed or [exp.alias_(exp.Count(this=exp.Star()), "a0")])
    return OneRow(
        list(roots.expressions), condition.expressions[0] if clause is not None else None, select, list(holes.values())
    )


def _check_columns(roots: list[exp.Expression], outside: set[int]) -> None:
    for node in own_nodes(*roots):
        if (
            isinstance(node, (exp.Column, exp.Star))
            and id(node) not in outside
            and not isinstance(node.parent, exp.Column)
        ):
            raise column_not_grouped(node)


def empty_value(call: exp.Expression, column: ColumnRef) -> Scalar:
    """An aggregate that was attached, or what it is of no rows."""
    inner = call.this if isinstance(call, exp.Filter) else call
    return template("coalesce({0}, {1})", column, Literal("0")) if aggregate_name(inner) in _COUNTS else column


def value_of_row(nested: Nested, row: OneRow) -> exp.Expression:
    """What is asked of the one row, as an expression over the outer row."""
    if nested.kind == "exists":
        return _where(row.condition, exp.true(), exp.false())
    check_width(nested, len(row.items))
    if nested.kind == "scalar":
        return _where(row.condition, row.items[0], exp.null())
    compared = _compare(nested, row.items)
    return _where(row.condition, compared, exp.true() if nested.kind == "all" else exp.false())


def check_width(nested: Nested, width: int) -> None:
    """Refuse a subquery of more or fewer columns than are compared."""
    compared = nested.left if nested.kind != "scalar" else None
    wanted = len(compared.expressions) if isinstance(compared, exp.Tuple) else 1
    if width != wanted:
        raise problem(
            f"the subquery has {width} columns where {wanted} {'is' if wanted == 1 else 'are'} wanted",
            nested.query,
            code="TM218",
            hint="select as many columns as are compared",
        )


def refuse_rows(nested: Nested) -> PlanProblem:
    """The error of a comparison of several columns that is not possible."""
    return problem(
        "several columns can be compared by IN, with a subquery that reads no outer row",
        nested.node,
        code="TM202",
        hint="EXISTS with a condition for each column",
    )


def _compare(nested: Nested, items: list[exp.Expression]) -> exp.Expression:
    sign = exp.EQ if nested.kind == "in" else type(nested.node)
    if isinstance(nested.left, exp.Tuple) and nested.kind != "in":
        raise refuse_rows(nested)
    lefts = nested.left.expressions if isinstance(nested.left, exp.Tuple) else [nested.left]
    pairs = [sign(this=exp.Paren(this=a), expression=exp.Paren(this=b)) for a, b in zip(lefts, items, strict=True)]
    return exp.Paren(this=exp.and_(*pairs, copy=False, wrap=False))


def _where(condition: exp.Expression | None, then: exp.Expression, otherwise: exp.Expression) -> exp.Expression:
    if condition is None:
        return exp.Paren(this=then)
    return exp.Paren(this=exp.Case(ifs=[exp.If(this=condition, true=then)], default=otherwise))
