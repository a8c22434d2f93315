"""Which inputs of an aggregation join are aggregated early, and in which order each probes the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidemill.optimize.joins.cost import Constants, hash_join, nested_loop
from tidemill.optimize.joins.measure import streams_of
from tidemill.optimize.joins.plans import Model, Planned, choose, worth_changing
from tidemill.plan.aggregation_joins import Meeting, meeting
from tidemill.plan.relations import JoinAggregate

METHODS = {"hash": hash_join, "nested loop": nested_loop}


@dataclass(frozen=True)
class Decision:
    """A plan: a bit for each input, the orders of probing, and how matching rows are found."""

    early: tuple[bool, ...]
    orders: tuple[tuple[int, ...], ...]
    method: str = "hash"

    @property
    def plan(self) -> str:
        """
        >>> Decision((True, False), ((1,), (0,))).plan
        '10'
        """
        return "".join("1" if e else "0" for e in self.early)


@dataclass(frozen=True)
class HotKey:
    """A key whose work all shards share, by its hash: rows of `input` are spread once it is `split`, others copied."""

    hash: int
    input: int
    split: bool = False
    text: str = ""


@dataclass
class JoinSettings:
    """What the choice may use. `mode`: auto, late, early, or the bits of one plan for joins of that many inputs.

    `statistics`, `plans` (the one in force) and `hot` keys are kept by the fingerprint of the aggregation join.
    """

    mode: str = "auto"
    method: str = "hash"
    pinned: bool = False
    constants: Constants = field(default_factory=Constants)
    statistics: dict[str, dict[str, Any]] = field(default_factory=dict)
    plans: dict[str, str] = field(default_factory=dict)
    hot: dict[str, list[HotKey]] = field(default_factory=dict)
    hot_keys: str = "auto"

    def copy(self) -> JoinSettings:
        """The same for a plan that is only looked at."""
        return replace(self, plans=dict(self.plans))


def decide(node: JoinAggregate, found: Meeting, settings: JoinSettings) -> Decision:
    """The plan of one aggregation join: the one asked for, the one in force, or else the cheapest."""
    model = model_of(node, found, settings)
    plan = forced(settings.mode, len(node.inputs)) or settings.plans.get(node.fingerprint)
    if plan is None or len(plan) != len(node.inputs):
        plan = choose(model).plan
    settings.plans[node.fingerprint] = plan
    planned = model.planned(plan)
    # Where there is nothing to fold, both forms are the same. Rows that are spread go by all their columns.
    early = tuple((bit == "1" or not side.folded) and i != node.spread
                  for i, (bit, side) in enumerate(zip(plan, found.sides, strict=True)))
    return Decision(early, planned.orders, settings.method)


def model_of(node: JoinAggregate, found: Meeting, settings: JoinSettings) -> Model:
    """What any plan of this join costs, by what is known of its inputs."""
    known = settings.statistics.get(node.fingerprint)
    return Model(streams_of(node, found, known), found.graph, settings.constants, METHODS[settings.method],
                 whole_key=True, alpha=(known or {}).get("groups"), batch=(known or {}).get("seconds"))


def forced(mode: str, inputs: int) -> str | None:
    """The plan that a setting asks for, if it asks for one.

    >>> forced("late", 3), forced("10", 2), forced("10", 3), forced("auto", 2)
    ('000', '10', None, None)
    """
    if mode in ("late", "early"):
        return ("0" if mode == "late" else "1") * inputs
    return mode if len(mode) == inputs and set(mode) <= {"0", "1"} else None


def better(node: JoinAggregate, settings: JoinSettings) -> Planned | None:
    """Another plan that is cheaper by the margin, unless the plan is asked for or pinned."""
    current = settings.plans.get(node.fingerprint)
    if settings.pinned or current is None or forced(settings.mode, len(node.inputs)):
        return None
    model = model_of(node, meeting(node), settings)
    best = choose(model)
    return best if worth_changing(model.planned(current), best) else None


def cost_of(node: JoinAggregate, settings: JoinSettings, known: Mapping[str, Any]) -> float:
    """What the plan in force costs in a second of event time if the inputs are as `known` says."""
    told = replace(settings, statistics={node.fingerprint: dict(known)})
    return model_of(node, meeting(node), told).planned(settings.plans[node.fingerprint]).cost
