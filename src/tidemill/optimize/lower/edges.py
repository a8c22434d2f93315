"""The plan under construction: operators, and how rows get from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemill.optimize.lower.placement import ANY, Handle, Where, by_hash, first_names, route_of, satisfies, shared
from tidemill.optimize.share.asked import Asked
from tidemill.optimize.share.weave import Woven
from tidemill.plan.physical import Exchange, Op
from tidemill.plan.relations import Relation, quoted
from tidemill.plan.sources import Schema, SourceSpec

_WHOLE = ("tagger", "rstream")  # operators whose rows are closed and do not cancel


@dataclass
class Edges:
    """What has been placed so far; `build` places a node by the method that bears its name."""

    sources: Mapping[str, SourceSpec]
    unit_us: int
    reader: dict[str, Op] = field(default_factory=dict)
    stage: dict[str, Op] = field(default_factory=dict)
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    loops: dict[str, Exchange] = field(default_factory=dict)
    specs: dict[str, SourceSpec] = field(default_factory=dict)
    seeds: list[tuple[str, str]] = field(default_factory=list)
    built: dict[str, Handle] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    asked: dict[str, Asked] = field(default_factory=dict)
    woven: dict[str, Woven] = field(default_factory=dict)
    lies: dict[str, Where] = field(default_factory=dict)  # how the rows of operators in the stage lie

    def output(self, node: Relation) -> str:
        """The gate through which a view's changes leave."""
        source = self.deliver(self.build(node), ANY)
        params = {"closed": True} if self._closed(source) else {}
        return self.add_stage("gate", f"gate.{node.fingerprint}", (source,), node.schema, params)

    def _closed(self, name: str) -> bool:
        """True when all that an operator lets out is closed and nothing in it cancels: whole answers of windows, what a
        tagger says, with all its columns (at each time at most one row of a key goes, and another one comes), and what
        an rstream shows: at each closed point every row once."""
        op = self.stage.get(name)
        if op is not None and op.kind == "project":
            below = self.stage.get(op.inputs[0])
            kept = {sql for _, sql in op.params["items"]}
            return below is not None and below.kind in _WHOLE and kept >= {quoted(c.name) for c in below.schema}
        return op is not None and (op.kind in _WHOLE or (op.kind == "weaved" and op.params["mode"] == "whole"))

    def build(self, node: Relation) -> Handle:
        """Place a node, once."""
        if node.fingerprint not in self.built:
            self.built[node.fingerprint] = self.lying(getattr(self, "_" + type(node).__name__.lower())(node))
        return self.built[node.fingerprint]

    def lying(self, handle: Handle) -> Handle:
        """Note how the rows of a handle lie."""
        if handle.place == "stage":
            self.lies.setdefault(handle.op, handle.where)
        for branch in handle.branches:
            self.lying(branch)
        return handle

    def deliver(self, handle: Handle, need: Where, exact: bool = False) -> str:
        """The stage operator or port where the rows arrive as `need` says."""
        if handle.place == "union":
            # Rows of one key may come from any branch: all branches must lie the same way.
            exact = exact or (need.how == "hash" and shared(handle.branches, need) is None)
            arrived = tuple(self.deliver(b, need, exact) for b in handle.branches)
            name = "union." + ".".join(arrived)
            self.lies.setdefault(name, shared(handle.branches, need) or need if need.how == "hash" else need)
            return self.add_stage("union", name, arrived, handle.branches[0].schema, {})
        if handle.place == "reader":
            return self._exchange(handle, need)
        if satisfies(handle.where, need, exact):
            return handle.op
        if handle.where.how == "all":
            keys = first_names(need.by)
            name = f"mine.{handle.op}.{'.'.join(keys)}"
            self.lies.setdefault(name, by_hash(keys))
            return self.add_stage("mine", name, (handle.op,), handle.schema, {"keys": list(keys)})
        route, keys = route_of(need)
        port = f"loop.{handle.op}.{route}.{'.'.join(keys)}"
        self.loops.setdefault(port, Exchange(port, handle.op, route, keys))
        return port

    def _exchange(self, handle: Handle, need: Where) -> str:
        route, keys = route_of(need)
        port = f"port.{handle.op}.{route}.{'.'.join(keys)}"
        self.exchanges.setdefault(port, Exchange(port, handle.op, route, keys, self.origins[handle.op]))
        return port

    def add_stage(self, kind: str, name: str, inputs: tuple[str, ...], schema: Schema, params: dict[str, Any]) -> str:
        self.stage.setdefault(name, Op(name, kind, inputs, schema, params))
        return name

    def extend(self, handle: Handle, kind: str, name: str, schema: Schema, params: dict[str, Any],
               where: Where | None = None) -> Handle:
        """A linear operator on top of a handle, in the same place; on every branch of a union."""
        if handle.place == "union":
            branches = tuple(
                self.extend(b, kind, f"{name}.{i}", schema, params, where) for i, b in enumerate(handle.branches)
            )
            return Handle("union", schema=schema, branches=branches)
        op = Op(name, kind, (handle.op,), schema, params)
        below = self.stage.get(handle.op)
        if below is not None and below.kind == "weaved" and kind in ("filter", "project"):
            # A fragment store makes the rows of all its queries together: it takes selection and projection over.
            layer = ["where", params["predicate"]] if kind == "filter" else ["select", ", ".join(
                f"{sql} AS {quoted(n)}" for n, sql in params["items"])]
            op = Op(name, "weaved", below.inputs, schema, {**below.params, "layers": [*below.params["layers"], layer]})
        if handle.place == "reader":
            self.reader.setdefault(name, op)
            self.origins[name] = self.origins[handle.op]
        else:
            self.stage.setdefault(name, op)
        return self.lying(Handle(handle.place, name, schema, handle.where if where is None else where))
