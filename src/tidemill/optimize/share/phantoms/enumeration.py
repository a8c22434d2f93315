"""Every configuration of a few queries that can be the best one: the yardstick of the greedy choices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from tidemill.optimize.share.phantoms.configuration import Configuration, Relation

LIMIT = 7
Fed = tuple[tuple[Relation, Relation | None], ...]
"""Relations with their feeders, no relation twice."""


def all_configurations(queries: Iterable[Relation]) -> list[Configuration]:
    """All forests over the queries whose inner relations are the union of what they feed.

    A phantom with more attributes has more groups and larger buckets, so it is never better and is left out. A query
    may feed others or not. Four queries have up to 52 configurations, five 472; 7 is the limit.

    >>> from tidemill.optimize.share.phantoms.configuration import relations
    >>> [str(c) for c in all_configurations(relations("A B"))]
    ['A B', 'AB(A B)']
    >>> [str(c) for c in all_configurations(relations("AB A"))]
    ['A AB', 'AB!(A)']
    """
    asked = tuple(sorted(set(queries), key=lambda r: r.order))
    if len(asked) > LIMIT:
        raise ValueError(f"{len(asked)} queries have too many configurations; the limit is {LIMIT}")
    found = {Configuration.of(dict(forest), asked) for forest in _forests(asked, 0, {})}
    return sorted(found, key=lambda c: (len(c.relations), str(c)))


def _forests(members: tuple[Relation, ...], whole: int, trees: dict[tuple[Relation, ...], list[Fed]]) -> Iterator[Fed]:
    """Every way to cut the members into trees, none of which has `whole` members."""
    if not members:
        yield ()
        return
    first, rest = members[0], members[1:]
    for size in range(len(rest) + 1):
        if 1 + size == whole:
            continue
        for others in combinations(rest, size):
            left = tuple(m for m in rest if m not in others)
            for tree in _trees((first, *others), trees):
                used = {r for r, _ in tree}
                for more in _forests(left, whole, trees):
                    if not any(r in used for r, _ in more):
                        yield tree + more


def _trees(members: tuple[Relation, ...], trees: dict[tuple[Relation, ...], list[Fed]]) -> list[Fed]:
    """Every tree over the members: a single query, or the union of several over a forest of the others."""
    if members in trees:
        return trees[members]
    if len(members) == 1:
        trees[members] = [((members[0], None),)]
        return trees[members]
    top = Relation(frozenset().union(*(m.attributes for m in members)))
    below = tuple(m for m in members if m != top)
    trees[members] = [
        ((top, None), *((r, top if feeder is None else feeder) for r, feeder in forest))
        for forest in _forests(below, len(members), trees)
        if all(r != top for r, _ in forest)
    ]
    return trees[members]
