"""Which inputs of an aggregation join are aggregated early, and in which order each probes the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidemill.plan.aggregation_joins import Meeting
from tidemill.plan.relations import JoinAggregate


@dataclass(frozen=True)
class Decision:
    """A plan: a bit for each input, the orders of probing, and how matching rows are found."""

    early: tuple[bool, ...]
    orders: tuple[tuple[int, ...], ...]
    method: str = "hash"


@dataclass
class JoinSettings:
    """What the choice may use. `mode`: auto, late, early, or the bits of one plan for joins of that many inputs."""

    mode: str = "auto"
    method: str = "hash"
    statistics: dict[str, Any] = field(default_factory=dict)
    decided: dict[str, Decision] = field(default_factory=dict)


def decide(node: JoinAggregate, found: Meeting, settings: JoinSettings) -> Decision:
    """The plan of one aggregation join."""
    m = len(node.inputs)
    mode = settings.mode
    if mode == "late":
        early = [False] * m
    elif set(mode) <= {"0", "1"} and len(mode) == m:
        early = [b == "1" for b in mode]
    else:
        early = [True] * m
    # Where there is nothing to fold, both forms are the same.
    bits = tuple(e or not s.folded for e, s in zip(early, found.sides, strict=True))
    orders = tuple(_order(i, found) for i in range(m))
    return Decision(bits, orders, settings.method)


def _order(k: int, found: Meeting) -> tuple[int, ...]:
    bound, todo = [k], [j for j in range(len(found.sides)) if j != k]
    graph = found.graph
    while todo:
        linked = [j for j in todo if any((min(i, j), max(i, j)) in graph for i in bound)]
        bound.append((linked or todo)[0])
        todo.remove(bound[-1])
    return tuple(bound[1:])
