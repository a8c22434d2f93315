"""From a parsed query to a relation of the algebra, with what users see of it: columns, key, time."""

from __future__ import annotations

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.scalars import conjunction
from tidemill.sql.bind.aggregate_calls import is_grouped
from tidemill.sql.bind.bound import BoundQuery, visible
from tidemill.sql.bind.from_clause import bind_from
from tidemill.sql.bind.from_items import FromItems, Lookup
from tidemill.sql.bind.groups import bind_groups
from tidemill.sql.bind.joins import merge_rhythms
from tidemill.sql.bind.projection import bind_projection
from tidemill.sql.bind.scalar import Scalars
from tidemill.sql.bind.scope import Scope, problem
from tidemill.sql.bind.set_operations import set_operation
from tidemill.sql.bind.subqueries.apply import Subqueries
from tidemill.sql.bind.subqueries.forms import own_nodes
from tidemill.sql.bind.subqueries.outer import Outer
from tidemill.sql.dialect.nodes import Difference, copy_tree

__all__ = ["Binder", "BoundQuery"]


class Binder:
    """Binds queries. `lookup` finds streams, views, tables and clockStr by name; with `clock_views` views of the clock
    are periods, for `SYNC ON`, wherever their points are.
    """

    def __init__(self, lookup: Lookup, unit_us: int, clock_views: bool = True) -> None:
        self.items = FromItems(lookup, unit_us, self.query, clock_views)
        self.subqueries = Subqueries(self.items, self.query, self._scope, self._common_tables)

    def query(self, node: exp.Expression) -> BoundQuery:
        """Bind a SELECT, a set operation, a parenthesised query or a difference."""
        if isinstance(node, exp.Subquery):
            return self.query(node.this)
        if isinstance(node, Difference):
            return visible(self.items.bind_difference(node))
        _refuse_ordering(node)
        names = self._common_tables(node)
        self.items.local.append(names)
        try:
            if isinstance(node, exp.SetOperation):
                return set_operation(node, self.query(node.this), self.query(node.expression))
            if isinstance(node, exp.Select):
                return self._select(node)
        finally:
            self.items.local.pop()
        raise problem(f"{type(node).__name__.lower()} is not a query", node, code="TM202")

    def _common_tables(self, node: exp.Expression) -> dict[str, BoundQuery]:
        clause = node.args.get("with_")
        found: dict[str, BoundQuery] = {}
        if clause is None:
            return found
        if clause.args.get("recursive"):
            raise problem(
                "recursive queries are not possible", clause, code="TM202", hint="write the levels as views on views"
            )
        for table in clause.expressions:
            self.items.local.append(found)
            try:
                found[table.alias.lower()] = self.query(table.this)
            finally:
                self.items.local.pop()
        return found

    def _select(self, select: exp.Select) -> BoundQuery:
        select = copy_tree(select)
        scope = self._scope(select)
        for clause in ("windows", "qualify", "laterals", "connect", "match", "distribute", "cluster", "sort"):
            if select.args.get(clause):
                raise problem(
                    f"{clause} is not possible in a standing query",
                    select,
                    code="TM202",
                    hint="use it when you read the answer, with an ad hoc SELECT",
                )
        rhythm = None
        if is_grouped(select):
            grouped = bind_groups(select, scope, self.subqueries)
            node, keys, rhythm = grouped.node, grouped.keys, grouped.rhythm
        else:
            outer = Outer(scope)
            select.set("expressions", [self.subqueries.rewrite(e, outer) for e in select.expressions])
            node, keys = bind_projection(select, scope)
        rhythm = rhythm or merge_rhythms([*scope.inputs, *scope.beside])
        distinct = select.args.get("distinct")
        if distinct is not None:
            if distinct.args.get("on"):
                raise problem("DISTINCT ON is not possible", select, code="TM202", hint="use GROUP BY with MIN or MAX")
            node, keys = r.SetCombine("distinct", node), keys
        return BoundQuery(node, keys, scope.domain, rhythm, frozenset(scope.needs))

    def _scope(self, select: exp.Select) -> Scope:
        """FROM and WHERE: the rows that the other clauses of a SELECT read. The tree is changed."""
        _refuse_window_functions(select)
        scope, conditions, nested = bind_from(select, self.items, self.subqueries)
        predicate = conjunction(*(Scalars(scope).predicate(c) for c in conditions))
        if predicate is not None:
            scope.node = r.Filter(scope.node, predicate)
        for condition in nested:
            self.subqueries.filter(condition, Outer(scope))
        return scope


def _refuse_ordering(node: exp.Expression) -> None:
    for clause in ("order", "limit", "offset"):
        if node.args.get(clause):
            raise problem(
                f"{clause.upper()} has no meaning in a standing query: its answer is a set that changes",
                node,
                code="TM208",
                hint="order and limit the answer when you read it, with an ad hoc SELECT",
            )


def _refuse_window_functions(select: exp.Select) -> None:
    clauses = [*select.expressions, *(select.args.get(c) for c in ("where", "group", "having"))]
    clauses += [j.args.get("on") for j in select.args.get("joins") or []]
    for node in own_nodes(*clauses):
        if isinstance(node, exp.Window):
            raise problem(
                "window functions are not possible in a standing query",
                node,
                code="TM202",
                hint="use GROUP BY, or an ad hoc SELECT over the view",
            )
