"""A subquery bound for all outer rows at once: its rows, with keys that say for which outer rows they count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.relations import Relation
from tidemill.sql.bind.aggregate_calls import is_grouped
from tidemill.sql.bind.bound import BoundQuery
from tidemill.sql.bind.grouping_sets import find_groupings
from tidemill.sql.bind.scope import problem
from tidemill.sql.bind.subqueries.attach import Key
from tidemill.sql.bind.subqueries.first_rows import partition_rows
from tidemill.sql.bind.subqueries.forms import distinct_on, has_subquery
from tidemill.sql.bind.subqueries.outer import Outer
from tidemill.sql.bind.window_syntax import aggregates_rows
from tidemill.sql.bind.windows import conjuncts
from tidemill.sql.dialect.nodes import all_nodes, copy_tree

Query = Callable[[exp.Expression], BoundQuery]


@dataclass(frozen=True)
class Inner:
    """The rows of a subquery: `values` are the columns it selects, `keys` say which outer rows have the row.

    `unique`: no two rows have the same keys.
    """

    node: Relation
    values: tuple[str, ...]
    keys: tuple[Key, ...]
    unique: bool


@dataclass(frozen=True)
class Equality:
    """A condition of WHERE that compares an expression of the subquery with one of the outer row."""

    condition: exp.Expression
    inner: exp.Expression
    outer: exp.Expression


def finish(bound: BoundQuery, keys: list[Key], outer: Outer, one: bool = False) -> Inner:
    """The subquery whose last columns are the keys; with `one` it has one row for each of them."""
    outer.read_beside(bound)
    values = bound.node.names[: len(bound.node.names) - len(keys)]
    known = {_origin(bound.node, key.column) for key in keys}
    unique = one or (bound.keys is not None and {_origin(bound.node, key) for key in bound.keys} <= known)
    return Inner(bound.node, values, tuple(keys), unique)


def _origin(node: Relation, column: str) -> str:
    """The column below the select list that a column copies, if it does: one may be selected twice."""
    while isinstance(node, r.SetCombine) and node.kind == "distinct":
        node = node.left
    found = node.passes(column) if isinstance(node, r.Project) else None
    return column if found is None else found


def find_equalities(query: exp.Expression, outside: list[exp.Column]) -> list[Equality] | None:
    """The conditions `inner = outer` of WHERE, if all mentions of outer columns are in such conditions."""
    if not isinstance(query, exp.Select):
        return None
    names = {id(c) for c in outside}
    found, mentions = [], 0
    for condition in conjuncts(query.args.get("where")):
        count = count_nodes(condition, names)
        if count:
            pair = _read_equality(condition, names)
            if pair is None:
                return None
            found.append(pair)
            mentions += count
    return found if mentions == len(outside) else None


def _read_equality(condition: exp.Expression, names: set[int]) -> Equality | None:
    if not isinstance(condition, exp.EQ) or has_subquery(condition):
        return None
    inner, outer = condition.this, condition.expression
    if count_nodes(inner, names):
        inner, outer = outer, inner
    own, others = (sum(isinstance(n, exp.Column) for n in all_nodes(side)) for side in (inner, outer))
    apart = count_nodes(inner, names) == 0 and own > 0 and count_nodes(outer, names) == others
    return Equality(condition, inner, outer) if apart else None


def count_nodes(node: exp.Expr, wanted: set[int]) -> int:
    """How many of the wanted nodes, by identity, are below a node."""
    return sum(id(n) in wanted for n in all_nodes(node))


def bind_by_keys(query: exp.Select, pairs: list[Equality], outer: Outer, bind: Query) -> Inner:
    """Group, or select, by what outer values are compared with; the comparison is left to the join.

        SELECT max(a) FROM t WHERE t.k = outer.k   →   SELECT max(a), t.k FROM t GROUP BY t.k

    Sound where the query mentions outer columns in these conditions alone.
    """
    gone = {id(pair.condition) for pair in pairs}
    keep_conditions(query, [c for c in conjuncts(query.args.get("where")) if id(c) not in gone])
    # In parentheses a quotient of a time is a number like any other, not an epoch.
    inner = [p.inner if isinstance(p.inner, exp.Column) else exp.Paren(this=p.inner) for p in pairs]
    add_columns(query, inner)
    one = partition_rows(query, inner)
    bound = bind(query)
    columns = bound.node.names[len(bound.node.names) - len(pairs) :]
    keys = [Key(outer.bind(p.outer), column, p.outer) for p, column in zip(pairs, columns, strict=True)]
    return finish(bound, keys, outer, one)


def keep_conditions(select: exp.Select, conditions: list[exp.Expression]) -> None:
    """Replace WHERE by these conditions."""
    both = [copy_tree(c) for c in conditions]
    select.set("where", exp.Where(this=exp.and_(*both, copy=False, wrap=True)) if both else None)


def add_columns(select: exp.Select, columns: Sequence[exp.Expression]) -> None:
    """Select more columns, at the end, and group by them where the SELECT is grouped; DISTINCT ON counts for each."""
    if is_grouped(select):
        _refuse_total(select)
        group = select.args.get("group") or exp.Group(expressions=[])
        group.set("expressions", [*group.expressions, *map(copy_tree, columns)])
        select.set("group", group)
    if distinct_on(select):
        select.args["distinct"].set("on", exp.Tuple(expressions=[*distinct_on(select), *map(copy_tree, columns)]))
    for i, column in enumerate(columns):
        select.append("expressions", exp.alias_(copy_tree(column), f"outer {i}", quoted=True))


def _refuse_total(select: exp.Select) -> None:
    """Refuse a GROUP BY that has a row where there is nothing to group: by key, such a row would be missing."""
    group = select.args.get("group")
    of_all = group is not None and group.args.get("all") and all(map(aggregates_rows, select.expressions))
    if of_all or () in (find_groupings(select) or ()):
        raise problem(
            "GROUP BY without keys is not possible in a subquery that reads an outer row",
            select,
            code="TM202",
            hint="leave GROUP BY out, and write grand totals as a subquery of their own",
        )
