"""WITH RECURSIVE t AS (first UNION [ALL] next): the next rows are a selection from joins of t with other relations.

The tree of `next` is written as SQL over t and over its largest parts that do not read t, which are maintained as any
other relation:

    Project[l + 1]                                SELECT l + 1 FROM (SELECT * FROM
      Join[boss = id]       →    step               __input1 JOIN __previous ON boss = id)
        GroupBy[…] of emp        __input1           GroupBy[…] of emp
        t                        __previous
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from tidemill.errors import PlanProblem
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.relations import Item, Relation
from tidemill.plan.scalars import ColumnRef, quoted
from tidemill.sql.bind.bound import BoundQuery
from tidemill.sql.bind.joins import merge_rhythms
from tidemill.sql.bind.scope import merge_domains, problem
from tidemill.sql.bind.set_operations import align
from tidemill.sql.dialect.nodes import all_nodes

Query = Callable[[exp.Expression], BoundQuery]


def is_recursive(table: exp.Expression) -> bool:
    """Whether what WITH names reads itself."""
    name = table.alias.lower()
    return any(isinstance(n, exp.Table) and n.name.lower() == name and not n.args.get("db") for n in all_nodes(table))


def bind_recursion(
    table: exp.Expression, query: Query, rename: Callable[[BoundQuery], BoundQuery], local: dict[str, BoundQuery]
) -> BoundQuery:
    """The fixpoint that `WITH RECURSIVE table` names; `local` are the names of the WITH clause so far."""
    union, name = table.this, table.alias.lower()
    if not isinstance(union, exp.Union) or any(union.args.get(c) for c in ("order", "limit", "offset", "by_name")):
        raise _refusal(table, f'"{table.alias}" is not  first rows UNION [ALL] next rows')
    if any(isinstance(n, exp.Table) and n.name.lower() == name for n in all_nodes(union.this)):
        raise _refusal(table, f'the first rows of "{table.alias}" read it')
    first = rename(query(union.this))
    previous = r.Previous(name, first.schema)
    local[name] = BoundQuery(previous, None, first.domain, first.rhythm, first.needs)
    try:
        found = query(union.expression)
    finally:
        del local[name]
    step = _Step(previous, table)
    text = step.select(_with_types(first, found, union))
    node = r.Recursive((first.node, *step.inputs), text, union.args.get("distinct") is not False)
    rhythm = merge_rhythms([first.as_input("first"), found.as_input("next")])
    return BoundQuery(node, None, merge_domains([first.domain, found.domain]), rhythm, first.needs | found.needs)


def _with_types(first: BoundQuery, found: BoundQuery, union: exp.Union) -> Relation:
    """The next rows with the names and types of the first ones."""
    aligned = align(first, found, union)[1]
    items = []
    for wanted, own in zip(first.schema, aligned.schema, strict=True):
        if wanted.type != own.type:
            raise problem(
                f'column "{wanted.name}" of the first rows is {wanted.type}, that of the next ones {own.type}',
                union,
                code="TM203",
                hint=f"CAST it to {own.type} in the first rows",
            )
        items.append(Item(wanted.name, ColumnRef(own.name), own.type))
    return r.Project(aligned, tuple(items))


class _Step:
    """Writes the tree of the next rows as SQL; `inputs` are the relations that it reads besides."""

    def __init__(self, previous: Relation, place: exp.Expression) -> None:
        self.previous, self.place = previous, place
        self.inputs: list[Relation] = []
        self.read: set[str] = set()

    def select(self, node: Relation) -> str:
        """SQL of a relation of rows."""
        if node is self.previous:
            return f"SELECT * FROM {r.PREVIOUS}"
        if not any(n is self.previous for n in walk(node)):
            return f"SELECT * FROM {self._input(node)}"
        if isinstance(node, r.Project):
            items = ", ".join(f"{i.sql} AS {quoted(i.name)}" for i in node.items)
            self.read |= {c for i in node.items for c in i.value.columns}
            return f"SELECT {items} FROM ({self.select(node.input)})"
        if isinstance(node, r.Filter):
            self.read |= node.predicate.columns
            return f"SELECT * FROM ({self.select(node.input)}) WHERE {node.predicate.sql}"
        if isinstance(node, r.Join) and node.keep_left_us is None and node.keep_right_us is None:
            return self._join(node)
        raise _refusal(self.place, "the next rows are more than a selection from joins of the rows before")

    def _join(self, node: r.Join) -> str:
        on = [f"{quoted(a)} = {quoted(b)}" for a, b in node.on]
        on += [f"({node.residual.sql})"] if node.residual is not None else []
        self.read |= {c for pair in node.on for c in pair} | (node.residual.columns if node.residual else set())
        left, right = (f"({self.select(side)})" for side in (node.left, node.right))
        return f"SELECT * FROM {left} JOIN {right} ON {' AND '.join(on) or 'TRUE'}"

    def _input(self, node: Relation) -> str:
        """A relation that is maintained by itself, with the columns that are read here."""
        kept = [c for c in node.schema if c.name in self.read] or list(node.schema[:1])
        narrow = node if len(kept) == len(node.schema) else r.Project(node, tuple(map(Item.of, kept)))
        if narrow not in self.inputs:
            self.inputs.append(narrow)
        return r.input_name(self.inputs.index(narrow) + 1)


def _refusal(table: exp.Expression, message: str) -> PlanProblem:
    hint = "WITH RECURSIVE t AS (SELECT … FROM s UNION SELECT … FROM s JOIN t ON … WHERE …), with inner joins"
    return problem(message, table, code="TM202", hint=hint)
