"""What a pipeline of operators costs (paper 004, section 9): C(t) = Σ T_in · c.

T_in is the number of rows that reach an operator in t units of time, c what one of them costs. T_in of an operator is
T_out of the one below it; the functions here derive T_out from T_in, as the paper's electronic appendix does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple

from tidemill.optimize.joins.order import probe_orders
from tidemill.optimize.joins.parameters import Parameters

_LEAST_REGULAR, _HALVINGS = -20.0, 40  # of `fit_regularity`
_MOST_POINTS = 10_000  # of a union of periods whose gaps are listed; a longer cycle is known from its beginning


@dataclass(frozen=True)
class RowCosts:
    """c of each kind of operator: nanoseconds for a row that reaches it.

    Rough defaults, from `tidemill calibrate` on one machine. A tagger looks a key up in its state and moves it; a
    synchronizer sorts the records of a batch by key; a filter is a part of one SQL statement over a batch. `finer` is a
    grouping by the keys of several others, which has more groups than any of them; `joint` a grouping that walks the
    changes that others by its key read too, those that it does not select as well.
    """

    filter: float = 15.0
    synchronizer: float = 200.0
    tagger: float = 1_000.0
    grouping: float = 50.0
    finer: float = 100.0
    joint: float = 25.0

    def __post_init__(self) -> None:
        if not all(0 < c < math.inf for c in astuple(self)):
            raise ValueError("costs of rows are positive")


class Load(NamedTuple):
    """An operator: the rows that reach it, T_in, and what each of them costs, c."""

    rows: float
    cost: float


def pipeline_cost(operators: Iterable[Load]) -> float:
    """C(t) = Σ T_in(t) · c.

    >>> pipeline_cost([Load(1_000, 20.0), Load(10, 800.0)])
    28000.0
    """
    return sum(op.rows * op.cost for op in operators)


@dataclass(frozen=True)
class Updates:
    """Keys that are updated alike: how many there are, and how often each is updated in a unit of time, λ.

    The regularity says how evenly. At 1 updates of a key are 1/λ apart, at 0 they come at any time (a Poisson process);
    between, it is the share of the keys that are updated regularly. Below 0 updates are random and keys differ: their
    rates have a gamma distribution of mean λ and variance -regularity·λ².
    """

    keys: float
    rate: float
    regularity: float = 1.0

    def rows(self, duration: float) -> float:
        """Updates of all keys."""
        return self.keys * self.rate * duration

    def share_updated(self, gap: float) -> float:
        """The share of the keys that are updated within a gap: min(1, λ·gap) of those that are updated regularly,
        1 - e^(-λ·gap) of the others, 1 - (1 + v·λ·gap)^(-1/v) where their rates have the variance v·λ².

        >>> Updates(1, 0.1).share_updated(5), Updates(1, 0.1).share_updated(20)
        (0.5, 1.0)
        >>> [round(Updates(1, 0.1, regularity).share_updated(5), 4) for regularity in (0.5, 0, -0.5)]
        [0.4467, 0.3935, 0.36]
        """
        due = self.rate * gap
        if self.regularity < 0:
            return -math.expm1(math.log1p(-self.regularity * due) / self.regularity)
        return self.regularity * min(1.0, due) + (1 - self.regularity) * -math.expm1(-due)


class Gap(NamedTuple):
    """Time between neighbouring synchronization points, and how many such gaps there are."""

    length: float
    times: float


def synchronizer_output(updates: Iterable[Updates], gaps: Sequence[Gap]) -> float:
    """T_out of a synchronizer: at a point it emits one row for each key that was updated since the point before.

    Σ over keys and gaps of the probability of an update within the gap.

    >>> synchronizer_output([Updates(2_000, 1.0)], union_gaps([(12, 0)], 600))
    100000.0
    """
    return sum(u.keys * gap.times * u.share_updated(gap.length) for u in updates for gap in gaps)


def union_gaps(periods: Sequence[tuple[int, int]], duration: float) -> tuple[Gap, ...]:
    """The gaps between the points of several periods (every, offset), for a length of time; the shortest gap first.

    The pattern repeats with the least common multiple of the periods, so the number of gaps is a rate times the
    duration and need not be whole.

    >>> union_gaps([(12, 0), (15, 0)], 60)
    (Gap(length=3, times=2.0), Gap(length=6, times=2.0), Gap(length=9, times=2.0), Gap(length=12, times=2.0))
    >>> union_gaps([(6, 0), (12, 0)], 60)
    (Gap(length=6, times=10.0),)
    """
    cycle = math.lcm(*(every for every, _ in periods))
    density = sum(1 / every for every, _ in periods)
    until = min(cycle, max(2 * min(every for every, _ in periods) + 1, int(_MOST_POINTS / density)))
    points = sorted({point for every, offset in periods for point in range(offset % every, until, every)})
    if until == cycle:
        points.append(points[0] + cycle)
    found: dict[int, int] = {}
    for one, other in itertools.pairwise(points):
        found[other - one] = found.get(other - one, 0) + 1
    covered = points[-1] - points[0]
    return tuple(Gap(length, count * duration / covered) for length, count in sorted(found.items()))


def fit_regularity(keys: float, rate: float, counted: Iterable[tuple[Sequence[Gap], float]]) -> float:
    """The regularity with which synchronizers of these gaps emit as many rows as were counted, taken together.

    A row less than random updates give means that keys differ, a row more that they are updated regularly. Rows grow
    with the regularity, so it is found by halving an interval.

    >>> every = [Gap(5, 100)]
    >>> rows = synchronizer_output([Updates(40, 0.1, 0.75)], every)
    >>> round(fit_regularity(40, 0.1, [(every, rows)]), 6)
    0.75
    >>> fit_regularity(40, 0.1, [])  # nothing was counted
    0.0
    """
    found = list(counted)
    gaps, rows = [gap for each, _ in found for gap in each], sum(emitted for _, emitted in found)
    low, high = _LEAST_REGULAR, 1.0
    if not gaps:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if synchronizer_output([Updates(keys, rate, middle)], gaps) < rows:
            low = middle
        else:
            high = middle
    return high if high == 1.0 else (low + high) / 2


def filter_output(rows: float, selectivity: float) -> float:
    """T_out of a filter.

    >>> filter_output(200, 0.25)
    50.0
    """
    return rows * selectivity


def groups_touched(groups: float, rows: float) -> float:
    """How many of G groups m rows fall into, drawn at random: G (1 - (1 - 1/G)^m). T_out of a grouping at one time.

    >>> round(groups_touched(200, 200), 1), groups_touched(1, 7), groups_touched(50, 0)
    (126.6, 1, 0.0)
    """
    if groups <= 1:
        return min(groups, rows)
    return -groups * math.expm1(rows * math.log1p(-1 / groups))


def grouping_output(rows: float, groups: float, times: float) -> float:
    """T_out of a grouping whose rows come at this many times, evenly: each time shows the groups that it touches.

    >>> round(grouping_output(rows=1_000, groups=10, times=5), 3)
    50.0
    """
    return times * groups_touched(groups, rows / times) if times else 0.0


def join_output(known: Parameters, plan: str) -> float:
    """T_out of a join in a unit of time: every change of every input meets f rows, the product of the fan-outs of the
    inputs that it probes (paper 000, appendix A).

    >>> from tidemill.optimize.joins import Stream, derive_parameters
    >>> join_output(derive_parameters([Stream(1, 4, 1, 2), Stream(1, 4, 1, 2)]), "00")  # two changes a row, two matches
    8.0
    """
    total = 0.0
    for k, order in enumerate(probe_orders(known, plan)):
        reached, met = [k], 1.0
        for j in order:
            met *= known.probed_table(j, plan, reached).fan_out
            reached.append(j)
        total += (1 + known.streams[k].decrement) * known.shipped_changes(k, plan) * met
    return total
