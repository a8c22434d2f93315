"""Where subqueries stand in an expression, and what is asked of them there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from tidemill.sql.bind.scope import problem
from tidemill.sql.dialect.nodes import children

Kind = Literal["scalar", "exists", "in", "any", "all"]
_SIGNS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


@dataclass(frozen=True)
class Nested:
    """A subquery in an expression. Its value takes the place of `node`; with `negated`, its opposite.

    scalar  (SELECT …)             in   left IN (SELECT …), left = ANY (SELECT …); negated: left <> ALL (SELECT …)
    exists  EXISTS (SELECT …)      any, all   left sign ANY (SELECT …), left sign ALL (SELECT …)
    """

    node: exp.Expression
    query: exp.Expression
    kind: Kind
    negated: bool = False

    @property
    def left(self) -> exp.Expression:
        """What is compared with the rows of the subquery."""
        return self.node.this


def own_nodes(*roots: exp.Expr | None) -> list[exp.Expr]:
    """All nodes below the roots that are not inside a subquery; the subqueries themselves are among them."""
    found = [root for root in roots if root is not None]
    for node in found:  # the loop appends to `found`
        if not isinstance(node, exp.Query):
            found += children(node)
    return found


def has_subquery(*roots: exp.Expr | None) -> bool:
    """Whether a subquery stands somewhere below."""
    return any(isinstance(node, exp.Query) for node in own_nodes(*roots))


def find_subqueries(*roots: exp.Expr | None) -> list[Nested]:
    """The subqueries that are not inside of others; those in the left operand of another come before it."""
    found: list[Nested] = []
    todo = [root for root in roots if root is not None]
    for node in todo:  # the loop appends to `todo`
        nested = _read(node)
        if nested is None:
            todo += children(node)
        else:
            found.append(nested)
            todo += [nested.left] if nested.kind in ("in", "any", "all") else []
    return found[::-1]


def read_condition(condition: exp.Expression) -> tuple[Nested | None, bool]:
    """The subquery that a condition is as a whole, and whether NOT stands before it."""
    negated = False
    while isinstance(condition, (exp.Paren, exp.Not)):
        negated ^= isinstance(condition, exp.Not)
        condition = condition.this
    nested = _read(condition)
    return nested, negated ^ (nested is not None and nested.negated)


def _read(node: exp.Expr) -> Nested | None:
    if isinstance(node, exp.Query):
        return Nested(node, _unwrap(node, "scalar"), "scalar")  # type: ignore[arg-type]  # every query is an expression
    if isinstance(node, exp.Exists) and isinstance(node.this, exp.Query):
        return Nested(node, _unwrap(node.this, "exists"), "exists")
    if isinstance(node, exp.In) and node.args.get("query"):
        return Nested(node, _unwrap(node.args["query"], "in"), "in")
    if isinstance(node, _SIGNS) and isinstance(node.expression, (exp.Any, exp.All)):
        return _read_quantified(node)
    if isinstance(node, (exp.Array, exp.List)) and any(isinstance(e, exp.Query) for e in node.expressions):
        raise problem("a list of the rows of a subquery is not possible", node, code="TM202", hint="join with it")
    return None


def _read_quantified(node: exp.Expression) -> Nested | None:
    quantified = node.expression
    inner = quantified.this.unnest() if isinstance(quantified.this, exp.Paren) else quantified.this
    if not isinstance(inner, exp.Query):
        return None
    query, every = _unwrap(inner, "in"), isinstance(quantified, exp.All)
    if isinstance(node, exp.NEQ if every else exp.EQ):
        return Nested(node, query, "in", negated=every)
    return Nested(node, query, "all" if every else "any")


def _unwrap(query: exp.Expr, kind: Kind) -> exp.Expression:
    """The query without parentheses, and without an order that has no meaning."""
    while isinstance(query, exp.Subquery) and not any(query.args.get(c) for c in ("limit", "offset", "with_")):
        query = query.this
    limit, offset = query.args.get("limit"), query.args.get("offset")
    if kind == "exists" and limit is not None and offset is None and is_positive(limit.expression):
        query.set("limit", None)
    drop_order(query)
    return query  # type: ignore[return-value]


def drop_order(query: exp.Expr) -> None:
    """Remove an order that has no meaning: that of a set, of which it does not say which rows are there."""
    if not distinct_on(query) and not query.args.get("limit") and not query.args.get("offset"):
        query.set("order", None)


def distinct_on(query: exp.Expr) -> list[exp.Expression]:
    """The expressions of DISTINCT ON, of which a query has one row for each of their values."""
    distinct = query.args.get("distinct")
    on = distinct.args.get("on") if isinstance(distinct, exp.Distinct) else None
    return [] if on is None else on.expressions


def is_positive(number: exp.Expr | None) -> bool:
    """Whether the number of a LIMIT is a literal that keeps a row."""
    return isinstance(number, exp.Literal) and number.is_int and int(number.name) > 0


def from_clauses(select: exp.Select) -> Iterator[tuple[exp.Expression, exp.Join | None]]:
    """The items of FROM, each with the join that brings it; the first one has none."""
    clause = select.args.get("from_")
    if clause is not None:
        yield clause.this, None
        for join in (*(clause.this.args.get("joins") or []), *(select.args.get("joins") or [])):
            yield join.this, join


def own_clauses(select: exp.Select) -> list[exp.Expr]:
    """Everything of a SELECT in which expressions stand: all but the items of FROM and WITH."""
    found: list[exp.Expr] = [join.args["on"] for _, join in from_clauses(select) if join and join.args.get("on")]
    for key, value in select.args.items():
        if key not in ("from_", "joins", "with_"):
            found += [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expr)]
    return found
