"""Which inputs of an aggregation join are aggregated early, and in which order each probes the others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidemill.optimize.joins.cost import Constants, hash_join, nested_loop
from tidemill.optimize.joins.measure import streams_of
from tidemill.optimize.joins.plans import Model, PricedPlan, choose, worth_changing
from tidemill.optimize.joins.stored_statistics import JoinStatistics
from tidemill.plan.aggregation_joins import JoinAnalysis, analyze_join
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
    """A key, by its hash, whose work is divided among all shards. Rows of other inputs with this key are copied to all
    shards; once it is `split`, its rows of `input` are spread over them.
    """

    hash: int
    input: int
    split: bool = False
    text: str = ""


@dataclass
class JoinSettings:
    """Settings and statistics of the choice. `mode`: auto, late, early, or the bits of a plan for joins of that width.

    `statistics`, `plans` (those in force) and `hot` keys are by the fingerprint of the aggregation join.
    """

    mode: str = "auto"
    method: str = "hash"
    pinned: bool = False
    constants: Constants = field(default_factory=Constants)
    statistics: dict[str, JoinStatistics] = field(default_factory=dict)
    plans: dict[str, str] = field(default_factory=dict)
    hot: dict[str, list[HotKey]] = field(default_factory=dict)
    hot_keys: str = "auto"

    def copy(self) -> JoinSettings:
        """A copy for EXPLAIN: planning with it changes nothing here."""
        return replace(self, plans=dict(self.plans))


def decide(node: JoinAggregate, found: JoinAnalysis, settings: JoinSettings) -> Decision:
    """The plan of one aggregation join: the one that a setting forces, the one in force, or else the cheapest."""
    model = model_of(node, found, settings)
    plan = forced_plan(settings.mode, len(node.inputs)) or settings.plans.get(node.fingerprint)
    if plan is None or len(plan) != len(node.inputs):
        plan = choose(model).plan
    settings.plans[node.fingerprint] = plan
    planned = model.price(plan)
    # An input without folded columns has the same form early and late. A spread input is hashed on all its columns.
    early = tuple(
        (bit == "1" or not side.folded) and i != node.spread
        for i, (bit, side) in enumerate(zip(plan, found.sides, strict=True))
    )
    return Decision(early, planned.orders, settings.method)


def model_of(node: JoinAggregate, found: JoinAnalysis, settings: JoinSettings) -> Model:
    """The cost model of this join's plans, by the statistics of its inputs."""
    known = settings.statistics.get(node.fingerprint)
    return Model(
        streams_of(node, found, known),
        found.graph,
        settings.constants,
        METHODS[settings.method],
        whole_key=True,
        alpha=(known or {}).get("groups"),
        batch=(known or {}).get("seconds"),
    )


def forced_plan(mode: str, inputs: int) -> str | None:
    """The plan that a setting forces; None if it leaves the choice open.

    >>> forced_plan("late", 3), forced_plan("10", 2), forced_plan("10", 3), forced_plan("auto", 2)
    ('000', '10', None, None)
    """
    if mode in ("late", "early"):
        return ("0" if mode == "late" else "1") * inputs
    return mode if len(mode) == inputs and set(mode) <= {"0", "1"} else None


def find_better_plan(node: JoinAggregate, settings: JoinSettings) -> PricedPlan | None:
    """Another plan that is cheaper by the margin; None if there is none, or if the plan is forced or pinned."""
    current = settings.plans.get(node.fingerprint)
    if settings.pinned or current is None or forced_plan(settings.mode, len(node.inputs)):
        return None
    model = model_of(node, analyze_join(node), settings)
    best = choose(model)
    return best if worth_changing(model.price(current), best) else None


def cost_of(node: JoinAggregate, settings: JoinSettings, known: JoinStatistics) -> float:
    """The cost of the plan in force per second of event time, by the statistics `known`."""
    told = replace(settings, statistics={node.fingerprint: known})
    return model_of(node, analyze_join(node), told).price(settings.plans[node.fingerprint]).cost
