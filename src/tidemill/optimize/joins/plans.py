"""The 2^m plans of an aggregation join and the choice among them (paper 000, sections 5 and 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from tidemill.optimize.joins.cost import Constants, Method, hash_join, unit_time_cost
from tidemill.optimize.joins.order import Order, probe_orders
from tidemill.optimize.joins.parameters import Parameters, derive_parameters
from tidemill.optimize.joins.space import network_bytes, state_bytes
from tidemill.optimize.joins.streams import Graph, Stream

EXHAUSTIVE = 6


@dataclass(frozen=True)
class PricedPlan:
    """A plan, its linear orderings and its costs; `cost` is time, space and network together, in the unit of `time`."""

    plan: str
    orders: tuple[Order, ...]
    time: float
    space: float
    network: float
    cost: float

    @property
    def name(self) -> str:
        """The paper's name.

        >>> [PricedPlan(plan, (), 0, 0, 0, 0).name for plan in ("00", "10", "111")]
        ['LAP', 'EAP10', 'EAP111']
        """
        return f"EAP{self.plan}" if "1" in self.plan else "LAP"

    @property
    def rank(self) -> tuple[float, int, str]:
        """Cheapest first; of equal ones, the one with fewer early aggregations."""
        return self.cost, self.plan.count("1"), self.plan


@dataclass(frozen=True)
class Model:
    """The cost model of all plans of one aggregation join.

    `graph` has the pairs that are joined, by default those that share a join attribute. `answer_width`: bytes of a row
    of AS. `whole_key`, `alpha` and `batch` as in `derive_parameters`.
    """

    streams: Sequence[Stream]
    graph: Graph | None = None
    constants: Constants = Constants()  # noqa: RUF009  frozen
    method: Method = hash_join
    answer_width: float = 64.0
    whole_key: bool = False
    alpha: float | None = None
    batch: float | None = None
    parameters: Parameters = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        known = derive_parameters(
            self.streams, self.constants.B, self.graph, whole_key=self.whole_key, alpha=self.alpha, batch=self.batch
        )
        object.__setattr__(self, "parameters", known)

    def price(self, plan: str) -> PricedPlan:
        """time + byte_state · space + byte_network · network of one plan.

        >>> pair, half = [Stream(1, 4, 1, 2)] * 2, Constants(1, 1, 1, 1, 1, byte_state=0.5, byte_network=0)
        >>> p = Model(pair, constants=half, answer_width=8).price("00")
        >>> p.time, p.space, p.network, p.cost  # twice 2 (2 + 1 + 2); 8 rows of 64 bytes and one of 8
        (20.0, 520.0, 128.0, 280.0)
        """
        if len(plan) != len(self.streams) or not set(plan) <= {"0", "1"}:
            raise ValueError(f"a plan of {len(self.streams)} inputs has as many characters 0 or 1: {plan!r}")
        orderings = probe_orders(self.parameters, plan)
        time = unit_time_cost(self.parameters, plan, self.method(self.constants), orderings)
        space = state_bytes(self.parameters, plan, self.answer_width)
        network = network_bytes(self.parameters, plan)
        total = time + self.constants.byte_state * space + self.constants.byte_network * network
        return PricedPlan(plan, orderings, time, space, network, total)


def plans(model: Model) -> list[PricedPlan]:
    """All plans, cheapest first; for more than six inputs, those on the path of the greedy choice."""
    if len(model.streams) > EXHAUSTIVE:
        return sorted(greedy(model), key=lambda p: p.rank)
    bits = product("01", repeat=len(model.streams))
    return sorted((model.price("".join(plan)) for plan in bits), key=lambda p: p.rank)


def greedy(model: Model) -> list[PricedPlan]:
    """The path of the heuristic of section 8, from the LAP to its result: at most 2 m steps of at most m plans each.

    An early aggregation is inserted if joining with the set instead of the window saves more than updating the set
    costs. Each insertion makes fan-outs smaller, and so other insertions less useful. So they are made one at a time,
    the best first, and in the end those that no longer pay are removed.
    """
    path = [model.price("0" * len(model.streams))]
    for old, new in ("01", "10"):
        while (better := _best_flip(model, path[-1], old, new)) is not None:
            path.append(better)
    return path


def _best_flip(model: Model, current: PricedPlan, old: str, new: str) -> PricedPlan | None:
    """The cheapest plan with one bit changed from old to new, if it is cheaper than the current one."""
    plan = current.plan
    places = [i for i, bit in enumerate(plan) if bit == old and not model.streams[i].alike]
    trials = [model.price(plan[:i] + new + plan[i + 1 :]) for i in places]
    best = min(trials, key=lambda p: p.rank, default=current)
    return best if best.cost < current.cost else None


def choose(model: Model) -> PricedPlan:
    """The cheapest plan; for more than six inputs, the result of the greedy heuristic.

    >>> few, many = Stream(100, 1000, groups=1, values=10), Stream(100, 1000, groups=1000, values=10)
    >>> [choose(Model(pair)).name for pair in ([few, few], [few, many], [many, few], [many, many])]
    ['EAP11', 'EAP10', 'EAP01', 'LAP']
    """
    return plans(model)[0]


def worth_changing(current: PricedPlan, best: PricedPlan, margin: float = 0.2) -> bool:
    """Whether the best plan saves more than `margin` of the cost of the current one, both by the current statistics.

    A plan may change between any two micro-batches without converting state. The margin prevents noise in the
    statistics from switching plans back and forth.

    >>> now, then = (PricedPlan(plan, (), cost, 0, 0, cost) for plan, cost in (("00", 100.0), ("11", 79.0)))
    >>> worth_changing(now, then), worth_changing(now, then, margin=0.25), worth_changing(now, now, margin=0)
    (True, False, False)
    """
    if not 0 <= margin < 1:
        raise ValueError("a margin is a share of the cost")
    return best.plan != current.plan and best.cost < (1 - margin) * current.cost
