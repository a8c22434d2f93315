"""The only plan printer: text, JSON and Mermaid, the same from run to run. Shared nodes are named once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tidemill.plan import relations as r
from tidemill.plan.aggregates import Aggregate
from tidemill.plan.html import html_text
from tidemill.plan.node import walk
from tidemill.plan.operator_rows import OperatorRows
from tidemill.plan.periods import Every
from tidemill.plan.physical import Exchange, Op, Physical
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import ColumnRef
from tidemill.plan.show.answers import AnswerReport, answers_text
from tidemill.plan.show.joins import joins_text
from tidemill.plan.show.operators import operator_dict, operator_text
from tidemill.plan.show.ranking import ranking_detail
from tidemill.plan.show.sharing import sharing_chart, sharing_text
from tidemill.plan.show.svg import plan_svg
from tidemill.plan.show.tagging import tagging_text
from tidemill.plan.value_text import seconds
from tidemill.plan.windows import Window

_HIDDEN = {"birth", "columns", "static", "unit_us", "stamp", "stamp_type", "left_ts", "right_ts"}


@dataclass(frozen=True)
class Explanation:
    """A plan for people (str), programs (to_dict) and pictures (to_mermaid)."""

    roots: Mapping[str, Relation]
    physical: Physical | None = None
    trace: tuple[tuple[str, str], ...] = ()
    sharing: tuple[dict[str, Any], ...] = ()  # one report for each source with shared window aggregates
    alone: tuple[tuple[str, str], ...] = ()  # (view, why its aggregate is not shared)
    joins: tuple[dict[str, Any], ...] = ()  # one report for each aggregation join
    points: tuple[tuple[str, str], ...] = ()  # (view, its synchronization points)
    operators: Mapping[str, OperatorRows] = field(default_factory=dict)  # of operators that run, by their id
    tagging: tuple[dict[str, Any], ...] = ()  # one report for each keyed stream that several taggers read
    answers: tuple[AnswerReport, ...] = ()  # one report for each part that another view answers
    refused: Mapping[str, str] = field(default_factory=dict)  # why other views do not answer the query
    remarks: tuple[str, ...] = ()  # sentences before the plan

    def __str__(self) -> str:
        parts = [*self.remarks, _text(self.roots)]
        if self.points:
            parts.append(_points_text(self.points))
        if self.answers or self.refused:
            parts.append(answers_text(self.answers, self.refused))
        if self.trace:
            parts.append("rules\n" + "\n".join(f"  {name}: {what}" for name, what in self.trace))
        parts += [sharing_text(shared) for shared in self.sharing]
        if self.alone:
            parts.append("not shared\n" + "\n".join(f"  {view}: {reason}" for view, reason in self.alone))
        parts += [joins_text(found) for found in self.joins]
        parts += [tagging_text(found) for found in self.tagging]
        if self.physical:
            parts.append(_placement(self.physical, self.operators))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        return plan_svg(self.roots, detail) + html_text(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Nodes by fingerprint, roots by name, placement of every operator."""
        nodes = {}
        for root in self.roots.values():
            for node in walk(root):
                assert isinstance(node, Relation)
                nodes[node.fingerprint] = {
                    "type": type(node).__name__,
                    "detail": detail(node),
                    "schema": [[c.name, c.type] for c in node.schema],
                    "inputs": [c.fingerprint for c in node.children],
                }
        result: dict[str, Any] = {
            "roots": {name: n.fingerprint for name, n in self.roots.items()},
            "nodes": nodes,
            "rules": [{"rule": n, "change": w} for n, w in self.trace],
            "sharing": list(self.sharing),
            "alone": [{"view": v, "reason": w} for v, w in self.alone],
            "joins": list(self.joins),
            "answered": [answer.to_dict() for answer in self.answers],
            "not_answered": dict(self.refused),
            "tagging": list(self.tagging),
            "points": dict(self.points),
            "remarks": list(self.remarks),
        }
        if self.physical:
            result["placement"] = {
                "reader": [o.id for o in self.physical.reader],
                "stage": [o.id for o in self.physical.stage],
                "exchanges": [_edge(e) for e in self.physical.exchanges],
                "loops": [_edge(e) for e in self.physical.loops],
            }
            result["operators"] = {op: operator_dict(found) for op, found in self.operators.items()}
        return result

    def to_mermaid(self) -> str:
        """A flow chart from sources to views."""
        names: dict[str, str] = {}
        lines = ["flowchart LR"]
        for root in self.roots.values():
            for node in walk(root):
                if node.fingerprint in names:
                    continue
                assert isinstance(node, Relation)
                names[node.fingerprint] = f"n{len(names)}"
                label = f"{type(node).__name__} {detail(node)}".strip().replace('"', "'")
                lines.append(f'  {names[node.fingerprint]}["{label}"]')
                lines += [f"  {names[c.fingerprint]} --> {names[node.fingerprint]}" for c in node.children]
        lines += [f'  {names[n.fingerprint]} --> v{i}(["{name}"])' for i, (name, n) in enumerate(self.roots.items())]
        for i, shared in enumerate(self.sharing):
            lines += sharing_chart(shared, f"s{i}")
        return "\n".join(lines)


def _points_text(points: tuple[tuple[str, str], ...]) -> str:
    if len(points) == 1:
        return f"points: {points[0][1]}"
    return "points\n" + "\n".join(f"  {view}: {shown}" for view, shown in points)


def detail(node: Relation) -> str:
    """The operands of a node in one short text; defaults and hidden columns are left out."""
    if isinstance(node, r.Project):
        return f"[{', '.join(map(_item, node.items))}]"
    if isinstance(node, r.GroupBy):
        return f"[{', '.join(node.keys)}; {', '.join(map(_call, node.aggregates))}]"
    if isinstance(node, r.WindowAggregate):
        return _window_aggregate(node)
    if isinstance(node, r.JoinAggregate):
        return _join_aggregate(node)
    if isinstance(node, (r.Ranked, r.WindowFunctions)):
        return ranking_detail(node)
    if isinstance(node, r.SynchronizePeriods):
        return f"[{' ∪ '.join(map(_period, node.periods))}]"
    shown = []
    for f in fields(node):
        value = getattr(node, f.name)
        if f.name in _HIDDEN and not isinstance(node, r.Tag):
            continue
        if value is None or value == f.default or isinstance(value, Relation):
            continue
        if isinstance(value, tuple) and value and isinstance(value[0], Relation):
            continue
        if f.name.endswith("_us"):
            value = seconds(value)
        shown.append(f"{f.name.removesuffix('_us')}: {_plain(value)}")
    return f"[{', '.join(shown)}]" if shown else ""


def _item(item: r.Item) -> str:
    return item.name if item.value == ColumnRef(item.name) else f"{item.name} = {item.sql}"


def _call(aggregate: Aggregate, argument: str | None = None) -> str:
    once = "distinct " if aggregate.distinct else ""
    return f"{aggregate.name} = {aggregate.function}({once}{argument or aggregate.argument or '*'})"


def _window_aggregate(node: r.WindowAggregate) -> str:
    meant = {i.name: i.name if i.value == ColumnRef(i.name) else i.sql for i in node.arguments}
    calls = [_call(a, meant.get(a.argument or "")) for a in node.aggregates]
    rows = f"(p - {node.window.until}, p] every {node.window.slide} rows"
    window = rows if node.counts_rows else _window(node.window)
    shown = [", ".join(map(_item, node.keys)), ", ".join(calls), window]
    shown += ["once"] if node.once else []
    shown += [f"where {node.predicate}"] if node.predicate is not None else []
    return f"[{'; '.join(shown)}]"


def _join_aggregate(node: r.JoinAggregate) -> str:
    meant = {i.name: i.name if i.value == ColumnRef(i.name) else i.sql for i in node.arguments}
    calls = [_call(a, meant.get(a.argument or "")) for a in node.aggregates]
    equal = [f"{a} = {b}" for a, b in node.on]
    shown = [", ".join(map(_item, node.keys)), ", ".join(calls), "on " + ", ".join(equal or ["nothing"])]
    shown += [f"where {node.residual}"] if node.residual is not None else []
    shown += [f"spread {node.labels[node.spread]}"] if node.spread is not None else []
    return f"[{'; '.join(shown)}]"


def _window(window: Window) -> str:
    """The rows of a point p and the points."""
    every = f"every {seconds(window.slide)}" + (f" + {seconds(window.offset)}" if window.offset else "")
    if window.until is None:
        return f"(…, {_ago(window.after)}] {every}"
    if window.after == 1:
        return f"[{_ago(window.until - 1)}, p) {every}"
    return f"({_ago(window.until)}, {_ago(window.after)}] {every}"


def _period(period: Every) -> str:
    text = f"every {seconds(period.every_us)}" + (f" + {seconds(period.offset_us)}" if period.offset_us else "")
    return text if period.since_us is None else f"{text} from {seconds(period.since_us)}"


def _ago(us: int) -> str:
    return f"p - {seconds(us)}" if us else "p"


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_plain(v) for v in value) + ")"
    return str(value)


def _text(roots: Mapping[str, Relation]) -> str:
    readers: Counter[str] = Counter()
    for node in {n.fingerprint: n for root in roots.values() for n in walk(root)}.values():
        readers.update(c.fingerprint for c in node.children)
    readers.update(root.fingerprint for root in roots.values())
    shared: dict[str, str] = {}
    blocks = []
    for root in roots.values():
        for node in walk(root):
            if readers[node.fingerprint] > 1 and node.fingerprint not in shared and node.children:
                name = f"r{len(shared)}"
                assert isinstance(node, Relation)
                blocks.append(f"{name} :=\n" + "\n".join(_tree(node, shared, 1)))
                shared[node.fingerprint] = name
    for name, root in roots.items():
        blocks.append(f"{name} :=\n" + "\n".join(_tree(root, shared, 1)))
    return "\n".join(blocks)


def _tree(node: Relation, shared: dict[str, str], depth: int) -> list[str]:
    pad = "  " * depth
    if node.fingerprint in shared:
        return [f"{pad}{shared[node.fingerprint]}"]
    lines = [f"{pad}{type(node).__name__}{detail(node)}"]
    for child in node.children:
        assert isinstance(child, Relation)
        lines += _tree(child, shared, depth + 1)
    return lines


def _edge(edge: Exchange) -> dict[str, Any]:
    return {"port": edge.port, "route": edge.route, "keys": list(edge.keys)}


def _by(edge: Exchange) -> str:
    return f" by {', '.join(edge.keys)}" if edge.keys else ""


def _inputs(op: Op) -> str:
    return f" ← {', '.join(op.inputs)}" if op.inputs else ""


def _placement(physical: Physical, operators: Mapping[str, OperatorRows]) -> str:
    lines = [f"placement (plan {physical.version}, {len(physical.shards)} shards)"]
    for op in physical.reader:
        lines.append(f"  reader  {op.id}" + _inputs(op) + operator_text(operators.get(op.id)))
    for edge in physical.exchanges:
        lines.append(f"  {edge.route:7} {edge.source_op} → shards{_by(edge)}")
    for op in physical.stage:
        lines.append(f"  stage   {op.id}" + _inputs(op) + operator_text(operators.get(op.id)))
    for edge in physical.loops:
        lines.append(f"  loop    {edge.source_op} → next batch, {edge.route}{_by(edge)}")
    return "\n".join(lines)
