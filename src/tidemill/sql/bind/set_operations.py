"""UNION, INTERSECT, EXCEPT and the difference of paper 004: both sides get common columns, then they are combined."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.plan import relations as r
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import Cast, ColumnRef, Literal
from tidemill.plan.sources import Column
from tidemill.sql.bind.bound import BoundQuery
from tidemill.sql.bind.joins import merge_rhythms
from tidemill.sql.bind.scalar import types_of
from tidemill.sql.bind.scope import Rhythm, merge_domains, problem
from tidemill.sql.dialect.nodes import Difference


def set_operation(node: exp.SetOperation, left: BoundQuery, right: BoundQuery) -> BoundQuery:
    """UNION, INTERSECT or EXCEPT of two bound queries."""
    if node.args.get("by_name"):
        left, right = _match_names(left, right, node)
    a, b = align(left, right, node)
    distinct = node.args.get("distinct") is not False
    keys = None
    if isinstance(node, exp.Union):
        relation: Relation = r.Union((a, b))
        relation = r.SetCombine("distinct", relation) if distinct else relation
    else:
        word = "except" if isinstance(node, exp.Except) else "intersect"
        relation = r.SetCombine(word if distinct else f"{word}_all", a, b)  # type: ignore[arg-type]
        keys = left.keys
    domain = merge_domains([left.domain, right.domain])
    return BoundQuery(relation, keys, domain, _merge_rhythm(left, right), left.needs | right.needs)


def difference(node: Difference, left: BoundQuery, right: BoundQuery) -> BoundQuery:
    """R(S1) - R(S2): multiset difference of two queries that show the attributes, without TS."""
    both = align(left, right, node)
    keys = left.keys if left.keys else None
    domain = merge_domains([left.domain, right.domain])
    return BoundQuery(
        r.SetCombine("except_all", *both), keys, domain, _merge_rhythm(left, right), left.needs | right.needs
    )


def align(left: BoundQuery, right: BoundQuery, node: exp.Expression) -> tuple[Relation, Relation]:
    """Both sides with the names of the left and the common types."""
    if len(left.schema) != len(right.schema):
        raise problem(
            f"the two sides have {len(left.schema)} and {len(right.schema)} columns",
            node,
            code="TM218",
            hint="select the same number of columns on both sides",
        )
    pairs = list(zip(left.schema, right.schema, strict=True))
    common = [a.type if a.type == b.type else _common_type(a, b, node) for a, b in pairs]
    names = [c.name for c in left.schema]
    return _cast_columns(left.node, names, common), _cast_columns(right.node, names, common)


def _match_names(left: BoundQuery, right: BoundQuery, node: exp.SetOperation) -> tuple[BoundQuery, BoundQuery]:
    """BY NAME: both sides with the columns of either, those of the left first; NULL where a side lacks one."""
    if not isinstance(node, exp.Union):
        raise problem("BY NAME belongs to UNION", node, code="TM202", hint="put the columns in the same order")
    columns = {c.name.lower(): c for c in (*right.schema, *left.schema)}
    known = {c.name.lower() for c in left.schema}
    listed = [c.name.lower() for c in left.schema]
    listed += [c.name.lower() for c in right.schema if c.name.lower() not in known]
    return _choose(left, listed, columns), _choose(right, listed, columns)


def _choose(side: BoundQuery, names: list[str], columns: dict[str, Column]) -> BoundQuery:
    own = {c.name.lower(): c for c in side.schema}
    items = []
    for name in names:
        column = own.get(name)
        if column is not None:
            items.append(Item(columns[name].name, ColumnRef(column.name), column.type))
        else:
            items.append(Item(columns[name].name, Cast(Literal("NULL"), columns[name].type), columns[name].type))
    return replace(side, node=r.Project(side.node, tuple(items)), keys=None)


def _common_type(a: Column, b: Column, node: exp.Expression) -> str:
    try:
        return types_of([f"CASE WHEN TRUE THEN CAST(NULL AS {a.type}) ELSE CAST(NULL AS {b.type}) END"], ())[0]
    except PlanProblem:
        raise problem(
            f'columns "{a.name}" and "{b.name}" have no common type',
            node,
            code="TM203",
            detail=f"{a.type} and {b.type}",
            hint="cast one of them",
        ) from None


def _cast_columns(node: Relation, names: list[str], types: list[str]) -> Relation:
    items = []
    for column, name, type_ in zip(node.schema, names, types, strict=True):
        value = ColumnRef(column.name)
        items.append(Item(name, value if column.type == type_ else Cast(value, type_), type_))
    if [c.name for c in node.schema] == names and [c.type for c in node.schema] == types:
        return node
    return r.Project(node, tuple(items))


def _merge_rhythm(left: BoundQuery, right: BoundQuery) -> Rhythm:
    return merge_rhythms([left.as_input("l"), right.as_input("r")])
