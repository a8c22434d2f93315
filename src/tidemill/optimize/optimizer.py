"""Rewrites one query at a time: named rules in one visible order, a trace of what changed.

A rule sees one node and returns a better one or None. What it does depends on the query alone, never on other
queries, so the plan of a running view does not change when its neighbours do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache, wraps

from tidemill.optimize.rewrite.columns import prune_tagger
from tidemill.optimize.rewrite.distinct_windows import distinct_windows
from tidemill.optimize.rewrite.filters import push_filters
from tidemill.optimize.rewrite.join_aggregates import join_aggregates
from tidemill.optimize.rewrite.keyless_windows import keyless_windows
from tidemill.optimize.rewrite.limit_ranks import hide_ranks, limit_ranks
from tidemill.optimize.rewrite.presynchronization import presynchronize
from tidemill.optimize.rewrite.select_tagger import merge_any_selection, merge_select_tagger
from tidemill.optimize.rewrite.stream_views import unfold_stream_views
from tidemill.optimize.rewrite.synchronizers import merge_synchronizers
from tidemill.optimize.rewrite.window_aggregates import window_aggregates
from tidemill.plan.relations import Filter, Project, Ranked, Relation, Synchronize, SynchronizeOn, View, with_children

Rule = Callable[[Relation], Relation | None]
RULES: tuple[Rule, ...] = (
    limit_ranks,
    hide_ranks,
    push_filters,
    presynchronize,
    merge_synchronizers,
    merge_select_tagger,
    prune_tagger,
    unfold_stream_views,
    distinct_windows,
    keyless_windows,
    window_aggregates,
    join_aggregates,
)
POINTS = "points"  # in `without`: rules leave synchronizers on points from data as they are
TOTAL = "total"  # in `without`: selections that may fail are merged into taggers
_ROUNDS = 100


@dataclass
class Optimized:
    """The rewritten query and every step that led to it: (rule, node before, node after)."""

    node: Relation
    trace: list[tuple[str, Relation, Relation]] = field(default_factory=list)


def optimize(node: Relation, without: Iterable[str] = ()) -> Optimized:
    """Apply the rules until nothing changes. `without` names rules to leave out, or `POINTS`, or `TOTAL`."""
    return _optimize(node, frozenset(without))


@lru_cache(maxsize=64)  # a query is optimized when its cost is estimated, and when it is planned
def _optimize(node: Relation, off: frozenset[str]) -> Optimized:
    result = Optimized(node)
    nodes = _nodes(node)
    for rule in _rules(off):
        if rule.__name__ not in off:
            for _ in range(_ROUNDS):
                # Most rules apply to few queries: nothing is rebuilt where none of the nodes matches.
                known = {n: rule(n) for n in nodes}
                if all(better is None for better in known.values()):
                    break
                changed = _everywhere(result.node, rule, known, result.trace, {})
                if changed is result.node:
                    break
                result.node, nodes = changed, _nodes(changed)
    return result


def younger_rules(planning: int) -> tuple[str, ...]:
    """What a view of an older `sql.catalog.PLANNING` does without: its state fits the plan that it has."""
    younger: list[str] = [] if planning >= 1 else [POINTS, merge_synchronizers.__name__]
    return tuple(younger if planning >= 2 else [*younger, TOTAL, unfold_stream_views.__name__])


def recognise_limits(node: Relation) -> Relation:
    """The query with the limits that its conditions on ranks are, and otherwise as it is: for what depends on whether
    a ranking has to keep all rows.
    """
    if not any(isinstance(n, Ranked) for n in _nodes(node)):
        return node
    return optimize(node, [rule.__name__ for rule in RULES if rule is not limit_ranks]).node


def _rules(off: frozenset[str]) -> list[Rule]:
    """The rules as some of them were before."""
    rules = [_merge_any if rule is merge_select_tagger and TOTAL in off else rule for rule in RULES]
    return list(map(_leave_points, rules)) if POINTS in off else rules


@wraps(merge_select_tagger)
def _merge_any(node: Relation) -> Relation | None:
    return merge_any_selection(node)


def _leave_points(rule: Rule) -> Rule:
    """The rule as it was before it passed synchronizers on points."""

    @wraps(rule)
    def apply_elsewhere(node: Relation) -> Relation | None:
        below = node.input if isinstance(node, (Filter, Project, Synchronize)) else node
        return None if isinstance(below, SynchronizeOn) else rule(node)

    return apply_elsewhere


def _nodes(root: Relation) -> list[Relation]:
    """All nodes that rules see; rules do not pass a created view."""
    found: dict[Relation, None] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if node not in found and not isinstance(node, View):
            found[node] = None
            stack += [c for c in node.children if isinstance(c, Relation)]
    return list(found)


def _everywhere(
    node: Relation,
    rule: Rule,
    known: dict[Relation, Relation | None],
    trace: list[tuple[str, Relation, Relation]],
    seen: dict[str, Relation],
) -> Relation:
    """One pass, top down; `known` has what the rule made of each node before the pass."""
    if node.fingerprint in seen:
        return seen[node.fingerprint]
    before = node
    if not isinstance(node, View):
        better = known[node] if node in known else rule(node)
        if better is not None:
            _same_schema(rule, node, better)
            trace.append((rule.__name__, node, better))
            node = better
        children = [c for c in node.children if isinstance(c, Relation)]
        fresh = [_everywhere(c, rule, known, trace, seen) for c in children]
        if any(a is not b for a, b in zip(children, fresh, strict=True)):
            node = with_children(node, *fresh)
    seen[before.fingerprint] = node
    return node


def _same_schema(rule: Rule, before: Relation, after: Relation) -> None:
    assert before.schema == after.schema, f"rule {rule.__name__} changed the schema of {type(before).__name__}"
