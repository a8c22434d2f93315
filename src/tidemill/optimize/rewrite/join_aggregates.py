"""Groupings over inner joins are recognised, so that their inputs may be aggregated before the join (paper 000)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidemill.plan import relations as r
from tidemill.plan.aggregates import Aggregate, CountOfSets, one_value
from tidemill.plan.nested_types import is_nested, is_textual
from tidemill.plan.relations import Item, JoinAggregate, Relation
from tidemill.plan.scalars import ColumnRef, Operation, Scalar, conjunction
from tidemill.plan.sources import Column


def join_aggregates(node: Relation) -> Relation | None:
    """Turn a grouping over joins into one node.

        GroupBy[k; f(a)]                 JoinAggregate[p; k; f(a)]
          Project[k, a]                    Project[j1, k]
            Filter[p]                        R1
              Join[j1 = j2]        →       Project[j2, a]
                R1                           R2
                R2

    Joins may be nested in any way, with Filter and Project between them. An expression over one input is computed
    before the join, others on joined rows. The argument of MIN or MAX gets a column of its own where the rows of its
    input leave as a whole (`leaves_whole`): then an early aggregation need not keep each value. That of COUNT(DISTINCT)
    becomes a list of one value there, so that an early aggregation may keep one list for many rows. Sound when
    1. every join is an inner one and keeps rows as long as they live (a band join forgets them by time);
    2. there is no user or collected aggregate (it cannot be computed from counts and sums);
    3. what MIN and MAX compare is in the order of its Arrow values (STRUCT, lists, ENUM and INTERVAL are not).
    Proof: selection and projection of joined rows commute with the join as long as the columns are there;
    `expand_join_aggregate` writes the same relation in plain operators.
    """
    if not isinstance(node, r.GroupBy) or any(map(_needs_values, node.aggregates)):
        return None
    found = _Reading()
    if not found.read(node.input) or len(found.leaves) < 2:
        return None
    return found.aggregate(node)


def _needs_values(a: Aggregate) -> bool:
    kind = str(a.argument_type)
    ordered = not is_nested(kind) and (not is_textual(kind) or kind == "UUID") and kind != "INTERVAL"
    return a.user_functions is not None or a.collects or (a.function in ("min", "max") and not ordered)


@dataclass
class _Reading:
    """What stands between a grouping and the inputs of its joins; `columns` are expressions over the inputs."""

    leaves: list[Relation] = field(default_factory=list)
    on: list[tuple[Scalar, Scalar, str]] = field(default_factory=list)  # both sides and their type
    predicates: list[Scalar] = field(default_factory=list)
    columns: dict[str, Scalar] = field(default_factory=dict)

    def read(self, node: Relation) -> bool:
        """Read everything down to the inputs; False when it is no aggregation join."""
        if isinstance(node, r.Join):
            return self._join(node)
        if isinstance(node, (r.Project, r.Filter)) and _over_join(node):
            if not self.read(node.input):
                return False
            if isinstance(node, r.Filter):
                self.predicates.append(node.predicate.substitute(self.columns))
            else:
                self.columns |= {i.name: i.value.over(self.columns) for i in node.items}
            return True
        self.leaves.append(node)
        self.columns |= {n: ColumnRef(n) for n in node.names}
        return True

    def _join(self, node: r.Join) -> bool:
        if node.keep_left_us is not None or node.keep_right_us is not None:
            return False
        if not (self.read(node.left) and self.read(node.right)):
            return False
        self.on += [(self.columns[a], self.columns[b], node.left.type_of(a)) for a, b in node.on]
        if node.residual is not None:
            self.predicates.append(node.residual.substitute(self.columns))
        return True

    def aggregate(self, node: r.GroupBy) -> JoinAggregate | None:
        """The node, over inputs that hold just what it reads."""
        owners = {n: i for i, leaf in enumerate(self.leaves) for n in leaf.names}
        if len(owners) != sum(len(leaf.names) for leaf in self.leaves):
            return None
        computed: list[dict[str, Item]] = [{} for _ in self.leaves]
        named = dict.fromkeys(a.argument for a in node.aggregates if a.argument is not None)
        keys, arguments = (
            tuple(self._place(Item(n, self.columns[n], node.input.type_of(n)), owners, computed) for n in names)
            for names in (node.keys, named)
        )
        # An argument that is a column keeps its name, so that its parts have the same names in every input form.
        plain = {i.name: i.value.name for i in arguments if isinstance(i.value, ColumnRef)}
        arguments = tuple({a.name: a for a in (replace(i, name=plain.get(i.name, i.name)) for i in arguments)}.values())
        aggregates = tuple(replace(a, argument=plain.get(str(a.argument), a.argument)) for a in node.aggregates)
        on, predicates = self._equalities(owners, computed)
        residual = conjunction(*predicates)
        read = {c for pair in on for c in pair} | (set() if residual is None else residual.columns)
        read |= {c for item in keys for c in item.value.columns}
        aggregates, arguments = self._extremes(aggregates, arguments, read, owners, computed)
        read |= {c for item in arguments for c in item.value.columns}
        inputs = tuple(
            _narrow(leaf, read, [x for x in computed[i].values() if x.name in read])
            for i, leaf in enumerate(self.leaves)
        )
        return JoinAggregate(inputs, on, residual, keys, arguments, aggregates)

    def _extremes(
        self,
        aggregates: tuple[Aggregate, ...],
        arguments: tuple[Item, ...],
        read: set[str],
        owners: dict[str, int],
        computed: list[dict[str, Item]],
    ) -> tuple[tuple[Aggregate, ...], tuple[Item, ...]]:
        """MIN, MAX and COUNT(DISTINCT) over columns of their own, which no other aggregate reads; columns in `read`
        must stay as they are.
        """
        whole = [r.leaves_whole(leaf) for leaf in self.leaves]
        if all(r.append_only(leaf) for leaf in self.leaves):
            return aggregates, arguments  # append-only: extremes combine like sums
        items = {item.name: item for item in arguments}
        places = owners | {name: i for i, found in enumerate(computed) for name in found}
        made, kept = [], dict[str, Item]()
        for a in aggregates:
            item = items.get(str(a.argument))
            column = item.value.name if item and isinstance(item.value, ColumnRef) else ""
            if (
                item
                and (a.distinct or a.function in ("min", "max"))
                and column
                and column not in read
                and whole[places[column]]
            ):
                a, item = _over_own_column(a, column, item.type, computed[places[column]])
            made.append(a)
            if item:
                kept[item.name] = item
        return tuple(made), tuple(kept.values())

    def _equalities(
        self, owners: dict[str, int], computed: list[dict[str, Item]]
    ) -> tuple[tuple[tuple[str, str], ...], list[Scalar]]:
        """Equal columns of two inputs, and all other predicates: a side that reads several inputs is one of those."""
        on, predicates = [], list(self.predicates)
        for i, (a, b, kind) in enumerate(self.on):
            sides = [self._place(Item(f"__on{i}{x}", v, kind), owners, computed).value for x, v in enumerate((a, b))]
            names = [side.name for side in sides if isinstance(side, ColumnRef)]
            if len(names) == 2:
                on.append((names[0], names[1]))
            else:
                predicates.append(Operation("=", sides[0], sides[1]))
        return tuple(on), predicates

    def _place(self, item: Item, owners: dict[str, int], computed: list[dict[str, Item]]) -> Item:
        """An expression over one input becomes a column of it."""
        reads = item.value.columns
        if isinstance(item.value, ColumnRef) or len({owners[c] for c in reads}) != 1:
            return item
        owner = owners[next(iter(reads))]
        name = f"__{item.name}.{owner}"
        computed[owner][name] = Item(name, item.value, item.type)
        return Item(item.name, ColumnRef(name), item.type)


def _over_own_column(aggregate: Aggregate, column: str, kind: str, computed: dict[str, Item]) -> tuple[Aggregate, Item]:
    """The aggregate and its argument; the column is one more of those `computed` of its input."""
    value = computed[column].value if column in computed else ColumnRef(column)
    if not aggregate.distinct:
        name = f"__{aggregate.function}.{column}"
        computed[name] = Item(name, value, kind)
        return replace(aggregate, argument=name), Item(name, ColumnRef(name), kind)
    name, kind = f"__set.{column}", f"{kind}[]"
    computed[name] = Item(name, one_value(value), kind)
    return CountOfSets(aggregate.function, name, kind, aggregate.name, aggregate.type, True), Item(
        name, ColumnRef(name), kind
    )


def _over_join(node: Relation) -> bool:
    """Whether only selections and projections stand between the node and a join."""
    while isinstance(node, (r.Project, r.Filter)):
        node = node.input
    return isinstance(node, r.Join)


def _narrow(leaf: Relation, read: set[str], computed: list[Item]) -> Relation:
    """The columns that are read, and what is computed from others."""
    kept: list[Column] = [c for c in leaf.schema if c.name in read]
    if not computed and len(kept) == len(leaf.schema):
        return leaf
    return r.Project(leaf, (*map(Item.of, kept), *computed))
