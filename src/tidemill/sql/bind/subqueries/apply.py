"""Subqueries taken out of the clauses of a SELECT: each is joined below, a column or a condition takes its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.aggregates import Aggregate
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import ColumnRef, Literal, Paren, Scalar, template
from tidemill.sql.bind.from_items import FromItems
from tidemill.sql.bind.functions import aggregate_name
from tidemill.sql.bind.scope import Scope, problem
from tidemill.sql.bind.subqueries.attach import MATCHED, Key, attach
from tidemill.sql.bind.subqueries.domain import bind_by_domain
from tidemill.sql.bind.subqueries.forms import Nested, find_subqueries, own_nodes, read_condition
from tidemill.sql.bind.subqueries.half_joins import apply_half_join, read_half_join
from tidemill.sql.bind.subqueries.inner import Inner, Query, bind_by_keys, find_equalities, finish, keep_conditions
from tidemill.sql.bind.subqueries.marks import in_value, quantified_value
from tidemill.sql.bind.subqueries.names import CommonTables, Names
from tidemill.sql.bind.subqueries.one_row import (
    OneRow,
    check_width,
    empty_value,
    is_one_row,
    refuse_missing_row,
    refuse_rows,
    take_apart,
    value_of_row,
)
from tidemill.sql.bind.subqueries.outer import Outer
from tidemill.sql.bind.subqueries.several_columns import InRows, read_in_rows
from tidemill.sql.bind.windows import conjuncts
from tidemill.sql.dialect.dialect import to_sql
from tidemill.sql.dialect.nodes import all_nodes, copy_tree

MOST_LEVELS = 8  # of subqueries in subqueries: each level is looked through once for each level around it
TWO_ROWS = "a subquery has more than one row for this row"


class Subqueries:
    """Binds the subqueries of a query. `query` binds a query, `scope_of` FROM and WHERE of a SELECT."""

    def __init__(
        self, items: FromItems, query: Query, scope_of: Callable[[exp.Select], Scope], common_tables: CommonTables
    ) -> None:
        self.items, self.query, self.scope_of = items, query, scope_of
        self.names = Names(items, common_tables)
        self.level = 0

    def filter(self, condition: exp.Expression, outer: Outer) -> None:
        """Keep the outer rows that satisfy a condition with subqueries."""
        nested, negated = read_condition(condition)
        if nested is not None and outer.grouped is None and self._join_half(nested, negated, outer):
            return
        rows = self._in_rows(nested, outer) if nested is not None else None
        if rows is not None:
            for part in (rows.equal, *(rows.unknown if negated else ())):
                self.filter(exp.Not(this=part) if negated else part, outer)
            return
        rest = self.rewrite(condition, outer)
        outer.node = r.Filter(outer.node, outer.scalars.predicate(rest))

    def rewrite(self, expression: exp.Expression, outer: Outer) -> exp.Expression:
        """The expression with a column, or an expression over columns, in the place of each subquery."""
        for nested in find_subqueries(expression):
            text = to_sql(nested.node)
            known = outer.attached.get(text)
            if known is None:
                known = outer.attached[text] = self._value(nested, outer)
            value = copy_tree(known)
            nested.node.replace(value)
            if nested.node is expression:
                expression = value
        return expression

    def rewrite_between(self, condition: exp.Expression, left: Outer, right: Outer) -> exp.Expression:
        """Like `rewrite`, for a condition of a join that is not inner: each subquery belongs to one of its sides."""
        for nested in find_subqueries(condition):
            sides = self._sides_read(nested, left, right)
            value = self.rewrite(nested.node, (sides or [right])[0])
            condition = value if nested.node is condition else condition
        return condition

    def read_both(self, conditions: list[exp.Expression], left: Outer, right: Outer) -> bool:
        """Whether a subquery of conditions reads both sides of a join."""
        return any(len(self._sides_read(n, left, right)) > 1 for c in conditions for n in find_subqueries(c))

    def _sides_read(self, nested: Nested, left: Outer, right: Outer) -> list[Outer]:
        compared = own_nodes(nested.left) if nested.kind in ("in", "any", "all") else []
        read = [*self.names.unknown_columns(nested.query), *(n for n in compared if isinstance(n, exp.Column))]
        return [side for side in (left, right) if any(side.names(c) for c in read)]

    # ---- one subquery ---------------------------------------------------------------------------------

    def _join_half(self, nested: Nested, negated: bool, outer: Outer) -> bool:
        """Filter by a semi or anti join; False where the subquery needs more than that."""
        if nested.kind == "in":
            self.rewrite(nested.left, outer)
        query = self.copy_query(nested.query)
        outside = {id(c) for c in self.find_outside(query, outer)}
        half = read_half_join(nested, negated, query, outside)
        if half is not None:
            with self.go_deeper(nested.query):
                apply_half_join(half, nested, negated, outer, self.scope_of)
        return half is not None

    def _value(self, nested: Nested, outer: Outer) -> exp.Expression:
        """What stands for a subquery, over the outer rows to which its values are attached."""
        query = self.copy_query(nested.query)
        outside = self.find_outside(query, outer)
        rows = None if is_one_row(query) else self._in_rows(nested, outer)
        if rows is not None:
            value = self.rewrite(rows.value(), outer)
            return exp.Paren(this=exp.Not(this=value)) if nested.negated else value
        with self.go_deeper(nested.query):
            if is_one_row(query):
                value = self._of_one_row(nested, query, outside, outer)
            else:
                value = self._of_rows(nested, self.bind_inner(query, outside, outer), outer)
        return exp.Paren(this=exp.Not(this=value)) if nested.negated else value

    def _in_rows(self, nested: Nested, outer: Outer) -> InRows | None:
        """Several columns compared with rows that do not depend on the outer row."""
        rows = read_in_rows(nested, lambda query: bool(self.find_outside(query, outer)))
        if rows is not None:
            check_width(nested, len(self.query(nested.query).schema))
        return rows

    @contextmanager
    def go_deeper(self, query: exp.Expression) -> Iterator[None]:
        """One level of subqueries more."""
        if self.level == MOST_LEVELS:
            raise problem(
                f"subqueries are nested deeper than {MOST_LEVELS} levels",
                query,
                code="TM104",
                hint="put the inner ones into views",
            )
        self.level += 1
        try:
            yield
        finally:
            self.level -= 1

    @staticmethod
    def copy_query(query: exp.Expression) -> exp.Expression:
        """A copy in which each condition of WHERE is a node of its own, BETWEEN as two of them."""
        query = copy_tree(query)
        if isinstance(query, exp.Select) and query.args.get("where"):
            keep_conditions(query, list(conjuncts(query.args["where"])))
        return query

    def find_outside(self, query: exp.Expression, outer: Outer) -> list[exp.Column]:
        """The columns in a subquery that belong to the outer rows."""
        found = [c for c in self.names.unknown_columns(query) if outer.names(c)]
        _refuse_outer_aggregates(query, {id(c) for c in found})
        return found

    def bind_inner(self, query: exp.Expression, outside: list[exp.Column], outer: Outer) -> Inner:
        if not outside:
            return finish(self.query(query), [], outer)
        refuse_missing_row(query)
        pairs = find_equalities(query, outside)
        if pairs is not None and isinstance(query, exp.Select):
            return bind_by_keys(query, pairs, outer, self.query)
        return bind_by_domain(query, outside, outer, self.items, self.query)

    def _of_one_row(
        self, nested: Nested, query: exp.Expression, outside: list[exp.Column], outer: Outer
    ) -> exp.Expression:
        row = self.open_row(query, outside, outer, exists=nested.kind == "exists")
        return value_of_row(nested, row)

    def open_row(
        self, query: exp.Expression, outside: list[exp.Column], outer: Outer, *, exists: bool = False
    ) -> OneRow:
        """The one row of a subquery over columns of the outer rows; with `exists` only its condition is wanted."""
        assert isinstance(query, exp.Select)
        row = take_apart(query, {id(c) for c in outside})
        if row.aggregates is not None:
            inside = {id(n) for n in all_nodes(row.aggregates)}
            calls = [e.unalias() for e in row.aggregates.expressions]
            aggregates = self.bind_inner(row.aggregates, [c for c in outside if id(c) in inside], outer)
            if row.holes and (not exists or row.condition is not None):
                columns = attach(outer, aggregates.node, aggregates.keys, aggregates.values)
                values = [empty_value(*pair) for pair in zip(calls, columns, strict=True)]
                row.fill([outer.add(v, outer.node.type_of(c.name)) for v, c in zip(values, columns, strict=True)])
        condition = self.rewrite(row.condition, outer) if row.condition is not None else None
        return OneRow([] if exists else [self.rewrite(item, outer) for item in row.items], condition, None, [])

    def _of_rows(self, nested: Nested, inner: Inner, outer: Outer) -> exp.Expression:
        if nested.kind != "exists":
            check_width(nested, len(inner.values))
        if nested.kind == "scalar":
            return self._single_value(inner, outer)
        if nested.kind == "exists":
            matched = self._match(inner, inner.keys, outer)
            return outer.add(template("coalesce({0}, FALSE)", matched), "BOOLEAN")
        if isinstance(nested.left, exp.Tuple):
            raise refuse_rows(nested)
        return self._compare(nested, inner, outer)

    def _single_value(self, inner: Inner, outer: Outer) -> exp.Expression:
        """The value of the one row; a row of more than one is put aside when it is evaluated."""
        value, keys = inner.values[0], tuple(dict.fromkeys(k.column for k in inner.keys))
        if inner.unique:
            return outer.add(*_type_column(attach(outer, inner.node, inner.keys, [value])[0], outer))
        kind = inner.node.type_of(value)
        counted = r.GroupBy(
            _project(inner.node, (*keys, value)),
            keys,
            (Aggregate("count", None, None, "__n", "BIGINT"), Aggregate("min", value, kind, "__v", kind)),
        )
        n, v = attach(outer, counted, inner.keys, ["__n", "__v"])
        error = template(f"CASE WHEN {{0}} > 1 THEN error('{TWO_ROWS}') ELSE {{1}} END", n, v)
        return outer.add(error, kind)

    def _match(self, inner: Inner, keys: tuple[Key, ...], outer: Outer) -> Scalar:
        """TRUE for the outer rows that have a row of the subquery with these keys, NULL for the others."""
        columns = tuple(dict.fromkeys(k.column for k in keys))
        rows: Relation = r.SetCombine(
            "distinct", _project(inner.node, columns, Item(MATCHED, Literal("TRUE"), "BOOLEAN"))
        )
        return attach(outer, rows, keys, [MATCHED])[0]

    def _compare(self, nested: Nested, inner: Inner, outer: Outer) -> exp.Expression:
        """left IN, ANY or ALL: from the number of rows, how many of them are not NULL, and their extremes."""
        value, keys = inner.values[0], tuple(dict.fromkeys(k.column for k in inner.keys))
        kind = inner.node.type_of(value)
        aggregates = [Aggregate("count", None, None, "__n", "BIGINT"), Aggregate("count", value, kind, "__m", "BIGINT")]
        if nested.kind != "in":
            aggregates += [Aggregate(name, value, kind, f"__{name}", kind) for name in ("min", "max")]
        counted = r.GroupBy(_project(inner.node, (*keys, value)), keys, tuple(aggregates))
        counts = attach(outer, counted, inner.keys, [a.name for a in aggregates])
        left = outer.bind(nested.left)
        compared = left.value if isinstance(left.value, ColumnRef) else Paren(left.value)
        if nested.kind == "in":
            matched = self._match(inner, (*inner.keys, Key(left, value, nested.node)), outer)
            return outer.add(in_value(compared, matched, *counts), "BOOLEAN")
        return outer.add(quantified_value(type(nested.node), nested.kind == "all", compared, *counts), "BOOLEAN")


def _refuse_outer_aggregates(query: exp.Expression, outside: set[int]) -> None:
    """Refuse an aggregate over outer columns alone: in SQL it aggregates the outer rows."""
    for call in (n for n in all_nodes(query) if aggregate_name(n)):
        columns = [n for n in all_nodes(call) if isinstance(n, exp.Column)]
        if columns and all(id(c) in outside for c in columns):
            raise problem(
                "an aggregate of outer rows is not possible in a subquery",
                call,
                code="TM206",
                hint="group in a subquery in FROM, and compare with its columns",
            )


def _type_column(column: ColumnRef, outer: Outer) -> tuple[Scalar, str]:
    return column, outer.node.type_of(column.name)


def _project(node: Relation, columns: tuple[str, ...], *more: Item) -> Relation:
    """Some columns of a relation, each once."""
    shown = [Item(c, ColumnRef(c), node.type_of(c)) for c in dict.fromkeys(columns)]
    return r.Project(node, (*shown, *more))
