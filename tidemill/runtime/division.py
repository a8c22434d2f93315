"""Which queries of a source's readers have running totals, and which have tables: decided for each query by itself.

Queries that fit (`running_layout.fitting`) keep the raw relation and the relations below it; the others get the same
relations again, without what only the first ones need. Both see every row, and neither knows of the other.

Law: a query is in one share, and all relations on its path are; so it gets each row that it wants once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tidemill.runtime.intercede import Edges, classes
from tidemill.runtime.running_layout import Layout, fitting

_MANY = 8  # queries of a leaf, on average, from which on running totals are kept for some of all queries


class Share(NamedTuple):
    """The parameters of an "lfta" operator for some of its queries; the numbers that its relations have in the operator;
    its running totals, where they are possible.
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
    params, fits = same.params, fitting(same.params, unlike)
    like, others = ([q for q, fit in enumerate(fits) if fit is kind] for kind in (True, False))
    if not others:
        return [_share(params, list(range(len(params["relations"]))), True)]
    leaves = sum(any(fits[q] for q in relation["own"]) for relation in params["relations"])
    if len(like) < _MANY * max(leaves, 1):
        return [_share(params, list(range(len(params["relations"]))), False)]
    return [_share(*restricted(params, like), True), _share(*restricted(params, others), False)]


def _share(params: dict[str, Any], relations: list[int], running: bool) -> Share:
    raw = [r for r in params["relations"] if r["parent"] < 0]
    finest = classes(sorted({tuple(e) for r in raw for e in r["edges"]}))
    return Share(params, relations, finest, Layout.of(params, finest) if running else None)


def restricted(params: dict[str, Any], queries: Sequence[int]) -> tuple[dict[str, Any], list[int]]:
    """The parameters for some queries, and the numbers of the relations that are left.

    A raw relation without a table of its own to feed but one is left out: that one is raw then, with its memory.
    """
    number, relations = {q: i for i, q in enumerate(queries)}, params["relations"]
    kept = [r for r, relation in enumerate(relations) if any(q in number for q in relation["queries"])]
    left = [r for r in kept if any(q in number for q in relations[r]["own"])]
    if relations[kept[0]]["parent"] < 0 and len(left) == 1:
        kept = left
    asked = sorted({params["queries"][q]["predicate"] for q in queries} - {-1})
    place = {r: i for i, r in enumerate(kept)}
    needed = {a for r in left for a in relations[r]["attributes"]}
    own = [{
        **relations[r], "parent": place.get(relations[r]["parent"], -1),
        "buckets": relations[r]["buckets"] if r in place and relations[r]["parent"] in place else relations[0]["buckets"],
        "attributes": [a for a in relations[r]["attributes"] if a in needed],
        "edges": _coarsest([tuple(e) for q in relations[r]["queries"] if q in number
                            for e in params["queries"][q]["edges"]]),
        "queries": [number[q] for q in relations[r]["queries"] if q in number],
        "own": [number[q] for q in relations[r]["own"] if q in number],
        "emits": relations[r]["emits"] if r in left else -1,
    } for r in kept]
    return {
        **params, "relations": own, "predicates": [params["predicates"][p] for p in asked], "picked": asked,
        "queries": [{**params["queries"][q], "predicate": _place(asked, params["queries"][q]["predicate"])}
                    for q in queries],
    }, kept


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
