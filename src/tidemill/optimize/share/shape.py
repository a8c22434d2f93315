"""Which relations a source's readers keep, how they feed each other, and how large their tables are.

GTWeave (paper 003) puts the queries into weaved groups; the queries of one group with the same attributes are one
leaf. The phantoms (paper 002) then choose which finer relations feed the leaves, and divide the memory. A relation's
fragments are those of the leaves below it, so coarser ones are put together where a relation feeds a child that needs
fewer edges: that is the intercede aggregation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tidemill.optimize.share.asked import Asked
from tidemill.optimize.share.known import SECOND, Known, known_statistics
from tidemill.optimize.share.phantoms.choose import Chosen
from tidemill.optimize.share.phantoms.configuration import Configuration, Relation
from tidemill.optimize.share.phantoms.cost import Constants
from tidemill.optimize.share.phantoms.method import Method, choose_configuration
from tidemill.optimize.share.phantoms.share_model import ShareModel
from tidemill.optimize.share.sharing_model import Leaves, acq_of
from tidemill.optimize.share.weaving import plans as weaving
from tidemill.optimize.share.weaving.cost import amortised_factor
from tidemill.optimize.share.weaving.edges import Edges, edge_rate, edges_of, union
from tidemill.optimize.share.weaving.gtweave import WovenPlan, gtweave

MANY = 8  # queries of a leaf, on average, from which on cells are made straight from what the raw relation evicts
LEAVES = 64  # beyond, phantoms are chosen by the paper's costs, which take a tenth of the time
RUNNING = 1 << 20  # rows of a share from which on many queries have running totals, and evictions do not matter
Groups = tuple[tuple[str, ...], ...]  # the queries of each weaved group
Weaving = Literal["gtweave", "weave_share", "shared", "unshared"]


@dataclass
class Settings:
    """What the optimizers know, and what a user has switched off or fixed.

    `memory` is M of paper 002, in units of 4 bytes, for all tables of one reader; `budget`, in bytes, is for what a
    reader keeps beside them, where a user has set a limit. `statistics` are by source, as
    `measure` makes them. `shapes` are what was chosen last, by source; with `pinned` they stay as long as they answer
    all queries, and `kept` has them in a form that outlives the process. With `held` they stay as long as no setting
    has changed either: that is the plan in force, and not a better one. Without `cells` every relation has a table,
    however many queries it answers.
    """

    memory: int = 2 << 20
    budget: int | None = None
    phantoms: bool = True
    weaving: Weaving = "gtweave"
    pinned: bool = False
    held: bool = False
    cells: bool = True
    method: Method = field(default_factory=Method)
    constants: Constants = field(default_factory=Constants)
    statistics: dict[str, dict[str, Any]] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)

    def copy(self, held: bool = True) -> Settings:
        """The same for a plan that is only looked at: the one in force, unless a better one is sought."""
        return replace(self, shapes=dict(self.shapes), kept=dict(self.kept), held=held)

    @property
    def wishes(self) -> tuple[Any, ...]:
        """What a user has said of the plan, as opposed to what was measured."""
        return self.memory, self.phantoms, self.weaving, self.cells, self.method, self.constants


@dataclass(frozen=True)
class TreeNode:
    """One relation of the configuration; parents come before their children."""

    label: str
    attributes: tuple[str, ...]
    parent: int
    buckets: int
    edges: Edges
    queries: tuple[str, ...]  # those whose rows pass here
    store: str | None = None  # the fragment store it emits to
    own: tuple[str, ...] = ()  # the queries it emits for


Tree = tuple[TreeNode, ...]


@dataclass(frozen=True)
class Shape:
    """The chosen tree, and what it was chosen from."""

    tree: Tree
    chosen: Chosen
    groups: Groups
    queries: tuple[Asked, ...]
    parts: int
    woven: WovenPlan | None = None
    cost: float = 0.0  # for each tuple: tables, evictions and final aggregation
    group_tree: str = ""
    wishes: tuple[Any, ...] = ()  # what the user had said when it was chosen


def shape_of(source: str, queries: Sequence[Asked], parts: int, settings: Settings) -> Shape:
    """The tree for the queries of one source, whose rows have `parts` numbers to aggregate.

    GTWeave counts aggregate operations; here an eviction costs more than an operation, so one group for all queries is
    tried as well, and the cheaper of both is taken.
    """
    last = settings.shapes.get(source)
    if last is None and settings.pinned:
        last = recalled(settings.kept.get(source, {}), queries, parts)
    if last is not None and _stays(last, queries, parts, settings):
        return _remembered(source, last, settings)
    known = known_statistics(settings.statistics.get(source, {}))
    groups, woven = _groups(queries, known, settings, last.woven if last else None)
    shape = _shaped(queries, groups, woven, parts, known, settings)
    if settings.weaving == "gtweave" and len(groups) > 1:
        together = _shaped(queries, (tuple(q.id for q in queries),), woven, parts, known, settings)
        shape = min(shape, together, key=lambda s: s.cost)
    return _remembered(source, replace(shape, wishes=settings.wishes), settings)


def _stays(shape: Shape, queries: Sequence[Asked], parts: int, settings: Settings) -> bool:
    if shape.queries != tuple(queries) or shape.parts != parts:
        return False
    return settings.pinned or (settings.held and shape.wishes == settings.wishes)


def _remembered(source: str, shape: Shape, settings: Settings) -> Shape:
    settings.shapes[source] = shape
    if settings.pinned:
        settings.kept[source] = kept(shape)
    return shape


def kept(shape: Shape) -> dict[str, Any]:
    """All that `recalled` needs to make the same shape again, as JSON."""
    relations = shape.chosen.configuration.relations
    return {
        "configuration": str(shape.chosen.configuration), "groups": [list(group) for group in shape.groups],
        "buckets": [shape.chosen.buckets[r] for r in relations], "tables": [node.buckets for node in shape.tree],
        "rates": [shape.chosen.rates[r] for r in relations], "costs": [shape.chosen.cost, shape.cost],
        "group_tree": shape.group_tree, "parts": shape.parts,
    }


def recalled(told: Mapping[str, Any], queries: Sequence[Asked], parts: int) -> Shape | None:
    """The shape that `kept` described, if it is one for these queries."""
    ids = [q for group in told.get("groups", ()) for q in group]
    if sorted(ids) != sorted(q.id for q in queries) or told["parts"] != parts:
        return None
    groups = tuple(map(tuple, told["groups"]))
    leaves = _leaves(queries, groups)
    configuration = Configuration.parse(told["configuration"])
    if set(configuration.queries) != set(leaves):
        return None
    buckets, rates = (dict(zip(configuration.relations, told[name], strict=True)) for name in ("buckets", "rates"))
    chosen = Chosen(configuration, buckets, rates, told["costs"][0])
    tree = tuple(replace(n, buckets=b) for n, b in zip(_tree(chosen, leaves), told["tables"], strict=True))
    return Shape(tree, chosen, groups, tuple(queries), parts, None, told["costs"][1], told["group_tree"])


def _shaped(queries: Sequence[Asked], groups: Groups, woven: WovenPlan | None, parts: int, known: Known,
            settings: Settings) -> Shape:
    leaves = _leaves(queries, groups)
    shares = Leaves.of(known, leaves)
    many = settings.cells and len(queries) >= MANY * len(leaves)
    chosen = choose_configuration(
        list(leaves), known.statistics, settings.memory, settings.constants,
        evictions=lambda below: _turnovers(below, shares),
        sizes=lambda relation: bucket_units(len(relation.attributes), parts),
        forbid_phantoms=not settings.phantoms, method=settings.method,
        shares=None if len(leaves) > LEAVES or (many and (known.assumed or known.rows >= RUNNING)) else shares,
    )
    tree = _without_tables(_tree(chosen, leaves), parts) if settings.cells else _tree(chosen, leaves)
    levels = str(woven.tree) if woven else " ".join(sorted({"·".join(q.names) for q in queries}))
    shape = Shape(tree, chosen, groups, tuple(queries), parts, woven, group_tree=levels)
    return replace(shape, cost=_cost(shape, shares, settings))


def _cost(shape: Shape, shares: Leaves, settings: Settings) -> float:
    """Tables and final aggregation."""
    model = model_for(shape, shares, settings)
    tables = model.cost(shape.chosen.configuration, [node.buckets for node in shape.tree])
    return tables + shares.final_cost(settings.constants.c1)


def model_for(shape: Shape, shares: Leaves, settings: Settings) -> ShareModel:
    """Costs of a shape's tables."""
    return ShareModel(
        shares.known.statistics, settings.constants, None,
        lambda relation: bucket_units(len(relation.attributes), shape.parts), only_occupied=True, known=shares)


def shares_of(shape: Shape, measured: Mapping[str, Any]) -> Leaves:
    """What is known of a share, for the leaves of a shape."""
    return Leaves.of(known_statistics(measured), _leaves(shape.queries, shape.groups))


def cost_now(shape: Shape, measured: Mapping[str, Any], settings: Settings) -> float:
    """What a shape costs for each tuple by newer statistics."""
    return _cost(shape, shares_of(shape, measured), settings)


def _turnovers(below: frozenset[Relation], shares: Leaves) -> float:
    """How many fragments of a relation end in the time in which the statistics' tuples come."""
    known = shares.known
    rate = edge_rate(union(*(shares.edges[leaf] for leaf in below)))
    return rate.value * SECOND * known.statistics.tuples / known.rate


def bucket_units(attributes: int, parts: int) -> int:
    """Units of 4 bytes in a bucket: fragment and signature, attributes and parts are 8 bytes each.

    >>> bucket_units(4, 2)
    14
    """
    return 2 * (1 + attributes + parts)


def _groups(queries: Sequence[Asked], known: Known, settings: Settings,
            previous: WovenPlan | None) -> tuple[Groups, WovenPlan | None]:
    if settings.weaving == "unshared":
        return tuple((q.id,) for q in queries), None
    if settings.weaving == "shared" or len(queries) == 1:
        return (tuple(q.id for q in queries),), None
    acqs = [acq_of(q) for q in queries]
    if settings.weaving == "weave_share":
        plain = weaving.Weaving(acqs, SECOND, amortised_factor).weave_share(known.rate)
        return tuple(g.queries for g in plain.groups), None
    plan = gtweave(
        acqs, known.rate, lambda attributes: known.statistics.of(Relation(frozenset(attributes))), unit=SECOND,
        factor=amortised_factor, previous=previous, compare=False, memory=settings.memory,
        units=lambda attributes: bucket_units(len(attributes), max(len(q.parts) for q in queries)),
    )
    return tuple(g.queries for g in plan.groups), plan


def _leaves(queries: Sequence[Asked], groups: Groups) -> dict[Relation, list[Asked]]:
    """The queries of one weaved group with the same attributes are one leaf."""
    number = {query: i for i, group in enumerate(groups) for query in group}
    found: dict[tuple[frozenset[str], int], list[Asked]] = {}
    for query in queries:
        found.setdefault((frozenset(query.names), number[query.id]), []).append(query)
    counts: dict[frozenset[str], int] = {}
    leaves: dict[Relation, list[Asked]] = {}
    for (attributes, _), members in sorted(found.items(), key=lambda f: (f[0][1], sorted(f[0][0]))):
        counts[attributes] = tag = counts.get(attributes, 0) + 1
        several = sum(a == attributes for a, _ in found) > 1
        leaves[Relation(attributes, tag if several else None)] = members
    return leaves


def _tree(chosen: Chosen, leaves: Mapping[Relation, list[Asked]]) -> Tree:
    configuration = chosen.configuration
    nodes = []
    for i, relation in enumerate(configuration.relations):
        below = [q for leaf in sorted(configuration.answered[i], key=lambda r: r.text) for q in leaves[leaf]]
        store = leaves[relation][0].store if relation in leaves else None
        nodes.append(TreeNode(
            relation.text, tuple(sorted(relation.attributes)), configuration.parents[i], chosen.buckets[relation],
            edges_of(q.window for q in below), tuple(q.id for q in below), store,
            tuple(q.id for q in leaves.get(relation, ())),
        ))
    return tuple(nodes)


def _without_tables(tree: Tree, parts: int) -> Tree:
    """Only raw relations keep tables where those below answer many queries each; they get the memory of the others.

    Many queries tell rows apart by many predicates, and cut them at many edges: the table of a leaf would meet hardly
    an entry twice. The reader makes the cells of all these queries from what the raw relation evicts, for less than
    the probes of the tables in between (`runtime.kernels.intercede_finer`).
    """
    root = list(range(len(tree)))
    for i, node in enumerate(tree):
        root[i] = i if node.parent < 0 else root[node.parent]
    found = list(tree)
    for top in sorted(set(root)):
        below = [i for i in range(len(tree)) if root[i] == top and i != top]
        leaves = [node for i, node in enumerate(tree) if root[i] == top and node.own]
        # Leaves of the same attributes are told apart by their windows, which cells do not mind.
        sets = len({node.attributes for node in leaves})
        if not below or sum(len(node.own) for node in leaves) < MANY * (sets if sets > 1 else len(leaves)):
            continue
        units = sum(tree[i].buckets * bucket_units(len(tree[i].attributes), parts) for i in (top, *below))
        for i in below:
            found[i] = replace(tree[i], buckets=0)
        found[top] = replace(tree[top], buckets=units // bucket_units(len(tree[top].attributes), parts))
    return tuple(found)
