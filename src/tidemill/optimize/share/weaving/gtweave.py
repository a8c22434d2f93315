"""GTWeave: different windows, predicates and group-bys in one plan (paper 003, sections V-B and VI, Algorithm 2).

1. a group-by tree, as if all windows were identical;
2. TriWeave on the queries below each first-level node;
3. integration: two queries are shared only if the tree and TriWeave share them. The engine makes the operators from the
   weaved groups: tables and phantoms in the readers, a fragment store for each set of attributes (`optimize.share`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tidemill.optimize.share.weaving.acq import Acq
from tidemill.optimize.share.weaving.changes import DRIFT, add_query, remove_query
from tidemill.optimize.share.weaving.cost import overlap_factor, triops_cost, twoops_cost
from tidemill.optimize.share.weaving.edges import Edges
from tidemill.optimize.share.weaving.grouptree import Counts, GroupNode, GroupTree, Units, group_tree, one_unit
from tidemill.optimize.share.weaving.plans import Factor, WeavedGroup, WeavePlan, Weaving


@dataclass(frozen=True)
class PlanCost:
    """The number of weaved groups of a plan, and its operations per unit of time by (3) and by (4)."""

    groups: int
    twoops: float
    triops: float


@dataclass(frozen=True)
class WovenPlan:
    """The plan that the engine runs: weaved groups and the group-by tree.

    `plans` has the weaved plan of each first-level node of the tree; `groups` are their groups in the same order.
    `costs` has "GTWeave", which was chosen, and the alternatives "unshared", "Shared", "Weave Share", "TriWeave", which
    are computed from the windows alone, as if all queries had the same group-by.
    """

    acqs: dict[str, Acq]
    groups: tuple[WeavedGroup, ...]
    edges: Edges
    edge_rate: float
    tree: GroupTree
    plans: tuple[WeavePlan, ...]
    costs: dict[str, PlanCost]

    def group_of(self, query: str) -> int:
        """The number of a query's weaved group."""
        return next(i for i, group in enumerate(self.groups) if query in group.queries)


def gtweave(
    acqs: Iterable[Acq],
    rate: float,
    counts: Counts,
    *,
    unit: int = 1,
    factor: Factor = overlap_factor,
    previous: WovenPlan | None = None,
    compare: bool = True,
    memory: float = math.inf,
    units: Units = one_unit,
) -> WovenPlan:
    """Algorithm 2. Rates are for each `unit` of the windows' time; `counts` gives the groups of an attribute set,
    `memory` and `units` are those of `group_tree`.

    With a previous plan, only the changes are woven again. Without `compare` the costs of the alternatives are left
    out: Weave Share is most of the work.
    """
    weaving = Weaving(acqs, unit, factor)
    rows = rate / weaving.edge_rate if weaving.edge_rate else rate
    tree = group_tree((acq.group_by for acq in weaving.acqs.values()), counts, rows, memory, units)
    plans = tuple(_plan_node(node, weaving, rate, previous) for node in tree.first_level)
    groups = tuple(group for plan in plans for group in plan.groups)
    costs = {"GTWeave": _integrated_cost(tree, groups, weaving.edge_rate, rate)}
    if compare:
        costs["unshared"] = _cost_of(weaving.unshared(rate))
        costs["Shared"] = _cost_of(weaving.shared(rate))
        costs["Weave Share"] = _cost_of(weaving.weave_share(rate))
        costs["TriWeave"] = _cost_of(weaving.triweave(rate))
    return WovenPlan(weaving.acqs, groups, weaving.edges, weaving.edge_rate, tree, plans, costs)


def _plan_node(node: GroupNode, weaving: Weaving, rate: float, previous: WovenPlan | None) -> WeavePlan:
    """TriWeave's plan of the queries below a first-level node, changed from the previous plan if there is one."""
    leaves = set(node.leaves)
    acqs = {name: acq for name, acq in weaving.acqs.items() if acq.group_by in leaves}
    for old, plan in zip(previous.tree.first_level, previous.plans, strict=True) if previous else ():
        if set(old.leaves) == leaves and (plan.unit, plan.factor) == (weaving.unit, weaving.factor):
            gone = [name for name, acq in plan.acqs.items() if acqs.get(name) != acq]
            new = [acq for name, acq in acqs.items() if plan.acqs.get(name) != acq]
            if (len(gone) + len(new)) * DRIFT <= len(acqs):
                return _apply_changes(replace(plan, input_rate=rate), gone, new)
    return Weaving(acqs.values(), weaving.unit, weaving.factor).triweave(rate)


def _apply_changes(plan: WeavePlan, gone: Iterable[str], new: Iterable[Acq]) -> WeavePlan:
    for name in gone:
        plan = remove_query(plan, name)
    for acq in new:
        plan = add_query(plan, acq)
    return plan


def _cost_of(plan: WeavePlan) -> PlanCost:
    return PlanCost(len(plan.groups), plan.twoops, plan.triops)


def _integrated_cost(tree: GroupTree, groups: Sequence[WeavedGroup], edge_rate: float, rate: float) -> PlanCost:
    """(3) and (4) for the integrated plan: by (4) rows are aggregated once for each node under the stream."""
    return PlanCost(
        len(groups), twoops_cost(rate, groups), triops_cost(max(1, len(tree.fed)) * rate, edge_rate, groups)
    )
