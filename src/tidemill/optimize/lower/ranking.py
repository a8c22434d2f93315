"""Ranks, window functions and sessions: the rows of a partition come together in one shard."""

from __future__ import annotations

from dataclasses import replace

from tidemill.optimize.lower.edges import Edges
from tidemill.optimize.lower.placement import ONE, Handle, Where, by_hash, name_of, placement_after
from tidemill.plan import physical as p
from tidemill.plan import relations as r
from tidemill.plan.physical import ids


class Ranking(Edges):
    """Ranked, WindowFunctions, Sessions."""

    def place_ranked(self, node: r.Ranked) -> Handle:
        below = self.build(node.input)
        op = p.Ranked(
            name_of(node),
            (),
            node.schema,
            node.input.schema,
            node.partition,
            node.order,
            node.function,
            node.after,
            node.last,
            node.name,
            node.last is not None and r.append_only(node.input),
        )
        if node.last is None or node.partition:
            return self._place_whole(op, below, node.partition)
        firsts = self._place_firsts(op, below)
        if firsts is not below:
            op = replace(op, bounded=False)  # the first rows of a shard are taken back when others come
        return self._place_whole(op, firsts, ())

    def place_window_functions(self, node: r.WindowFunctions) -> Handle:
        schema = node.input.schema
        op = p.WindowFunctions(name_of(node), (), node.schema, schema, node.partition, node.order, node.calls)
        return self._place_whole(op, self.build(node.input), node.partition)

    def place_sessions(self, node: r.Sessions) -> Handle:
        op = p.Sessions(
            name_of(node),
            (),
            node.schema,
            node.input.schema,
            node.partition,
            node.stamp,
            node.gap_us,
            r.closes_for_good(node),
        )
        return self._place_whole(op, self.build(node.input), node.partition)

    def place_recursive(self, node: r.Recursive) -> Handle:
        """All rows in one shard: what is found from a row may be found from any other."""
        placed = tuple(self.deliver(self.build(i), ONE) for i in node.inputs)
        sides = tuple(p.RecursiveInput(i.schema) for i in node.inputs)
        name = self.add_stage(p.Recursive(name_of(node), placed, node.schema, sides, node.step, node.distinct))
        return Handle("stage", name, node.schema, ONE)

    def _place_whole(
        self, op: p.Ranked | p.WindowFunctions | p.Sessions, below: Handle, partition: tuple[str, ...]
    ) -> Handle:
        """The operator where the rows of each partition are together."""
        need = by_hash(partition) if partition else ONE
        placed = replace(op, inputs=(self.deliver(below, need),))
        return Handle("stage", self.add_stage(placed), op.schema, placement_after(below, need))

    def _place_firsts(self, op: p.Ranked, below: Handle) -> Handle:
        """The first rows of each shard, for the first ones of all: only those that may be among them travel on.

        Sound at every time: a row with `last` rows before it in its own shard has them before it everywhere. Equal rows
        are together, so that each deletion meets its row. Nothing is gained where all rows are in one shard, or where
        an operator has them in any.
        """
        columns = [c.name for c in op.columns]
        where = placement_after(below, by_hash(columns)) if columns else Where("any")
        if where.how != "hash" or (below.place == "stage" and below.where.how != "hash"):
            return below
        own = replace(op, id=ids.variant(op.id, "own"), schema=op.columns, after=0, name=None)
        first = replace(own, inputs=(self.deliver(below, by_hash(columns)),))
        return self.note_placement(Handle("stage", self.add_stage(first), op.columns, where))
