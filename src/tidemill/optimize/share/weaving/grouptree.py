"""The group-by tree by the heuristic of intermediate aggregates (paper 003, section V-A).

A node aggregates by its attributes and feeds its children; leaves are the group-bys of queries. The input stream feeds
one node with all attributes, or several nodes. The cost is the number of aggregate operations for the rows of one
fragment, as if all windows were identical: the input of each node is the output of its parent,

    in(node under the stream) = rows        in(child of X) = out(X) = min(in(X), groups of X)

The optimizer of intermediate aggregates minimizes it subject to a memory constraint. An internal node keeps the groups
of a fragment that it outputs; the size of a group in units depends on the attributes. Leaves are answers, which every
tree keeps, so they do not count.

Search: begin with one node over all leaves. While the cost falls, make the best of these changes: add an internal node
over children of a node; split an internal node in two; remove an internal node. Between two trees, the one that exceeds
the memory by less is always better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

Attributes = frozenset[str]
Counts = Callable[[Attributes], float]
Units = Callable[[Attributes], float]  # of memory for one group
Rank = tuple[float, float]  # by how much the memory is exceeded, cost

WIDE = 24  # a node with more children than this tries only the pairs with the smallest unions
PAIRS = WIDE * (WIDE - 1) // 2


@dataclass(frozen=True)
class GroupNode:
    """Aggregation by these attributes; a leaf has no children and is the group-by of queries."""

    attributes: Attributes
    children: tuple[GroupNode, ...] = ()

    @property
    def leaves(self) -> tuple[Attributes, ...]:
        """The group-bys of the queries below."""
        return tuple(a for c in self.children for a in c.leaves) if self.children else (self.attributes,)

    def __str__(self) -> str:
        name = label(self.attributes)
        return f"{name}({' '.join(map(str, self.children))})" if self.children else name


@dataclass(frozen=True)
class GroupTree:
    """The nodes that the input stream feeds, the cost in operations for each fragment, and the memory it takes."""

    fed: tuple[GroupNode, ...]
    cost: float
    memory: float = 0.0

    @property
    def root(self) -> GroupNode | None:
        """The one node under the stream, when it is internal; it becomes the shared sub-aggregation."""
        return self.fed[0] if len(self.fed) == 1 and self.fed[0].children else None

    @property
    def first_level(self) -> tuple[GroupNode, ...]:
        """The children of the root, or of the stream when there is no root."""
        return self.root.children if self.root else self.fed

    def __str__(self) -> str:
        return " ".join(map(str, self.fed))


class GroupCounts:
    """How many groups an attribute set has: as known, or estimated from known sets.

    An unknown set has as many groups as if its attributes were independent, but not fewer than a known subset and
    not more than a known superset. An attribute nothing is known of has `default` values.

    >>> counts = GroupCounts({frozenset("A"): 10, frozenset("B"): 20, frozenset("ABC"): 150})
    >>> counts(frozenset("AB")), counts(frozenset("ABCD"))
    (150.0, 200000000.0)
    """

    def __init__(self, known: Mapping[Attributes, float], default: float = 1000.0) -> None:
        self._known = {frozenset(attributes): float(count) for attributes, count in known.items()}
        self._default = default

    def __call__(self, attributes: Attributes) -> float:
        if attributes in self._known:
            return self._known[attributes]
        count = 1.0
        for attribute in attributes:
            count *= self._known.get(frozenset([attribute]), self._default)
        above = min((n for known, n in self._known.items() if known > attributes), default=count)
        below = max((n for known, n in self._known.items() if known < attributes), default=1.0)
        return max(min(count, above), below)


def label(attributes: Attributes) -> str:
    """Attributes as they are printed.

    >>> label(frozenset("CA")), label(frozenset(["dip", "sp"])), label(frozenset())
    ('AC', 'dip·sp', '()')
    """
    names = sorted(attributes)
    return ("" if all(len(n) == 1 for n in names) else "·").join(names) or "()"


def one_unit(attributes: Attributes) -> float:
    """One unit for each group: memory is then the number of groups."""
    return 1.0


def group_tree(
    group_bys: Iterable[Attributes], counts: Counts, rows: float, memory: float = math.inf, units: Units = one_unit
) -> GroupTree:
    """The tree for these group-bys and `rows` rows in a fragment, whose internal nodes take at most `memory`.

    Example 4 of paper 003, with ABC of far fewer groups than ABCD:

    >>> known = {"ABCD": 9000, "ABC": 2000, "AC": 1500, "A": 50, "BC": 1600, "CD": 5000}
    >>> counts = GroupCounts({frozenset(k): v for k, v in known.items()})
    >>> str(group_tree(map(frozenset, ["A", "BC", "AC", "CD"]), counts, rows=1e6))
    'ABCD(ABC(A AC BC) CD)'

    ABCD keeps 9,000 groups. Where there is room for 3,000, ABC stays and CD is fed by the stream:

    >>> str(group_tree(map(frozenset, ["A", "BC", "AC", "CD"]), counts, rows=1e6, memory=3000))
    'ABC(A AC BC) CD'
    """

    def rank(fed: tuple[GroupNode, ...]) -> Rank:
        taken = forest_memory(fed, counts, rows, units) if memory < math.inf else 0.0
        return max(0.0, taken - memory), forest_cost(fed, counts, rows)

    leaves = tuple(GroupNode(a) for a in sorted(set(group_bys), key=sorted))
    fed = leaves if len(leaves) < 2 else (GroupNode(_union(leaves), leaves),)
    now = rank(fed)
    while True:
        best = min(((rank(other), other) for other in _neighbours(fed, counts)), key=_rank, default=None)
        if best is None or best[0] >= now:
            return GroupTree(_sort_nodes(fed), now[1], forest_memory(fed, counts, rows, units))
        now, fed = best


def forest_cost(fed: Iterable[GroupNode], counts: Counts, rows: float) -> float:
    """Operations for a fragment of `rows` rows, which is the input of each of these nodes.

    >>> a, b = GroupNode(frozenset("A")), GroupNode(frozenset("B"))
    >>> forest_cost([GroupNode(frozenset("AB"), (a, b))], lambda attributes: 7, 100)
    114
    """
    return sum(
        rows + (forest_cost(node.children, counts, min(rows, counts(node.attributes))) if node.children else 0)
        for node in fed
    )


def forest_memory(fed: Iterable[GroupNode], counts: Counts, rows: float, units: Units = one_unit) -> float:
    """Units that the internal nodes keep of a fragment of `rows` rows.

    >>> a, b = GroupNode(frozenset("A")), GroupNode(frozenset("B"))
    >>> forest_memory([GroupNode(frozenset("AB"), (a, b)), b], lambda attributes: 7, 100, lambda attributes: 3)
    21.0
    """
    total = 0.0
    for node in fed:
        if node.children:
            out = min(rows, counts(node.attributes))
            total += out * units(node.attributes) + forest_memory(node.children, counts, out, units)
    return total


def _rank(found: tuple[Rank, tuple[GroupNode, ...]]) -> Rank:
    return found[0]


def _sort_nodes(nodes: Iterable[GroupNode]) -> tuple[GroupNode, ...]:
    return tuple(
        GroupNode(n.attributes, _sort_nodes(n.children)) for n in sorted(nodes, key=lambda n: sorted(n.attributes))
    )


def _union(nodes: Iterable[GroupNode]) -> Attributes:
    return frozenset().union(*(n.attributes for n in nodes))


def _neighbours(
    siblings: tuple[GroupNode, ...], counts: Counts, above: Attributes | None = None
) -> Iterator[tuple[GroupNode, ...]]:
    """All results of one change in or below these siblings, children of a node or (`above` is None) of the stream."""
    yield from _add_node(siblings, counts, above)
    for i, node in enumerate(siblings):
        if not node.children:
            continue
        before, after = siblings[:i], siblings[i + 1 :]
        yield before + node.children + after
        for halves in _split_node(node, counts):
            yield before + halves + after
        for children in _neighbours(node.children, counts, node.attributes):
            yield (*before, GroupNode(node.attributes, children), *after)


def _add_node(
    siblings: tuple[GroupNode, ...], counts: Counts, above: Attributes | None
) -> Iterator[tuple[GroupNode, ...]]:
    """One more internal node: over two children, and all others whose attributes it contains."""
    for attributes in _unions(siblings, counts):
        inside = tuple(n for n in siblings if n.attributes <= attributes)
        outside = tuple(n for n in siblings if not n.attributes <= attributes)
        if attributes != above or outside:
            # If a sibling is already an internal node with these attributes, it becomes the feeder of the others.
            same = [n for n in inside if n.attributes == attributes and n.children]
            fed = tuple(c for n in inside for c in (n.children if n in same else (n,)))
            yield (*outside, GroupNode(attributes, fed))


def _split_node(node: GroupNode, counts: Counts) -> Iterator[tuple[GroupNode, ...]]:
    """A node as two: every child goes to the one of two seeds with which it has fewer groups."""
    if len(node.children) < 3:
        return
    for one, other in _pairs(node.children, counts):
        halves: tuple[list[GroupNode], list[GroupNode]] = ([one], [other])
        for child in node.children:
            if child not in (one, other):
                growth = [counts(child.attributes | _union(half)) - counts(_union(half)) for half in halves]
                halves[growth[1] < growth[0]].append(child)
        yield tuple(h[0] if len(h) == 1 else GroupNode(_union(h), tuple(h)) for h in halves)


def _pairs(nodes: tuple[GroupNode, ...], counts: Counts) -> list[tuple[GroupNode, GroupNode]]:
    pairs = list(combinations(nodes, 2))
    if len(nodes) > WIDE:
        pairs.sort(key=lambda pair: counts(_union(pair)))
    return pairs[:PAIRS]


def _unions(nodes: tuple[GroupNode, ...], counts: Counts) -> list[Attributes]:
    return list(dict.fromkeys(_union(pair) for pair in _pairs(nodes, counts)))
