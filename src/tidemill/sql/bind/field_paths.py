"""Names with dots that are fields of structs: payload.user.id, or s.payload.user.id where s is an input."""

from __future__ import annotations

from sqlglot import exp

from tidemill.sql.bind.scope import Input
from tidemill.sql.dialect.nodes import all_nodes


def resolve_field_paths(select: exp.Select, inputs: list[Input]) -> None:
    """Put struct_extract(column, 'field') in the place of such names; an item of SELECT keeps the name of its field.

    Names of inputs come before names of columns, as everywhere in SQL.
    """
    structs = any(f.type.startswith("STRUCT(") for i in inputs for f in i.fields)
    if not structs:
        return
    for node in [n for n in all_nodes(select) if isinstance(n, exp.Column) and n.table]:
        found = _extract(node, inputs, own=node.find_ancestor(exp.Select) is select)
        if found is not None:
            is_item = node.parent is select and node.arg_key == "expressions"
            node.replace(exp.alias_(found, node.name, quoted=True) if is_item else found)


def _extract(node: exp.Column, inputs: list[Input], own: bool) -> exp.Expression | None:
    parts = node.parts
    names = [part.name for part in parts]
    named = next((i for i in inputs if i.alias.lower() == names[0].lower()), None)
    if named is not None:
        owners, first = [named], 1
    else:
        owners, first = (inputs if own else []), 0
    if len(names) < first + 2:
        return None
    fields = [f for i in owners if (f := i.field(names[first])) is not None]
    if len(fields) != 1 or not fields[0].type.startswith("STRUCT("):
        return None
    table = parts[0].copy() if first else None
    found: exp.Expression = exp.Column(this=parts[first].copy(), **({"table": table} if table is not None else {}))
    found.this.meta.update(parts[first].meta)
    for name in names[first + 1 :]:
        found = exp.Anonymous(this="struct_extract", expressions=[found, exp.Literal.string(name)])
    return found
