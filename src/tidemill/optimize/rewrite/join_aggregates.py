"""Groupings over inner joins are recognised, so that their inputs may be aggregated before they meet (paper 000)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidemill.plan import relations as r
from tidemill.plan.aggregates import Aggregate, CountOfSets, one_value
from tidemill.plan.relations import Item, JoinAggregate, Relation, quoted
from tidemill.plan.scalars import columns_of, conjunction, substitute
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
    2. no aggregate is the user's own (it cannot be put together from counts and sums).
    Proof: selection and projection of joined rows commute with the join as long as the columns are there; `late` writes
    the same relation in plain operators.
    """
    if not isinstance(node, r.GroupBy) or any(a.fold is not None for a in node.aggregates):
        return None
    found = _Reading()
    if not found.read(node.input) or len(found.leaves) < 2:
        return None
    return found.aggregate(node)


@dataclass
class _Reading:
    """What stands between a grouping and the inputs of its joins; `columns` are expressions over the inputs."""

    leaves: list[Relation] = field(default_factory=list)
    on: list[tuple[str, str, str]] = field(default_factory=list)  # both sides and their type
    predicates: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)

    def read(self, node: Relation) -> bool:
        """Take in everything down to the inputs; False when it is no aggregation join."""
        if isinstance(node, r.Join):
            return self._join(node)
        if isinstance(node, (r.Project, r.Filter)) and _over_join(node):
            if not self.read(node.input):
                return False
            if isinstance(node, r.Filter):
                self.predicates.append(substitute(node.predicate, self.columns))
            else:
                self.columns |= {i.name: self._over_inputs(i.sql) for i in node.items}
            return True
        self.leaves.append(node)
        self.columns |= {n: quoted(n) for n in node.names}
        return True

    def _join(self, node: r.Join) -> bool:
        if node.keep_left_us is not None or node.keep_right_us is not None:
            return False
        if not (self.read(node.left) and self.read(node.right)):
            return False
        self.on += [(self.columns[a], self.columns[b], node.left.type_of(a)) for a, b in node.on]
        if node.residual:
            self.predicates.append(substitute(node.residual, self.columns))
        return True

    def _over_inputs(self, sql: str) -> str:
        whole = next((c for c in columns_of(sql) if sql == quoted(c)), None)
        return substitute(sql, self.columns) if whole is None else self.columns[whole]

    def aggregate(self, node: r.GroupBy) -> JoinAggregate | None:
        """The node, over inputs that hold just what it reads."""
        owners = {n: i for i, leaf in enumerate(self.leaves) for n in leaf.names}
        if len(owners) != sum(len(leaf.names) for leaf in self.leaves):
            return None
        computed: list[dict[str, Item]] = [{} for _ in self.leaves]
        named = dict.fromkeys(a.argument for a in node.aggregates if a.argument is not None)
        keys, arguments = (
            tuple(self._placed(Item(n, self._over_inputs(quoted(n)), node.input.type_of(n)), owners, computed)
                  for n in names)
            for names in (node.keys, named)
        )
        # An argument that is a column bears its name: then its parts are called the same wherever they are made.
        plain = {i.name: _name(i.sql) for i in arguments if i.sql == quoted(_name(i.sql))}
        arguments = tuple({a.name: a for a in (
            replace(i, name=plain.get(i.name, i.name)) for i in arguments)}.values())
        aggregates = tuple(replace(a, argument=plain.get(str(a.argument), a.argument)) for a in node.aggregates)
        on, predicates = self._equalities(owners, computed)
        residual = conjunction(*predicates)
        read = {c for pair in on for c in pair} | columns_of(residual or "")
        read |= {c for item in keys for c in columns_of(item.sql)}
        aggregates, arguments = self._extremes(aggregates, arguments, read, owners, computed)
        read |= {c for item in arguments for c in columns_of(item.sql)}
        inputs = tuple(_narrowed(leaf, read, [x for x in computed[i].values() if x.name in read])
                       for i, leaf in enumerate(self.leaves))
        return JoinAggregate(inputs, on, residual, keys, arguments, aggregates)

    def _extremes(self, aggregates: tuple[Aggregate, ...], arguments: tuple[Item, ...], read: set[str],
                  owners: dict[str, int], computed: list[dict[str, Item]],
                  ) -> tuple[tuple[Aggregate, ...], tuple[Item, ...]]:
        """MIN, MAX and COUNT(DISTINCT) over columns of their own, which no other aggregate reads; columns in `read`
        must stay as they are.
        """
        whole = [r.leaves_whole(leaf) for leaf in self.leaves]
        if all(r.insert_only(leaf) for leaf in self.leaves):
            return aggregates, arguments  # nothing is ever taken back: extremes add up
        items = {item.name: item for item in arguments}
        places = owners | {name: i for i, found in enumerate(computed) for name in found}
        made, kept = [], dict[str, Item]()
        for a in aggregates:
            item = items.get(str(a.argument))
            column = _name(item.sql) if item else ""
            if item and (a.distinct or a.function in ("min", "max")) and item.sql == quoted(column) \
                    and column not in read and whole[places[column]]:
                a, item = _over_own_column(a, column, item.type, computed[places[column]])
            made.append(a)
            if item:
                kept[item.name] = item
        return tuple(made), tuple(kept.values())

    def _equalities(self, owners: dict[str, int],
                    computed: list[dict[str, Item]]) -> tuple[tuple[tuple[str, str], ...], list[str]]:
        """Equal columns of two inputs, and all other predicates: a side that reads several inputs is one of those."""
        on, predicates = [], list(self.predicates)
        for i, (a, b, kind) in enumerate(self.on):
            sides = [self._placed(Item(f"__on{i}{x}", sql, kind), owners, computed).sql for x, sql in enumerate((a, b))]
            names = [_name(sql) for sql in sides if sql == quoted(_name(sql))]
            if len(names) == 2:
                on.append((names[0], names[1]))
            else:
                predicates.append(f"{sides[0]} = {sides[1]}")
        return tuple(on), predicates

    def _placed(self, item: Item, owners: dict[str, int], computed: list[dict[str, Item]]) -> Item:
        """An expression over one input becomes a column of it."""
        reads = columns_of(item.sql)
        whole = any(item.sql == quoted(c) for c in reads)
        if whole or len({owners[c] for c in reads}) != 1:
            return item
        owner = owners[next(iter(reads))]
        name = f"__{item.name}.{owner}"
        computed[owner][name] = Item(name, item.sql, item.type)
        return Item(item.name, quoted(name), item.type)


def _over_own_column(aggregate: Aggregate, column: str, kind: str,
                     computed: dict[str, Item]) -> tuple[Aggregate, Item]:
    """The aggregate and its argument; the column is one more of those `computed` of its input."""
    sql = computed[column].sql if column in computed else quoted(column)
    if not aggregate.distinct:
        name = f"__{aggregate.function}.{column}"
        computed[name] = Item(name, sql, kind)
        return replace(aggregate, argument=name), Item(name, quoted(name), kind)
    name, kind = f"__set.{column}", f"{kind}[]"
    computed[name] = Item(name, one_value(sql), kind)
    return CountOfSets(aggregate.function, name, kind, aggregate.name, aggregate.type, True), \
        Item(name, quoted(name), kind)


def _over_join(node: Relation) -> bool:
    """Whether only selections and projections stand between the node and a join."""
    while isinstance(node, (r.Project, r.Filter)):
        node = node.input
    return isinstance(node, r.Join)


def _name(sql: str) -> str:
    return next(iter(columns_of(sql)), "")


def _narrowed(leaf: Relation, read: set[str], computed: list[Item]) -> Relation:
    """The columns that are read, and what is computed from others."""
    kept: list[Column] = [c for c in leaf.schema if c.name in read]
    if not computed and len(kept) == len(leaf.schema):
        return leaf
    return r.Project(leaf, (*(Item(c.name, quoted(c.name), c.type) for c in kept), *computed))
