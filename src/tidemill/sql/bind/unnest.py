"""UNNEST: a row for each element of a list.

    FROM s, UNNEST(s.items) AS t(x)      FROM s CROSS JOIN UNNEST(s.items) WITH ORDINALITY AS t(x, n)
    FROM s LEFT JOIN UNNEST(s.items) AS t(x) ON TRUE      SELECT k, unnest(items) AS x FROM s

UNNEST in FROM belongs to the input whose columns its list is made of: the elements become columns of that input, above
its window and its synchronizer, and `t.x` means such a column. Joins see the input with its elements, which is the same
as taking the list apart behind them, as long as the input is on no optional side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.scalars import Scalar
from tidemill.plan.sources import Column
from tidemill.sql.bind.field_paths import resolve_field_paths
from tidemill.sql.bind.scalar import Scalars, check_type, types_of
from tidemill.sql.bind.scope import Field, Input, Scope, problem
from tidemill.sql.bind.subqueries.forms import own_nodes
from tidemill.sql.dialect.nodes import PlanColumn, all_nodes

_HINT = "for example  FROM s, UNNEST(s.items) AS t(x)"


@dataclass(frozen=True)
class _Item:
    """UNNEST in FROM: its list, its name, those of its columns, and the input that it belongs to."""

    list: exp.Expression
    alias: str
    names: tuple[str, ...]
    owner: int
    outer: bool


@dataclass(frozen=True)
class Elements:
    """The elements of a list as columns of input number `owner`."""

    owner: int
    list: Scalar
    fields: tuple[Field, ...]
    outer: bool

    def rows_of(self, node: r.Relation) -> r.Relation:
        """The rows of the input, once for each element."""
        element, *number = self.fields
        return r.Unnest(node, self.list, element.column, element.type, number[0].column if number else None, self.outer)


def take_unnests(
    select: exp.Select, joins: list[exp.Join], inputs: list[Input], forbidden: Callable[[int], str | None], unit_us: int
) -> tuple[list[exp.Join], list[Input], list[Elements]]:
    """The other joins, the inputs with the columns of the elements, and the elements. The tree is changed: conditions
    of ON go to WHERE. `forbidden` says why the list of an input cannot be taken apart.
    """
    if not any(is_unnest(j.this) for j in joins):
        return joins, inputs, []
    items, others = list[_Item](), list[exp.Join]()
    for clause in joins:
        found = clause.this
        if not isinstance(found, exp.Unnest):
            others.append(clause)
            continue
        item = _read(clause, found, inputs[: len(others) + 1], items)
        reason = forbidden(item.owner)
        if reason is not None:
            hint = "take the list apart in a subquery or a view"
            raise problem(f"UNNEST of {reason} is not possible", found, code="TM202", hint=hint)
        clause.pop()
        on = clause.args.get("on")
        if on is not None and not _is_true(on):
            select.where(on, copy=False)
        items.append(item)
    for item in items:
        _rename(select, item, inputs[item.owner].alias, [i.list for i in items])
    elements = list[Elements]()
    for number, item in enumerate(items):
        holder = exp.Select(expressions=[item.list])
        resolve_field_paths(holder, inputs)
        one = _bind(holder.expressions[0].unalias(), item, number, inputs[item.owner], elements, unit_us)
        elements.append(one)
        owner = replace(inputs[item.owner], fields=(*inputs[item.owner].fields, *one.fields), keys=None)
        inputs = [*inputs[: item.owner], owner, *inputs[item.owner + 1 :]]
    return others, inputs, elements


def is_unnest(item: exp.Expression) -> bool:
    """Whether an item of FROM is UNNEST."""
    return isinstance(item, exp.Unnest)


def _is_true(node: exp.Expression) -> bool:
    return isinstance(node, exp.Boolean) and bool(node.this)


def _read(clause: exp.Join, node: exp.Unnest, inputs: list[Input], before: list[_Item]) -> _Item:
    """What an item says; refuses what it cannot be."""
    side, on = (clause.side or "").upper(), clause.args.get("on")
    outer = side == "LEFT"
    odd = clause.args.get("using") or clause.args.get("method") or (clause.kind or "").upper() in ("SEMI", "ANTI")
    if odd or side not in ("", "LEFT") or (outer and not (on is not None and _is_true(on))):
        hint = "use  CROSS JOIN UNNEST(…)  or  LEFT JOIN UNNEST(…) ON TRUE"
        raise problem("this join with UNNEST is not possible", node, code="TM202", hint=hint)
    if len(node.expressions) != 1:
        raise problem("UNNEST takes one list", node, code="TM202", hint=_HINT)
    alias = clause.this.args.get("alias")
    names = [c.name for c in alias.columns] if alias is not None else []
    called = alias.name if alias is not None and alias.this else "unnest"
    names = names or [called]
    number = node.args.get("offset")
    if number:
        names.append(number.name if isinstance(number, exp.Identifier) else "ordinality")
    if len(names) != 1 + bool(number):
        hint = "elements are one column; WITH ORDINALITY adds their numbers"
        raise problem(f'"{called}" has {1 + bool(number)} columns', node, code="TM202", hint=hint)
    if called.lower() in {*(i.alias.lower() for i in inputs), *(b.alias.lower() for b in before)}:
        raise problem(f'two inputs are named "{called}"', node, hint="give one of them another alias")
    return _Item(node.expressions[0], called, tuple(names), _owner(node, inputs, before), outer)


def _owner(node: exp.Unnest, inputs: list[Input], before: list[_Item]) -> int:
    """The input whose columns the list is made of; the last one where it is made of none."""
    owners = {o for c in node.expressions[0].find_all(exp.Column) for o in _owners_of(c, inputs, before)}
    if len(owners) > 1:
        hint = "make the list in a subquery, and take it apart outside"
        raise problem("UNNEST reads columns of several inputs", node, code="TM202", hint=hint)
    return owners.pop() if owners else len(inputs) - 1


def _owners_of(column: exp.Column, inputs: list[Input], before: list[_Item]) -> Iterator[int]:
    first = column.parts[0].name.lower()
    if len(column.parts) > 1:
        named = [i for i, x in enumerate(inputs) if x.alias.lower() == first]
        named += [x.owner for x in before if x.alias.lower() == first]
        if named:
            yield from named
            return
    yield from (i for i, x in enumerate(inputs) if x.field(first) is not None or (first == "ts" and x.ts))
    yield from (x.owner for x in before if first in map(str.lower, x.names))


def _rename(select: exp.Select, item: _Item, owner: str, others: list[exp.Expression]) -> None:
    """Let names of the item mean columns of its owner: t.x and t.* with t the item."""
    called, columns = item.alias.lower(), {n.lower() for n in item.names}
    for root in (select, *others):
        for node in [n for n in all_nodes(root) if isinstance(n, exp.Column) and n.table]:
            first, second = node.parts[0], node.parts[1]
            if first.name.lower() != called or _is_hidden(node, select, called):
                continue
            if isinstance(node.this, exp.Star) and node.parent is select:
                others_of = [e for e in select.expressions if e is not node]
                place = select.expressions.index(node)
                shown = [exp.column(n, table=owner) for n in item.names]
                select.set("expressions", [*others_of[:place], *shown, *others_of[place:]])
            elif second.name.lower() in columns:
                first.replace(exp.to_identifier(owner, quoted=True))
            elif second.name.lower() == "unnest" and len(node.parts) == 2:
                node.replace(exp.column(exp.to_identifier(item.names[0], quoted=True), table=owner))
            elif called not in columns:
                hint = f"it has {', '.join(item.names)}"
                raise problem(f'there is no column "{second.name}" in "{item.alias}"', node, hint=hint)


def _is_hidden(node: exp.Column, select: exp.Select, alias: str) -> bool:
    """Whether a subquery between a name and the item has an input of the same name."""
    inner = node.find_ancestor(exp.Select)
    while inner is not None and inner is not select:
        clause = inner.args.get("from_")
        listed = [clause.this] if clause is not None else []
        listed += [j.this for j in inner.args.get("joins") or ()]
        if any(i.alias_or_name.lower() == alias for i in listed):
            return True
        inner = inner.find_ancestor(exp.Select)
    return False


def _bind(
    node: exp.Expression, item: _Item, number: int, owner: Input, known: list[Elements], unit_us: int
) -> Elements:
    """The list over the columns of its input, and the columns of its elements."""
    for name in item.names:
        if owner.field(name) is not None:
            hint = f"give it another name, for example  UNNEST(…) AS {item.alias}(element)"
            raise problem(f'"{owner.alias}" has a column "{name}" already', node, hint=hint)
    own = [f for e in known if e.owner == item.owner for f in e.fields]
    schema = (*owner.node.schema, *(Column(f.column, f.type) for f in own))
    value, kind = _list(Scalars(Scope([owner], owner.node, unit_us), schema), node)
    types = (kind, "BIGINT")
    columns = (f"__element{number}", f"__number{number}")
    fields = tuple(Field(*each) for each in zip(item.names, columns, types, strict=False))
    return Elements(item.owner, value, fields, item.outer)


def _list(scalars: Scalars, node: exp.Expression) -> tuple[Scalar, str]:
    """A bound list and the type of its elements."""
    bound = scalars.bind(node)
    if not bound.type.endswith("]"):
        hint = "entries of a MAP are map_entries(m); JSON is read by CAST(… AS VARCHAR[]) or from_json"
        raise problem(f"UNNEST needs a list, this is {bound.type}", node, code="TM203", hint=hint)
    kind = types_of([f"unnest({bound.sql})"], scalars.schema)[0]
    check_type(kind, node)
    return bound.value, kind


def apply_unnests(inputs: list[Input], elements: list[Elements]) -> list[Input]:
    """The inputs with a row for each element."""
    for one in elements:
        owner = inputs[one.owner]
        owner = replace(owner, node=one.rows_of(owner.node), keys=None)
        inputs = [*inputs[: one.owner], owner, *inputs[one.owner + 1 :]]
    return inputs


# ---- in SELECT -------------------------------------------------------------------------------------


def unnest_items(select: exp.Select, scope: Scope) -> None:
    """Take the list of `unnest(list)` in SELECT apart below the projection. The tree and the scope are changed."""
    calls = [n for n in own_nodes(*select.expressions) if isinstance(n, exp.Explode)]
    if not calls:
        return
    if len(calls) > 1 or calls[0].args.get("expressions"):
        hint = "take lists apart one after the other, in FROM:  FROM s, UNNEST(s.a) AS t(x), UNNEST(s.b) AS u(y)"
        raise problem("one unnest(list) is possible in SELECT", calls[-1], code="TM202", hint=hint)
    value, kind = _list(Scalars(scope), calls[0].this)
    column = f"__element{next(scope.numbers)}"
    scope.node = r.Unnest(scope.node, value, column, kind)
    scope.inputs = [replace(i, keys=None) for i in scope.inputs]
    shown = PlanColumn(this=column)
    if calls[0].parent is select:
        calls[0].replace(exp.alias_(shown, "unnest"))
    else:
        calls[0].replace(shown)


def refuse_grouped_unnest(select: exp.Select) -> None:
    """unnest(list) in SELECT stands above a grouping in SQL, where nothing says which rows it makes."""
    for call in own_nodes(*select.expressions):
        if isinstance(call, exp.Explode):
            hint = "take the list apart in FROM:  FROM s, UNNEST(s.items) AS t(x)"
            raise problem("unnest(list) is not possible in a query that groups", call, code="TM202", hint=hint)
