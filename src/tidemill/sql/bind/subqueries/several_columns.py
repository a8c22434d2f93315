"""(a, b) IN (SELECT …) of any rows, as EXISTS over these rows.

With r the rows of the subquery, of columns c and d:

    TRUE    EXISTS (r WHERE c = a AND d = b)
    NULL    EXISTS (r WHERE (c IS NULL OR d IS NULL) AND maybe) OR EXISTS (r WHERE maybe AND (a IS NULL OR b IS NULL))
            with maybe   (c = a OR c IS NULL OR a IS NULL) AND (d = b OR d IS NULL OR b IS NULL)
    FALSE   elsewhere

As conditions the two of NULL are apart, so that each begins with the rows, on one of the sides, that have a NULL. In a
value they are one: each EXISTS there reads all outer rows once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlglot import exp

from tidemill.sql.bind.functions import aggregate_name
from tidemill.sql.bind.subqueries.forms import Nested, has_subquery
from tidemill.sql.dialect.nodes import PlanColumn, all_nodes, copy_tree

_ROWS = "__rows"


class InRows(NamedTuple):
    """The conditions under which the comparison is TRUE, and those under which it is NULL unless it is TRUE."""

    equal: exp.Expression
    unknown: list[exp.Expression]
    either: exp.Expression  # the ones of `unknown` in one

    def value(self) -> exp.Expression:
        """The comparison as an expression."""
        nothing = exp.cast(exp.null(), "BOOLEAN")
        ifs = [exp.If(this=self.equal, true=exp.true()), exp.If(this=self.either, true=nothing)]
        return exp.Paren(this=exp.Case(ifs=ifs, default=exp.false()))


def read_in_rows(nested: Nested, names_outer: Callable[[exp.Expression], bool]) -> InRows | None:
    """The comparison of several columns with the rows of a subquery; None where it is none that EXISTS can be: what is
    compared has a subquery or an aggregate, or the rows depend on the outer row, as `names_outer` says.
    """
    left = nested.left if nested.kind == "in" else None
    if not isinstance(left, exp.Tuple) or has_subquery(left) or names_outer(nested.query):
        return None
    if any(isinstance(node, PlanColumn) or aggregate_name(node) for node in all_nodes(left)):
        return None
    values = [exp.Paren(this=copy_tree(e)) for e in left.expressions]
    columns = [exp.column(f"{_ROWS}{i}", table=_ROWS) for i in range(len(values))]
    pairs = list(zip(columns, values, strict=True))
    maybe = [exp.or_(_equal(c, v), _is_null(c), _is_null(v)) for c, v in pairs]
    nulls = [exp.or_(*map(_is_null, side)) for side in (columns, values)]
    equal = _exists(nested.query, [_equal(c, v) for c, v in pairs])
    either = _exists(nested.query, [exp.or_(*nulls), *maybe])
    return InRows(equal, [_exists(nested.query, [null, *maybe]) for null in nulls], either)


def _exists(query: exp.Expression, conditions: Sequence[exp.Expr]) -> exp.Expression:
    """EXISTS (SELECT 1 FROM (query) AS __rows(__rows0, …) WHERE conditions)."""
    width = max(len(getattr(query, "selects", ())), 1)
    names = [exp.to_identifier(f"{_ROWS}{i}") for i in range(width)]
    alias = exp.TableAlias(this=exp.to_identifier(_ROWS), columns=names)
    source = exp.Subquery(this=copy_tree(query), alias=alias)
    where = exp.Where(this=exp.and_(*map(copy_tree, conditions), copy=False))
    select = exp.Select(expressions=[exp.Literal.number(1)], from_=exp.From(this=source), where=where)
    return exp.Exists(this=select)


def _equal(column: exp.Expression, value: exp.Expression) -> exp.Expression:
    return exp.EQ(this=copy_tree(column), expression=copy_tree(value))


def _is_null(node: exp.Expression) -> exp.Expression:
    return exp.Is(this=copy_tree(node), expression=exp.null())
