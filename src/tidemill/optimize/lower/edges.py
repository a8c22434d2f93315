"""The plan under construction: operators, and how rows get from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidemill.optimize.lower.placement import (
    ANY,
    Handle,
    Where,
    by_hash,
    common_placement,
    first_names,
    route_of,
    satisfies,
)
from tidemill.optimize.share.weave import Woven
from tidemill.optimize.share.window_queries import WindowQuery
from tidemill.plan import physical as p
from tidemill.plan.physical import ids
from tidemill.plan.relations import Relation, quoted
from tidemill.plan.sources import SourceSpec

_WHOLE = (p.Tagger, p.Group, p.Rstream, p.ChangeStream)  # operators whose rows are closed and do not cancel


@dataclass
class Edges:
    """What has been placed so far; `build` places a node by the method of its type (`place`)."""

    sources: Mapping[str, SourceSpec]
    unit_us: int
    reader: dict[str, p.Op] = field(default_factory=dict)
    stage: dict[str, p.Op] = field(default_factory=dict)
    exchanges: dict[str, p.Exchange] = field(default_factory=dict)
    loops: dict[str, p.Exchange] = field(default_factory=dict)
    specs: dict[str, SourceSpec] = field(default_factory=dict)
    seeds: list[tuple[str, str]] = field(default_factory=list)
    built: dict[str, Handle] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    queries: dict[str, WindowQuery] = field(default_factory=dict)
    woven: dict[str, Woven] = field(default_factory=dict)
    store_queries: dict[str, p.WeaveQuery] = field(
        default_factory=dict
    )  # what stores make, by the operator that picks it
    placements: dict[str, Where] = field(default_factory=dict)  # of the rows of operators in the stage

    def output(self, node: Relation) -> str:
        """The operator through which a view's changes leave."""
        source = self.deliver(self.build(node), ANY)
        return self.add_stage(
            p.ViewOutput(ids.view_output(node.fingerprint), (source,), node.schema, self._is_closed(source))
        )

    def _is_closed(self, name: str) -> bool:
        """True when the output of an operator is closed and no two of its changes cancel.

        These are whole answers of windows; a tagger with all its columns (at each time at most one row of a key is
        replaced by another); an rstream, which emits every row once at each closed point; and a stream of changes.
        """
        op = self.stage.get(name)
        if isinstance(op, p.Project):
            below = self.stage.get(op.inputs[0])
            kept = {item.sql for item in op.items}
            return isinstance(below, _WHOLE) and kept >= {quoted(c.name) for c in below.schema}
        return isinstance(op, _WHOLE) or (name in self.store_queries and self.store_queries[name].mode == "whole")

    def place(self, node: Relation) -> Handle:
        """Place a node of any type."""
        raise NotImplementedError

    def build(self, node: Relation) -> Handle:
        """Place a node, once."""
        if node.fingerprint not in self.built:
            self.built[node.fingerprint] = self.note_placement(self.place(node))
        return self.built[node.fingerprint]

    def note_placement(self, handle: Handle) -> Handle:
        """Record the placement of the rows of a handle; returns the handle."""
        if handle.place == "stage":
            self.placements.setdefault(handle.op, handle.where)
        for branch in handle.branches:
            self.note_placement(branch)
        return handle

    def deliver(self, handle: Handle, need: Where, exact: bool = False) -> str:
        """The stage operator or port where the rows arrive as `need` says."""
        if handle.place == "union":
            # Rows of one key may come from any branch: all branches must have the same placement.
            exact = exact or (need.how == "hash" and common_placement(handle.branches, need) is None)
            arrived = tuple(self.deliver(b, need, exact) for b in handle.branches)
            name = ids.union(arrived)
            self.placements.setdefault(
                name, common_placement(handle.branches, need) or need if need.how == "hash" else need
            )
            return self.add_stage(p.Union(name, arrived, handle.branches[0].schema))
        if handle.place == "reader":
            return self._exchange(handle, need)
        if satisfies(handle.where, need, exact):
            return handle.op
        if handle.where.how == "all":
            keys = first_names(need.by)
            name = ids.local_rows(handle.op, keys)
            self.placements.setdefault(name, by_hash(keys))
            return self.add_stage(p.LocalRows(name, (handle.op,), handle.schema, keys))
        route, keys = route_of(need)
        port = ids.loop(handle.op, route, keys)
        self.loops.setdefault(port, p.Exchange(port, handle.op, route, keys))
        return port

    def _exchange(self, handle: Handle, need: Where) -> str:
        route, keys = route_of(need)
        port = ids.port(handle.op, route, keys)
        self.exchanges.setdefault(port, p.Exchange(port, handle.op, route, keys, self.origins[handle.op]))
        return port

    def add_stage(self, op: p.Op) -> str:
        """Place an operator in the stage, once; its id."""
        self.stage.setdefault(op.id, op)
        return op.id

    def extend(self, handle: Handle, op: p.Linear, where: Where | None = None, layer: p.Layer | None = None) -> Handle:
        """A linear operator on top of a handle, in the same place; on every branch of a union.

        Its inputs are filled in here. `layer` is the select list of a projection.
        """
        if handle.place == "union":
            branches = tuple(
                self.extend(b, replace(op, id=ids.variant(op.id, i)), where, layer)
                for i, b in enumerate(handle.branches)
            )
            return Handle("union", schema=op.schema, branches=branches)
        if handle.place == "reader":
            self.reader.setdefault(op.id, replace(op, inputs=(handle.op,)))
            self.origins[op.id] = self.origins[handle.op]
        else:
            self.stage.setdefault(op.id, self._absorb(handle, op, layer) or replace(op, inputs=(handle.op,)))
        return self.note_placement(Handle(handle.place, op.id, op.schema, handle.where if where is None else where))

    def _absorb(self, handle: Handle, op: p.Linear, layer: p.Layer | None) -> p.Weaved | None:
        """Let a fragment store, which makes the rows of all its queries together, also select and project them.

        None where the operator does neither, or is not on top of a store.
        """
        below = self.store_queries.get(handle.op)
        layer = p.Layer("where", op.predicate) if isinstance(op, p.Filter) else layer
        if below is None or layer is None:
            return None
        self.store_queries.setdefault(op.id, replace(below, id=op.id, layers=(*below.layers, layer)))
        return p.Weaved(op.id, self.stage[handle.op].inputs, op.schema)
