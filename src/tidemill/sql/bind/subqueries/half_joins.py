"""EXISTS and IN as conditions of WHERE: semi and anti joins with the subquery's own input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from tidemill.sql.bind.aggregate_calls import is_grouped
from tidemill.sql.bind.joins import join, rename_columns
from tidemill.sql.bind.scope import Scope
from tidemill.sql.bind.stars import star_of
from tidemill.sql.bind.subqueries.forms import Nested, distinct_on, from_clauses, has_subquery, own_nodes
from tidemill.sql.bind.subqueries.inner import count_nodes, keep_conditions
from tidemill.sql.bind.subqueries.one_row import check_width
from tidemill.sql.bind.subqueries.outer import Outer, is_column_of
from tidemill.sql.bind.window_syntax import has_windows
from tidemill.sql.bind.windows import conjuncts
from tidemill.sql.dialect.nodes import copy_tree

_MORE = ("with_", "group", "having", "limit", "offset", "qualify", "windows")


@dataclass(frozen=True)
class HalfJoin:
    """A subquery over one input: the rest of it is a SELECT of its own, `conditions` read the outer row as well."""

    select: exp.Select
    conditions: list[exp.Expression]
    items: list[exp.Expression]
    outside: set[int]

    @property
    def own_columns(self) -> list[exp.Column]:
        """The columns of the input that the conditions read."""
        nodes = own_nodes(*self.conditions, *self.items)
        return [n for n in nodes if isinstance(n, exp.Column) and id(n) not in self.outside]


def read_half_join(nested: Nested, negated: bool, query: exp.Expression, outside: set[int]) -> HalfJoin | None:
    """The subquery as a semi or anti join, where it is one: of one input, without groups, and where NULL is no matter.

        EXISTS (SELECT … FROM t WHERE t.a > 1 AND t.b < outer.b)   →   SEMI JOIN t, where a > 1, ON t.b < outer.b
        x IN (SELECT y FROM t)                                     →   SEMI JOIN t ON x = y
        NOT EXISTS (…)                                             →   ANTI JOIN …

    NOT IN is none: it is NULL, not TRUE, where the subquery has a NULL.
    """
    if not isinstance(query, exp.Select) or nested.kind not in ("exists", "in") or (nested.kind == "in" and negated):
        return None
    sources = [item for item, _ in from_clauses(query)]
    if is_grouped(query) or has_windows(query) or len(sources) != 1 or count_nodes(sources[0], outside):
        return None
    if any(query.args.get(c) for c in _MORE) or (nested.kind == "in" and distinct_on(query)):
        return None
    items = [e.unalias() for e in query.expressions] if nested.kind == "in" else []
    conditions = [c for c in conjuncts(query.args.get("where")) if count_nodes(c, outside)]
    if has_subquery(*items, *conditions) or any(star_of(item) is not None for item in items):
        return None
    if nested.kind == "in":
        check_width(nested, len(items))
    return HalfJoin(query, conditions, items, outside)


def apply_half_join(
    half: HalfJoin, nested: Nested, negated: bool, outer: Outer, scope_of: Callable[[exp.Select], Scope]
) -> None:
    """Join the outer rows with the subquery, of which they keep nothing."""
    select, own = half.select, half.own_columns
    apart = {id(c) for c in half.conditions}
    # What the conditions read is selected, so that it is there; what EXISTS selects is checked and forgotten.
    shown = [n for n in own_nodes(*select.expressions) if isinstance(n, exp.Column) and id(n) not in half.outside]
    kept = [c for c in conjuncts(select.args.get("where")) if id(c) not in apart]
    items = [*map(copy_tree, own)]
    checked = [copy_tree(c) for c in shown if not isinstance(c.this, exp.Star)]
    keep_conditions(select, kept)
    select.set("expressions", [*items, *checked] or [exp.Literal.number(1)])
    inner = scope_of(select)
    for column in checked:
        inner.resolve(column)
    alias = outer.next_name()
    for column in own:
        column.set("table", exp.to_identifier(alias))
    _qualify_outer([*half.conditions, *half.items, *([nested.left] if half.items else [])], outer)
    source = replace(inner.inputs[0], alias=alias, node=inner.node, keys=None, needs=frozenset(inner.needs))
    wanted = {c.name.lower() for c in own} or {source.fields[0].name.lower()}
    lefts = nested.left.expressions if half.items and isinstance(nested.left, exp.Tuple) else [nested.left]
    compared = [exp.EQ(this=a, expression=b) for a, b in zip(lefts, half.items, strict=False)] if half.items else []
    joined = join(
        outer.scope, rename_columns(source, wanted), "anti" if negated else "semi", [*half.conditions, *compared]
    )
    outer.scope.node, outer.scope.needs = joined.node, joined.needs
    outer.scope.beside = [*joined.beside, *inner.beside]


def _qualify_outer(expressions: list[exp.Expression], outer: Outer) -> None:
    """Columns without an alias belong to the outer rows: those of the subquery have got one."""
    for node in own_nodes(*expressions):
        if isinstance(node, exp.Column) and not node.table:
            meant = outer.scope.merged.get(node.name.lower())
            owners = [item.alias for item in outer.scope.inputs if is_column_of(node, item)]
            if meant is not None:
                node.replace(copy_tree(meant))
            elif len(owners) == 1:
                node.set("table", exp.to_identifier(owners[0], quoted=True))
