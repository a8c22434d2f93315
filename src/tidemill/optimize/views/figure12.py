"""The pipelines of figure 12 (paper 004, section 10.6): queries that group one keyed stream, each at its own points.

    (a) separate     every query:  synchronizer → grouping → synchronizer
    (a′) tagger      one synchronizer on the union of the points; every query: synchronizer → grouping → synchronizer
    (b) phantom      as (a′), with one finer grouping behind the shared synchronizer that feeds the queries

NS counts the rows that reach synchronizers, NG those that reach groupings; C = NS·c1 + NG·c2.

The paper prints six pairs of numbers, and `tests/pipelines/test_figure12.py` derives all of them. They do not come
from one reading of its text:

- Section 10.6.2 counts points from 0 on: 55 of every 12 and 44 of every 15 in 650 units. The union has 86 of them, 650
  times its rate, rounded down; counted from 0 on there are 88. Section 10.6.3 (a) takes the rates themselves (650/15),
  and (b) takes the 55 and 44 again for the upper groupings.
- The prose says that a grouping emits one row for each row that reaches it. The equations do so in 10.6.2 (a). In
  10.6.2 (b) a grouping that has the temperature among its keys emits 1.5, in 10.6.3 it emits 2: an update takes a room
  out of one group and puts it into another.
- With these factors the temperatures are grouped every 12 units in 10.6.2 and every 15 units in 10.6.3; the prose has
  it the other way round both times. NS of (a) in 10.6.2 and NG do not depend on it.
- In 10.6.3 (b) the shared synchronizer emits 90,318 rows, which is what points every 12 units give; the union of both
  periods gives 93,568.
- The prose of 10.6.2 calls the change from (a) to (b) 40 % fewer rows in synchronizers and 10 % fewer in groupings; the
  equations give 34 % and 3 %. With 2,000 groups it has 25 % fewer and 1.8 % more; the equations give 26 % fewer, and
  1.87 times as many.
- The second experiment of 10.6.2 has 5,000 rooms, of which it describes 4,100.

`price_pipelines` takes one reading throughout: the rates of the union's own gaps, the factors that it is given, and
groups that rows fall into at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidemill.optimize.views.cost import Gap, Updates, groups_touched, synchronizer_output, union_gaps


class Counts(NamedTuple):
    """Rows that reach synchronizers (NS) and groupings (NG)."""

    NS: float
    NG: float

    def cost(self, c1: float, c2: float) -> float:
        """C = NS·c1 + NG·c2.

        >>> Counts(2_798_000, 198_000).cost(1, 10)
        4778000
        """
        return self.NS * c1 + self.NG * c2


class Grouping(NamedTuple):
    """The rows that reach a grouping, and how many it emits for each of them."""

    rows: float
    factor: float = 1.0

    @property
    def emitted(self) -> float:
        """What its upper synchronizer reads."""
        return self.rows * self.factor


def count_separate(arriving: float, queries: Sequence[Grouping]) -> Counts:
    """Pipeline (a): each query synchronizes everything that arrives, and what its grouping emits.

    >>> count_separate(1_300_000, [Grouping(110_000), Grouping(88_000)])  # section 10.6.2
    Counts(NS=2798000.0, NG=198000)
    """
    return Counts(sum(arriving + q.emitted for q in queries), sum(q.rows for q in queries))


def count_tagger(arriving: float, shared: float, queries: Sequence[Grouping]) -> Counts:
    """Pipeline (a′): what arrives is synchronized once, on the union; `shared` rows of it reach every query."""
    return Counts(arriving + sum(shared + q.emitted for q in queries), sum(q.rows for q in queries))


def count_phantom(arriving: float, finer: Grouping, queries: Sequence[Grouping]) -> Counts:
    """Pipeline (b): the finer grouping reads the shared synchronizer, and every query what it emits.

    >>> count_phantom(1_300_000, Grouping(172_000, 1.5), [Grouping(11_000, 1.5), Grouping(8_800)])  # section 10.6.2
    Counts(NS=1841300.0, NG=191800)
    """
    return Counts(arriving + sum(finer.emitted + q.emitted for q in queries), finer.rows + sum(q.rows for q in queries))


@dataclass(frozen=True)
class GroupQuery:
    """A query that groups the stream: the period of its points (every, offset), and the rows that its grouping emits
    for each that reaches it: 2 where an update moves a key to another group, 1 where the key stays.
    """

    period: tuple[int, int]
    factor: float = 1.0


class Priced(NamedTuple):
    """The three pipelines for the same queries."""

    separate: Counts
    tagger: Counts
    phantom: Counts


def price_pipelines(
    updates: Sequence[Updates], queries: Sequence[GroupQuery], finer: float, factor: float, duration: float
) -> Priced:
    """NS and NG of all pipelines. The finer grouping has `finer` groups and emits `factor` rows for each it reads.

    >>> rooms = [Updates(2_000, 1.0)]  # section 10.6.2: (a) as the paper has it, but for 54.2 and 43.3 points
    >>> priced = price_pipelines(rooms, [GroupQuery((12, 0)), GroupQuery((15, 0))], 200, 1.5, 650)
    >>> [round(n) for n in priced.separate], [round(n) for n in priced.phantom]
    ([2795000, 195000], [1839500, 192833])
    """
    arriving = sum(u.rows(duration) for u in updates)
    shared = synchronizer_output(updates, union_gaps([q.period for q in queries], duration))
    alone = [Grouping(synchronizer_output(updates, union_gaps([q.period], duration)), q.factor) for q in queries]
    rate = shared * factor / duration
    fed = [Grouping(_fed_rows(union_gaps([q.period], duration), rate, finer), q.factor) for q in queries]
    return Priced(
        count_separate(arriving, alone),
        count_tagger(arriving, shared, alone),
        count_phantom(arriving, Grouping(shared, factor), fed),
    )


def _fed_rows(gaps: Sequence[Gap], rate: float, groups: float) -> float:
    """Rows that reach a query from the finer grouping: at each point the groups that changed since the one before."""
    return sum(gap.times * groups_touched(groups, rate * gap.length) for gap in gaps)
