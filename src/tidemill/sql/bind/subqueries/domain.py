"""A subquery that mentions outer columns in any way is joined with the distinct values that outer rows have in them.

(SELECT max(a) FROM t WHERE t.b < outer.b)   →   SELECT max(a), d.b FROM t, d WHERE t.b < d.b GROUP BY d.b
                                                 with d the distinct values of outer.b
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.relations import Item
from tidemill.sql.bind.aggregate_calls import is_grouped
from tidemill.sql.bind.bound import BoundQuery
from tidemill.sql.bind.from_items import FromItems
from tidemill.sql.bind.joins import merge_rhythms
from tidemill.sql.bind.scalar import COMPARISONS, Bound
from tidemill.sql.bind.scope import problem
from tidemill.sql.bind.stars import DOMAIN
from tidemill.sql.bind.subqueries.attach import Key
from tidemill.sql.bind.subqueries.first_rows import partition_rows
from tidemill.sql.bind.subqueries.forms import from_clauses
from tidemill.sql.bind.subqueries.inner import Inner, Query, add_columns, finish, keep_conditions
from tidemill.sql.bind.subqueries.outer import Outer
from tidemill.sql.bind.windows import conjuncts
from tidemill.sql.dialect.nodes import all_nodes, copy_tree


@dataclass
class _Mentioned:
    """An outer column that a subquery mentions; `strict`: the subquery has no row where it is NULL."""

    name: str
    bound: Bound
    place: exp.Column
    strict: bool = False


def bind_by_domain(
    query: exp.Expression, outside: list[exp.Column], outer: Outer, items: FromItems, bind: Query
) -> Inner:
    """Bind a subquery over its own FROM and the domain; its keys are the columns of the domain."""
    mentioned = _replace_columns(query, outside, outer)
    _add_domain(query, [m.name for m in mentioned], inside=False)
    one = partition_rows(_unwrap(query), [_domain_column(m.name) for m in mentioned])
    columns = tuple(Item(m.name, m.bound.value, m.bound.type) for m in mentioned)
    domain = BoundQuery(
        r.SetCombine("distinct", r.Project(outer.node, columns)),
        tuple(m.name for m in mentioned),
        outer.scope.domain,
        merge_rhythms([*outer.scope.inputs, *outer.scope.beside]),
        frozenset(),
    )
    items.local.append({DOMAIN: domain})
    try:
        bound = bind(query)
    finally:
        items.local.pop()
    names = bound.node.names[len(bound.node.names) - len(mentioned) :]
    keys = [Key(m.bound, name, m.place, not m.strict) for m, name in zip(mentioned, names, strict=True)]
    return finish(bound, keys, outer, one)


def _unwrap(query: exp.Expr) -> exp.Expr:
    return query.unnest() if isinstance(query, exp.Subquery) and not query.args.get("limit") else query


def _replace_columns(query: exp.Expression, outside: list[exp.Column], outer: Outer) -> list[_Mentioned]:
    """Put columns of the domain in the place of outer columns."""
    found: dict[str, _Mentioned] = {}
    strict = _strict_columns(query)
    for column in outside:
        bound = outer.bind(column)
        one = found.setdefault(bound.sql, _Mentioned(f"{DOMAIN} {len(found)}", bound, copy_tree(column)))
        one.strict |= id(column) in strict
        made: exp.Expression = _domain_column(one.name, column)
        # An item of SELECT keeps the name that it has by its column.
        selected = isinstance(column.parent, exp.Select) and column.arg_key == "expressions"
        column.replace(exp.alias_(made, column.name, quoted=True) if selected else made)
    return list(found.values())


def _domain_column(name: str, place: exp.Column | None = None) -> exp.Column:
    made = exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(DOMAIN))
    if place is not None and "line" in place.meta:
        made.meta.update(place.meta)
    return made


def _strict_columns(query: exp.Expression) -> set[int]:
    """Columns, by identity, without which a condition of WHERE is not true."""
    conditions = conjuncts(query.args.get("where")) if isinstance(query, exp.Select) else ()
    compared = [c for c in conditions if isinstance(c, COMPARISONS)]
    return {id(side) for c in compared for side in (c.this, c.expression)}


def _add_domain(query: exp.Expr, names: list[str], inside: bool) -> None:
    """Read the domain beside FROM, and select its columns; `inside` a set operation on both sides, where LIMIT and
    window functions of a side count for each of its rows.
    """
    if inside and not isinstance(query, exp.Select):
        partition_rows(query, ())
    if isinstance(query, exp.Subquery):
        _add_domain(query.this, names, inside)
        return
    if isinstance(query, exp.SetOperation):
        _add_domain(query.this, names, inside=True)
        _add_domain(query.expression, names, inside=True)
        return
    if not isinstance(query, exp.Select):
        return
    if inside and is_grouped(query) and not query.args.get("group"):
        raise problem(
            "an aggregate without GROUP BY is not possible in a set operation that reads an outer row",
            query,
            code="TM202",
            hint="write two subqueries, or give it a GROUP BY",
        )
    _join_domain(query)
    add_columns(query, [_domain_column(name) for name in names])
    if inside:
        partition_rows(query, [_domain_column(name) for name in names])


def _join_domain(select: exp.Select) -> None:
    table = exp.Table(this=exp.to_identifier(DOMAIN))
    clause = select.args.get("from_")
    if clause is None:
        select.set("from_", exp.From(this=table))
        return
    joins = [join for _, join in from_clauses(select) if join is not None]
    if any(_reads_domain(item) for item, _ in from_clauses(select)):
        _join_first(select, table, joins)
        return
    reading = [join for join in joins if _reads_domain(join.args.get("on"))]
    if reading and all(not j.side and (j.kind or "").upper() in ("", "INNER", "CROSS") for j in joins):
        moved = [c for join in reading for c in conjuncts(join.args["on"]) if _reads_domain(c)]
        for join in reading:
            rest = [copy_tree(c) for c in conjuncts(join.args["on"]) if not _reads_domain(c)]
            join.set("on", exp.and_(*rest, copy=False, wrap=True) if rest else None)
        keep_conditions(select, [*conjuncts(select.args.get("where")), *moved])
    elif reading:
        _join_first(select, table, joins)
        return
    select.append("joins", exp.Join(this=table))


def _join_first(select: exp.Select, table: exp.Table, joins: list[exp.Join]) -> None:
    """The domain before all other items: conditions of LEFT joins may read it."""
    if any((j.side or "").upper() in ("RIGHT", "FULL") for j in joins):
        raise problem(
            "the condition of a RIGHT or FULL join cannot read an outer row",
            select,
            code="TM202",
            hint="put the condition into WHERE, or turn the join around",
        )
    source = select.args["from_"].this
    source.set("joins", None)
    select.set("from_", exp.From(this=table))
    select.set("joins", [exp.Join(this=source), *joins])


def _reads_domain(node: exp.Expr | None) -> bool:
    found = all_nodes(node) if node is not None else []
    return any(isinstance(n, exp.Column) and n.table == DOMAIN for n in found)
