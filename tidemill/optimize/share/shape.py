"""Which relations a source's readers keep, how they feed each other, and how large their tables are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemill.optimize.share.asked import Asked


@dataclass(frozen=True)
class TreeNode:
    """One relation of the configuration; parents come before their children."""

    label: str
    attributes: tuple[str, ...]
    parent: int
    buckets: int
    edges: tuple[tuple[int, int], ...]  # (slide, phase)
    queries: tuple[str, ...]  # those whose rows pass here
    store: str | None = None  # the fragment store it emits to


Tree = tuple[TreeNode, ...]


@dataclass(frozen=True)
class Shape:
    """The chosen tree and what led to it."""

    tree: Tree
    report: dict[str, Any] = field(default_factory=dict)


def shape_of(queries: Sequence[Asked], parts: int, settings: Any) -> Shape:
    stores: dict[str, list[Asked]] = {}
    for q in queries:
        stores.setdefault(q.store, []).append(q)
    nodes: list[TreeNode] = []
    parent = -1
    share = settings.memory
    if len(stores) > 1:
        attributes = tuple(sorted({n for q in queries for n in q.names}))
        size = 2 * (1 + len(attributes) + parts)
        nodes.append(TreeNode("·".join(attributes), attributes, -1, max(1, share // 2 // size), _edges(queries),
                              tuple(q.id for q in queries)))
        parent, share = 0, share // 2
    for store, found in stores.items():
        size = 2 * (1 + len(found[0].names) + parts)
        nodes.append(TreeNode("·".join(found[0].names), found[0].names, parent, max(1, share // len(stores) // size),
                              _edges(found), tuple(q.id for q in found), store))
    return Shape(tuple(nodes))


def _edges(queries: Sequence[Asked]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted({(q.window.slide, phase) for q in queries for phase in q.window.phases}))
