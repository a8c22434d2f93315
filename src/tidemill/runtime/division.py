"""Which queries of a source's readers have running totals, and which have tables: decided for each query by itself.

Queries that fit (`running_layout.fitting`) keep the raw relation and the relations below it; the others get the same
relations again, without what only the first ones need. Both see every row, and neither knows of the other.

Law: a query is in one share, and all relations on its path are; so it gets each row that it wants once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tidemill.runtime.intercede import classes
from tidemill.runtime.kernels.intercede import Edges
from tidemill.runtime.running_layout import Layout, fitting
from tidemill.runtime.thresholds import sizes


class Share(NamedTuple):
    """The parameters of an "lfta" operator for some of its queries; the numbers that its relations have in the
    operator; its running totals, where they are possible.
    """

    params: dict[str, Any]
    relations: list[int]
    finest: Edges
    layout: Layout | None


def divide(params: dict[str, Any], unlike: frozenset[str] = frozenset()) -> list[Share]:
    """The shares of the queries of an operator; those that need a part of `unlike` cannot have running totals."""
    return _divided(_Same(params), unlike)


class _Same:
    """Parameters that are equal if they are the same: plans do not change, and are kept from batch to batch."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params

    def __hash__(self) -> int:
        return id(self.params)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.params is self.params


@lru_cache(maxsize=16)
def _divided(same: _Same, unlike: frozenset[str]) -> list[Share]:
    params, rest, shares = same.params, set(range(len(same.params["queries"]))), []
    for raw in (relation for relation in params["relations"] if relation["parent"] < 0):
        fed = sorted(raw["queries"])
        tree, _ = restricted(params, fed)
        like = [q for q, fit in zip(fed, fitting(tree, unlike), strict=True) if fit]
        wanted = set(like)
        leaves = {tuple(relation["attributes"]) for relation in params["relations"] if wanted & set(relation["own"])}
        if like and (len(like) == len(params["queries"]) or len(like) >= sizes.running_queries * len(leaves)):
            shares.append(_share(*restricted(params, like), True))
            rest -= set(like)
    return [*shares, _share(*restricted(params, sorted(rest)), False)] if rest or not shares else shares


def _share(params: dict[str, Any], relations: list[int], running: bool) -> Share:
    raw = [r for r in params["relations"] if r["parent"] < 0]
    finest = classes(sorted({tuple(e) for r in raw for e in r["edges"]}))
    return Share(params, relations, finest, Layout.of(params, finest) if running else None)


def restricted(params: dict[str, Any], queries: Sequence[int]) -> tuple[dict[str, Any], list[int]]:
    """The parameters for some queries, and the numbers of the relations that are left.

    A raw relation that would feed a single one is left out: that one is raw then, with its memory.
    """
    number, relations = {q: i for i, q in enumerate(queries)}, params["relations"]
    if list(queries) == list(range(len(params["queries"]))):
        return params, list(range(len(relations)))
    kept = [r for r, relation in enumerate(relations) if any(q in number for q in relation["queries"])]
    own = [r for r in kept if any(q in number for q in relations[r]["own"])]
    buckets = {r: relations[r]["buckets"] for r in kept}
    for raw in [r for r in kept if relations[r]["parent"] < 0]:
        below = [r for r in own if _root(relations, r) == raw]
        if len(below) == 1 and below != [raw]:
            kept = [r for r in kept if _root(relations, r) != raw or r in below]
            buckets[below[0]] = relations[raw]["buckets"]
    asked = sorted({params["queries"][q]["predicate"] for q in queries} - {-1})
    left = [_restricted(params, r, kept, own, number) | {"buckets": buckets[r]} for r in kept]
    return {
        **params, "relations": left, "predicates": [params["predicates"][p] for p in asked], "picked": asked,
        "queries": [{**params["queries"][q], "predicate": _place(asked, params["queries"][q]["predicate"])}
                    for q in queries],
    }, kept


def _restricted(params: dict[str, Any], r: int, kept: list[int], own: list[int],
                number: dict[int, int]) -> dict[str, Any]:
    """One relation for some queries: the attributes that those below it need, their edges."""
    relations, relation = params["relations"], params["relations"][r]
    needed = {a for leaf in own if r in _path(relations, leaf) for a in relations[leaf]["attributes"]}
    passing = [q for q in relation["queries"] if q in number]
    return {
        **relation, "parent": kept.index(relation["parent"]) if relation["parent"] in kept else -1,
        "attributes": [a for a in relation["attributes"] if a in needed],
        "edges": _coarsest([tuple(e) for q in passing for e in params["queries"][q]["edges"]]),
        "queries": [number[q] for q in passing], "own": [number[q] for q in relation["own"] if q in number],
        "emits": relation["emits"] if r in own else -1,
    }


def _path(relations: Sequence[dict[str, Any]], r: int) -> list[int]:
    """From a relation to the raw one that feeds it."""
    path = [r]
    while relations[path[-1]]["parent"] >= 0:
        path.append(relations[path[-1]]["parent"])
    return path


def _root(relations: Sequence[dict[str, Any]], r: int) -> int:
    return _path(relations, r)[-1]


def _place(asked: list[int], predicate: int) -> int:
    return -1 if predicate < 0 else asked.index(predicate)


def _coarsest(edges: list[tuple[int, int]]) -> list[list[int]]:
    """The same edges without those that are among others.

    >>> _coarsest([(10, 0), (20, 10), (15, 5), (10, 0)])
    [[10, 0], [15, 5]]
    """
    found: list[list[int]] = []
    for slide, phase in sorted(set(edges)):
        if not any(slide % s == 0 and phase % s == p for s, p in found):
            found.append([slide, phase])
    return found
