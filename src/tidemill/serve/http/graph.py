"""The plan in force as a graph: what runs where, how many rows pass, and what takes the time.

Operators without work of their own (projections, outputs of single views) are drawn as part of a neighbour: `members`
says which operators a node stands for.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidemill.engine.run.batch_history import OperatorRate
from tidemill.plan.physical import HashTables, JoinAggregate, Op, Physical, ViewOutput
from tidemill.plan.show.operators import operator_dict

if TYPE_CHECKING:
    from tidemill.engine import Database

_PART_OF_INPUT = {"project", "leaf", "weaved", "values"}
_NAMES = {
    "lfta": "shared tables",
    "weave": "weaved group",
    "weave_numbered": "weaved group",
    "join_aggregate": "aggregation join",
    "leaf": "fragments",
    "group": "group by",
    "numbering": "shared tables",
}


@dataclass
class Node:
    """A box: `place` is source, reader, stage, view or sink."""

    id: str
    kind: str
    label: str
    place: str
    detail: str = ""
    members: list[str] = field(default_factory=list)


@dataclass
class Graph:
    """Boxes, and arrows (from, to, route, is a loop into the next micro-batch)."""

    version: int
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[tuple[str, str], tuple[str, bool]] = field(default_factory=dict)
    counted: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_dict(self, rates: dict[str, OperatorRate]) -> dict[str, Any]:
        """With what the operators do at the moment."""
        speeds = {node.id: _speed(node, rates) for node in self.nodes.values()}
        return {
            "version": self.version,
            "nodes": [vars(n) | speeds[n.id] for n in self.nodes.values()],
            "edges": [
                {
                    "from": a,
                    "to": b,
                    "route": route,
                    "loop": loop,
                    "rows": speeds[a]["rows_out"] or speeds[b]["rows_in"],
                }
                for (a, b), (route, loop) in self.edges.items()
            ],
        }

    def below(self, node: str) -> list[str]:
        """The views that get rows through a node."""
        seen, todo = {node}, [node]
        while todo:
            here = todo.pop()
            more = [b for a, b in self.edges if a == here and b not in seen]
            seen.update(more)
            todo += more
        return sorted(self.nodes[n].label for n in seen if self.nodes[n].place == "view")


def _speed(node: Node, rates: dict[str, OperatorRate]) -> dict[str, float]:
    found = [rates[m] for m in node.members if m in rates]
    if not found:
        return {"rows_in": 0.0, "rows_out": 0.0, "share": 0.0}
    return {"rows_in": found[0].rows_in, "rows_out": found[-1].rows_out, "share": sum(f.share for f in found)}


def plan_graph(db: Database) -> Graph:
    """The graph of everything that stands."""
    explained = db.explain()
    plan = explained.physical
    assert plan is not None
    graph = Graph(plan.version, counted={op: operator_dict(found) for op, found in explained.operators.items()})
    views = {view.entry.id: view.entry.name for view in list(db.workload.views.values())}
    homes = _add_operators(graph, plan, views)
    for sink in db.catalog.of("sink"):
        graph.nodes[f"sink {sink.name}"] = Node(f"sink {sink.name}", "sink", sink.name, "sink")
        for name in sink.needs:
            _connect(graph, homes.get(f"view {name.lower()}"), f"sink {sink.name}")
    return graph


def _add_operators(graph: Graph, plan: Physical, views: dict[str, str]) -> dict[str, str]:
    """Nodes and edges of all operators; operator → its node."""
    ports = {e.port: (e.source_op, e.route, False) for e in plan.exchanges}
    ports |= {e.port: (e.source_op, e.route, True) for e in plan.loops}
    inputs = {op.id: [ports.get(i, (i, "", False)) for i in op.inputs] for op in (*plan.reader, *plan.stage)}
    readers: dict[str, list[str]] = defaultdict(list)
    for reader, sources in inputs.items():
        for source, _, _ in sources:
            readers[source].append(reader)
    shown_by = defaultdict(list)
    for output in plan.outputs:
        shown_by[output.op].append(views.get(output.view, output.view))
    homes: dict[str, str] = {}
    for place, ops in (("reader", plan.reader), ("stage", plan.stage)):
        for op in ops:
            homes[op.id] = _place(graph, op, place, inputs[op.id], readers, shown_by[op.id], homes)
    _describe_fragments(graph, readers, homes)
    for name, last in [(name, last) for last, names in shown_by.items() for name in names]:
        home = homes.get(last)
        if home is not None and graph.nodes[home].place != "view":
            graph.nodes[f"view {name}"] = Node(f"view {name}", "view", name, "view")
            _connect(graph, home, f"view {name}")
            home = f"view {name}"
        homes[f"view {name.lower()}"] = home or ""
    for reader, sources in inputs.items():
        for source, route, loop in sources:
            _connect(graph, homes.get(source), homes[reader], route, loop)
    return homes


def _describe_fragments(graph: Graph, readers: dict[str, list[str]], homes: dict[str, str]) -> None:
    """Fragments that leave shared tables are told apart by the keys of the groups that they go to."""
    for node in graph.nodes.values():
        if node.kind == "leaf":
            groups = dict.fromkeys(graph.nodes[homes[op]].detail for op in readers[node.members[-1]])
            node.detail = " and ".join(filter(None, groups))


def _place(
    graph: Graph,
    op: Op,
    place: str,
    inputs: list[tuple[str, str, bool]],
    readers: dict[str, list[str]],
    shown_by: list[str],
    homes: dict[str, str],
) -> str:
    """The node of an operator: a new one, or that of its input."""
    is_alone = len(inputs) == 1 and readers[inputs[0][0]] == [op.id] and not inputs[0][1]
    if op.kind in _PART_OF_INPUT and is_alone and inputs[0][0] in homes and not shown_by:
        home = homes[inputs[0][0]]
        graph.nodes[home].members.append(op.id)
        return home
    if op.kind == ViewOutput.kind and len(shown_by) == 1:
        made = Node(f"view {shown_by[0]}", "view", shown_by[0], "view", members=[op.id])
    elif op.kind == "scan":
        name = op.id.partition(".")[2]
        made = Node(op.id, "source", name, "source", members=[op.id])
    else:
        label = _NAMES.get(op.kind, op.kind.replace("_", " "))
        made = Node(op.id, op.kind, label, place, _detail(op), [op.id])
    graph.nodes[made.id] = made
    return made.id


def _connect(graph: Graph, source: str | None, target: str, route: str = "", loop: bool = False) -> None:
    if source and source != target:
        graph.edges.setdefault((source, target), (route, loop))


def _detail(op: Op) -> str:
    """A few words that tell one operator of a kind from another."""
    if isinstance(op, JoinAggregate):  # 1 where an input is aggregated before it is joined, as in EXPLAIN
        return f"{len(op.joined)} inputs, plan {''.join(str(int(one.early)) for one in op.joined)}"
    for name in ("predicate", "condition", "keys"):
        value = getattr(op, name, None)
        if value:
            each = value if isinstance(value, (tuple, list)) else [value]
            text = ", ".join(str(getattr(one, "name", one)) for one in each)
            return text if len(text) <= 60 else text[:59] + "…"
    if isinstance(op, HashTables) and op.relations:
        phantoms = sum(1 for relation in op.relations if not relation.own)
        tables = f"{len(op.relations)} table{'s' * (len(op.relations) > 1)}"
        return tables + (f", {phantoms} phantom{'s' * (phantoms > 1)}" if phantoms else "")
    return ""
