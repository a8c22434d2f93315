"""Subqueries of FROM that read the inputs before them: each row is joined with the rows that it has of the subquery.

    FROM o, LATERAL (SELECT … FROM t WHERE t.k = o.k) AS l   →   o JOIN (SELECT …, t.k FROM t) AS l ON t.k = o.k

It is bound once for all rows, as subqueries in expressions are; what has one row for each of them (an aggregate without
GROUP BY, SELECT without FROM) becomes columns of them. LATERAL may be left out: a subquery that reads what its own FROM
does not explain is one. `shape` is bound over all inputs as they are, for the names and types of the columns; `apply`
over the rows that are joined when it is its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.plan import relations as r
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import Cast, ColumnRef, Literal, conjunction, template
from tidemill.sql.bind.from_items import FromItems, Pair, check_names
from tidemill.sql.bind.joins import merge_rhythms, rename_columns
from tidemill.sql.bind.projection import default_name
from tidemill.sql.bind.scalar import Scalars, cast_null_column
from tidemill.sql.bind.scope import Field, Input, Scope, problem
from tidemill.sql.bind.subqueries.apply import Subqueries
from tidemill.sql.bind.subqueries.attach import Key, join_rows
from tidemill.sql.bind.subqueries.forms import drop_order, has_subquery
from tidemill.sql.bind.subqueries.one_row import is_one_row
from tidemill.sql.bind.subqueries.outer import Outer
from tidemill.sql.bind.unfolding import unfolded_view
from tidemill.sql.dialect.nodes import copy_tree


@dataclass(frozen=True)
class Laterals:
    """The lateral subqueries of one FROM, by alias."""

    subqueries: Subqueries
    found: dict[str, exp.Subquery]

    def bind_items(self, listed: Sequence[exp.Expression], items: FromItems) -> list[Pair]:
        """All items of FROM; a subquery that does not explain its columns reads those before it."""
        pairs: list[Pair] = []
        for node in map(_select_values, listed):
            try:
                pairs.append(items.bind_item(node))
            except PlanProblem as error:
                if error.code != "TM201" or not pairs or not isinstance(node, exp.Subquery) or unfolded_view(node):
                    raise
                pairs.append((self._bind_shape(node, [p[0] for p in pairs], error), None))
        return pairs

    def _bind_shape(self, node: exp.Subquery, before: list[Input], error: PlanProblem) -> Input:
        """An input with the columns of a lateral subquery, and no rows of meaning."""
        sides = [rename_columns(item, None) for item in before]
        cross: Relation = reduce(lambda a, b: r.Join(a, b, ()), [side.node for side in sides])
        scope = Scope(sides, cross, self.subqueries.items.unit_us)
        if not self.subqueries.find_outside(node.this, Outer(scope)):
            raise self._find_unknown(node, before) or error
        if node.args.get("window") is not None or node.args.get("sync") is not None:
            hint = "put the window or SYNC inside of it"
            raise problem("a lateral subquery has no window and no SYNC", node, code="TM202", hint=hint)
        alias = self.subqueries.items.name_item(node)
        self.found[alias] = node
        made = self.apply(scope, alias, "inner", []).inputs[-1]
        shown = [Item(f.name, ColumnRef(f.column), f.type) for f in made.fields]
        fields = tuple(Field(f.name, f.name, f.type) for f in made.fields)
        names = {f.column: f.name for f in made.fields}
        keys = None if made.keys is None else tuple(names[k] for k in made.keys)
        return replace(made, node=r.Project(scope.node, tuple(shown)), fields=fields, keys=keys)

    def _find_unknown(self, node: exp.Subquery, before: list[Input]) -> PlanProblem | None:
        """The error of a column that an input before the subquery should have."""
        for column in self.subqueries.names.unknown_columns(node.this):
            owner = next((i for i in before if i.alias.lower() == column.table.lower()), None)
            if owner is not None:
                known = ", ".join(f.name for f in owner.fields[:12])
                return problem(f'there is no column "{column.name}" in "{owner.alias}"', column, hint=f"it has {known}")
        return None

    def apply(self, scope: Scope, alias: str, kind: str, conditions: list[exp.Expression]) -> Scope:
        """The rows joined with what each has of a lateral subquery; `kind` is inner or left."""
        node = self.found[alias]
        if kind not in ("inner", "left") or has_subquery(*conditions):
            raise problem(
                "a lateral subquery may be joined by commas, CROSS JOIN, JOIN and LEFT JOIN",
                node,
                code="TM202",
                hint="conditions with subqueries go to WHERE" if kind in ("inner", "left") else None,
            )
        outer = Outer(scope)
        query = self.subqueries.copy_query(_unwrap(node.this))
        outside = self.subqueries.find_outside(query, outer)
        one = _One(node, alias, scope, outer, kind == "left")
        with self.subqueries.go_deeper(node):
            if is_one_row(query):
                names = _name_columns(query, scope)
                row = self.subqueries.open_row(query, outside, outer)
                return one.add_row(names, row.items, row.condition, conditions)
            inner = self.subqueries.bind_inner(query, outside, outer)
            return one.join_values(inner.node, inner.values, inner.keys, inner.unique, conditions)


@dataclass
class _One:
    """One lateral subquery at its turn."""

    node: exp.Subquery
    alias: str
    scope: Scope
    outer: Outer
    optional: bool

    def add_row(
        self,
        names: list[str],
        items: list[exp.Expression],
        condition: exp.Expression | None,
        conditions: list[exp.Expression],
    ) -> Scope:
        """Columns of each row; where a condition fails the row goes, or with `optional` has NULL in them."""
        values = [cast_null_column(self.outer.bind(item)) for item in items]
        given = [] if condition is None else [self.outer.scalars.predicate(condition)]
        if given:  # what the condition excludes may be what cannot be computed
            cased = [template("CASE WHEN {0} THEN {1} END", given[0], v.value) for v in values]
            values = [replace(v, value=value) for v, value in zip(values, cased, strict=True)]
        side = self._make_input(names, [value.type for value in values], ())
        before = tuple(map(Item.of, self.outer.node.schema))
        made = [Item(f.column, v.value, f.type) for f, v in zip(side.fields, values, strict=True)]
        self.scope.node = r.Project(self.outer.node, (*before, *made))
        joined = replace(self.scope, inputs=[*self.scope.inputs, side])
        kept = conjunction(*given, *map(Scalars(joined).predicate, conditions))
        if kept is not None and not self.optional:
            joined.node = r.Filter(joined.node, kept)
        elif kept is not None:
            shown = [
                Item(i.name, template("CASE WHEN {0} THEN {1} END", kept, ColumnRef(i.name)), i.type) for i in made
            ]
            joined.node = r.Project(joined.node, (*before, *shown))
        return joined

    def join_values(
        self, rows: Relation, values: Sequence[str], keys: Sequence[Key], unique: bool, conditions: list[exp.Expression]
    ) -> Scope:
        """The rows that have the keys of each row, under the names of this item."""
        side = self._make_input(list(values), [rows.type_of(v) for v in values], () if unique else None)
        shown = [(v, f.column) for v, f in zip(values, side.fields, strict=True)]
        nothing = tuple(Item(f.column, Cast(Literal("NULL"), f.type), f.type) for f in side.fields)
        before = self.outer.node
        both = replace(self.scope, inputs=[*self.scope.inputs, side])
        both.node = r.Project(before, (*map(Item.of, before.schema), *nothing))
        residual = conjunction(*map(Scalars(both).predicate, conditions))
        prefix = self.outer.next_name()
        join_rows(self.outer, rows, keys, shown, prefix, condition=residual, optional=self.optional)
        return replace(self.scope, inputs=[*self.scope.inputs, side])

    def _make_input(self, names: list[str], types: list[str], keys: tuple[str, ...] | None) -> Input:
        alias = self.node.args.get("alias")
        renamed = [c.name for c in alias.columns] if alias is not None else []
        check_names(renamed, len(names), self.alias, self.node)
        names = _make_unique([*renamed, *names[len(renamed) :]])
        fields = tuple(Field(n, f"{self.alias}.{n}", t) for n, t in zip(names, types, strict=True))
        rhythm = merge_rhythms([*self.scope.inputs, *self.scope.beside])
        return Input(self.alias, self.outer.node, fields, None, keys, None, rhythm)


def _name_columns(query: exp.Expression, scope: Scope) -> list[str]:
    """What the columns of a SELECT with one row are called."""
    items = enumerate(query.expressions)
    return [e.alias if isinstance(e, exp.Alias) else default_name(e, i, scope) for i, e in items]


def _select_values(node: exp.Expression) -> exp.Expression:
    """VALUES over columns as SELECTs, one for each row; everything else as it is."""
    if not isinstance(node, exp.Values) or not node.find(exp.Column):
        return node
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    selects: list[exp.Query] = [
        exp.select(*(exp.alias_(copy_tree(v), f"col{i}") for i, v in enumerate(row))) for row in rows
    ]
    return exp.Subquery(
        this=reduce(lambda a, b: exp.Union(this=a, expression=b, distinct=False), selects), alias=node.args.get("alias")
    )


def _make_unique(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    made = []
    for name in names:
        count = seen.get(name.lower(), 0)
        seen[name.lower()] = count + 1
        made.append(f"{name}_{count}" if count else name)
    return made


def _unwrap(query: exp.Expression) -> exp.Expression:
    """A query without parentheses, and without an order that has no meaning."""
    while isinstance(query, exp.Subquery) and not any(query.args.get(c) for c in ("limit", "offset", "with_")):
        query = query.this
    query = copy_tree(query)
    drop_order(query)
    return query
