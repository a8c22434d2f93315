"""The inverted-predicate-signatures index of paper 003, section IV-B, as an executable model.

The engine keeps fragments in columns; this is what they must amount to. Values are counts or sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidemill.optimize.share.weaving.edges import edge_after
from tidemill.optimize.share.weaving.mapping import GroupMapping

Wanted = Mapping[str, Callable[[int], bool]]


@dataclass
class FragmentNode:
    """A fragment of one signature: the edge at which it ends, its value, how many weaved groups still want it."""

    time: int
    value: float
    references: int


class InvertedSignatures:
    """Signature → fragments. `wanted` says for each query which signatures it takes.

    The reference count of a node is the number of weaved groups that take its signature and have not read it yet; a
    fragment that nobody wants is not kept. Edges must be made due in order.
    """

    def __init__(self, mapping: GroupMapping, wanted: Wanted) -> None:
        self.entries: dict[int, list[FragmentNode]] = {}
        self._mapping = mapping
        self._wanted = wanted
        self._past: int | None = None

    def add(self, time: int, signature: int, value: float) -> None:
        """Aggregate a row in place, in the fine fragment its time falls into."""
        edge = edge_after(self._mapping.fine, time)
        nodes = self.entries.setdefault(signature, [])
        for node in nodes:
            if node.time == edge:
                node.value += value
                return
        nodes.append(FragmentNode(edge, value, self._references(signature, edge)))
        self._discard()

    def due(self, time: int) -> dict[int, dict[int, float]]:
        """For each group that has an edge at this time, its coalesced fragment by signature."""
        routed = {group: self._coalesce(group, time) for group in self._mapping.due(time)}
        self._past = time
        self._discard()
        return routed

    def switch(self, mapping: GroupMapping, wanted: Wanted, mask: int) -> None:
        """Another plan takes over. Signatures are folded to `mask`: entries that differ in other bits become one."""
        self._mapping, self._wanted = mapping, wanted
        old, self.entries = self.entries, {}
        for signature, nodes in old.items():
            target = self.entries.setdefault(signature & mask, [])
            for node in nodes:
                same = next((n for n in target if n.time == node.time), None)
                if same:
                    same.value += node.value
                else:
                    target.append(FragmentNode(node.time, node.value, self._references(signature & mask, node.time)))
        self._discard()

    def carries(self, bit: int) -> bool:
        """Whether a stored fragment has the bit set; a retired bit has drained when none has."""
        return any(signature >> bit & 1 for signature in self.entries)

    def _coalesce(self, group: int, time: int) -> dict[int, float]:
        before = self._mapping.edge_before(group, time)
        found: dict[int, float] = {}
        for signature, nodes in self.entries.items():
            if self._takes(group, signature):
                for node in nodes:
                    if before < node.time <= time:
                        found[signature] = found.get(signature, 0) + node.value
                        node.references -= 1
        return found

    def _references(self, signature: int, end: int) -> int:
        return sum(
            self._takes(group, signature) and (self._past is None or edge_after(edges, end - 1) > self._past)
            for group, edges in enumerate(self._mapping.edges)
        )

    def _takes(self, group: int, signature: int) -> bool:
        return any(self._wanted[query](signature) for query in self._mapping.queries[group])

    def _discard(self) -> None:
        kept = {signature: [n for n in nodes if n.references > 0] for signature, nodes in self.entries.items()}
        self.entries = {signature: nodes for signature, nodes in kept.items() if nodes}
