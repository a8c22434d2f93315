"""The plan of a source's readers: which relations they keep, how these feed each other, how large their tables are.

GTWeave (paper 003) puts the queries into weaved groups; the queries of one group with the same attributes are one
leaf. The optimizer of paper 002 then chooses the phantoms that feed the leaves, and divides the memory. A relation has
the fragments of all leaves below it. Where it feeds a child that needs fewer edges, its fragments are combined into
coarser ones: that is the intercede aggregation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tidemill.optimize.share.phantoms.choose import Choice
from tidemill.optimize.share.phantoms.configuration import Configuration, Relation
from tidemill.optimize.share.phantoms.cost import Constants
from tidemill.optimize.share.phantoms.method import Method, choose_configuration
from tidemill.optimize.share.phantoms.share_model import ShareModel
from tidemill.optimize.share.sharing_model import Leaves, acq_of
from tidemill.optimize.share.stored_statistics import WindowStatistics
from tidemill.optimize.share.stream_statistics import SECOND, StreamStatistics, read_statistics
from tidemill.optimize.share.weaving import plans as weaving
from tidemill.optimize.share.weaving.cost import amortised_factor
from tidemill.optimize.share.weaving.edges import Edges, edge_rate, edges_of, union
from tidemill.optimize.share.weaving.gtweave import WovenPlan, gtweave
from tidemill.optimize.share.window_queries import WindowQuery
from tidemill.plan.scalars import Scalar

MANY = 8  # average queries per leaf from which cells are made directly from the evictions of the raw relation
LEAVES = 64  # with more leaves, phantoms are chosen by the paper's cost, which is ten times faster to compute
SPLIT = 16  # with more queries, those of different predicates have no tables of their own
RUNNING = 1 << 20  # rows of a share from which many queries use running totals, so that evictions do not matter
Groups = tuple[tuple[str, ...], ...]  # the queries of each weaved group
Weaving = Literal["gtweave", "weave_share", "shared", "unshared"]


@dataclass
class Settings:
    """What the optimizers know, and what the user has switched off or fixed.

    `memory` is M of paper 002, in units of 4 bytes, for all tables of one reader. `budget` limits, in bytes, what a
    reader keeps beside its tables; None without a limit. `statistics` by source are made by `measure`.
    `reader_plans` are the plans in force, by source. With `pinned` a plan stays as long as it answers all queries, and
    `stored_plans` has it as JSON for the next process. With `held` it stays until a query or a setting changes, even
    if another plan is cheaper now. Without `cells` every relation has a table, whatever the number of its queries.
    `searches` has the last search of each source: the plan that it found is published without another one.
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
    statistics: dict[str, WindowStatistics] = field(default_factory=dict)
    reader_plans: dict[str, ReaderPlan] = field(default_factory=dict)
    stored_plans: dict[str, dict[str, Any]] = field(default_factory=dict)
    searches: dict[str, Search] = field(default_factory=dict)

    def copy(self, held: bool = True) -> Settings:
        """A copy for EXPLAIN: planning with it changes nothing here. With `held` it gives the plan in force."""
        return replace(self, reader_plans=dict(self.reader_plans), stored_plans=dict(self.stored_plans), held=held)

    @property
    def user_settings(self) -> tuple[Any, ...]:
        """The settings a plan depends on, as opposed to the statistics."""
        return self.memory, self.phantoms, self.weaving, self.cells, self.method, self.constants


@dataclass(frozen=True)
class TreeNode:
    """One relation of the configuration; parents come before their children."""

    label: str
    attributes: tuple[str, ...]
    parent: int
    buckets: int
    edges: Edges
    queries: tuple[str, ...]  # the queries at or below it
    store: str | None = None  # the fragment store it emits to
    own: tuple[str, ...] = ()  # the queries it emits for


Tree = tuple[TreeNode, ...]


@dataclass(frozen=True)
class ReaderPlan:
    """The chosen tree with its tables, and what the choice was made from."""

    tree: Tree
    chosen: Choice
    groups: Groups
    queries: tuple[WindowQuery, ...]
    parts: int
    woven: WovenPlan | None = None
    cost: float = 0.0  # for each tuple: tables, evictions and final aggregation
    group_tree: str = ""
    user_settings: tuple[Any, ...] = ()  # `Settings.user_settings` when it was chosen


@dataclass(frozen=True)
class Search:
    """A search for a plan: what it depended on, and what it found."""

    statistics: WindowStatistics | None
    last: ReaderPlan | None
    asked: tuple[Any, ...]
    found: ReaderPlan

    def answers(self, statistics: WindowStatistics | None, last: ReaderPlan | None, asked: tuple[Any, ...]) -> bool:
        """Whether the same search is asked for again. Statistics and plans are made anew when they change."""
        return self.statistics is statistics and self.last is last and self.asked == asked


def plan_reader(source: str, queries: Sequence[WindowQuery], parts: int, settings: Settings) -> ReaderPlan:
    """The plan for the queries of one source; each entry of its tables has `parts` partial aggregates.

    GTWeave minimizes aggregate operations. In this engine an eviction costs more than an operation, so one group of
    all queries is priced as well, and one for each predicate: a table of several predicates has an entry for each set
    of them that hold. The cheapest of these plans is taken.
    """
    last = settings.reader_plans.get(source)
    if last is None and settings.pinned:
        last = plan_from_json(settings.stored_plans.get(source, {}), queries, parts)
    if last is not None and _may_stay(last, queries, parts, settings):
        return _remember(source, last, settings)
    measured, asked = settings.statistics.get(source), (tuple(queries), parts, settings.user_settings)
    before = settings.searches.get(source)
    if before is not None and before.answers(measured, last, asked):
        return _remember(source, before.found, settings)
    plan = _search(queries, parts, settings, read_statistics(measured or {}), last)
    if measured is not None:
        settings.searches[source] = Search(measured, last, asked, plan)
    return _remember(source, plan, settings)


def _search(
    queries: Sequence[WindowQuery], parts: int, settings: Settings, known: StreamStatistics, last: ReaderPlan | None
) -> ReaderPlan:
    groups, woven = _weave_queries(queries, known, settings, last.woven if last else None)
    ways = [groups]
    if settings.weaving == "gtweave":
        ways += [(tuple(q.id for q in queries),), _split_predicates(queries, groups, known)]
    plans = [_build_plan(queries, way, woven, parts, known, settings) for way in dict.fromkeys(ways)]
    return replace(min(plans, key=lambda p: p.cost), user_settings=settings.user_settings)


def _may_stay(plan: ReaderPlan, queries: Sequence[WindowQuery], parts: int, settings: Settings) -> bool:
    if plan.queries != tuple(queries) or plan.parts != parts:
        return False
    return settings.pinned or (settings.held and plan.user_settings == settings.user_settings)


def _remember(source: str, plan: ReaderPlan, settings: Settings) -> ReaderPlan:
    settings.reader_plans[source] = plan
    if settings.pinned:
        settings.stored_plans[source] = plan_to_json(plan)
    return plan


def plan_to_json(plan: ReaderPlan) -> dict[str, Any]:
    """A plan as JSON, with all that `plan_from_json` needs to restore it."""
    relations = plan.chosen.configuration.relations
    return {
        "configuration": str(plan.chosen.configuration),
        "groups": [list(group) for group in plan.groups],
        "buckets": [plan.chosen.buckets[r] for r in relations],
        "tables": [node.buckets for node in plan.tree],
        "rates": [plan.chosen.rates[r] for r in relations],
        "costs": [plan.chosen.cost, plan.cost],
        "group_tree": plan.group_tree,
        "parts": plan.parts,
    }


def plan_from_json(told: Mapping[str, Any], queries: Sequence[WindowQuery], parts: int) -> ReaderPlan | None:
    """The plan that `plan_to_json` wrote; None if it was made for other queries."""
    ids = [q for group in told.get("groups", ()) for q in group]
    if sorted(ids) != sorted(q.id for q in queries) or told["parts"] != parts:
        return None
    groups = tuple(map(tuple, told["groups"]))
    leaves = _group_leaves(queries, groups)
    configuration = Configuration.parse(told["configuration"])
    if set(configuration.queries) != set(leaves):
        return None
    buckets, rates = (dict(zip(configuration.relations, told[name], strict=True)) for name in ("buckets", "rates"))
    chosen = Choice(configuration, buckets, rates, told["costs"][0])
    tree = tuple(replace(n, buckets=b) for n, b in zip(_build_tree(chosen, leaves), told["tables"], strict=True))
    return ReaderPlan(tree, chosen, groups, tuple(queries), parts, None, told["costs"][1], told["group_tree"])


def _build_plan(
    queries: Sequence[WindowQuery],
    groups: Groups,
    woven: WovenPlan | None,
    parts: int,
    known: StreamStatistics,
    settings: Settings,
) -> ReaderPlan:
    leaves = _group_leaves(queries, groups)
    shares = Leaves.of(known, leaves)
    many = settings.cells and len(queries) >= MANY * len(leaves)
    chosen = choose_configuration(
        list(leaves),
        known.statistics,
        settings.memory,
        settings.constants,
        evictions=lambda below: _turnovers(below, shares),
        sizes=lambda relation: bucket_units(len(relation.attributes), parts),
        forbid_phantoms=not settings.phantoms,
        method=settings.method,
        shares=None if len(leaves) > LEAVES or (many and (known.assumed or known.rows >= RUNNING)) else shares,
    )
    tree = _drop_leaf_tables(_build_tree(chosen, leaves), parts) if settings.cells else _build_tree(chosen, leaves)
    levels = str(woven.tree) if woven else " ".join(sorted({"·".join(q.names) for q in queries}))
    plan = ReaderPlan(tree, chosen, groups, tuple(queries), parts, woven, group_tree=levels)
    return replace(plan, cost=_cost(plan, shares, settings))


def _cost(plan: ReaderPlan, shares: Leaves, settings: Settings) -> float:
    """Cost per tuple of the tables and the final aggregation."""
    model = model_for(plan, shares, settings)
    tables = model.cost(plan.chosen.configuration, [node.buckets for node in plan.tree])
    return tables + shares.final_cost(settings.constants.c1)


def model_for(plan: ReaderPlan, shares: Leaves, settings: Settings) -> ShareModel:
    """The cost model of a plan's tables."""
    return ShareModel(
        shares.known.statistics,
        settings.constants,
        None,
        lambda relation: bucket_units(len(relation.attributes), plan.parts),
        only_occupied=True,
        known=shares,
    )


def shares_of(plan: ReaderPlan, measured: WindowStatistics) -> Leaves:
    """Statistics of a share for the leaves of a plan."""
    return Leaves.of(read_statistics(measured), _group_leaves(plan.queries, plan.groups))


def current_cost(plan: ReaderPlan, measured: WindowStatistics, settings: Settings) -> float:
    """The cost per tuple of a plan by the given statistics."""
    return _cost(plan, shares_of(plan, measured), settings)


def _turnovers(below: frozenset[Relation], shares: Leaves) -> float:
    """The number of a relation's fragments that end while the tuples of the statistics arrive."""
    known = shares.known
    rate = edge_rate(union(*(shares.edges[leaf] for leaf in below)))
    return rate.value * SECOND * known.statistics.tuples / known.rate


def bucket_units(attributes: int, parts: int) -> int:
    """Units of 4 bytes in a bucket: fragment and signature, attributes and parts are 8 bytes each.

    >>> bucket_units(4, 2)
    14
    """
    return 2 * (1 + attributes + parts)


def _weave_queries(
    queries: Sequence[WindowQuery], known: StreamStatistics, settings: Settings, previous: WovenPlan | None
) -> tuple[Groups, WovenPlan | None]:
    if settings.weaving == "unshared":
        return tuple((q.id,) for q in queries), None
    if settings.weaving == "shared" or len(queries) == 1:
        return (tuple(q.id for q in queries),), None
    acqs = [acq_of(q) for q in queries]
    parts = max(len(q.parts) for q in queries)
    if settings.weaving == "weave_share":
        plain = weaving.Weaving(acqs, SECOND, amortised_factor).weave_share(known.rate)
        return tuple(g.queries for g in plain.groups), None
    plan = gtweave(
        acqs,
        known.rate,
        lambda attributes: known.statistics.of(Relation(frozenset(attributes))),
        unit=SECOND,
        factor=amortised_factor,
        previous=previous,
        compare=False,
        memory=settings.memory,
        units=lambda attributes: bucket_units(len(attributes), parts),
    )
    return tuple(g.queries for g in plan.groups), plan


def _split_predicates(queries: Sequence[WindowQuery], groups: Groups, known: StreamStatistics) -> Groups:
    """The weaved groups, with the queries of each predicate apart; as they are if nothing is known of the predicates'
    rows, or if there are too many queries to search all ways to feed a leaf for each.
    """
    if not known.patterns or len(queries) > SPLIT:
        return groups
    predicate = {q.id: q.predicate for q in queries}
    found: dict[tuple[int, Scalar | None], list[str]] = {}
    for i, group in enumerate(groups):
        for query in group:
            found.setdefault((i, predicate[query]), []).append(query)
    return tuple(map(tuple, found.values()))


def _group_leaves(queries: Sequence[WindowQuery], groups: Groups) -> dict[Relation, list[WindowQuery]]:
    """The queries of one weaved group with the same attributes are one leaf."""
    number = {query: i for i, group in enumerate(groups) for query in group}
    found: dict[tuple[frozenset[str], int], list[WindowQuery]] = {}
    for query in queries:
        found.setdefault((frozenset(query.names), number[query.id]), []).append(query)
    counts: dict[frozenset[str], int] = {}
    leaves: dict[Relation, list[WindowQuery]] = {}
    for (attributes, _), members in sorted(found.items(), key=lambda f: (f[0][1], sorted(f[0][0]))):
        counts[attributes] = tag = counts.get(attributes, 0) + 1
        several = sum(a == attributes for a, _ in found) > 1
        leaves[Relation(attributes, tag if several else None)] = members
    return leaves


def _build_tree(chosen: Choice, leaves: Mapping[Relation, list[WindowQuery]]) -> Tree:
    configuration = chosen.configuration
    nodes = []
    for i, relation in enumerate(configuration.relations):
        below = [q for leaf in sorted(configuration.answered[i], key=lambda r: r.text) for q in leaves[leaf]]
        store = leaves[relation][0].store if relation in leaves else None
        nodes.append(
            TreeNode(
                relation.text,
                tuple(sorted(relation.attributes)),
                configuration.parents[i],
                chosen.buckets[relation],
                edges_of(q.window for q in below),
                tuple(q.id for q in below),
                store,
                tuple(q.id for q in leaves.get(relation, ())),
            )
        )
    return tuple(nodes)


def _drop_leaf_tables(tree: Tree, parts: int) -> Tree:
    """Where the leaves below a raw relation answer many queries each, only the raw relation keeps a table.

    Many queries separate rows by many predicates and many edges, so a leaf's table would hardly ever combine two
    entries. The reader makes the cells of all these queries from the evictions of the raw relation, which costs less
    than probing the tables in between (`runtime.kernels.intercede_finer`). The raw relation gets their memory.
    """
    root = list(range(len(tree)))
    for i, node in enumerate(tree):
        root[i] = i if node.parent < 0 else root[node.parent]
    found = list(tree)
    for top in sorted(set(root)):
        below = [i for i in range(len(tree)) if root[i] == top and i != top]
        leaves = [node for i, node in enumerate(tree) if root[i] == top and node.own]
        # Leaves with the same attributes differ only in their windows, and cells serve all windows.
        sets = len({node.attributes for node in leaves})
        if not below or sum(len(node.own) for node in leaves) < MANY * (sets if sets > 1 else len(leaves)):
            continue
        units = sum(tree[i].buckets * bucket_units(len(tree[i].attributes), parts) for i in (top, *below))
        for i in below:
            found[i] = replace(tree[i], buckets=0)
        found[top] = replace(tree[top], buckets=units // bucket_units(len(tree[top].attributes), parts))
    return tuple(found)
