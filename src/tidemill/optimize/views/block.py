"""Select-project-join blocks: which relations a tree joins, which rows it keeps, what its columns are.

This is the form in which Goldstein and Larson (2001) compare views: the leaves of the block, conditions that must all
hold, and columns, all as expressions over the columns of the leaves. Trees that differ in the order of joins, filters
and projections, or in the names of aliases, have equal blocks. A grouping on top is described beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, permutations, product

from tidemill.optimize.views.canonical import Given, canonical, conjuncts, subexpressions
from tidemill.optimize.views.total import is_total, is_total_condition
from tidemill.plan import relations as r
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import ColumnRef, Operation, Scalar

# Types whose equal values are the same.
_STRICT = ("TINY", "SMALL", "INTEGER", "BIG", "HUGE", "U", "DECIMAL", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "BLOB")
MOST_ORDERS = 24  # ways to pair equal leaves that are tried: four inputs that are the same stream


@dataclass(frozen=True)
class WindowBounds:
    """A row is inside from `lower` (inclusive) until `upper` (exclusive), in microseconds; None is no bound."""

    lower: Scalar | None
    upper: Scalar | None

    def substitute(self, columns: Mapping[str, Scalar]) -> WindowBounds:
        """The same bounds over other columns."""
        return WindowBounds(
            None if self.lower is None else self.lower.substitute(columns),
            None if self.upper is None else self.upper.substitute(columns),
        )


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of the product of `leaves` that satisfy `conditions` and are inside all `windows`, with these `columns`."""

    leaves: tuple[Relation, ...]
    conditions: tuple[Scalar, ...]
    columns: Mapping[str, Scalar]
    windows: tuple[WindowBounds, ...] = ()

    @cached_property
    def types(self) -> dict[str, str]:
        """The types of the columns of leaves, by canonical text."""
        return {canonical(leaf_column(i, c.name)): c.type for i, leaf in enumerate(self.leaves) for c in leaf.schema}

    @cached_property
    def evaluated(self) -> frozenset[str]:
        """The canonical texts of all expressions that are evaluated, and of what they are made of."""
        values = (*self.conditions, *self.columns.values())
        return frozenset(canonical(part) for value in values for part in subexpressions(value))

    @cached_property
    def partial(self) -> tuple[Scalar, ...]:
        """The expressions that may fail."""
        failing = [value for value in self.conditions if not is_total_condition(value, self.types)]
        return (*failing, *(value for value in self.columns.values() if not is_total(value, self.types)))

    @cached_property
    def given(self) -> Given:
        """What the columns hold, for a view that is compared with a thousand queries."""
        return self.given_by(self.columns)

    def given_by(self, columns: Mapping[str, Scalar]) -> Given:
        """What some columns hold; where a condition says that two columns are equal, either stands for the other."""
        given = Given.of(columns)
        for condition in self.conditions:
            if isinstance(condition, Operation) and condition.sign == "=":
                pair = [canonical(condition.left), canonical(condition.right)]
                kinds = {self.types.get(side) for side in pair}
                if len(kinds) == 1 and not any(kind is None or is_loose(kind) for kind in kinds):
                    for one, other in (pair, pair[::-1]):
                        if other in given.names:
                            given.names.setdefault(one, given.names[other])
        return given

    def renumber(self, numbers: tuple[int, ...]) -> Block:
        """The same block with leaf i under the number numbers[i]; the leaves are in the order of their numbers."""
        if numbers == tuple(range(len(self.leaves))):
            return self
        names = {
            leaf_column(i, c.name).name: leaf_column(numbers[i], c.name)
            for i, leaf in enumerate(self.leaves)
            for c in leaf.schema
        }
        return Block(
            tuple(leaf for _, leaf in sorted(zip(numbers, self.leaves, strict=True), key=lambda pair: pair[0])),
            tuple(c.substitute(names) for c in self.conditions),
            {name: value.substitute(names) for name, value in self.columns.items()},
            tuple(w.substitute(names) for w in self.windows),
        )


@dataclass(frozen=True)
class GroupedBlock:
    """A grouping over a block. `columns` are what a view shows of it, over the columns of the grouping."""

    block: Block
    grouping: r.GroupBy
    columns: Mapping[str, Scalar]

    @property
    def keys(self) -> dict[str, Scalar]:
        """What rows are grouped by: columns of the grouping, as expressions over the leaves."""
        return {name: self.block.columns[name] for name in self.grouping.keys}


def is_loose(type_name: str) -> bool:
    """True for types with values that are equal and not the same: 0.0 and -0.0, a month and 30 days."""
    return not type_name.startswith(_STRICT)


def leaf_column(leaf: int, name: str) -> ColumnRef:
    """A column of a leaf as expressions of a block name it."""
    return ColumnRef(f"{leaf}.{name}")


def block_of(node: Relation) -> Block:
    """The block of a tree; what is no selection, projection or inner join is a leaf."""
    if isinstance(node, r.Filter):
        below = block_of(node.input)
        more = tuple(conjuncts(node.predicate.substitute(below.columns)))
        return replace(below, conditions=(*below.conditions, *more))
    if isinstance(node, r.Project):
        below = block_of(node.input)
        return replace(below, columns={i.name: i.value.over(below.columns) for i in node.items})
    if isinstance(node, r.Temporal) and node.period is None:
        below = block_of(node.input)
        if node.lower is None and node.upper is None:
            return below  # [WINDOW UNTIL NOW]
        window = WindowBounds(node.lower, node.upper).substitute(below.columns)
        return replace(below, windows=(*below.windows, window))
    if isinstance(node, r.Join):
        return _join_blocks(node)
    return Block((node,), (), {name: leaf_column(0, name) for name in node.names})


def _join_blocks(node: r.Join) -> Block:
    left, right = block_of(node.left), block_of(node.right)
    shift = len(left.leaves)
    right = right.renumber(tuple(range(shift, shift + len(right.leaves))))
    columns = {**left.columns, **right.columns}
    equal = [Operation("=", columns[a], columns[b]) for a, b in node.on]
    rest = [] if node.residual is None else list(conjuncts(node.residual.substitute(columns)))
    return Block(
        (*left.leaves, *right.leaves),
        (*left.conditions, *right.conditions, *equal, *rest),
        columns,
        (*left.windows, *right.windows),
    )


def grouped_block_of(node: Relation) -> GroupedBlock | None:
    """The grouping under projections, as a view shows it; None for other trees, and where groups are filtered."""
    columns: dict[str, Scalar] = {name: ColumnRef(name) for name in node.names}
    while isinstance(node, r.Project):
        inner = {i.name: i.value for i in node.items}
        columns = {name: value.over(inner) for name, value in columns.items()}
        node = node.input
    if not isinstance(node, r.GroupBy) or not node.keys:
        return None
    return GroupedBlock(block_of(node.input), node, columns)


def pair_leaves(query: Block, view: Block) -> Iterator[Block]:
    """The block of a view with the leaf numbers of the query: one for each way to pair equal leaves."""
    if len(query.leaves) == 1:
        if query.leaves == view.leaves:
            yield view
        return
    places: dict[Relation, list[int]] = {}
    for i, leaf in enumerate(query.leaves):
        places.setdefault(leaf, []).append(i)
    own: dict[Relation, list[int]] = {}
    for i, leaf in enumerate(view.leaves):
        own.setdefault(leaf, []).append(i)
    if {leaf: len(found) for leaf, found in places.items()} != {leaf: len(found) for leaf, found in own.items()}:
        return
    ways = product(*(permutations(places[leaf]) for leaf in own))
    for way in islice(ways, MOST_ORDERS):
        numbers = dict(
            zip((i for found in own.values() for i in found), (p for order in way for p in order), strict=True)
        )
        yield view.renumber(tuple(numbers[i] for i in range(len(view.leaves))))
