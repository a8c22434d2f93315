"""The group-mapping table: which weaved group wants a fragment when (paper 003, section III-B)."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.optimize.share.weaving.edges import Edges, edge_times


@dataclass(frozen=True)
class GroupMapping:
    """For each weaved group its queries and its edges; `fine` are the edges of the shared sub-aggregation."""

    queries: tuple[tuple[str, ...], ...]
    edges: tuple[Edges, ...]
    fine: Edges

    def group_of(self, query: str) -> int:
        """The number of a query's weaved group."""
        return next(i for i, names in enumerate(self.queries) if query in names)

    def due(self, time: int) -> tuple[int, ...]:
        """The groups that have an edge at this time.

        >>> a, b = ((5, 0), (5, 3)), ((4, 0), (4, 1))
        >>> table = GroupMapping((("a",), ("b",)), (a, b), b + a)
        >>> table.due(3), table.due(4), table.due(8)
        ((0,), (1,), (0, 1))
        """
        return tuple(i for i, edges in enumerate(self.edges) if any(time % s == a for s, a in edges))

    def coalesced(self, group: int, time: int) -> list[int]:
        """The fine fragments, named by their ends, that become the group's fragment which ends at this edge.

        >>> a, b = ((5, 0), (5, 3)), ((4, 0), (4, 1))
        >>> table = GroupMapping((("a",), ("b",)), (a, b), b + a)
        >>> table.coalesced(0, 3), table.coalesced(1, 4)
        ([1, 3], [3, 4])
        """
        return edge_times(self.fine, self.edge_before(group, time) + 1, time + 1)

    def edge_before(self, group: int, time: int) -> int:
        """The group's last edge before a time: each class has one in the slide before it."""
        return max(time - 1 - (time - 1 - phase) % slide for slide, phase in self.edges[group])
