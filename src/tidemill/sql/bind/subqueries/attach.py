"""Outer rows joined with what a subquery has for them: at most one row, so that none is doubled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.plan import relations as r
from tidemill.plan.aggregates import INTEGERS
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import Cast, ColumnRef, IsNull, Literal, Scalar, template
from tidemill.plan.sources import Column
from tidemill.sql.bind.joins import narrow, outer_join
from tidemill.sql.bind.scalar import Bound, types_of
from tidemill.sql.bind.scope import problem
from tidemill.sql.bind.subqueries.outer import Outer

MATCHED = "__matched"
# A value for each kind of type; it stands for NULL beside a column that says so.
_ZEROS = {
    "BOOLEAN": "FALSE",
    "VARCHAR": "''",
    "BLOB": "''",
    "DATE": "'1970-01-01'",
    "TIMESTAMP": "'1970-01-01'",
    "TIME": "'00:00:00'",
    "INTERVAL": "'0 seconds'",
}
_NUMBERS = (*INTEGERS, "FLOAT", "DOUBLE", "DECIMAL")


@dataclass(frozen=True)
class Key:
    """A column of the subquery's rows, and the value of the outer row that it must equal; `null_safe`: NULL is NULL."""

    outer: Bound
    column: str
    place: exp.Expression
    null_safe: bool = False


def attach(
    outer: Outer, rows: Relation, keys: Sequence[Key], columns: Sequence[str], *, optional: bool = True
) -> list[ColumnRef]:
    """Join each outer row with the one of `rows` that has its keys; returns `columns` as columns of the outer rows.

    With `optional` an outer row without a partner stays, and these columns are NULL; otherwise it goes.

        outer                Project[outer's columns, columns]
                      →        LeftJoin[keys]
                                 outer
                                 rows

    Sound where no two of `rows` have the same keys.
    """
    prefix, before = outer.next_name(), outer.node
    shown = [(c, f"{prefix}.{i}") for i, c in enumerate(columns)]
    join_rows(outer, rows, keys, shown, prefix, optional=optional and not _always_meets(before, rows, keys))
    return [ColumnRef(name) for _, name in shown]


def join_rows(
    outer: Outer,
    rows: Relation,
    keys: Sequence[Key],
    columns: Sequence[tuple[str, str]],
    prefix: str,
    *,
    condition: Scalar | None = None,
    optional: bool,
) -> None:
    """Join each outer row with all of `rows` that have its keys and satisfy a condition over both. `columns` are those
    that are shown, with their new names, `prefix` a name that no other has. With `optional` an outer row without a
    partner stays, with NULL in them.
    """
    before = outer.node
    pairs = [pair for key in keys for pair in _equal_pairs(key, rows)]
    left_items = [Item(f"{prefix}.outer{i}", mine, kind) for i, (mine, _, kind) in enumerate(pairs)]
    right_items = [Item(f"{prefix}.inner{i}", theirs, kind) for i, (_, theirs, kind) in enumerate(pairs)]
    shown = [Item(name, ColumnRef(c), rows.type_of(c)) for c, name in columns]
    left = r.Project(before, (*map(Item.of, before.schema), *left_items)) if left_items else before
    right = r.Project(rows, (*right_items, *shown))
    on = tuple((a.name, b.name) for a, b in zip(left_items, right_items, strict=True))
    joined = r.Join(left, right, on, condition)
    node = outer_join(joined, "left") if optional else joined
    outer.node = narrow(node, (*before.schema, *(Column(i.name, i.type) for i in shown)))


def _always_meets(outer: Relation, rows: Relation, keys: Sequence[Key]) -> bool:
    """Whether a row is there whenever an outer row is: the one of an aggregate without keys, once the clock runs."""
    group = _below_projections(rows)
    if keys or not isinstance(group, r.GroupBy) or group.keys:
        return False
    begins = r.beginning(group)
    return r.never_changes(group) or (begins != "first row" and () in begins and not r.may_precede_clock(outer))


def _below_projections(node: Relation) -> Relation:
    while isinstance(node, r.Project):
        node = node.input
    return node


def _equal_pairs(key: Key, rows: Relation) -> list[tuple[Scalar, Scalar, str]]:
    """(outer, inner, type) of columns that are equal exactly where the key is."""
    mine, theirs, kind = key.outer.value, ColumnRef(key.column), rows.type_of(key.column)
    common = common_type(key.outer.type, kind, key.place)
    left = mine if key.outer.type == common else Cast(mine, common)
    right = theirs if kind == common else Cast(theirs, common)
    if not key.null_safe:
        return [(left, right, common)]
    null = IsNull(left), IsNull(right), "BOOLEAN"
    family = common.partition("(")[0].partition(" ")[0]
    zero = "0" if family in _NUMBERS else _ZEROS.get(family)
    if zero is None or "[" in common:
        left, right, common, zero = Cast(left, "VARCHAR"), Cast(right, "VARCHAR"), "VARCHAR", "''"
    default = Cast(Literal(zero), common)
    mine, others = (template("coalesce({0}, {1})", side, default) for side in (left, right))
    return [null, (mine, others, common)]


def common_type(a: str, b: str, place: exp.Expression) -> str:
    """The type in which values of two types are compared; an error where there is none."""
    if a == b:
        return a
    if "NULL" in (a.strip('"'), b.strip('"')):
        return b if a.strip('"') == "NULL" else a
    try:
        return types_of([f"CASE WHEN TRUE THEN CAST(NULL AS {a}) ELSE CAST(NULL AS {b}) END"], ())[0]
    except PlanProblem:
        raise problem(
            f"a subquery of {b} cannot be compared with {a}", place, code="TM203", hint="cast one of them"
        ) from None
