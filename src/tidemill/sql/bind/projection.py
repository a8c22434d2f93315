"""The items of SELECT: what they are called, what `*` stands for, which key is left."""

from __future__ import annotations

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import ColumnRef
from tidemill.sql.bind.scalar import Scalars, cast_null_column
from tidemill.sql.bind.scope import Scope, column_name, problem
from tidemill.sql.bind.stars import star_items


def bind_projection(select: exp.Select, scope: Scope) -> tuple[Relation, tuple[str, ...] | None]:
    """The items of SELECT without GROUP BY, and the key of the result."""
    scalars = Scalars(scope)
    items: list[Item] = []
    for expression in select.expressions:
        items += star_items(expression, scope) or [_bind_item(expression, scalars, len(items))]
    items = make_unique(items, select)
    return r.Project(scope.node, tuple(items)), find_surviving_keys(scope, items)


def _bind_item(expression: exp.Expression, scalars: Scalars, index: int) -> Item:
    inner = expression.this if isinstance(expression, exp.Alias) else expression
    bound = cast_null_column(scalars.bind(inner))
    name = expression.alias if isinstance(expression, exp.Alias) else default_name(inner, index, scalars.scope)
    return Item(name, bound.value, bound.type)


def default_name(node: exp.Expression, index: int, scope: Scope) -> str:
    """What an item of SELECT without AS is called."""
    if isinstance(node, exp.Column):
        return column_name(node, scope)
    if isinstance(node, exp.Func):
        return (node.name if isinstance(node, exp.Anonymous) else node.key).lower()
    return f"col{index}"


def make_unique(items: list[Item], select: exp.Select) -> list[Item]:
    """Every column name once: a repeated one gets a number."""
    seen: dict[str, int] = {}
    result = []
    for item in items:
        if item.name.startswith("__"):
            raise problem(f'column name "{item.name}" is reserved', select, hint="give it another name with AS")
        key = item.name.lower()
        count = seen.get(key, 0)
        seen[key] = count + 1
        result.append(item if count == 0 else Item(f"{item.name}_{count}", item.value, item.type))
    return result


def find_surviving_keys(scope: Scope, items: list[Item]) -> tuple[str, ...] | None:
    """The key of the result: all keys of all inputs, if every one is among its columns or equal to one that is."""
    names: dict[str, str] = {}  # of columns that are shown
    for item in items:
        if isinstance(item.value, ColumnRef):
            names.setdefault(item.value.name, item.name)
    for column, other in scope.same * len(scope.inputs):
        if other in names:
            names.setdefault(column, names[other])
    result: list[str] = []
    for source in scope.inputs:
        if source.keys is None:
            return None
        for key in source.keys:
            if key not in names:
                return None
            result.append(names[key])
    return tuple(dict.fromkeys(result))
