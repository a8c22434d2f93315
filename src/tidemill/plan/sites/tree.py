"""What crosses the network, as a tree: inputs, their distinct join values, rows that match, and shipments.

With D(X) the distinct join values of X, the one-way joins of paper 001 are trees of these nodes:

    SP-S   L ⋈ ship(R)                              SP-D   ship(L) ⋈ R
    SM-S1  L ⋈ ship(R ⋉ ship D(L))                  SM-D1  ship(L ⋉ ship D(R)) ⋈ R
    SM-S2  L ⋈ ship(R ⋉ ship(D(L) ∩ ship D(R)))     SM-D2  ship(L ⋉ ship(D(R) ∩ ship D(L))) ⋈ R

with the join at N1 on the left and at N2 on the right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from tidemill.plan.sites.query import Equality, SiteQuery

Tree = Union["Leaf", "Keys", "Matching", "Ship", "JoinAt"]


@dataclass(frozen=True)
class Leaf:
    """An input where it is owned."""

    alias: str


@dataclass(frozen=True)
class Keys:
    """D(X): the distinct values of the join columns of an input, without NULL; `fingerprint`: a number for each value
    in its place, which different values may share.
    """

    input: Leaf
    columns: tuple[str, ...]
    fingerprint: bool = False


@dataclass(frozen=True)
class Matching:
    """Of an input, or of its join values, what has its join values in `keys` (or the same fingerprint)."""

    input: Leaf | Keys
    keys: Keys | Matching | Ship
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Ship:
    """A relation at another site, with its history."""

    input: Leaf | Keys | Matching | JoinAt
    to: str


@dataclass(frozen=True)
class JoinAt:
    """All inputs joined at one site: each is there, or was shipped there."""

    inputs: tuple[Leaf | Ship, ...]
    site: str
    equalities: tuple[Equality, ...]


def site_of(tree: Tree, query: SiteQuery) -> str:
    """Where a relation is known."""
    if isinstance(tree, Leaf):
        return query.input(tree.alias).site
    if isinstance(tree, Ship):
        return tree.to
    if isinstance(tree, JoinAt):
        return tree.site
    return site_of(tree.input, query)


def leaf_of(tree: Leaf | Keys | Matching | Ship) -> Leaf:
    """The input whose rows, or join values, a tree below the join has."""
    while not isinstance(tree, Leaf):
        assert not isinstance(tree.input, JoinAt), "a joined relation has no single input"
        tree = tree.input
    return tree


def crossings(tree: Tree) -> int:
    """The greatest number of shipments in a row: what the slowest way to the answer has to cross."""
    if isinstance(tree, Leaf):
        return 0
    if isinstance(tree, JoinAt):
        return max(map(crossings, tree.inputs))
    if isinstance(tree, Matching):
        return max(crossings(tree.input), crossings(tree.keys))
    return crossings(tree.input) + isinstance(tree, Ship)


def show_tree(tree: Tree) -> str:
    """The tree in the notation of the table above.

    >>> show_tree(Ship(Matching(Leaf("R"), Ship(Keys(Leaf("L"), ("k",)), "n2"), ("k",)), "n1"))
    'ship(R ⋉ ship D(L))'
    """
    if isinstance(tree, Leaf):
        return tree.alias
    if isinstance(tree, Keys):
        return f"{'B' if tree.fingerprint else 'D'}({tree.input.alias})"
    if isinstance(tree, Matching):
        sign = "⋉" if isinstance(tree.input, Leaf) else "∩"
        return f"{show_tree(tree.input)} {sign} {show_tree(tree.keys)}"
    if isinstance(tree, JoinAt):
        return " ⋈ ".join(map(show_tree, tree.inputs))
    inner = show_tree(tree.input)
    return f"ship {inner}" if isinstance(tree.input, Keys) else f"ship({inner})"
