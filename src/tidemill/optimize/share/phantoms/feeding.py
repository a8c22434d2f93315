"""The relation feeding graph (paper 002, figure 4), and the configurations that are consistent with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from tidemill.optimize.share.phantoms.configuration import Configuration, Relation

EXACT = 12
CANDIDATES = 256


@dataclass(frozen=True)
class FeedingGraph:
    """Queries, candidate feeders, and the edges between them.

    A candidate is the union of two or more queries. One that is no query is a possible phantom; one that is a query
    may feed the queries inside it. An edge goes from a feeder to each relation it can feed with no other relation in
    between; every path can be short-circuited.
    """

    queries: tuple[Relation, ...]
    candidates: tuple[Relation, ...]

    @classmethod
    def of(cls, queries: Iterable[Relation]) -> FeedingGraph:
        """All unions for up to 12 different attribute sets (`candidate_sets` says what beyond).

        >>> from tidemill.optimize.share.phantoms.configuration import relations
        >>> [str(r) for r in FeedingGraph.of(relations("AB BC BD CD")).phantoms]
        ['ABC', 'ABD', 'BCD', 'ABCD']
        """
        asked = tuple(sorted(set(queries), key=lambda r: r.order))
        unions = [Relation(union) for union in candidate_sets([q.attributes for q in asked])]
        useful = [r for r in unions if sum(r.feeds(q) for q in asked) > (0 if r in asked else 1)]
        return cls(asked, tuple(sorted(useful, key=lambda r: (len(r.attributes), r.order))))

    @property
    def phantoms(self) -> tuple[Relation, ...]:
        return tuple(r for r in self.candidates if r not in self.queries)

    @property
    def edges(self) -> tuple[tuple[Relation, Relation], ...]:
        """(feeder, fed) with nothing in between."""
        nodes = [*self.queries, *self.phantoms]
        return tuple(
            (feeder, fed)
            for feeder in self.candidates
            for fed in nodes
            if feeder.feeds(fed) and not any(feeder.feeds(n) and n.feeds(fed) for n in nodes)
        )


def candidate_sets(queries: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """Attribute sets that may feed: unions of two or more queries; a set that two queries have is one as well.

    With up to 12 different sets: all unions. With more: the unions of pairs, the union of all, and for each query the
    chain that adds, step by step, the query with the fewest new attributes. If there are more than 256 candidates,
    those with the most contained queries per attribute are returned.
    """
    distinct = sorted(set(queries), key=sorted)
    repeated = [s for s in distinct if queries.count(s) > 1]
    unions = set(repeated)
    if len(distinct) <= EXACT:
        reached: set[frozenset[str]] = set()
        for s in distinct:
            new = {s | other for other in reached}
            unions |= new
            reached |= new | {s}
    else:
        unions.update(a | b for a, b in combinations(distinct, 2))
        for s in distinct:
            unions.update(_grow_unions(s, distinct))
    if len(unions) <= CANDIDATES:
        return sorted(unions, key=sorted)

    def worth(union: frozenset[str]) -> tuple[float, list[str]]:
        return -sum(q <= union for q in queries) / max(1, len(union)), sorted(union)

    return sorted(sorted(unions, key=worth)[:CANDIDATES], key=sorted)


def _grow_unions(start: frozenset[str], queries: Sequence[frozenset[str]]) -> Iterator[frozenset[str]]:
    union, left = start, [q for q in queries if q != start]
    while left:
        nearest = min(left, key=lambda q: (len(q - union), sorted(q)))
        union |= nearest
        left = [q for q in left if not q <= union]
        yield union


def assemble(
    queries: Iterable[Relation], feeders: Iterable[Relation], groups: Callable[[Relation], float]
) -> Configuration:
    """The configuration with these feeders: each relation is fed by the feeder with the fewest groups that can.

    A phantom that would feed fewer than two relations is left out: it is never beneficial (section 2.6).

    >>> from tidemill.optimize.share.phantoms.configuration import relation, relations
    >>> size = lambda r: len(r.attributes)
    >>> str(assemble(relations("AB BC BD CD"), relations("ABCD BCD"), size))
    'ABCD(AB BCD(BC BD CD))'
    >>> str(assemble(relations("A B"), relations("ABC AB"), size))
    'AB(A B)'
    """
    asked = dict.fromkeys(queries)
    phantoms = {f for f in feeders if f not in asked}
    able = sorted({*feeders}, key=lambda r: (groups(r), len(r.attributes), r.order))
    while True:
        fed = _assign_feeders([*asked, *phantoms], able)
        load = dict.fromkeys(phantoms, 0)
        for feeder in fed.values():
            if feeder in load:
                load[feeder] += 1
        idle = [p for p, count in load.items() if count < 2]
        if not idle:
            return Configuration.of_valid(fed, asked)
        # Drop the one with the most attributes first: what it fed may give another phantom its second child.
        dropped = max(idle, key=lambda r: (len(r.attributes), r.order))
        phantoms.discard(dropped)
        able.remove(dropped)


def _assign_feeders(wanted: Iterable[Relation], able: Sequence[Relation]) -> dict[Relation, Relation | None]:
    """The first feeder that can feed each relation. It is looked up once for each set of attributes: there are many
    leaves and few sets.
    """
    known: dict[tuple[frozenset[str], bool], Relation | None] = {}
    fed: dict[Relation, Relation | None] = {}
    for r in wanted:
        kind = r.attributes, r.tag is None
        if kind not in known:
            known[kind] = next((f for f in able if f.feeds(r)), None)
        fed[r] = known[kind]
    return fed
