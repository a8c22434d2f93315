"""Add a query to a plan, or remove one, without planning again (paper 003, section III-C, adaptivity).

Only one weaved group is touched, so a change takes a millisecond where a fresh plan of a thousand queries takes a
second. A changed plan drifts away from a fresh one. It is planned afresh when

    1. it has at most SMALL queries: then a fresh plan takes milliseconds too;
    2. more than one in DRIFT of its queries were added or removed since it was fresh;
    3. the edge rate E, which is what a saved group is worth, changed by more than one part in SHIFT since then.

Measured over random workloads, changed plans stay within 5 % of fresh ones by equation 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tidemill.optimize.share.weaving.acq import Acq
from tidemill.optimize.share.weaving.cost import merge_gain
from tidemill.optimize.share.weaving.edges import Edges, edge_rate, edges_of, union
from tidemill.optimize.share.weaving.plans import WeavedGroup, WeavePlan, Weaving, weaved_group

SMALL = 40
DRIFT = 8
SHIFT = 10


def add_query(plan: WeavePlan, acq: Acq) -> WeavePlan:
    """The TriWeave plan with one more query: in the group where it costs least by (4), or in a new group."""
    if acq.name in plan.acqs:
        raise ValueError(f"there is already a query {acq.name}")
    acqs = {**plan.acqs, acq.name: acq}
    mine = edges_of([acq.window])
    edges = union(plan.edges, mine)
    rate = plan.edge_rate if edges == plan.edges else edge_rate(edges).value * plan.unit
    if _is_stale(plan, len(acqs), rate):
        return _plan_afresh(plan, acqs)
    alone = weaved_group([acq], plan.unit, plan.factor)
    place = _find_best_group(plan, plan.groups, alone, rate)
    groups = list(plan.groups)
    if place is None:
        groups.append(alone)
    else:
        groups[place] = _make_group(plan, acqs, (*groups[place].queries, acq.name))
    return replace(plan, acqs=acqs, groups=tuple(groups), edges=edges, edge_rate=rate, changes=plan.changes + 1)


def remove_query(plan: WeavePlan, name: str) -> WeavePlan:
    """The TriWeave plan without one query. What is left of its group goes where it costs least by (4)."""
    gone = plan.acqs[name]
    acqs = {n: a for n, a in plan.acqs.items() if n != name}
    touched = next(g for g in plan.groups if name in g.queries)
    groups = [g for g in plan.groups if g is not touched]
    left = _make_group(plan, acqs, tuple(q for q in touched.queries if q != name)) if len(touched.queries) > 1 else None
    edges, rate = plan.edges, plan.edge_rate
    # Only a class that no other query covers was in the union because of this query.
    if not set(edges_of([gone.window])).isdisjoint(plan.edges):
        edges = union(*(g.edges for g in groups), left.edges if left else ())
        rate = plan.edge_rate if edges == plan.edges else edge_rate(edges).value * plan.unit
    if _is_stale(plan, len(acqs), rate):
        return _plan_afresh(plan, acqs)
    if left:
        place = _find_best_group(plan, groups, left, rate)
        if place is None:
            groups.append(left)
        else:
            groups[place] = _make_group(plan, acqs, (*groups[place].queries, *left.queries))
    return replace(plan, acqs=acqs, groups=tuple(groups), edges=edges, edge_rate=rate, changes=plan.changes + 1)


def _is_stale(plan: WeavePlan, queries: int, edge_rate: float) -> bool:
    return (
        queries <= SMALL
        or (plan.changes + 1) * DRIFT > queries
        or abs(edge_rate - plan.fresh_rate) * SHIFT > plan.fresh_rate
    )


def _plan_afresh(plan: WeavePlan, acqs: dict[str, Acq]) -> WeavePlan:
    return Weaving(acqs.values(), plan.unit, plan.factor).triweave(plan.input_rate)


def _make_group(plan: WeavePlan, acqs: dict[str, Acq], names: tuple[str, ...]) -> WeavedGroup:
    return weaved_group([acqs[name] for name in names], plan.unit, plan.factor)


def _find_best_group(plan: WeavePlan, groups: Sequence[WeavedGroup], new: WeavedGroup, worth: float) -> int | None:
    """The group for which merging with the new one has the least loss, if that is less than a group is worth."""
    rates = np.array([g.rate for g in groups])
    overlaps = np.array([g.overlap for g in groups])
    common = np.minimum(
        _bound_common_edges([g.edges for g in groups], new.edges) * plan.unit, np.minimum(rates, new.rate)
    )
    bounds = rates * new.overlap + new.rate * overlaps - common * (overlaps + new.overlap)
    best, place = worth, None
    for i in np.argsort(bounds, kind="stable"):
        if bounds[i] >= best:
            break
        together = edge_rate(union(groups[i].edges, new.edges)).value * plan.unit
        loss = -merge_gain(0.0, groups[i], new, together)
        if loss < best:
            best, place = loss, int(i)
    return place


def _bound_common_edges(sets: Sequence[Edges], edges: Edges) -> np.ndarray:
    """For each set an upper bound of the edges it has in common with `edges`: the sum over pairs of classes."""
    slides = np.array([s for one in sets for s, _ in one], dtype=np.int64)
    phases = np.array([a for one in sets for _, a in one], dtype=np.int64)
    owner = np.repeat(np.arange(len(sets)), [len(one) for one in sets])
    found = np.zeros(len(slides))
    for slide, phase in edges:
        divisors = np.gcd(slides, slide)
        found += ((phases - phase) % divisors == 0) * divisors / (slides.astype(float) * slide)
    return np.bincount(owner, weights=found, minlength=len(sets))
