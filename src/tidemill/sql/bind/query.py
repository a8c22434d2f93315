"""From a parsed query to a relation of the algebra, with what users see of it: columns, key, time."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import ColumnRef, conjunction
from tidemill.sql.bind.aggregate_calls import is_grouped
from tidemill.sql.bind.bound import BoundQuery, visible
from tidemill.sql.bind.from_clause import bind_from
from tidemill.sql.bind.from_items import FromItems, Lookup, check_names
from tidemill.sql.bind.groups import bind_groups
from tidemill.sql.bind.joins import merge_rhythms
from tidemill.sql.bind.kept_joins import check_forgets
from tidemill.sql.bind.ordering import Ordering, read_ordering
from tidemill.sql.bind.projection import bind_projection
from tidemill.sql.bind.read_fields import refuse_unread
from tidemill.sql.bind.recursion import bind_recursion, is_recursive
from tidemill.sql.bind.scalar import Scalars
from tidemill.sql.bind.scope import Rhythm, Scope, problem
from tidemill.sql.bind.set_operations import set_operation
from tidemill.sql.bind.subqueries.apply import Subqueries
from tidemill.sql.bind.subqueries.outer import Outer
from tidemill.sql.bind.unnest import refuse_grouped_unnest, unnest_items
from tidemill.sql.bind.window_syntax import has_windows, refuse_misplaced_windows
from tidemill.sql.bind.windowed_select import bind_windowed_select
from tidemill.sql.dialect.nodes import Difference, copy_tree

__all__ = ["Binder", "BoundQuery"]


class Binder:
    """Binds queries. `lookup` finds streams, views, tables and clockStr by name; with `clock_views` views of the clock
    are periods, for `SYNC ON`, wherever their points are; with `dates` those of event times in GROUP BY are epochs.
    Rows of streams whose times are more than `keep_us` apart are not joined. `birth` is the plan version in which the
    rows of VALUES are first there.
    """

    def __init__(
        self,
        lookup: Lookup,
        unit_us: int,
        clock_views: bool = True,
        dates: bool = True,
        keep_us: int | None = None,
        birth: int = 0,
    ) -> None:
        self.items = FromItems(lookup, unit_us, self.query, clock_views, dates, keep_us, birth)
        self.subqueries = Subqueries(self.items, self.query, self._scope, self._common_tables)

    def new_query(self, node: exp.Expression) -> BoundQuery:
        """Bind a query that does not stand yet: what its answer would not depend on is refused."""
        refuse_unread(node)
        bound = self.query(node)
        check_forgets(self.items.keep_us, self.items.forgets)
        return bound

    def query(self, node: exp.Expression) -> BoundQuery:
        """Bind a SELECT, a set operation, a parenthesised query or a difference."""
        if isinstance(node, Difference):
            return visible(self.items.bind_difference(node))
        ordering = read_ordering(node)
        names = self._common_tables(node)
        self.items.local.append(names)
        try:
            if isinstance(node, exp.Subquery):
                bound = self.query(node.this)
                return bound if ordering is None else ordering.apply(bound)
            if isinstance(node, exp.SetOperation):
                bound = set_operation(node, self.query(node.this), self.query(node.expression))
                return bound if ordering is None else ordering.apply(bound)
            if isinstance(node, exp.Select):
                return self._select(node, ordering)
        finally:
            self.items.local.pop()
        raise problem(
            f"a {type(node).__name__.lower()} in parentheses is not a query",
            node,
            code="TM202",
            hint="write (SELECT * FROM … JOIN … ON …)",
        )

    def _common_tables(self, node: exp.Expression) -> dict[str, BoundQuery]:
        clause = node.args.get("with_")
        found: dict[str, BoundQuery] = {}
        if clause is None:
            return found
        for table in clause.expressions:
            self.items.local.append(found)
            try:
                found[table.alias.lower()] = self._named_query(table, bool(clause.args.get("recursive")), found)
            finally:
                self.items.local.pop()
        return found

    def _named_query(self, table: exp.Expression, recursive: bool, found: dict[str, BoundQuery]) -> BoundQuery:
        if recursive and is_recursive(table):
            return bind_recursion(table, self.query, lambda first: _rename_columns(first, table), found)
        return _rename_columns(self.query(table.this), table)

    def _select(self, select: exp.Select, ordering: Ordering | None) -> BoundQuery:
        select = copy_tree(select)
        if ordering is not None:
            ordering.hide(select)
        scope = self._scope(select)
        node, keys, rhythm = self._bind_items(select, scope)
        rhythm = rhythm or merge_rhythms([*scope.inputs, *scope.beside])
        distinct = select.args.get("distinct")
        once = distinct is not None and not distinct.args.get("on")
        if ordering is not None:
            node = ordering.settle(node, once)
        if once:
            node = r.SetCombine("distinct", node)
        bound = BoundQuery(node, keys, scope.domain, rhythm, frozenset(scope.needs))
        return bound if ordering is None else ordering.apply(bound)

    def _bind_items(self, select: exp.Select, scope: Scope) -> tuple[Relation, tuple[str, ...] | None, Rhythm | None]:
        """The items of SELECT with the grouping and the window functions below them: the relation, its key, and its
        rhythm where a grouping sets one.
        """
        if has_windows(select) or is_grouped(select):
            refuse_grouped_unnest(select)
        if has_windows(select):
            return bind_windowed_select(select, scope, self.subqueries)
        if is_grouped(select):
            grouped = bind_groups(select, scope, self.subqueries)
            return grouped.node, grouped.keys, grouped.rhythm
        outer = Outer(scope)
        select.set("expressions", [self.subqueries.rewrite(e, outer) for e in select.expressions])
        unnest_items(select, scope)
        return (*bind_projection(select, scope), None)

    def _scope(self, select: exp.Select) -> Scope:
        """FROM and WHERE: the rows that the other clauses of a SELECT read. The tree is changed."""
        refuse_misplaced_windows(select)
        scope, conditions, nested = bind_from(select, self.items, self.subqueries)
        scope.dates = self.items.dates
        predicate = conjunction(*(Scalars(scope).predicate(c) for c in conditions))
        if predicate is not None:
            scope.node = r.Filter(scope.node, predicate)
        for condition in nested:
            self.subqueries.filter(condition, Outer(scope))
        return scope


def _rename_columns(bound: BoundQuery, table: exp.Expression) -> BoundQuery:
    """WITH t(a, b) AS …: the first columns of the query are called so."""
    names = [c.name for c in table.args["alias"].columns]
    if not names:
        return bound
    check_names(names, len(bound.schema), table.alias, table)
    called = [*names, *(c.name for c in bound.schema[len(names) :])]
    items = tuple(Item(name, ColumnRef(c.name), c.type) for name, c in zip(called, bound.schema, strict=True))
    renamed = {c.name: name for name, c in zip(called, bound.schema, strict=True)}
    keys = None if bound.keys is None else tuple(renamed[k] for k in bound.keys)
    return replace(bound, node=r.Project(bound.node, items), keys=keys)
