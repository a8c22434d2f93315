"""Which queries of a source's readers have running totals, and which have tables: decided for each query by itself.

Queries that fit (`running_layout.fitting`) keep the raw relation and the relations below it; the others get the same
relations again, without what only the first ones need. Both get every row, and share no state.

Law: a query is in one share, and all relations on its path are; so it gets each row that it wants once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from tidemill.plan.physical import HashTables, LftaRelation
from tidemill.runtime import fast_paths
from tidemill.runtime.kernels.share.intercede import Edges
from tidemill.runtime.share.reader.intercede import edge_classes
from tidemill.runtime.share.reader.running_totals.layout import Layout, fitting
from tidemill.runtime.thresholds import sizes


class Share(NamedTuple):
    """The hash tables of some queries: `relations` are the numbers that theirs have among all of the operator,
    `picked` those of their predicates; `layout` has their running totals, where they are possible.
    """

    tables: HashTables
    relations: list[int]
    picked: list[int]
    finest: Edges
    layout: Layout | None


def divide(tables: HashTables, unlike: frozenset[str] = frozenset()) -> list[Share]:
    """The shares of the queries of an operator; those that need a part of `unlike` cannot have running totals."""
    return _divide(_Same(tables), unlike, fast_paths.is_on("running_totals"))


class _Same:
    """An operator that is equal to itself only: plans do not change, and are kept from batch to batch."""

    def __init__(self, tables: HashTables) -> None:
        self.tables = tables

    def __hash__(self) -> int:
        return id(self.tables)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.tables is self.tables


@lru_cache(maxsize=16)
def _divide(same: _Same, unlike: frozenset[str], running: bool) -> list[Share]:
    tables, rest, shares = same.tables, set(range(len(same.tables.queries))), []
    for raw in (relation for relation in tables.relations if running and relation.parent < 0):
        fed = sorted(raw.queries)
        like = [q for q, fit in zip(fed, fitting(restrict(tables, fed).tables, unlike), strict=True) if fit]
        wanted = set(like)
        leaves = {relation.attributes for relation in tables.relations if wanted & set(relation.own)}
        if like and (len(like) == len(tables.queries) or len(like) >= sizes.running_queries * len(leaves)):
            shares.append(_share(restrict(tables, like), True))
            rest -= set(like)
    return [*shares, _share(restrict(tables, sorted(rest)), False)] if rest or not shares else shares


def _share(found: Restricted, running: bool) -> Share:
    raw = [r for r in found.tables.relations if r.parent < 0]
    finest = edge_classes(sorted({e for r in raw for e in r.edges}))
    return Share(*found, finest, Layout.of(found.tables, finest) if running else None)


class Restricted(NamedTuple):
    """The hash tables of some queries, and the numbers that their relations and predicates have among all."""

    tables: HashTables
    relations: list[int]
    picked: list[int]


def restrict(tables: HashTables, queries: Sequence[int]) -> Restricted:
    """The tables for some queries.

    A raw relation that would feed a single one is left out: that one is raw then, with its memory.
    """
    number, relations = {q: i for i, q in enumerate(queries)}, tables.relations
    if list(queries) == list(range(len(tables.queries))):
        return Restricted(tables, list(range(len(relations))), list(range(len(tables.predicates))))
    kept = [r for r, relation in enumerate(relations) if any(q in number for q in relation.queries)]
    own = [r for r in kept if any(q in number for q in relations[r].own)]
    buckets = {r: relations[r].buckets for r in kept}
    for raw in [r for r in kept if relations[r].parent < 0]:
        below = [r for r in own if _root(relations, r) == raw]
        if len(below) == 1 and below != [raw]:
            kept = [r for r in kept if _root(relations, r) != raw or r in below]
            buckets[below[0]] = relations[raw].buckets
    asked = sorted({tables.queries[q].predicate for q in queries} - {-1})
    restricted = replace(
        tables,
        relations=tuple(replace(_relation(tables, r, kept, own, number), buckets=buckets[r]) for r in kept),
        predicates=tuple(tables.predicates[predicate] for predicate in asked),
        queries=tuple(
            replace(tables.queries[q], predicate=_place(asked, tables.queries[q].predicate)) for q in queries
        ),
    )
    return Restricted(restricted, kept, asked)


def _relation(tables: HashTables, r: int, kept: list[int], own: list[int], number: dict[int, int]) -> LftaRelation:
    """One relation for some queries: the attributes that those below it need, their edges."""
    relations, relation = tables.relations, tables.relations[r]
    needed = {a for leaf in own if r in _path(relations, leaf) for a in relations[leaf].attributes}
    passing = [q for q in relation.queries if q in number]
    return replace(
        relation,
        parent=kept.index(relation.parent) if relation.parent in kept else -1,
        attributes=tuple(a for a in relation.attributes if a in needed),
        edges=_coarsest([e for q in passing for e in tables.queries[q].edges]),
        queries=tuple(number[q] for q in passing),
        own=tuple(number[q] for q in relation.own if q in number),
        emits=relation.emits if r in own else -1,
    )


def _path(relations: Sequence[LftaRelation], r: int) -> list[int]:
    """From a relation to the raw one that feeds it."""
    path = [r]
    while relations[path[-1]].parent >= 0:
        path.append(relations[path[-1]].parent)
    return path


def _root(relations: Sequence[LftaRelation], r: int) -> int:
    return _path(relations, r)[-1]


def _place(asked: list[int], predicate: int) -> int:
    return -1 if predicate < 0 else asked.index(predicate)


def _coarsest(edges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same edges without those that are among others.

    >>> _coarsest([(10, 0), (20, 10), (15, 5), (10, 0)])
    ((10, 0), (15, 5))
    """
    found: list[tuple[int, int]] = []
    for slide, phase in sorted(set(edges)):
        if not any(slide % s == 0 and phase % s == p for s, p in found):
            found.append((slide, phase))
    return tuple(found)
