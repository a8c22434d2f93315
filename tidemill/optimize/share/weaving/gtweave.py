"""GTWeave: different windows, predicates and group-bys in one plan (paper 003, sections V-B and VI, Algorithm 2).

1. a group-by tree, as if all windows were identical;
2. TriWeave on the queries below each first-level node;
3. integration: the root becomes the shared sub-aggregation, an internal node an intercede operator, a query its final
   aggregation. Two queries are shared only if the tree and TriWeave share them: a deeper node stays for the weaved
   groups that have queries below at least two of its children, and is dropped for all others;
4. every operator that keeps fragments knows the predicates of the queries it serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

from tidemill.optimize.share.weaving.acq import Acq
from tidemill.optimize.share.weaving.changes import DRIFT, extend, without
from tidemill.optimize.share.weaving.cost import overlap_factor, triops_cost, twoops_cost
from tidemill.optimize.share.weaving.edges import Edges
from tidemill.optimize.share.weaving.grouptree import Attributes, Counts, GroupNode, GroupTree, group_tree, label
from tidemill.optimize.share.weaving.plans import Factor, WeavedGroup, WeavePlan, Weaving
from tidemill.optimize.share.weaving.signatures import Signatures


@dataclass(frozen=True)
class Operator:
    """Part of the integrated plan: sub-aggregation, intercede or final aggregation.

    `groups` are the numbers of the weaved groups it serves, `mask` the predicate bits of the queries it serves; with
    `all_rows` some of them have no predicate.
    """

    kind: str
    attributes: Attributes
    groups: tuple[int, ...]
    queries: tuple[str, ...]
    mask: int
    all_rows: bool
    children: tuple[Operator, ...] = ()

    def __str__(self) -> str:
        inner = f"({' '.join(map(str, self.children))})" if self.children else ""
        served = self.queries[0] if self.kind == "final" else ",".join(map(str, self.groups))
        return f"{self.kind} {label(self.attributes)}[{served}]{inner}"


@dataclass(frozen=True)
class PlanCost:
    """A plan in one line: how many weaved groups, operations for each unit of time by (3) and by (4)."""

    groups: int
    twoops: float
    triops: float


@dataclass(frozen=True)
class WovenPlan:
    """What the engine runs: weaved groups, the group-by tree, the operators, a bit for each predicate.

    `plans` has the weaved plan of each first-level node of the tree; `groups` are theirs in the same order. `costs` has
    "GTWeave", which was chosen, and what stood against it: "unshared", "Shared", "Weave Share", "TriWeave". Those look
    at windows only, as if all queries had the same group-by.
    """

    acqs: dict[str, Acq]
    groups: tuple[WeavedGroup, ...]
    edges: Edges
    edge_rate: float
    tree: GroupTree
    plans: tuple[WeavePlan, ...]
    operators: tuple[Operator, ...]
    signatures: Signatures
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
) -> WovenPlan:
    """Algorithm 2. Rates are for each `unit` of the windows' time; `counts` gives the groups of an attribute set.

    With a previous plan only what changed is woven again, and predicates keep their bits. Without `compare` the costs
    of the other plans are left out: finding Weave Share's is most of the work.
    """
    weaving = Weaving(acqs, unit, factor)
    rows = rate / weaving.edge_rate if weaving.edge_rate else rate
    tree = group_tree((acq.group_by for acq in weaving.acqs.values()), counts, rows)
    plans = tuple(_plan(node, weaving, rate, previous) for node in tree.first_level)
    groups = tuple(group for plan in plans for group in plan.groups)
    signatures = _signatures(weaving.acqs, previous)
    operators = integrate(tree, groups, weaving.acqs, signatures)
    costs = {"GTWeave": _cost(tree, groups, weaving.edge_rate, rate)}
    if compare:
        costs["unshared"] = _line(weaving.unshared(rate))
        costs["Shared"] = _line(weaving.shared(rate))
        costs["Weave Share"] = _line(weaving.weave_share(rate))
        costs["TriWeave"] = _line(weaving.triweave(rate))
    return WovenPlan(weaving.acqs, groups, weaving.edges, weaving.edge_rate, tree, plans, operators, signatures, costs)


def _plan(node: GroupNode, weaving: Weaving, rate: float, previous: WovenPlan | None) -> WeavePlan:
    """TriWeave's plan of the queries below a first-level node, from the previous one where the node stayed the same."""
    leaves = set(node.leaves)
    acqs = {name: acq for name, acq in weaving.acqs.items() if acq.group_by in leaves}
    for old, plan in zip(previous.tree.first_level, previous.plans, strict=True) if previous else ():
        if set(old.leaves) == leaves and (plan.unit, plan.factor) == (weaving.unit, weaving.factor):
            gone = [name for name, acq in plan.acqs.items() if acqs.get(name) != acq]
            new = [acq for name, acq in acqs.items() if plan.acqs.get(name) != acq]
            if (len(gone) + len(new)) * DRIFT <= len(acqs):
                return _changed(replace(plan, input_rate=rate), gone, new)
    return Weaving(acqs.values(), weaving.unit, weaving.factor).triweave(rate)


def _changed(plan: WeavePlan, gone: Iterable[str], new: Iterable[Acq]) -> WeavePlan:
    for name in gone:
        plan = without(plan, name)
    for acq in new:
        plan = extend(plan, acq)
    return plan


def _signatures(acqs: dict[str, Acq], previous: WovenPlan | None) -> Signatures:
    """Bits of the predicates; those of the previous plan stay, and one that nobody has any more is retired."""
    signatures = deepcopy(previous.signatures) if previous else Signatures()
    had = [acq.predicate for acq in previous.acqs.values()] if previous else []
    for predicate in (acq.predicate for acq in acqs.values()):
        if predicate is not None:
            signatures.add(predicate)
    for predicate in had:
        if predicate is not None:
            signatures.drop(predicate, folds=False)
    return signatures


def integrate(
    tree: GroupTree, groups: Sequence[WeavedGroup], acqs: dict[str, Acq], signatures: Signatures
) -> tuple[Operator, ...]:
    """The operators of a group-by tree and the weaved groups of its first-level nodes (figures 8 and 9).

    Without a common root every node under the stream has a sub-aggregation of its own.
    """
    builder = _Integration(groups, acqs, signatures)
    if tree.root:
        level = tuple(builder.first_level(node) for node in tree.first_level)
        return (builder.operator("sub", tree.root.attributes, level),)
    return tuple(builder.operator("sub", node.attributes, (builder.first_level(node),)) for node in tree.fed)


class _Integration:
    def __init__(self, groups: Sequence[WeavedGroup], acqs: dict[str, Acq], signatures: Signatures) -> None:
        self._number = {name: i for i, group in enumerate(groups) for name in group.queries}
        self._acqs = acqs
        self._bits = signatures.bits

    def first_level(self, node: GroupNode) -> Operator:
        """An intercede operator that serves all weaved groups below; a leaf with one query needs none."""
        below = self._below(node, None)
        if len(below) == 1 and below[0].kind == "final":
            return below[0]
        return self.operator("intercede", node.attributes, below)

    def operator(self, kind: str, attributes: Attributes, children: tuple[Operator, ...]) -> Operator:
        return Operator(
            kind,
            attributes,
            tuple(sorted({g for c in children for g in c.groups})),
            tuple(q for c in children for q in c.queries),
            _either(c.mask for c in children),
            any(c.all_rows for c in children),
            children,
        )

    def _below(self, node: GroupNode, only: int | None) -> tuple[Operator, ...]:
        """What a node feeds, for one weaved group or for all."""
        if not node.children:
            return tuple(
                self._final(acq)
                for acq in self._acqs.values()
                if acq.group_by == node.attributes and only in (None, self._number[acq.name])
            )
        return tuple(operator for child in node.children for operator in self._child(child, only))

    def _child(self, child: GroupNode, only: int | None) -> tuple[Operator, ...]:
        if not child.children:
            return self._below(child, only)
        numbers = [only] if only is not None else self._numbers(child)
        found: list[Operator] = []
        for number in numbers:
            parts = self._below(child, number)
            sharing = sum(number in self._numbers(grandchild) for grandchild in child.children)
            found += [self.operator("intercede", child.attributes, parts)] if sharing > 1 else parts
        return tuple(found)

    def _numbers(self, node: GroupNode) -> list[int]:
        """The weaved groups with queries below a node."""
        leaves = set(node.leaves)
        return sorted({self._number[acq.name] for acq in self._acqs.values() if acq.group_by in leaves})

    def _final(self, acq: Acq) -> Operator:
        mask = 0 if acq.predicate is None else 1 << self._bits[acq.predicate]
        return Operator("final", acq.group_by, (self._number[acq.name],), (acq.name,), mask, acq.predicate is None)


def _either(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _line(plan: WeavePlan) -> PlanCost:
    return PlanCost(len(plan.groups), plan.twoops, plan.triops)


def _cost(tree: GroupTree, groups: Sequence[WeavedGroup], edge_rate: float, rate: float) -> PlanCost:
    """(3) and (4) for the integrated plan: by (4) rows are aggregated once for each node under the stream."""
    return PlanCost(
        len(groups),
        twoops_cost(rate, groups),
        triops_cost(max(1, len(tree.fed)) * rate, edge_rate, groups),
    )
