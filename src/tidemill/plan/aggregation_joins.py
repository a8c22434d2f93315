"""Aggregation joins (paper 000): what each input keeps of its rows, late and early, and what the joined rows become.

An input that is aggregated *late* keeps its rows as they are: a multiset, its window. An input that is aggregated
*early* keeps an aggregation set (Definition 3): rows that agree on the join attributes, the grouping attributes and
whatever else is needed value by value are one row with a count, and with the parts of the aggregates whose arguments
belong to it (Rule 1). In a joined row counts multiply, and a part is multiplied by the counts of all other inputs: the
coalescing property (Definition 5). A late row is a set of one row, so one operator joins both forms.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce

from tidemill.plan import relations as r
from tidemill.plan.aggregates import Aggregate, Part, parts
from tidemill.plan.relations import JoinAggregate, Relation
from tidemill.plan.scalars import ColumnRef
from tidemill.plan.sources import Schema


@dataclass(frozen=True)
class Side:
    """What one input keeps: `keys` in both forms; late also the `folded` arguments, early their parts instead.

    `extremes` are keys that only MIN or only MAX reads (column → function), of an input whose rows leave as a whole: an
    early input may keep one extreme for all rows that enter and leave together, instead of each value. Arguments of
    COUNT(DISTINCT) are among them as `"set"`: one list of values for all rows that enter and leave together.
    """

    keys: Schema
    folded: Schema
    aggregates: tuple[Aggregate, ...]
    append_only: bool
    extremes: dict[str, str] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, Part]:
        """The columns that an early input keeps in place of the folded arguments."""
        return {p.name: p for a in self.aggregates for p in parts(a, self.append_only)}


@dataclass(frozen=True)
class JoinAnalysis:
    """The inputs of an aggregation join and how their columns are related."""

    sides: tuple[Side, ...]
    classes: tuple[frozenset[str], ...]  # columns that are equal in every joined row
    append_only: bool

    def owner(self, column: str) -> int:
        """The input that a column belongs to."""
        return next(i for i, s in enumerate(self.sides) if column in {c.name for c in (*s.keys, *s.folded)})

    def equal_columns(self, i: int, j: int) -> tuple[tuple[str, str], ...]:
        """Pairs of equal columns of two inputs."""
        mine, other = ({c.name for c in self.sides[k].keys} for k in (i, j))
        return tuple((min(c & mine), min(c & other)) for c in self.classes if c & mine and c & other)

    @property
    def graph(self) -> frozenset[tuple[int, int]]:
        """The join graph: pairs (i, j), i < j, of inputs with equal columns."""
        m = len(self.sides)
        return frozenset((i, j) for i in range(m) for j in range(i + 1, m) if self.equal_columns(i, j))


def expand_join_aggregate(node: JoinAggregate) -> Relation:
    """The same relation in plain operators, joined first and aggregated last: the LAP of the paper.

    JoinAggregate[p; k, a; f(a)]   =   GroupBy[k; f(a)]
      R1, …, Rm                          Project[k, a]
                                           Filter[p]
                                             R1 ⋈ … ⋈ Rm
    """
    pairs = list(node.on)

    def join(left: Relation, right: Relation) -> Relation:
        mine, other = set(left.names), set(right.names)
        here = [(a, b) if a in mine else (b, a) for a, b in pairs if {a, b} <= mine | other and {a, b} & other]
        return r.Join(left, right, tuple(p for p in here if p[0] in mine and p[1] in other))

    rows = reduce(join, node.inputs)
    rows = rows if node.residual is None else r.Filter(rows, node.residual)
    items = {i.name: i for i in (*node.keys, *node.arguments)}
    return r.GroupBy(r.Project(rows, tuple(items.values())), tuple(k.name for k in node.keys), node.aggregates)


def analyze_join(node: JoinAggregate) -> JoinAnalysis:
    """What every input keeps, and how the columns of the inputs are related.

    An argument is folded when it is a plain column of one input, needed for nothing but aggregates that add up: not
    for the join, a predicate, a key, nor for an aggregate that must see the values themselves (`keeps_values`).
    """
    append_only = all(r.append_only(i) for i in node.inputs)
    plain = {a.name for a in node.arguments if a.value == ColumnRef(a.name)}
    needed = {c for pair in node.on for c in pair} | (node.residual.columns if node.residual else set())
    needed |= {
        c for item in (*node.keys, *(a for a in node.arguments if a.name not in plain)) for c in item.value.columns
    }
    valued = {str(a.argument) for a in node.aggregates if a.keeps_values(append_only)}
    extremes = _extremes(node, append_only, plain - needed)
    needed |= valued
    folded = plain - needed
    sides = []
    for relation in node.inputs:
        mine = folded.intersection(relation.names)
        sides.append(
            Side(
                tuple(c for c in relation.schema if c.name in needed),
                tuple(c for c in relation.schema if c.name in mine),
                tuple(a for a in node.aggregates if a.argument in mine),
                append_only,
                {c: how for c, how in extremes.items() if c in relation.names and r.leaves_whole(relation)},
            )
        )
    return JoinAnalysis(tuple(sides), classes(node.on), append_only)


def _extremes(node: JoinAggregate, append_only: bool, free: set[str]) -> dict[str, str]:
    """Those of the `free` columns (no other aggregate needs their values) that only MIN or only MAX reads."""
    read: dict[str, set[str]] = {}
    for a in node.aggregates:
        if a.argument in free:
            extreme = a.is_extreme(append_only) and not a.distinct
            read.setdefault(str(a.argument), set()).add("set" if a.sets else a.function if extreme else "")
    return {column: min(how) for column, how in read.items() if how in ({"min"}, {"max"}, {"set"})}


def classes(on: tuple[tuple[str, str], ...]) -> tuple[frozenset[str], ...]:
    """Columns that equalities make equal, directly or through others.

    >>> [sorted(c) for c in classes((("a", "b"), ("c", "d"), ("b", "e")))]
    [['a', 'b', 'e'], ['c', 'd']]
    """
    found: list[set[str]] = []
    for pair in on:
        touched = [c for c in found if c & set(pair)]
        merged = set(pair).union(*touched)
        found = [c for c in found if c not in touched]
        found.append(merged)
    return tuple(frozenset(c) for c in sorted(found, key=min))


def with_spread_input(node: Relation, label: str) -> Relation | None:
    """The query with the input `label` spread in every aggregation join that has such an input; None if none has."""
    children = [c for c in node.children if isinstance(c, Relation)]
    below = [with_spread_input(c, label) if not isinstance(c, r.View) else None for c in children]
    found = any(b is not None for b in below)
    if found:
        node = r.with_children(node, *(b or c for b, c in zip(below, children, strict=True)))
    if isinstance(node, JoinAggregate):
        named = [i for i, name in enumerate(node.labels) if name.lower() == label.lower()]
        if named:
            return replace(node, spread=named[0])
    return node if found else None


def partition(node: JoinAggregate, found: JoinAnalysis) -> tuple[frozenset[str], ...]:
    """The classes of columns by which the inputs are split over the shards: those that most changing inputs have.

    Inputs without these columns are copied to all shards. The choice depends on the query alone, so that new
    statistics never move state. The result is empty where one shard has all rows, and where one input is spread.
    """

    def having(chosen: list[frozenset[str]]) -> list[int]:
        return [i for i, s in enumerate(found.sides) if all(c & {k.name for k in s.keys} for c in chosen)]

    def weight(chosen: list[frozenset[str]]) -> tuple[int, int]:
        inside = having(chosen)
        return sum(not r.never_changes(node.inputs[i]) for i in inside), len(inside)

    if not found.classes or node.spread is not None:
        return ()
    best = [max(found.classes, key=lambda c: weight([c]))]
    for other in found.classes:
        if other not in best and having([*best, other]) == having(best):
            best.append(other)
    return tuple(best)
